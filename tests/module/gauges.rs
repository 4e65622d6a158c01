//! The gauges, which are at most a second behind, and the ticks that keep them so.

use crate::router::{Ending, Request, Router};
use crate::worker::{TOKENS, Worker, balance, ok};
use minihost::{Host, Stream};
use std::time::Duration;

const EMPTY: &str = r#"{"budget":{"ratio":0,"initial_tokens":0}}"#;
const SECOND: Duration = Duration::from_secs(1);

fn tokens(host: &Host) -> Option<u64> {
    host.gauge(&format!("upstream=.=orders;.;{TOKENS}"))
}

#[test]
fn an_idle_upstream_that_earns_by_the_second_is_shown_as_it_is() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"initial_tokens":0,"min_retries_per_second":2.5}}"#);
    let Worker { host, vm, root } = &worker;
    ok(Router::both(root).send(&Stream::get("orders"), |_| Ending::Status(503)));
    let begin = host.monotonic_clock();
    for _ in 0..50 {
        ok(vm.run_for(Duration::from_millis(170)));
        let earned = |at: Duration| ((at.as_millis() as u64 * 5 / 2000).min(10), at);
        let now = host.monotonic_clock() - begin;
        let (latest, oldest) = (earned(now).0, earned(now.saturating_sub(SECOND)).0);
        let shown = tokens(host).expect("a gauge");
        assert!((oldest..=latest).contains(&shown), "{shown} after {now:?}, where it was {oldest} to {latest}");
    }
    assert_eq!(tokens(host), Some(10));
}

/// The last to write a gauge may not be the last to have changed the record.
#[test]
fn crossed_writes_of_two_workers_are_put_right_by_the_next_tick() {
    let first = Worker::new("{}");
    let second = Worker::on(&first.host, "{}");
    let host = &first.host;
    let mut other = Some(second);
    // Between the first worker's write of the record and that of its gauge the second makes two retries.
    host.before("proxy_record_metric", move |_| {
        if let Some(second) = other.take() {
            ok(Router::both(&second.root).send(&Stream::get("orders"), |_| Ending::Status(503)));
        }
    });
    ok(Router { retries: 0, ..Router::both(&first.root) }.send(&Stream::get("orders"), |_| Ending::Status(200)));
    assert_eq!((balance(host, "orders"), tokens(host)), (Some(8000), Some(10)), "the writes have crossed");
    ok(first.vm.run_for(SECOND));
    assert_eq!(tokens(host), Some(8));
}

/// Starts a hedge beside a first attempt of `stock`, which has no tokens, and loses that attempt.
fn park_and_release(worker: &Worker) -> Request {
    let mut request = ok(Router::both(&worker.root).begin(&Stream::get("stock")));
    ok(request.start());
    assert!(request.is_parked());
    ok(request.answer(1, Ending::Reset));
    request
}

const WITHIN: Duration = Duration::from_millis(20);

/// For the answer a tick comes early, and the regular one must not come the later for it.
#[test]
fn answers_to_parked_hedges_come_soon_and_do_not_delay_the_gauges() {
    let worker = Worker::new(
        r#"{"budget":{"ratio":0,"initial_tokens":0},
            "upstreams":{"orders":{"budget":{"max_tokens":1000,"min_retries_per_second":10}}}}"#,
    );
    let Worker { host, vm, root } = &worker;
    ok(Router::both(root).send(&Stream::get("orders"), |_| Ending::Status(503)));
    let begin = host.monotonic_clock();
    let mut late = Vec::new();
    for pause in [300, 450, 600, 750, 870, 920].map(Duration::from_millis).repeat(3) {
        let mut request = park_and_release(&worker);
        ok(vm.run_for(WITHIN));
        ok(request.settle());
        assert!(request.exchange().is_some_and(|e| e.reply.is_some()), "answered within {WITHIN:?}");
        ok(vm.run_for(pause));
        let now = host.monotonic_clock() - begin;
        let due = (now.saturating_sub(SECOND + WITHIN)).as_millis() as u64 / 100;
        late.extend(tokens(host).filter(|shown| *shown < due).map(|shown| format!("{shown} < {due} after {now:?}")));
    }
    assert!(late.is_empty(), "more than a second behind: {late:?}");
}

/// The answer is given by whichever root ticks first. The one that was hastened for it goes back to its own pace, too.
#[test]
fn a_tick_that_was_hastened_in_vain_goes_back_to_its_pace() {
    let worker = Worker::new(EMPTY);
    let Worker { host, vm, root } = &worker;
    host.advance(Duration::from_millis(2));
    let other = ok(vm.configure("other", "other", EMPTY));
    // The other root's tick is due 2 ms after this one's.
    ok(vm.run_for(SECOND - Duration::from_millis(1)));
    let mut request = park_and_release(&worker);
    ok(vm.run_for(WITHIN));
    ok(request.settle());
    assert!(request.exchange().is_some_and(|e| e.reply.is_some()), "answered within {WITHIN:?}");
    ok(vm.run_for(Duration::from_secs(3)));
    assert_eq!((root.tick_period(), other.tick_period()), (Some(SECOND), Some(SECOND)));
}
