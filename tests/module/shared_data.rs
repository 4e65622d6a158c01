//! Records that are not as this module left them, and others who write at the same time.

use crate::router::{Ending, Router};
use crate::worker::{HOST_ERRORS, REQUESTS, RETRIES, STOPS, Worker, balance, count, key, ok};
use minihost::{Host, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

const FOUR: &str = r#"{"budget":{"ratio":0,"max_tokens":4}}"#;

fn fail(worker: &Worker) -> crate::router::Exchange {
    ok(Router::both(&worker.root).send(&Stream::get("orders"), |_| Ending::Status(503)))
}

/// How many retries a record is good for.
fn retries_from(record: &[u8]) -> u64 {
    let worker = Worker::new(FOUR);
    worker.host.set_shared_data(key("orders"), record, 0);
    for _ in 0..6 {
        let exchange = fail(&worker);
        assert!(exchange.reply.is_none() && exchange.status().as_deref() == Some("503"), "{exchange:?}");
    }
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
    count(&worker.host, RETRIES, "orders")
}

#[test]
fn what_is_no_record_counts_as_an_upstream_that_nobody_has_seen() {
    for record in [&b""[..], b"\x01", b"\x01\x00\x00", b"short"] {
        assert_eq!(retries_from(record), 4, "{record:?}");
    }
}

#[test]
fn a_record_that_is_cut_off_grants_no_more_than_the_cap() {
    let worker = Worker::new(FOUR);
    fail(&worker);
    let (whole, _) = worker.host.shared_data(key("orders")).expect("a record");
    for len in 0..whole.len() {
        assert!(retries_from(&whole[..len]) <= 4, "cut to {len} bytes");
    }
}

#[test]
fn garbage_grants_no_more_than_the_cap() {
    for record in [&[0xff; 64][..], &[0; 64], &[7; 25], &[1; 25], &[1; 400], b"{\"tokens\": 1000000}"] {
        assert!(retries_from(record) <= 4, "{record:?}");
    }
}

#[test]
fn of_another_versions_record_the_balance_is_kept() {
    let mut record = vec![99];
    record.extend(3400i64.to_le_bytes());
    record.extend(b"whatever else it holds");
    assert_eq!(retries_from(&record), 3);
}

/// Two workers see no record, and both write one.
#[test]
fn a_lost_race_to_create_the_record_loses_no_withdrawal() {
    let (first, second) = {
        let host = ok(Host::new());
        (Worker::on(&host, FOUR), Worker::on(&host, FOUR))
    };
    let host = first.host.clone();
    let mut other = Some(second);
    host.before("proxy_set_shared_data", move |_| {
        if let Some(second) = other.take() {
            assert_eq!(fail(&second).sent, 3);
        }
    });
    // Not the announcement's record at the start, but the bucket's.
    assert_eq!(host.shared_data(key("orders")), None);
    assert_eq!(fail(&first).sent, 3);
    assert_eq!((balance(&host, "orders"), count(&host, RETRIES, "orders")), (Some(0), 4));
    assert_eq!(fail(&first).sent, 1);
}

/// Somebody else always writes between the read and the write.
#[test]
fn contention_without_an_end_denies_the_retry_after_a_bounded_number_of_calls() {
    let worker = Worker::new(r#"{"budget":{"initial_tokens":5}}"#);
    let Worker { host, vm, .. } = &worker;
    assert_eq!(ok(Router::both(&worker.root).send(&Stream::get("orders"), |_| Ending::Status(200))).sent, 1);
    let tries = Arc::new(AtomicU32::new(0));
    let seen = Arc::clone(&tries);
    host.before("proxy_set_shared_data", move |host| {
        seen.fetch_add(1, Relaxed);
        let (record, _) = host.shared_data(key("orders")).expect("a record");
        host.set_shared_data(key("orders"), record, 0);
    });
    vm.take_calls();
    let exchange = fail(&worker);
    assert_eq!((exchange.sent, exchange.stop().as_deref()), (1, Some("budget")));
    assert!(tries.load(Relaxed) > 16, "it gave up after {} tries", tries.load(Relaxed));
    let calls = vm.take_calls();
    assert!(calls.total < 1500, "{} calls", calls.total);
    assert_eq!(count(host, STOPS, "orders"), 1);
    assert_eq!(host.counter(HOST_ERRORS), 0, "to lose a race is no error");

    // The deposits of that time are lost, none of its requests is.
    assert_eq!((count(host, REQUESTS, "orders"), balance(host, "orders")), (2, Some(5100)));
    host.clear_actions();
    assert_eq!(fail(&worker).sent, 3);
}

const WORKERS: usize = 4;
const EACH: usize = 5000;

/// Every request earns a token and a thousandth and asks for one, on four threads that often give way to each other
/// between reading and writing. No cap is met, so nothing may be lost or won.
#[test]
fn four_threads_conserve_the_tokens_to_the_thousandth() {
    let host = ok(Host::new());
    let configuration = r#"{"budget":{"ratio":1.001,"max_tokens":1000,"initial_tokens":0.5},"log":"off"}"#;
    let workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::on(&host, configuration)).collect();
    let mut writes = 0;
    host.before("proxy_set_shared_data", move |_| {
        // Not at every write: threads in lockstep would starve each other.
        writes += 1;
        if writes % 3 == 0 {
            std::thread::yield_now();
        }
    });
    let sent_and_writes = std::thread::scope(|scope| {
        let run = |worker: Worker| {
            worker.vm.list_calls(false);
            let router = Router { retries: 1, ..Router::attempt_alone(&worker.root) };
            let fails_once = |nth| Ending::Status(if nth == 1 { 503 } else { 200 });
            let sent = |_| ok(router.send(&Stream::get("orders"), fails_once)).sent;
            ((0..EACH).map(sent).sum::<u64>(), worker.vm.calls().count("proxy_set_shared_data"))
        };
        let threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || run(worker))).collect();
        let ends = threads.into_iter().map(|thread| thread.join().expect("a thread's end"));
        ends.fold((0, 0), |sum, end| (sum.0 + end.0, sum.1 + end.1))
    });
    let (requests, retries) = (count(&host, REQUESTS, "orders"), count(&host, RETRIES, "orders"));
    assert_eq!((requests, retries), (20_000, 20_000));
    assert_eq!(requests + retries, sent_and_writes.0);
    assert_eq!(balance(&host, "orders"), Some(500 + 1001 * requests as i64 - 1000 * retries as i64));
    let conflicts = sent_and_writes.1 - 2 * WORKERS * EACH;
    assert!(conflicts > 100, "the threads hardly met: {conflicts} conflicts");
}
