//! What a module sees of a stream, and what it can do to it.

mod support;

use std::time::Duration;

use minihost::{Action, Error, Headers, Status, Stream, Vm};
use support::{host, on_request_headers, root};

fn statuses(root: &minihost::Root) -> Vec<u32> {
    root.vm().last_calls().list.iter().map(|call| call.status).collect()
}

/// Tries the request map (0) and the response map (2) in every callback, and one of its own in the others.
const MAPS: &str = r#"
  (func $try
    (drop (call $get_header (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 4)))
    (drop (call $get_header (i32.const 2) (i32.const 100) (i32.const 1) (i32.const 0) (i32.const 4)))
    (drop (call $replace (i32.const 0) (i32.const 110) (i32.const 3) (i32.const 100) (i32.const 1)))
    (drop (call $get_pairs (i32.const 0) (i32.const 0) (i32.const 4))))
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (call $try) (i32.const 0))
  (func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) (call $try) (i32.const 0))
  (func (export "proxy_on_log") (param i32) (call $try))
  (func (export "proxy_on_done") (param i32) (result i32) (call $try) (i32.const 1))"#;

#[test]
fn a_map_can_be_used_in_its_phase_only() {
    let (ok, missing, bad) = (Status::Ok as u32, Status::NotFound as u32, Status::BadArgument as u32);
    let (_, root) = root(MAPS);
    let stream = Stream::get("orders").with("a", "1");
    let listener = root.listener(&stream).unwrap();
    listener.request_headers(true).unwrap();
    assert_eq!(statuses(&root), [ok, bad, ok, ok]);
    assert_eq!(stream.request_headers().text("key").as_deref(), Some("a"));

    listener.respond(200, [("b", "2")], true).unwrap();
    assert_eq!(statuses(&root), [bad, missing, bad, ok]);
    assert_eq!(root.vm().last_calls().returning_bytes, 0, "the pairs of a closed map are none");

    root.vm().take_calls();
    listener.done().unwrap();
    let calls = root.vm().calls();
    let seen = |callback| calls.in_callback(callback).list.iter().map(|call| call.status).collect::<Vec<_>>();
    assert_eq!(seen("proxy_on_log"), [ok, missing, bad, ok], "the log reads both maps and changes none");
    assert_eq!(seen("proxy_on_done"), [bad, bad, bad, ok]);
    assert!(matches!(listener.done(), Err(Error::Dead(_))), "a stream ends once");

    let attempt = root.attempt(&stream, 1).unwrap();
    root.vm().take_calls();
    attempt.done().unwrap();
    assert_eq!(root.vm().calls().in_callback("proxy_on_log").total, 0, "an attempt is never logged");
}

#[test]
fn a_waiting_stream_keeps_its_map_until_it_goes_on() {
    let (_, root) = root(
        r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32) (i32.const 1))
           (func (export "proxy_on_tick") (param i32)
             (drop (call $effective (i32.const 2)))
             (drop (call $replace (i32.const 0) (i32.const 110) (i32.const 3) (i32.const 100) (i32.const 1)))
             (drop (call $continue (i32.const 0)))
             (drop (call $effective (i32.const 99))))"#,
    );
    let stream = Stream::get("orders");
    let attempt = root.attempt(&stream, 1).unwrap();
    assert_eq!((attempt.id(), attempt.request_headers(true).unwrap()), (2, Action::Pause));
    assert!(attempt.request_is_paused());
    root.tick().unwrap();
    assert_eq!(statuses(&root), [0, 0, 0, Status::BadArgument as u32]);
    assert!(!attempt.request_is_paused());
    assert!(stream.request_headers().get("key").is_some());
    root.tick().unwrap();
    assert_eq!(statuses(&root)[1], Status::BadArgument as u32);
}

#[test]
fn properties_and_filter_state_are_where_envoy_has_them() {
    let get = |at: u32, len: u32| {
        format!("(call $get_property (i32.const {at}) (i32.const {len}) (i32.const 0) (i32.const 4))\n")
    };
    let all = [get(120, 16), get(140, 30), get(110, 3), get(220, 21)].concat();
    let set = "(call $set_property (i32.const 110) (i32.const 3) (i32.const 250) (i32.const 8))\n";
    let (_, root) = root(&on_request_headers(format!("{all}{set}{all}").trim_end()));
    let stream = Stream::get("orders");
    root.listener(&stream).unwrap().request_headers(true).unwrap();
    assert_eq!(statuses(&root), [0, 0, 1, 1, 0, 0, 0, 0, 0]);

    // The attempts of a stream see what its listener wrote.
    let attempt = root.attempt(&stream, 2).unwrap();
    attempt.request_headers(true).unwrap();
    let first = &root.vm().last_calls().list[..4];
    assert_eq!(first.iter().map(|call| call.returned).collect::<Vec<_>>(), [Some(6), Some(8), Some(8), Some(8)]);
    assert_eq!(stream.filter_state("key").as_deref(), Some(&b"12345678"[..]));

    attempt.set_property(&["xds", "cluster_name"], "other-one");
    attempt.request_headers(true).unwrap();
    assert_eq!(root.vm().last_calls().list[0].returned, Some(9));
    stream.remove_property(&["xds", "cluster_name"]);
    attempt.remove_property(&["xds", "cluster_name"]);
    attempt.request_headers(true).unwrap();
    assert_eq!(root.vm().last_calls().list[0].status, Status::NotFound as u32);

    // A root has no stream to read or to write.
    let (_, root) = root_that_ticks(&[get(110, 3), set.to_owned()].concat());
    root.tick().unwrap();
    assert_eq!(statuses(&root), [1, 1]);
}

fn root_that_ticks(calls: &str) -> (minihost::Host, minihost::Root) {
    let calls: String = calls.lines().map(|call| format!("(drop {call})")).collect();
    root(&format!("(func (export \"proxy_on_tick\") (param i32) {calls})"))
}

#[test]
fn metrics_are_shared_by_name_and_keep_envoys_rules() {
    let define = "(call $define (i32.const 0) (i32.const 180) (i32.const 25) (i32.const 8))\n";
    let calls = [
        define,
        "(call $increment (i32.load (i32.const 8)) (i64.const 2))\n",
        "(call $increment (i32.load (i32.const 8)) (i64.const 0))\n",
        define,
        "(call $increment (i32.load (i32.const 8)) (i64.const 1))\n",
        "(call $get_metric (i32.load (i32.const 8)) (i32.const 16))\n",
        "(call $increment (i32.const 444) (i64.const 1))\n",
        "(call $define (i32.const 1) (i32.const 110) (i32.const 3) (i32.const 8))\n",
        "(call $record (i32.load (i32.const 8)) (i64.const 7))\n",
        "(call $increment (i32.load (i32.const 8)) (i64.const -2))\n",
        "(call $define (i32.const 2) (i32.const 110) (i32.const 3) (i32.const 8))\n",
        "(call $record (i32.load (i32.const 8)) (i64.const 5))\n",
        "(call $get_metric (i32.load (i32.const 8)) (i32.const 16))\n",
        "(call $define (i32.const 3) (i32.const 110) (i32.const 3) (i32.const 8))",
    ];
    let host = host(&on_request_headers(&calls.concat()));
    for worker in 1..=2 {
        let root = Vm::new(&host).unwrap().configure("root", "plugin", "").unwrap();
        root.listener(&Stream::get("orders")).unwrap().request_headers(true).unwrap();
        assert_eq!(statuses(&root), [0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 2]);
        assert_eq!(host.counter("upstream=.=orders;.;calls"), 3 * worker);
    }
    assert_eq!(host.series("calls", &[("upstream", "orders")]), 6);
    assert_eq!(host.series("calls", &[("upstream", "other")]), 0);
    assert_eq!((host.gauge("key"), host.histogram("key")), (Some(5), vec![5, 5]));

    host.exclude_metrics(|name| name.ends_with("calls"));
    let root = Vm::new(&host).unwrap().configure("root", "plugin", "").unwrap();
    root.listener(&Stream::get("orders")).unwrap().request_headers(true).unwrap();
    assert_eq!(
        (statuses(&root)[1], host.series("calls", &[])),
        (0, 6),
        "an excluded metric takes all and shows nothing"
    );
    assert_eq!(host.metrics().len(), 3);
}

#[test]
fn a_response_code_is_there_for_who_hands_the_response_down() {
    let get = "(drop (call $get_property (i32.const 260) (i32.const 13) (i32.const 0) (i32.const 4)))";
    let (_, root) = root(&format!(
        r#"(func (export "proxy_on_response_headers") (param i32 i32 i32) (result i32) {get} (i32.const 0))
           (func (export "proxy_on_done") (param i32) (result i32) {get} (i32.const 1))"#
    ));
    let stream = Stream::get("orders");
    let (listener, retried, last) = (root.listener(&stream), root.attempt(&stream, 1), root.attempt(&stream, 2));
    let codes = || root.vm().take_calls().list.iter().map(|call| call.returned.is_some()).collect::<Vec<_>>();
    let retried = retried.unwrap();
    retried.respond(503, [("a", "b")], true).unwrap();
    retried.done().unwrap();
    assert_eq!(codes(), [false, false]);

    let (last, listener) = (last.unwrap(), listener.unwrap());
    last.respond(503, [("a", "b")], true).unwrap();
    last.set_response_code(Some(503));
    listener.response_headers(true).unwrap();
    last.done().unwrap();
    listener.done().unwrap();
    assert_eq!(codes(), [false, true, true, true]);
}

const REPLY: &str = "(call $reply (i32.const 503) (i32.const 210) (i32.const 6) (i32.const 100) (i32.const 1) \
                     (i32.const 0) (i32.const 0) (i32.const -1))";

#[test]
fn a_local_reply_is_kept_and_stops_the_stream() {
    let (_, root) = root(&on_request_headers(REPLY));
    let stream = Stream::get("orders");
    let attempt = root.attempt(&stream, 1).unwrap();
    assert_eq!(attempt.request_headers(true).unwrap(), Action::Pause, "whatever the callback returned");
    let reply = attempt.local_reply().unwrap();
    assert_eq!((reply.status, reply.details.as_str(), reply.grpc_status), (503, "no_way", None));
    let expected = [(":status", "503"), ("content-length", "1"), ("content-type", "text/plain")];
    assert_eq!(reply.as_response(false), Headers::from(expected));
    assert_eq!(reply.as_response(true).text("grpc-status").as_deref(), Some("14"));
    assert_eq!(stream.local_replies().len(), 1);
}

#[test]
fn a_reply_to_a_sibling_crashes_in_done_and_not_in_a_tick() {
    let callbacks = |callback: &str, result: &str| {
        format!(
            "(func (export \"{callback}\") (param i32) {result}\n (drop (call $effective (i32.const 2))) (drop {REPLY})"
        )
    };
    let (_, root) = root(&format!(
        "{}) {} (i32.const 1))",
        callbacks("proxy_on_tick", ""),
        callbacks("proxy_on_done", "(result i32)")
    ));
    let stream = Stream::get("orders");
    let (parked, sibling) = (root.attempt(&stream, 2).unwrap(), root.attempt(&stream, 1).unwrap());
    root.vm().run_for(Duration::from_millis(5)).unwrap();
    assert_eq!(parked.local_reply(), None, "no tick was asked for");
    root.tick().unwrap();
    assert!(parked.local_reply().is_some());
    assert!(matches!(sibling.done(), Err(Error::HostCrash { callback: "proxy_on_done", .. })));
    assert!(root.vm().is_dead());
}

#[test]
fn callouts_are_unimplemented() {
    let ten = "(i32.const 0) ".repeat(10);
    let (_, root) = root(&on_request_headers(&format!("(call $http_call {ten})")));
    root.listener(&Stream::grpc("orders").inbound()).unwrap().request_headers(true).unwrap();
    assert_eq!(statuses(&root), [Status::Unimplemented as u32]);
}

#[test]
fn bodies_are_there_in_their_callback() {
    let (_, root) = root(
        r#"(func (export "proxy_on_request_body") (param i32 i32 i32) (result i32)
             (drop (call $get_buffer (i32.const 0) (i32.const 1) (i32.const 100) (i32.const 0) (i32.const 4)))
             (drop (call $get_buffer (i32.const 1) (i32.const 0) (i32.const 100) (i32.const 0) (i32.const 4)))
             (drop (call $get_buffer (i32.const 7) (i32.const 0) (i32.const 100) (i32.const 0) (i32.const 4)))
             (drop (call $get_buffer (i32.const 0) (i32.const 9) (i32.const 100) (i32.const 0) (i32.const 4)))
             (i32.const 0))"#,
    );
    let listener = root.listener(&Stream::request("orders", "PUT")).unwrap();
    assert_eq!(listener.request_body(b"hello", true).unwrap(), Action::Continue);
    let calls = root.vm().last_calls();
    assert_eq!(calls.list.iter().map(|call| call.returned).collect::<Vec<_>>(), [Some(4), None, None, None]);
    assert_eq!(statuses(&root), [0, 0, Status::NotFound as u32, Status::BadArgument as u32]);
    assert_eq!(listener.request_trailers([("a", "b")]).unwrap(), Action::Continue, "no such callback: go on");
}
