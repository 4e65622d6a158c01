//! Upstreams of all kinds of names, and of very many.

use crate::router::{Ending, Router};
use crate::worker::{HOST_ERRORS, REQUESTS, Worker, balance, count, key, ok};
use minihost::Stream;

fn request(upstream: &[u8]) -> Stream {
    let stream = Stream::get("");
    stream.set_property(&["xds", "cluster_name"], upstream);
    stream
}

const NAMES: [&[u8]; 12] = [
    b"outbound|8080||origin.shop.svc.cluster.local",
    b"inbound|80||",
    b"a.b.c",
    b"line\nbreak",
    b"tab\tand\rmore\x00",
    b"x;.;y",
    b"upstream=.=x;.;reason=.=y;.;",
    b"quote\"back\\slash",
    "größe".as_bytes(),
    b"bytes \xff\xfe\xc3",
    b"  ",
    b"*",
];

#[test]
fn each_upstream_has_a_bucket_of_its_own_whatever_its_name() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"max_tokens":3},"log":"all"}"#);
    for name in NAMES {
        let send = || ok(Router::both(&worker.root).send(&request(name), |_| Ending::Status(503))).sent;
        assert_eq!([send(), send(), send()], [3, 2, 1], "{}", name.escape_ascii());
        let (record, _) = worker.host.shared_data([b"retry_budget/enforce/", name].concat()).expect("a record");
        assert_eq!(record[1..9], 0i64.to_le_bytes());
    }
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
}

#[test]
fn no_name_breaks_the_labels_of_a_metric() {
    let worker = Worker::new("{}");
    for name in NAMES {
        ok(Router::both(&worker.root).send(&request(name), |_| Ending::Status(503)));
    }
    for (_, raw, _) in worker.host.metrics() {
        let labels = raw.matches(";.;").count();
        assert_eq!(labels, raw.matches("=.=").count().min(labels), "{raw:?}");
        assert!(labels <= 2 && !raw.contains(char::is_control), "{raw:?}");
        let (_, name) = raw.rsplit_once(";.;").unwrap_or(("", &raw));
        assert!(name.starts_with("retry_budget_"), "{raw:?}");
    }
    let islands = worker.host.series(REQUESTS, &[("upstream", "outbound|8080||origin.shop.svc.cluster.local")]);
    assert_eq!(islands, 1);
}

#[test]
fn every_decision_is_one_line_of_json() {
    let worker = Worker::new(r#"{"log":"all"}"#);
    worker.host.take_logs();
    for name in NAMES {
        let stream = request(name);
        ok(Router::both(&worker.root).send(&stream, |_| Ending::Status(503)));
        let state = stream.filter_state("retry_budget").expect("filter state");
        let line = worker.host.take_logs().pop().expect("a log line").message;
        assert_eq!(state, line.as_bytes());
        let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(json["upstream"], String::from_utf8_lossy(name).as_ref());
        assert!(!line.contains('\n'));
    }
}

/// Their labels are the same, so are their series; their buckets are not.
#[test]
fn upstreams_that_look_alike_in_metrics_do_not_share_what_is_known_of_their_buckets() {
    let worker = Worker::new(r#"{"budget":{"ratio":0.1}}"#);
    let send = |name: &[u8], status| ok(Router::both(&worker.root).send(&request(name), |_| Ending::Status(status)));
    send(b"a_b", 503);
    assert_eq!(balance(&worker.host, "a_b"), Some(8000));
    for _ in 0..5 {
        send(b"a;b", 200);
        send(b"a_b", 200);
    }
    assert_eq!(balance(&worker.host, "a_b"), Some(8500));
}

#[test]
fn the_keys_are_bounded_however_many_upstreams_there_are() {
    const MANY: usize = 4300;
    /// As many have records of their own, and one is for all others.
    const MOST: usize = 4096 + 1;
    let worker = Worker::new(r#"{"budget":{"ratio":0.1,"max_tokens":1},"log":"off"}"#);
    worker.vm.list_calls(false);
    let send = |i: usize| {
        let router = Router { retries: 0, ..Router::attempt_alone(&worker.root) };
        ok(router.send(&Stream::get(&format!("upstream-{i}")), |_| Ending::Status(200)))
    };
    (0..MANY).for_each(|i| assert_eq!(send(i).status().as_deref(), Some("200")));
    let records = |host: &minihost::Host| {
        host.shared_keys().into_iter().filter(|key| key.starts_with("retry_budget/enforce/")).count()
    };
    assert_eq!(records(&worker.host), MOST);
    let (keys, metrics) = (worker.host.shared_keys().len(), worker.host.metrics().len());
    (MANY..2 * MANY).step_by(10).for_each(|i| _ = send(i));
    assert_eq!((worker.host.shared_keys().len(), worker.host.metrics().len()), (keys, metrics));
    // Those that came first keep their own.
    assert!(worker.host.shared_data(key("upstream-0")).is_some());
    assert_eq!(count(&worker.host, REQUESTS, "upstream-0"), 1);
    // The late ones still have a bucket, together.
    let late = Router::attempt_alone(&worker.root);
    let sent = |i: usize| ok(late.send(&Stream::get(&format!("late-{i}")), |_| Ending::Status(503))).sent;
    assert_eq!([sent(1), sent(2)], [2, 1]);
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
}
