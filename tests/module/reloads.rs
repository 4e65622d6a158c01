//! VMs come and go, requests and balances stay.

use crate::router::{Ending, Router};
use crate::worker::{ATTEMPTS, HOST_ERRORS, REQUESTS, RETRIES, Worker, balance, count, ok};
use minihost::{Root, Stream};

const TENTH: &str = r#"{"budget":{"ratio":0.1,"initial_tokens":5}}"#;

/// `requests, attempts, retries` of the upstream, and its balance.
fn figures(worker: &Worker) -> ([u64; 3], Option<i64>) {
    let counts = [REQUESTS, ATTEMPTS, RETRIES].map(|name| count(&worker.host, name, "orders"));
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
    (counts, balance(&worker.host, "orders"))
}

const PLACES: [fn(&Root) -> Router; 2] = [Router::both, Router::attempt_alone];

#[test]
fn the_balance_survives_a_reload() {
    for place in PLACES {
        let before = Worker::new(TENTH);
        ok(place(&before.root).send(&Stream::get("orders"), |_| Ending::Status(503)));
        assert_eq!(figures(&before), ([1, 3, 2], Some(3100)));
        let after = Worker::on(&before.host, TENTH);
        drop(before);
        ok(place(&after.root).send(&Stream::get("orders"), |_| Ending::Status(503)));
        assert_eq!(figures(&after), ([2, 6, 4], Some(1200)));
    }
}

/// Between two attempts the attempt placement's memory is the link: the token that was set aside is spent, not lost.
#[test]
fn a_reservation_of_the_attempt_placement_alone_survives_a_reload_in_the_backoff() {
    let before = Worker::new(TENTH);
    let mut request = ok(Router::attempt_alone(&before.root).begin(&Stream::get("orders")));
    ok(request.answer(1, Ending::Status(503)));
    assert_eq!(figures(&before), ([1, 1, 0], Some(4100)));
    let after = Worker::on(&before.host, TENTH);
    request.reload(Router::attempt_alone(&after.root));
    drop(before);
    ok(request.start());
    assert_eq!(figures(&after), ([1, 2, 1], Some(4100)));
    ok(request.answer(2, Ending::Status(200)));
    assert_eq!(figures(&after), ([1, 2, 1], Some(4100)));
}

/// A token that was spent is not found again, neither by the next attempt of this VM nor by that of another.
#[test]
fn a_reservation_of_the_attempt_placement_alone_is_spent_once() {
    for reload in [false, true] {
        let before = Worker::new(TENTH);
        let mut request = ok(Router::attempt_alone(&before.root).begin(&Stream::get("orders")));
        ok(request.answer(1, Ending::Status(503)));
        ok(request.start());
        let after = Worker::on(&before.host, TENTH);
        if reload {
            request.reload(Router::attempt_alone(&after.root));
        } else {
            // No failure by the filter's policy, yet the route retries it.
            ok(request.answer(2, Ending::Status(404)));
        }
        ok(request.start());
        assert_eq!(figures(&after), ([1, 3, 2], Some(3100)), "reload {reload}");
    }
}

/// What the lost VM had set aside for a request placement is lost with it; the retry pays once more. No request is
/// counted twice, and none earns twice.
#[test]
fn a_request_goes_on_after_a_reload_and_earns_once() {
    for place in PLACES {
        for in_backoff in [true, false] {
            let before = Worker::new(TENTH);
            let mut request = ok(place(&before.root).begin(&Stream::get("orders")));
            if in_backoff {
                ok(request.answer(1, Ending::Status(503)));
            }
            let after = Worker::on(&before.host, TENTH);
            request.reload(Router { listener: None, ..place(&after.root) });
            drop(before);
            ok(request.start());
            ok(request.answer(2, Ending::Status(200)));
            let (counts, tokens) = figures(&after);
            assert_eq!(counts, [1, 2, 1]);
            assert!([Some(4100), Some(3100)].contains(&tokens), "in backoff {in_backoff}: {tokens:?}");
            assert!(request.exchange().is_some_and(|exchange| exchange.status().as_deref() == Some("200")));
        }
    }
}

/// The listener's stream came before the reload, its first attempt comes after it.
#[test]
fn a_first_attempt_after_a_reload_is_a_first_attempt() {
    let before = Worker::new(TENTH);
    let stream = Stream::get("orders");
    let listener = ok(before.root.listener(&stream));
    ok(listener.request_headers(true));
    let after = Worker::on(&before.host, TENTH);
    let fails_once = |nth| Ending::Status(if nth == 1 { 503 } else { 200 });
    ok(Router::attempt_alone(&after.root).send(&stream, fails_once));
    assert_eq!(figures(&after), ([1, 2, 1], Some(4100)));
    // Afterwards the new VM knows its own placements.
    ok(Router::both(&after.root).send(&Stream::get("orders"), fails_once));
    assert_eq!(figures(&after), ([2, 4, 2], Some(3200)));
}

/// While a configuration is replaced the old VM still ends its requests.
#[test]
fn two_generations_at_once_keep_one_account() {
    for place in PLACES {
        let old = Worker::new(TENTH);
        let mut late = ok(place(&old.root).begin(&Stream::get("orders")));
        let new = Worker::on(&old.host, TENTH);
        let mut early = ok(place(&new.root).begin(&Stream::get("orders")));
        ok(late.answer(1, Ending::Status(503)));
        ok(early.answer(1, Ending::Status(503)));
        for request in [&mut late, &mut early] {
            ok(request.start());
            ok(request.answer(2, Ending::Status(503)));
        }
        // A token each is spent, one each set aside for an attempt that will not come.
        assert_eq!(figures(&new).1, Some(1200));
        for request in [&mut early, &mut late] {
            ok(request.start());
            ok(request.answer(3, Ending::Status(503)));
        }
        assert_eq!(figures(&new), ([2, 6, 4], Some(1200)));
    }
}

/// The token that was set aside goes back when the client leaves, whoever is destroyed first.
#[test]
fn a_client_that_leaves_in_the_backoff_costs_the_request_placement_nothing() {
    let worker = Worker::new(TENTH);
    let mut request = ok(Router::both(&worker.root).begin(&Stream::get("orders")));
    ok(request.answer(1, Ending::Status(503)));
    assert_eq!(figures(&worker).1, Some(4100));
    ok(request.leave());
    assert_eq!(figures(&worker), ([1, 1, 0], Some(5100)));
    // In the middle of a response that is failing: the listener's filter is destroyed first.
    let stream = Stream::get("orders");
    let (listener, attempt) = (ok(worker.root.listener(&stream)), ok(worker.root.attempt(&stream, 1)));
    ok(listener.request_headers(true));
    ok(attempt.request_headers(true));
    ok(attempt.respond(503, [("server", "origin")], false));
    assert_eq!(figures(&worker).1, Some(4200));
    ok(listener.done());
    ok(attempt.done());
    assert_eq!(figures(&worker).1, Some(5200));
}
