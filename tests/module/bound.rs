//! However requests, workers, time and reloads are mixed: no more retries than the budget has.

use crate::router::{Ending, Request, Router};
use crate::worker::{HOST_ERRORS, Worker, ok};
use minihost::{Host, Root, Stream};
use proptest::prelude::*;
use std::time::Duration;

/// What happens next; indices are taken modulo what there is.
#[derive(Clone, Debug)]
enum Step {
    Request {
        worker: usize,
    },
    Answer {
        request: usize,
        attempt: usize,
        ending: Ending,
    },
    /// A retry in a backoff, or a hedge beside attempts in flight.
    Start {
        request: usize,
    },
    Leave {
        request: usize,
    },
    Pass(Duration),
    Tick {
        worker: usize,
    },
    Reload {
        worker: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let ending = prop_oneof![
        6 => Just(Ending::Status(503)),
        1 => Just(Ending::Status(200)),
        1 => Just(Ending::Status(404)),
        1 => Just(Ending::Grpc(14)),
        1 => Just(Ending::Reset),
        1 => Just(Ending::ConnectFailure),
    ];
    let any = 0..64usize;
    prop_oneof![
        6 => any.clone().prop_map(|worker| Step::Request { worker }),
        12 => (any.clone(), any.clone(), ending)
            .prop_map(|(request, attempt, ending)| Step::Answer { request, attempt, ending }),
        12 => any.clone().prop_map(|request| Step::Start { request }),
        1 => any.clone().prop_map(|request| Step::Leave { request }),
        2 => (0u64..2_000_000_000).prop_map(|nanos| Step::Pass(Duration::from_nanos(nanos))),
        1 => any.clone().prop_map(|worker| Step::Tick { worker }),
        1 => any.prop_map(|worker| Step::Reload { worker }),
    ]
}

#[derive(Clone, Debug)]
struct Budget {
    ratio: u64,
    cap: u64,
    initial: u64,
    per_second: u64,
}

fn budget() -> impl Strategy<Value = Budget> {
    (0..1500u64, 0..8000u64, 0..=1000u64, prop_oneof![Just(0), 0..3000u64])
        .prop_map(|(ratio, cap, share, per_second)| Budget { ratio, cap, initial: cap * share / 1000, per_second })
}

impl Budget {
    fn configuration(&self) -> String {
        let decimal = |n: u64| format!("{}.{:03}", n / 1000, n % 1000);
        format!(
            r#"{{"log":"off","budget":{{"ratio":{},"max_tokens":{},"initial_tokens":{},"min_retries_per_second":{}}}}}"#,
            decimal(self.ratio),
            decimal(self.cap),
            decimal(self.initial),
            decimal(self.per_second)
        )
    }
}

/// A process with several workers, and all that is going on in it.
struct World {
    host: Host,
    configuration: String,
    place: fn(&Root) -> Router,
    workers: Vec<Worker>,
    /// The requests under way, each with its worker.
    requests: Vec<(usize, Request)>,
    begun: u64,
    /// Retries that were sent by requests which are over.
    retries: u64,
}

impl World {
    fn new(budget: &Budget, workers: usize, place: fn(&Root) -> Router) -> Self {
        let (host, configuration) = (ok(Host::new()), budget.configuration());
        let workers = (0..workers).map(|_| Worker::on(&host, &configuration)).collect();
        Self { host, configuration, place, workers, requests: Vec::new(), begun: 0, retries: 0 }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Request { worker } => {
                let worker = worker % self.workers.len();
                let request = ok((self.place)(&self.workers[worker].root).begin(&Stream::get("orders")));
                self.requests.push((worker, request));
                self.begun += 1;
            }
            Step::Answer { request, attempt, ending } => self.with(*request, |request| {
                let in_flight = request.in_flight();
                if !in_flight.is_empty() {
                    ok(request.answer(in_flight[attempt % in_flight.len()], *ending));
                }
            }),
            Step::Start { request } => self.with(*request, |request| {
                if request.may_retry() {
                    ok(request.start());
                }
            }),
            Step::Leave { request } => self.with(*request, |request| ok(request.leave())),
            Step::Pass(time) => self.host.advance(*time),
            Step::Tick { worker } => {
                ok(self.workers[worker % self.workers.len()].root.tick());
                self.requests.iter_mut().for_each(|(_, request)| ok(request.settle()));
                self.sweep();
            }
            Step::Reload { worker } => {
                let lost = worker % self.workers.len();
                self.workers[lost] = Worker::on(&self.host, &self.configuration);
                let router = Router { listener: None, ..(self.place)(&self.workers[lost].root) };
                let theirs = self.requests.iter_mut().filter(|(worker, _)| *worker == lost);
                theirs.for_each(|(_, request)| request.reload(router.clone()));
            }
        }
    }

    fn with(&mut self, request: usize, act: impl FnOnce(&mut Request)) {
        if !self.requests.is_empty() {
            let at = request % self.requests.len();
            act(&mut self.requests[at].1);
            self.sweep();
        }
    }

    fn sweep(&mut self) {
        let over = |(_, request): &(usize, Request)| request.exchange().is_some();
        for (_, request) in self.requests.extract_if(.., |pair| over(pair)) {
            self.retries += request.sent().saturating_sub(1);
        }
    }

    /// Retries that were sent so far.
    fn retries(&self) -> u64 {
        self.retries + self.requests.iter().map(|(_, request)| request.sent().saturating_sub(1)).sum::<u64>()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, max_shrink_iters: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn retries_never_exceed_the_budget_of_all_workers_together(
        budget in budget(),
        workers in 1..5usize,
        alone: bool,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut world = World::new(&budget, workers, if alone { Router::attempt_alone } else { Router::both });
        let begin = world.host.monotonic_clock();
        for (i, step) in steps.iter().enumerate() {
            world.take(step);
            let elapsed = (world.host.monotonic_clock() - begin).as_nanos();
            let earned = u128::from(budget.per_second) * elapsed / 1_000_000_000;
            let most = u128::from(budget.initial + budget.ratio * world.begun) + earned;
            let made = u128::from(world.retries()) * 1000;
            prop_assert!(made <= most, "{made} of {most} thousandths after step {i}, {step:?}");
        }
        prop_assert_eq!(world.host.counter(HOST_ERRORS), 0);
    }
}
