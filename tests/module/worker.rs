//! One worker thread's VM with the plugin in it, and what tests ask of the process around it.

use minihost::{Host, Root, Vm};
use std::fmt::Display;
use std::time::Duration;

pub const REQUESTS: &str = "retry_budget_requests_total";
pub const ATTEMPTS: &str = "retry_budget_attempts_total";
pub const RETRIES: &str = "retry_budget_retries_total";
pub const STOPS: &str = "retry_budget_stops_total";
pub const HOST_ERRORS: &str = "retry_budget_host_errors_total";
pub const TOKENS: &str = "retry_budget_tokens";

/// A plugin in a VM of its own.
pub struct Worker {
    pub host: Host,
    pub vm: Vm,
    pub root: Root,
}

impl Worker {
    /// The first of its process.
    pub fn new(configuration: impl AsRef<[u8]>) -> Self {
        Self::on(&Host::new().unwrap_or_else(|e| panic!("{e}")), configuration)
    }

    /// One more of this process.
    pub fn on(host: &Host, configuration: impl AsRef<[u8]>) -> Self {
        // No two VMs of a process start in the same nanosecond.
        host.advance(Duration::from_micros(1));
        let vm = ok(Vm::new(host));
        let root = ok(vm.configure("retry_budget", "retry_budget", configuration));
        Self { host: host.clone(), vm, root }
    }
}

/// The value, or the whole story of a trap.
pub fn ok<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|e| panic!("{e}"))
}

/// One of the series of an upstream, all reasons together.
pub fn count(host: &Host, name: &str, upstream: &str) -> u64 {
    host.series(name, &[("upstream", upstream)])
}

/// The shared record of an upstream.
pub fn key(upstream: &str) -> String {
    format!("retry_budget/enforce/{upstream}")
}

/// The balance in an upstream's record, in thousandths of a token.
pub fn balance(host: &Host, upstream: &str) -> Option<i64> {
    let (record, _) = host.shared_data(key(upstream))?;
    // Its version, then the tokens.
    Some(i64::from_le_bytes(*record.get(1..)?.first_chunk()?))
}
