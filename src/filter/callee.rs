//! The callee placement: in an inbound listener, before the service that is called. It cannot see what its callers'
//! proxies are about to do, only what they did: the attempt count that they send.
//!
//! A retry withdraws its token as it arrives. A failing response is marked when no token is left, so that the caller's
//! Envoy gives up with the service's own answer and does not come back to be refused.

use super::arrival::{self, Arrival, arrive};
use super::deadlines;
use super::decision::Verb;
use super::flow::Flow;
use super::head::Head;
use super::judge::{self, Allowed, Answer, Effect, Moment, News, ask};
use super::logical::{LINK, Logical, Outcome, SeenBy};
use super::reply::{self, Refusal};
use super::response;
use super::served::Served;
use super::vm::Vm;
use crate::policy::Mode;
use crate::policy::breaker::Call;
use crate::policy::deadline::TimeLeft;
use crate::policy::stop::{Retry, Verdict, decide};
use std::rc::Rc;

pub struct Callee {
    vm: Rc<Vm>,
    served: Rc<Served>,
    logical: Rc<Logical>,
    attempt: u32,
    refused: bool,
}

impl Callee {
    pub fn begin(vm: Rc<Vm>, served: Rc<Served>) -> (Self, Flow) {
        let head = Head::read(&vm, &served);
        let attempt = head.attempt;
        let left = head.left;
        let logical = vm.registry.begin(SeenBy::Callee);
        let deadline = head.deadline(&vm);
        head.keep(&logical, deadline);
        let mut callee = Self { vm, served, logical, attempt, refused: false };
        let flow = callee.start(left);
        (callee, flow)
    }

    fn start(&mut self, left: Option<TimeLeft>) -> Flow {
        self.refused = self.is_refused(left);
        if self.refused {
            return Flow::Pause;
        }
        let Self { vm, served, logical, .. } = self;
        let (host, metrics) = (vm.host(), &served.upstream.metrics);
        if self.attempt > 1 {
            metrics.retries.add(host, 1);
        }
        metrics.attempts.add(host, 1);
        let _ = host.set_property(LINK, &logical.link(false));
        deadlines::limit_router(host, served, left);
        Flow::Continue
    }

    /// Answers the request here if it is not to come in.
    fn is_refused(&self, left: Option<TimeLeft>) -> bool {
        let Self { vm, served, logical, .. } = self;
        if self.attempt == 1 {
            return arrive(vm, served, logical, left) == Arrival::Rejected;
        }
        if left.is_some_and(TimeLeft::is_expired) {
            return arrival::too_late(vm, served, logical) == Arrival::Rejected;
        }
        let Effect::Stop(reason) = self.admit() else { return false };
        reply::refuse(vm.host(), &served.policy, &Refusal::plain(reason, logical.grpc.get()))
    }

    /// The upload is over.
    pub fn on_request_end(&mut self) -> Flow {
        let Self { vm, served, logical, .. } = self;
        if self.refused || !logical.deadline.get().is_some_and(|deadline| deadlines::has_passed(vm.host(), deadline)) {
            return Flow::Continue;
        }
        self.refused = arrival::too_late(vm, served, logical) == Arrival::Rejected;
        if self.refused { Flow::Pause } else { Flow::Continue }
    }

    fn admit(&self) -> Effect {
        let retry = Retry { starts: true, ..Retry::default() };
        match ask(&self.vm, &self.served, &retry, &News::default()) {
            Answer::Allowed(Allowed { tokens, probe, .. }) => {
                self.logical.probe.set(probe);
                self.moment(Outcome::None).allow(tokens);
                Effect::Go
            }
            // What is only observed was counted at the response before; from here on it would not be there.
            Answer::Stopped(..) if self.served.policy.mode == Mode::Observe => {
                self.logical.would_have_ended.set(true);
                Effect::Go
            }
            Answer::Stopped(reason, tokens) => self.moment(Outcome::None).stop(reason, tokens),
        }
    }

    pub fn on_response_headers(&self) {
        if self.refused || self.logical.would_have_ended.get() {
            return;
        }
        let Self { vm, served, logical, .. } = self;
        let Some((headers, status)) = response::read(vm) else { return };
        let policy = &served.policy;
        let failing = policy.retriable.is_failing(status);
        let call = if policy.breaker.is_some() { response::judged_call(vm, status) } else { None };
        if call == Some(Call::Good) && !failing {
            judge::went_well(vm, served, logical);
            return;
        }
        let hint = failing.then(|| (status, response::hint(vm, served, &headers, status)));
        judge::tell(vm, served, &News { hint, call, probe: logical.probe.take() });
        if !failing {
            return;
        }
        let outcome = Outcome::Response(status);
        // Would a retry be refused if it came now? Its own token it withdraws when it comes.
        let looked = self.served.account().update(self.vm.host(), &policy.budget, |record, now| {
            (None, decide(policy, &Retry::default(), record, now))
        });
        if let Ok((Verdict::Stop(reason), record)) = looked
            && let Effect::Stop(reason) = self.moment(outcome).stop(reason, Some(record.bucket.tokens))
        {
            reply::mark(self.vm.host(), policy, reason.name(), &headers);
        }
    }

    pub fn on_done(self, complete: bool) {
        if self.logical.probe.take() {
            // Let through as a probe, and nobody heard of it again.
            judge::tell(&self.vm, &self.served, &News { probe: true, ..News::default() });
        }
        if complete && self.attempt == 1 && !self.refused {
            arrival::earn_by_success(&self.vm, &self.served);
        }
    }

    fn moment(&self, outcome: Outcome) -> Moment<'_> {
        Moment {
            vm: &self.vm,
            served: &self.served,
            logical: &self.logical,
            attempt: self.attempt,
            outcome,
            by: Verb::Stop,
        }
    }
}
