//! What the success path costs while the bucket is full. A call that returns bytes is the dear one: for it the host
//! enters the module once more.

use crate::router::{Ending, Router};
use crate::worker::{Worker, ok};
use minihost::{Call, Root, Stream};
use std::collections::BTreeSet;

/// Most calls that one placement may make for a request, from its headers to its end.
const MOST: usize = 8;
/// Of these, such that return bytes.
const MOST_RETURNING: usize = 3;
/// Alone in the listener it does two placements' work: it asks once more, afterwards, how many attempts there were.
const MORE_ALONE: usize = 1;

const FULL: &str = r#"{"budget":{"ratio":0.1,"max_tokens":10}}"#;

fn request(fields: usize) -> Stream {
    let stream = Stream::get("orders");
    // Four pseudo headers and the id are there already.
    (5..fields).for_each(|i| stream.add_request_header(&format!("x-field-{i}"), "value"));
    assert_eq!(stream.request_headers().len(), fields);
    stream
}

/// Runs requests until nothing is new any more, then one that is counted.
fn assert_cheap(policy: &str, place: fn(&Root) -> Router, more: usize, adapt: impl Fn(Stream) -> Stream) {
    for fields in [10, 60] {
        let worker = Worker::new(policy);
        let router = place(&worker.root);
        for _ in 0..3 {
            ok(router.send(&adapt(request(fields)), |_| Ending::Status(200)));
        }
        worker.vm.take_calls();
        let exchange = ok(router.send(&adapt(request(fields)), |_| Ending::Status(200)));
        assert_eq!(exchange.status().as_deref(), Some("200"));
        let calls = worker.vm.take_calls();
        let contexts: BTreeSet<u32> = calls.list.iter().map(|call| call.context).collect();
        for context in contexts {
            let own: Vec<&Call> = calls.list.iter().filter(|call| call.context == context).collect();
            let returning = own.iter().filter(|call| call.returned.is_some()).count();
            assert!(
                own.len() <= MOST + more && returning <= MOST_RETURNING + more,
                "{fields} fields, context {context}: {calls}"
            );
        }
        assert_eq!(calls.by_name.keys().filter(|name| name.contains("shared_data")).count(), 0, "{calls}");
    }
}

#[test]
fn both_placements() {
    assert_cheap(FULL, Router::both, 0, |stream| stream);
}

#[test]
fn the_attempt_placement_alone() {
    assert_cheap(FULL, Router::attempt_alone, 0, |stream| stream);
}

#[test]
fn the_request_placement_alone() {
    assert_cheap(FULL, Router::request_alone, MORE_ALONE, |stream| stream);
}

#[test]
fn the_callee_placement() {
    let called = |stream: Stream| stream.inbound().with("x-envoy-attempt-count", "1");
    assert_cheap(FULL, Router::callee, 0, called);
}

/// With the breaker closed and no failure on record it is as cheap, whatever opens it.
#[test]
fn a_closed_breaker() {
    for breaker in [r#"{}"#, r#"{"failure_ratio":0.5}"#, r#"{"slow_call":"1s"}"#] {
        let policy = format!(r#"{{"breaker":{breaker}}}"#);
        assert_cheap(&policy, Router::both, 0, |stream| stream);
    }
}

/// A deadline costs each placement three calls more at most.
#[test]
fn a_request_with_a_deadline() {
    assert_cheap(FULL, Router::both, 3, |stream| stream.with("x-request-deadline-ms", "1000"));
    assert_cheap(FULL, Router::attempt_alone, 3, |stream| stream.with("x-request-deadline-ms", "1000"));
}
