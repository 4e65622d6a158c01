//! Deadlines on the wire: what the router and the upstream are told of the time that is left.

use super::logical::Logical;
use super::reply::{self, Refusal};
use super::served::Served;
use super::vm::Vm;
use crate::host::{HeaderMap, Host};
use crate::policy::Mode;
use crate::policy::bucket::Instant;
use crate::policy::deadline::{Deadline, TimeLeft};
use crate::policy::stop::Reason;

/// Replaces the route's timeout. Obeyed from a listener's filter only; the router takes it off the request.
const ROUTER_TIMEOUT: &str = "x-envoy-upstream-rq-timeout-ms";
/// What the router tells the upstream of the time that is left, in milliseconds. Absent where there is no limit.
const EXPECTED_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";
const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Has the router cancel the request on time.
pub fn limit_router(host: &dyn Host, served: &Served, left: Option<TimeLeft>) {
    if let Some(left) = left
        && served.policy.mode == Mode::Enforce
    {
        let _ = host.set_header(HeaderMap::Request, ROUTER_TIMEOUT, &left.envoy_timeout_millis().to_string());
    }
}

/// Tells the upstream what is left, as an attempt sets out.
pub fn tell_upstream(host: &dyn Host, served: &Served, logical: &Logical, left: TimeLeft) {
    if served.policy.mode != Mode::Enforce {
        return;
    }
    if let Some(header) = &served.policy.deadline.emit {
        let _ = host.set_header(HeaderMap::Request, header, &left.millis().to_string());
    }
    if logical.grpc_timeout.get() {
        let _ = host.set_header(HeaderMap::Request, GRPC_TIMEOUT, &left.grpc_timeout());
    }
}

/// What the router tells of the time that is left. To be asked as an attempt starts, where a rule needs to know and the
/// request brought no deadline.
pub fn told_by_router(host: &dyn Host, served: &Served) -> Option<Deadline> {
    if !served.policy.retry_after.wait && served.policy.deadline.min_remaining == 0 {
        return None;
    }
    let told = host.header(HeaderMap::Request, EXPECTED_TIMEOUT).ok()??;
    Some(Deadline::after(now(host)?, TimeLeft::told_by_envoy(&told)?))
}

/// Whether this deadline has passed. Not where the clock fails.
pub fn has_passed(host: &dyn Host, deadline: Deadline) -> bool {
    now(host).is_some_and(|now| deadline.remaining(now).is_expired())
}

/// Answers a request whose time is over. Whether the proxy took the answer.
#[must_use]
pub fn refuse(vm: &Vm, served: &Served, grpc: bool) -> bool {
    reply::refuse(vm.host(), &served.policy, &Refusal::plain(Reason::Deadline, grpc))
}

pub fn now(host: &dyn Host) -> Option<Instant> {
    host.monotonic().ok().map(Instant)
}
