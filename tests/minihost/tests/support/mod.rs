//! A module in the text format: imports, memory and strings are always the same, callbacks are the test's.

use minihost::{Host, Root, Vm};

/// Strings at fixed places, as `(address) (length)`.
const PRELUDE: &str = r#"
  (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
  (import "env" "proxy_get_property" (func $get_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_property" (func $set_property (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_value" (func $get_header (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_header_map_pairs" (func $get_pairs (param i32 i32 i32) (result i32)))
  (import "env" "proxy_replace_header_map_value" (func $replace (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_buffer_bytes" (func $get_buffer (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_get_shared_data" (func $get_shared (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_set_shared_data" (func $set_shared (param i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_define_metric" (func $define (param i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_increment_metric" (func $increment (param i32 i64) (result i32)))
  (import "env" "proxy_record_metric" (func $record (param i32 i64) (result i32)))
  (import "env" "proxy_get_metric" (func $get_metric (param i32 i32) (result i32)))
  (import "env" "proxy_send_local_response"
    (func $reply (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "env" "proxy_continue_stream" (func $continue (param i32) (result i32)))
  (import "env" "proxy_set_effective_context" (func $effective (param i32) (result i32)))
  (import "env" "proxy_set_tick_period_milliseconds" (func $tick_period (param i32) (result i32)))
  (import "env" "proxy_get_current_time_nanoseconds" (func $wall (param i32) (result i32)))
  (import "env" "proxy_http_call" (func $http_call (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
  (memory (export "memory") 2)
  (data (i32.const 100) "a")
  (data (i32.const 110) "key")
  (data (i32.const 120) "xds\00cluster_name")
  (data (i32.const 140) "upstream\00request_attempt_count")
  (data (i32.const 180) "upstream=.=orders;.;calls")
  (data (i32.const 210) "no way")
  (data (i32.const 220) "filter_state\00wasm.key")
  (data (i32.const 250) "12345678")
  (data (i32.const 260) "response\00code")
  ;; Results: 0 address, 4 length, 8 cas or id, 16 a number.
  (global $free (mut i32) (i32.const 1024))
  (func (export "proxy_abi_version_0_2_1"))
  (func (export "proxy_on_memory_allocate") (param $size i32) (result i32)
    (global.get $free)
    (global.set $free (i32.add (global.get $free) (local.get $size))))
"#;

/// A host that runs a module with these callbacks.
pub fn host(callbacks: &str) -> Host {
    let text = format!("(module {PRELUDE} {callbacks})");
    Host::with_module(&wat::parse_str(&text).expect("the test's module is no WAT")).expect("the module loads")
}

/// The same with one configured VM.
pub fn root(callbacks: &str) -> (Host, Root) {
    let host = host(callbacks);
    let root = Vm::new(&host).and_then(|vm| vm.configure("root", "plugin", "{}")).expect("the module starts");
    (host, root)
}

/// `proxy_on_request_headers` with calls whose statuses are dropped, then `Continue`.
pub fn on_request_headers(calls: &str) -> String {
    let calls: String = calls.lines().map(|call| format!("    (drop {call})\n")).collect();
    format!("(func (export \"proxy_on_request_headers\") (param i32 i32 i32) (result i32)\n{calls}    (i32.const 0))")
}
