//! Several roots in one VM, and roots that follow one another.

use crate::router::{Ending, Router};
use crate::worker::{STOPS, TOKENS, Worker, balance, count, ok};
use minihost::{Host, Root, Stream};
use std::time::Duration;

fn send(root: &Root, upstream: &str, status: u32) -> crate::router::Exchange {
    ok(Router::both(root).send(&Stream::get(upstream), |_| Ending::Status(status)))
}

fn tokens(host: &Host, upstream: &str) -> Option<u64> {
    host.gauge(&format!("upstream=.={upstream};.;{TOKENS}"))
}

/// The next regular tick.
const TICK: Duration = Duration::from_secs(1);

#[test]
fn two_plugins_in_one_vm_keep_to_their_own_policies() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"max_tokens":1}}"#);
    let other = ok(worker.vm.configure("other", "other", r#"{"budget":{"ratio":0,"max_tokens":3}}"#));
    let sent = [(&worker.root, "orders"), (&other, "stock")].map(|(root, upstream)| {
        let sent: u64 = (0..3).map(|_| send(root, upstream, 503).sent).sum();
        (sent, count(&worker.host, STOPS, upstream), balance(&worker.host, upstream))
    });
    assert_eq!(sent, [(4, 3, Some(0)), (6, 2, Some(0))]);
}

/// Each deposits its own ratio; a bucket that is full under one cap is not full under another.
#[test]
fn two_plugins_that_serve_one_upstream_deposit_what_each_is_told() {
    let worker = Worker::new(r#"{"budget":{"ratio":0.1,"max_tokens":20,"initial_tokens":0}}"#);
    let configuration = r#"{"budget":{"ratio":0.25,"max_tokens":20,"initial_tokens":0}}"#;
    let other = ok(worker.vm.configure("other", "other", configuration));
    for _ in 0..4 {
        send(&worker.root, "orders", 200);
        send(&other, "orders", 200);
    }
    assert_eq!(balance(&worker.host, "orders"), Some(1400));
}

#[test]
fn a_full_mark_of_one_cap_means_nothing_under_another() {
    let worker = Worker::new(r#"{"budget":{"ratio":1,"max_tokens":1}}"#);
    send(&worker.root, "orders", 200);
    assert_eq!(tokens(&worker.host, "orders"), Some(1));
    let raised = ok(worker.vm.configure("retry_budget", "retry_budget", r#"{"budget":{"ratio":1,"max_tokens":3}}"#));
    send(&raised, "orders", 200);
    assert_eq!(balance(&worker.host, "orders"), Some(2000));
}

#[test]
fn what_is_observed_is_counted_on_a_record_of_its_own() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"max_tokens":2}}"#);
    let watching = ok(worker.vm.configure("w", "w", r#"{"mode":"observe","budget":{"ratio":0,"max_tokens":2}}"#));
    for _ in 0..3 {
        assert_eq!(send(&watching, "orders", 503).sent, 3);
    }
    assert_eq!(balance(&worker.host, "orders"), None);
    assert_eq!(send(&worker.root, "orders", 503).sent, 3);
    assert_eq!(balance(&worker.host, "orders"), Some(0));
}

/// An operator changes the cap while nobody calls.
#[test]
fn the_gauge_of_an_idle_upstream_follows_a_new_cap_at_the_next_tick() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"max_tokens":10}}"#);
    let Worker { host, vm, .. } = &worker;
    send(&worker.root, "orders", 503);
    ok(vm.run_for(TICK));
    assert_eq!(tokens(host, "orders"), Some(8));
    let lowered = ok(vm.configure("retry_budget", "retry_budget", r#"{"budget":{"ratio":0,"max_tokens":2}}"#));
    ok(worker.root.shutdown());
    ok(vm.run_for(TICK));
    assert_eq!(tokens(host, "orders"), Some(2));
    assert_eq!((0..2).map(|_| send(&lowered, "orders", 503).sent).sum::<u64>(), 4);
}

#[test]
fn a_higher_cap_does_not_refill() {
    let budget = |cap: u32| format!(r#"{{"budget":{{"ratio":0.1,"max_tokens":{cap}}}}}"#);
    let worker = Worker::new(budget(2));
    send(&worker.root, "orders", 200);
    let raised = ok(worker.vm.configure("retry_budget", "retry_budget", budget(10)));
    ok(worker.vm.run_for(TICK));
    assert_eq!(tokens(&worker.host, "orders"), Some(2));
    assert_eq!((0..3).map(|_| send(&raised, "orders", 503).sent).sum::<u64>(), 5);
}

/// Lowered and raised again before anybody called: what the lower cap cut off stays off.
#[test]
fn a_cap_that_was_lowered_for_a_while_has_cut_the_balance() {
    let budget = |cap: u32| format!(r#"{{"budget":{{"ratio":0.1,"max_tokens":{cap}}}}}"#);
    let worker = Worker::new(budget(10));
    let Worker { host, vm, .. } = &worker;
    send(&worker.root, "orders", 200);
    for (cap, shown) in [(2, 2), (10, 2)] {
        ok(vm.configure("retry_budget", "retry_budget", budget(cap)));
        ok(vm.run_for(TICK));
        assert_eq!(tokens(host, "orders"), Some(shown), "cap {cap}");
    }
}

/// A bucket that was full for an hour has earned nothing in it, whatever its cap is afterwards.
#[test]
fn a_higher_cap_is_not_filled_with_the_time_before_it() {
    let budget = |cap: u32| format!(r#"{{"budget":{{"ratio":0.1,"max_tokens":{cap},"min_retries_per_second":1}}}}"#);
    let worker = Worker::new(budget(2));
    let Worker { host, vm, .. } = &worker;
    send(&worker.root, "orders", 200);
    ok(vm.run_for(Duration::from_secs(3600)));
    ok(vm.configure("retry_budget", "retry_budget", budget(100)));
    ok(worker.root.shutdown());
    ok(vm.run_for(TICK));
    // Two from before, and what the second since then has earned.
    assert!((2..=3).contains(&tokens(host, "orders").unwrap_or(0)), "{:?}", tokens(host, "orders"));
}
