//! The mini host against modules in the text format: what it records, lets fail and reports.

mod support;

use std::time::Duration;

use minihost::{ALL, Action, Error, Host, LogLevel, Status, Stream, Vm, When};
use support::{host, on_request_headers, root};

/// Adds 1 to the 8-byte number under `key`, trying until its compare-and-swap succeeds; creates it with a cas that
/// never matches.
const COUNT_UP: &str = r#"
  (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
    (global.set $free (i32.const 1024))
    (loop $again
      (i64.store (i32.const 16) (i64.const 0))
      (i32.store (i32.const 8) (i32.const -1))
      (if (i32.eqz (call $get_shared (i32.const 110) (i32.const 3) (i32.const 0) (i32.const 4) (i32.const 8)))
        (then (i64.store (i32.const 16) (i64.load (i32.load (i32.const 0))))))
      (i64.store (i32.const 16) (i64.add (i64.load (i32.const 16)) (i64.const 1)))
      (br_if $again (call $set_shared
        (i32.const 110) (i32.const 3) (i32.const 16) (i32.const 8) (i32.load (i32.const 8)))))
    (i32.const 0))"#;

fn statuses(root: &minihost::Root) -> Vec<u32> {
    root.vm().last_calls().list.iter().map(|call| call.status).collect()
}

#[test]
fn calls_are_counted_and_those_that_return_bytes_apart() {
    let (_, root) = root(&on_request_headers(
        "(call $get_property (i32.const 120) (i32.const 16) (i32.const 0) (i32.const 4))
         (call $get_property (i32.const 110) (i32.const 3) (i32.const 0) (i32.const 4))
         (call $get_pairs (i32.const 0) (i32.const 0) (i32.const 4))
         (call $clock (i32.const 1) (i64.const 0) (i32.const 16))",
    ));
    let listener = root.listener(&Stream::get("orders")).unwrap();
    root.vm().take_calls();
    assert_eq!(listener.request_headers(true).unwrap(), Action::Continue);

    let calls = root.vm().calls();
    assert_eq!((calls.total, calls.returning_bytes, calls.count("proxy_get_property")), (4, 2, 2));
    assert_eq!(
        calls.list.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "proxy_get_property(xds.cluster_name) = 0, 6 bytes",
            "proxy_get_property(key) = 1",
            "proxy_get_header_map_pairs(RequestHeaders) = 0, 150 bytes",
            "clock_time_get() = 0"
        ]
    );
    assert_eq!(calls.in_callback("proxy_on_request_headers").total, 4);
    assert_eq!(calls.in_callback("proxy_on_done").total, 0);

    root.vm().take_calls();
    root.vm().list_calls(false);
    listener.request_headers(true).unwrap();
    assert_eq!((root.vm().calls().total, root.vm().calls().list.len()), (4, 0));
}

#[test]
fn shared_data_has_envoys_compare_and_swap() {
    let set = |cas: u32| {
        format!("(call $set_shared (i32.const 110) (i32.const 3) (i32.const 250) (i32.const 8) (i32.const {cas}))\n")
    };
    let get = "(call $get_shared (i32.const 110) (i32.const 3) (i32.const 0) (i32.const 4) (i32.const 8))\n";
    let (host, root) = root(&on_request_headers([get, &set(77), &set(77), &set(1), &set(0), get].concat().trim_end()));
    root.listener(&Stream::get("orders")).unwrap().request_headers(true).unwrap();
    let (ok, not_found, mismatch) = (Status::Ok as u32, Status::NotFound as u32, Status::CasMismatch as u32);
    assert_eq!(statuses(&root), [not_found, ok, mismatch, ok, ok, ok]);
    assert_eq!(host.shared_data("key"), Some((b"12345678".to_vec(), 3)));
    assert_eq!(host.shared_keys(), ["key"]);
    assert_eq!(host.set_shared_data("key", "", 2), Status::CasMismatch);
}

#[test]
fn four_vms_at_once_lose_no_update() {
    const EACH: u64 = 500;
    let host = host(COUNT_UP);
    host.interleave(true);
    let conflicts: usize = std::thread::scope(|scope| {
        let worker = |host: Host| {
            let vm = Vm::new(&host).unwrap();
            vm.list_calls(false);
            let root = vm.configure("root", "plugin", "").unwrap();
            for _ in 0..EACH {
                let listener = root.listener(&Stream::get("orders")).unwrap();
                listener.request_headers(true).unwrap();
                listener.done().unwrap();
            }
            vm.calls().count("proxy_set_shared_data") - EACH as usize
        };
        let workers: Vec<_> = (0..4).map(|_| host.clone()).map(|host| scope.spawn(move || worker(host))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert_eq!(host.shared_data("key").unwrap().0, (4 * EACH).to_le_bytes());
    assert!(conflicts > 0, "the threads never met");
}

#[test]
fn an_action_comes_between_read_and_write() {
    let (host, root) = root(COUNT_UP);
    let mut others = 3;
    host.before("proxy_set_shared_data", move |host| {
        if others > 0 {
            others -= 1;
            host.set_shared_data("key", 100u64.to_le_bytes(), 0);
        }
    });
    root.listener(&Stream::get("orders")).unwrap().request_headers(true).unwrap();
    assert_eq!(host.shared_data("key").unwrap().0, 101u64.to_le_bytes());
    assert_eq!(root.vm().last_calls().total, 8);
}

#[test]
fn any_call_can_be_made_to_fail_with_any_status() {
    let (host, root) = root(&on_request_headers(
        "(call $wall (i32.const 16))
         (call $set_property (i32.const 110) (i32.const 3) (i32.const 100) (i32.const 1))
         (call $wall (i32.const 16))",
    ));
    let stream = Stream::get("orders");
    let run = || {
        root.listener(&stream).unwrap().request_headers(true).unwrap();
        statuses(&root)
    };
    for status in Status::failures() {
        host.fail("proxy_get_current_time_nanoseconds", status, When::Nth(2));
        assert_eq!(run(), [0, 0, status as u32]);
        assert_eq!(run(), [0, 0, 0]);
        assert_eq!(host.clear_faults(), 1);
    }
    host.fail(ALL, Status::InternalFailure, When::From(2));
    assert_eq!(run(), [0, 10, 10]);
    assert_eq!(run(), [10, 10, 10]);
    assert_eq!(host.clear_faults(), 5);

    let stream = Stream::get("orders");
    host.fail("proxy_set_property", Status::BadArgument, When::First(1));
    root.listener(&stream).unwrap().request_headers(true).unwrap();
    assert_eq!(stream.filter_state("key"), None, "a failed call has no effect");
    root.listener(&stream).unwrap().request_headers(true).unwrap();
    assert_eq!(stream.filter_state("key"), Some(b"a".to_vec()));
}

#[test]
fn a_trap_says_where_it_was_and_kills_the_vm() {
    let (host, root) = root(
        r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
             (drop (call $log (i32.const 5) (i32.const 210) (i32.const 6)))
             (unreachable))"#,
    );
    let listener = root.listener(&Stream::get("orders")).unwrap();
    let error = listener.request_headers(true).unwrap_err();
    let Error::Trap(trap) = &error else { panic!("{error}") };
    assert_eq!((trap.callback, trap.context), ("proxy_on_request_headers", listener.id()));
    assert_eq!(
        (trap.calls.as_slice(), trap.log.as_slice()),
        (&["proxy_log() = 0".into()][..], &["Critical: no way".into()][..])
    );
    assert!(error.to_string().contains("unreachable"), "{error}");
    assert!(matches!(listener.done(), Err(Error::Dead(_))));
    assert!(root.vm().is_dead());
    assert_eq!(host.logs()[0].level, LogLevel::Critical);
    assert!(Vm::new(&host).unwrap().configure("root", "plugin", "").is_ok(), "a new VM lives");
}

#[test]
fn a_module_that_cannot_run_is_an_error_that_says_why() {
    let load = |text: &str| Host::with_module(&wat::parse_str(text).unwrap());
    let error = load(r#"(module (import "env" "proxy_unheard_of" (func)) (import "env" "proxy_log" (func)))"#).err();
    assert!(matches!(&error, Some(Error::UnknownImports(names)) if names == &["env.proxy_unheard_of"]), "{error:?}");

    let error = Vm::new(&load(r#"(module (memory (export "memory") 1))"#).unwrap()).err().unwrap().to_string();
    assert!(error.contains("proxy_abi_version_0_2_1"), "{error}");

    let error = Vm::new(&load(r#"(module (import "env" "proxy_log" (func)))"#).unwrap()).err().unwrap().to_string();
    assert!(error.contains("proxy_log"), "{error}");

    let early = host(r#"(func (export "_initialize") (drop (call $log (i32.const 2) (i32.const 210) (i32.const 6))))"#);
    let error = Vm::new(&early).err().unwrap().to_string();
    assert!(error.contains("proxy_log in _initialize"), "{error}");
}

#[test]
fn a_module_caught_in_a_loop_is_stopped() {
    let (_, root) = root(
        r#"(func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
             (loop $for_ever (drop (call $wall (i32.const 16))) (br $for_ever))
             (unreachable))"#,
    );
    let error = root.listener(&Stream::get("orders")).unwrap().request_headers(true).unwrap_err();
    assert!(error.to_string().contains("more than 10000 host calls"));
}

#[test]
fn a_configuration_is_read_and_may_be_refused() {
    let host = host(
        r#"(func (export "proxy_on_configure") (param i32 i32) (result i32)
             (drop (call $get_buffer (i32.const 7) (i32.const 0) (local.get 1) (i32.const 0) (i32.const 4)))
             (drop (call $log (i32.const 3) (i32.load (i32.const 0)) (i32.load (i32.const 4))))
             (i32.ne (i32.load8_u (i32.load (i32.const 0))) (i32.const 33)))"#,
    );
    let vm = Vm::new(&host).unwrap();
    assert!(vm.configure("root", "plugin", "fine").is_ok());
    let Err(Error::Refused { callback, log }) = vm.configure("root", "plugin", "!wrong") else { panic!("accepted") };
    assert_eq!((callback, log), ("proxy_on_configure", vec!["Warn: !wrong".to_owned()]));
    assert_eq!(host.imports().iter().filter(|import| !import.starts_with("env.")).count(), 1);
    assert!(host.size() > 500);
}

#[test]
fn clocks_move_when_told_and_ticks_come_when_due() {
    let (host, root) = root(
        r#"(func (export "proxy_on_configure") (param i32 i32) (result i32)
             (i32.eqz (call $tick_period (i32.const 300))))
           (func (export "proxy_on_tick") (param i32)
             (drop (call $clock (i32.const 1) (i64.const 0) (i32.const 16)))
             (drop (call $log (i32.const 2) (i32.const 16) (i32.const 8)))
             (drop (call $clock (i32.const 7) (i64.const 0) (i32.const 16))))"#,
    );
    assert_eq!(root.tick_period(), Some(Duration::from_millis(300)));
    let (wall, start) = (host.wall_clock(), host.monotonic_clock());
    root.vm().run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(host.take_logs().len(), 3);
    assert_eq!(host.monotonic_clock() - start, Duration::from_secs(1));
    assert_eq!(statuses(&root), [0, 0, Status::BadArgument as u32]);
    host.advance(Duration::from_millis(500));
    assert_eq!(host.wall_clock() - wall, Duration::from_millis(1500));
    root.tick().unwrap();
    assert_eq!(host.logs().len(), 1);
    host.set_wall_clock(Duration::from_secs(5));
    assert_eq!(host.wall_clock(), Duration::from_secs(5));
    assert!(root.shutdown().unwrap());
    assert!(matches!(root.tick(), Err(Error::Dead(_))));
}
