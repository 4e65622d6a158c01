//! The file itself: what every proxy-wasm host can load.

use minihost::Host;

#[test]
fn it_imports_the_proxys_functions_and_the_clock_and_nothing_else() {
    let host = Host::new().unwrap_or_else(|e| panic!("{e}"));
    let foreign: Vec<String> =
        host.imports().into_iter().filter(|i| !i.starts_with("env.proxy_") && i != WASI_CLOCK).collect();
    assert_eq!(foreign, [""; 0]);
    assert!(host.imports().iter().any(|import| import == WASI_CLOCK), "{:?}", host.imports());
}

const WASI_CLOCK: &str = "wasi_snapshot_preview1.clock_time_get";

#[test]
fn it_is_small() {
    let host = Host::new().unwrap_or_else(|e| panic!("{e}"));
    assert!(host.size() < 400_000, "{} bytes", host.size());
}
