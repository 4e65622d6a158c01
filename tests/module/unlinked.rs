//! A root that has seen first attempts only takes every stream for one, until a listener's stream comes by.

use crate::router::{Ending, Request, Router};
use crate::worker::{ATTEMPTS, HOST_ERRORS, REQUESTS, RETRIES, Worker, balance, count, ok};
use minihost::Stream;

/// What the upstream's figures grow by: requests, attempts, retries, and the balance.
fn growth(worker: &Worker, act: impl FnOnce()) -> [i64; 4] {
    let figures = || {
        let counts = [REQUESTS, ATTEMPTS, RETRIES].map(|name| count(&worker.host, name, "orders") as i64);
        [counts[0], counts[1], counts[2], balance(&worker.host, "orders").unwrap_or(5000)]
    };
    let before = figures();
    act();
    let after = figures();
    std::array::from_fn(|i| after[i] - before[i])
}

/// A worker whose root has learnt that nobody stands before it.
fn attempts_only() -> Worker {
    let worker = Worker::new(r#"{"budget":{"ratio":0.1,"initial_tokens":5}}"#);
    for _ in 0..3 {
        let grown = growth(&worker, || send(&worker, Router::attempt_alone, fails_once));
        assert_eq!(grown, [1, 2, 1, 100 - 1000]);
    }
    worker
}

fn send(worker: &Worker, place: fn(&minihost::Root) -> Router, ending: fn(u64) -> Ending) {
    ok(place(&worker.root).send(&Stream::get("orders"), ending));
}

fn fails_once(nth: u64) -> Ending {
    Ending::Status(if nth == 1 { 503 } else { 200 })
}

#[test]
fn the_figures_are_right_again_from_the_second_request_on() {
    let worker = attempts_only();
    // The first listener stream is mistaken for an attempt; the request still earns once and pays for its retry.
    let [requests, _, retries, tokens] = growth(&worker, || send(&worker, Router::both, fails_once));
    assert_eq!([requests, retries, tokens], [1, 1, 100 - 1000]);
    for _ in 0..3 {
        let grown = growth(&worker, || send(&worker, Router::both, |_| Ending::Status(200)));
        assert_eq!(grown, [1, 1, 0, 100]);
    }
    let grown = growth(&worker, || send(&worker, Router::both, fails_once));
    assert_eq!(grown, [1, 2, 1, 100 - 1000]);
    // Shadow requests go on to be first attempts.
    let grown = growth(&worker, || send(&worker, Router::attempt_alone, |_| Ending::Status(200)));
    assert_eq!(grown, [1, 1, 0, 100]);
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
}

/// Several are under way before the first attempt of any of them shows what they are.
#[test]
fn requests_that_were_mistaken_at_the_same_time_earn_and_pay_once_each() {
    let worker = attempts_only();
    let streams: Vec<Stream> = (0..3).map(|_| Stream::get("orders")).collect();
    let grown = growth(&worker, || {
        let listeners: Vec<_> = streams.iter().map(|stream| ok(worker.root.listener(stream))).collect();
        listeners.iter().for_each(|listener| _ = ok(listener.request_headers(true)));
        for (stream, listener) in streams.iter().zip(&listeners) {
            ok(Router::attempt_alone(&worker.root).send(stream, |_| Ending::Status(503)));
            ok(listener.response_headers(true));
        }
        listeners.iter().for_each(|listener| ok(listener.done()));
    });
    // Two retries are left of the 2.3 tokens and what the three have earned; nothing is set aside for ever.
    assert_eq!([grown[0], grown[2], grown[3]], [3, 2, 300 - 2000]);
    let grown = growth(&worker, || send(&worker, Router::both, |_| Ending::Status(200)));
    assert_eq!(grown, [1, 1, 0, 100]);
}

/// The listener's filter answers, or the router finds nobody to call: no attempt ever tells what the stream was.
#[test]
fn a_mistaken_stream_without_an_attempt_takes_nothing_from_the_bucket() {
    for status in [200, 503] {
        let worker = attempts_only();
        let grown = growth(&worker, || {
            let stream = Stream::get("orders");
            let listener = ok(worker.root.listener(&stream));
            ok(listener.request_headers(true));
            ok(listener.respond(status, [("server", "envoy")], true));
            ok(listener.done());
        });
        assert_eq!(grown[3], 100, "{status}");
    }
}

/// A hedge, parked beside the first attempt of a request whose listener stream was mistaken.
#[test]
fn a_hedge_of_a_mistaken_request_does_not_kill_the_attempt_in_flight() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"initial_tokens":0}}"#);
    send(&worker, Router::attempt_alone, |_| Ending::Status(200));
    let mut request: Request = ok(Router::both(&worker.root).begin(&Stream::get("orders")));
    ok(request.start());
    assert!(request.is_parked());
    ok(request.answer(1, Ending::Status(200)));
    let exchange = request.exchange().expect("an end");
    assert_eq!((exchange.status().as_deref(), exchange.reply.is_none()), (Some("200"), true));
}
