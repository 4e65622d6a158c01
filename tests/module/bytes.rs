//! Headers that hold anything. Clients and services choose these bytes.

use crate::router::{Ending, Router};
use crate::worker::{ATTEMPTS, HOST_ERRORS, REQUESTS, Worker, count, ok};
use minihost::{Ctx, Headers, Root, Stream};

fn odd_values() -> Vec<Vec<u8>> {
    let texts = ["", " ", "0", "-1", "+1", "1e3", "0x1f6", "503 ", "503, 503", "99999999999999999999", "٥٠٣", "null"];
    let mut values: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    values.extend([b"\xff".to_vec(), b"50\xff".to_vec(), b"\xed\xa0\x80".to_vec(), vec![b'9'; 100_000]]);
    values
}

const PLACES: [fn(&Root) -> Router; 3] = [Router::both, Router::attempt_alone, Router::request_alone];

#[test]
fn any_request_id() {
    let worker = Worker::new(r#"{"log":"all"}"#);
    for (place, id) in PLACES.iter().flat_map(|place| odd_values().into_iter().map(move |id| (place, id))) {
        let stream = Stream::get("orders");
        stream.change_request_headers(|headers| headers.replace("x-request-id", &id));
        ok(place(&worker.root).send(&stream, |_| Ending::Status(503)));
        if let Some(state) = stream.filter_state("retry_budget") {
            let json: serde_json::Value = serde_json::from_slice(&state).expect("JSON");
            assert!(state.len() < 1000, "{} bytes", state.len());
            assert!(json["logical_id"].is_string(), "{json}");
        }
    }
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
}

#[test]
fn any_attempt_count_at_the_callee() {
    let worker = Worker::new(r#"{"budget":{"ratio":0,"initial_tokens":0}}"#);
    // What is no number, or none that an Envoy sends, is no retry.
    for value in odd_values() {
        let stream = Stream::get("orders").inbound().with("x-envoy-attempt-count", &value);
        let exchange = ok(Router::callee(&worker.root).send(&stream, |_| Ending::Status(200)));
        assert_eq!(exchange.status().as_deref(), Some("200"), "{}", value.escape_ascii());
    }
    assert_eq!(worker.host.counter(HOST_ERRORS), 0);
}

/// Neither placement of a caller's proxy reads what a client may forge.
#[test]
fn a_forged_attempt_count_is_not_read_where_the_proxy_counts_itself() {
    for place in PLACES {
        let worker = Worker::new(r#"{"budget":{"ratio":0,"initial_tokens":0}}"#);
        for value in [&b"7"[..], b"\xff", b"4294967296"] {
            let stream = Stream::get("orders")
                .with("x-envoy-attempt-count", value)
                .with("x-retry-stop", value)
                .with("x-envoy-ratelimited", value);
            let exchange = ok(place(&worker.root).send(&stream, |_| Ending::Status(200)));
            assert_eq!(exchange.status().as_deref(), Some("200"));
        }
        assert_eq!((count(&worker.host, REQUESTS, "orders"), count(&worker.host, ATTEMPTS, "orders")), (3, 3));
    }
}

fn respond(worker: &Worker, response: &Headers) {
    let stream = Stream::get("orders");
    let (listener, attempt) = (ok(worker.root.listener(&stream)), ok(worker.root.attempt(&stream, 1)));
    ok(listener.request_headers(true));
    ok(attempt.request_headers(true));
    stream.set_response(response.clone());
    let through = |filter: &Ctx| _ = ok(filter.response_headers(true));
    through(&attempt);
    through(&listener);
    ok(attempt.done());
    ok(listener.done());
    let called = Stream::get("orders").inbound();
    let callee = ok(worker.root.listener(&called));
    ok(callee.request_headers(true));
    called.set_response(response.clone());
    through(&callee);
    ok(callee.done());
}

#[test]
fn any_status() {
    for configuration in ["{}", r#"{"budget":{"ratio":0,"initial_tokens":0},"stop_signal":{"emit":"failed"}}"#] {
        let worker = Worker::new(configuration);
        for value in odd_values() {
            respond(&worker, &Headers::from([(":status", &value)]));
            respond(&worker, &Headers::from([(":status", b"200".as_slice()), ("grpc-status", &value)]));
            respond(&worker, &Headers::from([(":status", b"503".as_slice()), ("content-type", &value)]));
            respond(&worker, &Headers::from([(":status", b"503".as_slice()), ("x-retry-stop", &value)]));
        }
        // A status twice, none, and no headers at all.
        respond(&worker, &Headers::from([(":status", "503"), (":status", "200"), ("grpc-status", "0")]));
        respond(&worker, &Headers::from([("server", "origin")]));
        respond(&worker, &Headers::new());
        assert_eq!(worker.host.counter(HOST_ERRORS), 0);
    }
}

#[test]
fn two_hundred_headers_of_any_bytes() {
    let many = |headers: &mut Headers| {
        for i in 0..200u8 {
            headers.add(format!("x-{i}"), [i, 0xff, b'\n', i.wrapping_mul(7)]);
            headers.add("cookie", vec![i; usize::from(i)]);
        }
    };
    for place in PLACES {
        let worker = Worker::new("{}");
        let stream = Stream::get("orders");
        stream.change_request_headers(many);
        let exchange = ok(place(&worker.root).send(&stream, |nth| Ending::Status(if nth == 1 { 503 } else { 200 })));
        assert_eq!((exchange.sent, exchange.status().as_deref()), (2, Some("200")));
        let mut response = Headers::from([(":status", "503")]);
        many(&mut response);
        respond(&worker, &response);
        assert_eq!(worker.host.counter(HOST_ERRORS), 0);
    }
}
