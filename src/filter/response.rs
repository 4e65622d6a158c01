//! What a response tells.

use super::reply;
use super::served::Served;
use super::vm::Vm;
use crate::host::{HeaderMap, Headers};
use crate::policy::DepositOn;
use crate::policy::breaker::Call;
use crate::policy::outcome::Status;
use crate::policy::retry_after::{self, Hint};

/// The response headers at hand, read in one call, and their status.
pub fn read(vm: &Vm) -> Option<(Headers, Status)> {
    let headers = vm.host.headers(HeaderMap::Response).ok()?;
    let status = Status {
        http: headers.get(":status").and_then(decimal).unwrap_or(0),
        grpc: headers.get(reply::GRPC_STATUS).and_then(decimal).and_then(|code| u8::try_from(code).ok()),
    };
    Some((headers, status))
}

/// What a failing response asks for. Headers that cannot be read are counted.
pub fn hint(vm: &Vm, served: &Served, headers: &Headers, status: Status) -> Hint {
    let Ok(now) = vm.host.wall_clock() else { return Hint::default() };
    let now_ms = now.checked_div(NANOS_PER_MILLI).unwrap_or(0);
    let reading = retry_after::read(status, &served.policy.retriable, now_ms, headers.iter());
    for header in reading.malformed.iter() {
        vm.count_malformed(header.name());
    }
    reading.hint
}

const NANOS_PER_MILLI: u64 = 1_000_000;

/// ASCII digits, and nothing else.
pub fn decimal(bytes: &[u8]) -> Option<u16> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// Whether the response at hand is the router's reply to a request that took too long.
pub fn is_router_timeout(vm: &Vm) -> bool {
    vm.host.property(CODE_DETAILS).ok().flatten().as_deref() == Some(RESPONSE_TIMEOUT)
}

const CODE_DETAILS: &str = "response\0code_details";

/// Whether the response came from the upstream.
pub fn is_the_upstreams(vm: &Vm) -> bool {
    vm.host.property(CODE_DETAILS).ok().flatten().as_deref() == Some(VIA_UPSTREAM)
}

const VIA_UPSTREAM: &[u8] = b"via_upstream";

/// Whether the client is the one who ended the stream.
pub fn was_cancelled(vm: &Vm) -> bool {
    vm.host.property(CODE_DETAILS).ok().flatten().as_deref() == Some(b"downstream_remote_disconnect")
}

/// In `on_done` of an attempt without a response: Envoy's own limits (its circuit breaker) refused it. It then has
/// neither an address nor a reason why connecting failed.
pub fn was_overflow(vm: &Vm) -> bool {
    let absent = |path| matches!(vm.host.property(path), Ok(None));
    absent("upstream\0local_address") && absent(TRANSPORT_FAILURE)
}

pub const TRANSPORT_FAILURE: &str = "upstream\0transport_failure_reason";

/// How a final response judges the upstream, where no attempt was seen: by its status if it is the upstream's, and as
/// a failure if it is the router's for a reset or a timeout. Other local replies say nothing.
pub fn judged_call(vm: &Vm, status: Status) -> Option<Call> {
    if !status.is_upstream_failure() {
        return Some(Call::Good);
    }
    let details = vm.host.property(CODE_DETAILS).ok().flatten()?;
    let overflow = details.windows(OVERFLOW.len()).any(|part| part == OVERFLOW);
    let upstreams = details == VIA_UPSTREAM || details == RESPONSE_TIMEOUT || details.starts_with(b"upstream_");
    (upstreams && !overflow).then_some(Call::Failed)
}

const OVERFLOW: &[u8] = b"overflow";
const RESPONSE_TIMEOUT: &[u8] = b"response_timeout";

/// gRPC's status while the response trailers are at hand.
pub fn grpc_status_in_trailers(vm: &Vm) -> Option<u8> {
    let status = vm.host.header(HeaderMap::ResponseTrailers, reply::GRPC_STATUS).ok().flatten()?;
    u8::try_from(decimal(&status)?).ok()
}

/// gRPC's status wherever it came, in `on_done` of a listener's stream.
fn grpc_status(vm: &Vm) -> Option<u8> {
    let status = vm.host.property("response\0grpc_status").ok().flatten()?;
    u8::try_from(number(&status)?).ok()
}

/// In `on_done` of an attempt: whether the response was handed down. It was dropped when the router retries.
pub fn was_handed_down(vm: &Vm) -> bool {
    vm.host.property("response\0code").is_ok_and(|code| code.is_some())
}

/// In `on_done`, of a response that was seen to its end: whether it earns the deposit of a success, where there is one.
/// It must be no failure, in its trailers neither.
pub fn earns_by_success(vm: &Vm, served: &Served) -> bool {
    if served.policy.budget.deposit_on != DepositOn::Success {
        return false;
    }
    let property = |path| vm.host.property(path).ok().flatten();
    let Some(http) = property("response\0code").as_deref().and_then(number) else { return false };
    let http = u16::try_from(http).unwrap_or(0);
    http < 500 && !served.policy.retriable.is_failing(Status { http, grpc: grpc_status(vm) })
}

/// Envoy's count of attempts: 0 in a listener's request headers, 1…n in the upstream chain.
const ATTEMPT_COUNT: &str = "upstream\0request_attempt_count";
/// `None` where the host does not tell.
pub fn attempt_count(vm: &Vm) -> Option<u32> {
    number(&vm.host.property(ATTEMPT_COUNT).ok()??)
}

/// A number as properties bring it: 8 bytes, little endian.
pub fn number(bytes: &[u8]) -> Option<u32> {
    u32::try_from(u64::from_le_bytes(*bytes.first_chunk::<8>()?)).ok()
}
