//! A proxy whose `stats_matcher` excludes the filter's metrics: the gauges that spare the record read 0, and the record
//! decides alone.

use crate::router::{Ending, Exchange, Router, storm};
use crate::worker::{ATTEMPTS, REQUESTS, RETRIES, STOPS, Worker, balance, count, ok};
use minihost::{Host, Root, Stream};

const TEN: &str = r#"{"budget":{"ratio":0.1,"max_tokens":10}}"#;

fn calls(exchanges: &[Exchange]) -> u64 {
    exchanges.iter().map(|exchange| exchange.sent).sum()
}

fn served(exchanges: &[Exchange]) -> usize {
    exchanges.iter().filter(|exchange| exchange.status().as_deref() == Some("200")).count()
}

/// 50 callers: all fail, five fail once, all fail twice. The same figures whatever the metrics do.
fn assert_storms(place: fn(&Root) -> Router, host: impl Fn() -> Host) {
    let run = |ending: fn(usize, u64) -> Ending| {
        let worker = Worker::on(&host(), TEN);
        let exchanges = storm(&place(&worker.root), "orders", 50, ending);
        assert!(exchanges.iter().all(|e| e.reply.is_none() && !e.hangs), "each caller gets the origin's own answer");
        (calls(&exchanges), served(&exchanges))
    };
    assert_eq!(run(|_, _| Ending::Status(503)), (60, 0));
    assert_eq!(run(|caller, nth| Ending::Status(if caller < 5 && nth == 1 { 503 } else { 200 })), (55, 50));
    let (calls, _) = run(|_, nth| Ending::Status(if nth <= 2 { 503 } else { 200 }));
    assert_eq!(calls, 60);
}

fn host() -> Host {
    ok(Host::new())
}

fn without(excluded: fn(&str) -> bool) -> impl Fn() -> Host {
    move || {
        let host = host();
        host.exclude_metrics(excluded);
        host
    }
}

#[test]
fn the_storms_figures_hold_with_metrics() {
    assert_storms(Router::both, host);
    assert_storms(Router::attempt_alone, host);
}

#[test]
fn the_storms_figures_hold_without_any_metric() {
    assert_storms(Router::both, without(|_| true));
    assert_storms(Router::attempt_alone, without(|_| true));
}

#[test]
fn the_storms_figures_hold_without_the_private_gauges() {
    assert_storms(Router::both, without(is_private));
    assert_storms(Router::attempt_alone, without(is_private));
}

/// All that dashboards do not know.
fn is_private(name: &str) -> bool {
    let known = [REQUESTS, ATTEMPTS, RETRIES, STOPS, "retry_budget_tokens", "retry_budget_host_errors_total"];
    !known.iter().any(|known| name.ends_with(known))
}

#[test]
fn sums_are_exact_where_only_the_private_gauges_are_excluded() {
    let workers: Vec<Worker> = {
        let host = without(is_private)();
        (0..4).map(|_| Worker::on(&host, r#"{"budget":{"ratio":0.1,"initial_tokens":3.5}}"#)).collect()
    };
    let host = &workers[0].host;
    let (mut sent, mut requests, mut stopped) = (0, 0, 0);
    for round in 0..50 {
        for (i, worker) in workers.iter().enumerate() {
            let fails = (round + i) % 3 == 0;
            let ending = |_| Ending::Status(if fails { 503 } else { 200 });
            let exchange = ok(Router::both(&worker.root).send(&Stream::get("orders"), ending));
            sent += exchange.sent;
            requests += 1;
            stopped += u64::from(exchange.stop().is_some());
        }
    }
    let counted = [REQUESTS, ATTEMPTS, RETRIES, STOPS].map(|name| count(host, name, "orders"));
    assert_eq!(counted, [requests, sent, sent - requests, stopped]);
    let earned = 3500 + 100 * requests as i64;
    assert_eq!(balance(host, "orders"), Some(earned - 1000 * (sent - requests) as i64));
    assert!(stopped > 0, "the bucket ran empty");
}
