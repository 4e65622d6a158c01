//! The signals that end a retry: marks on a response that is passed through, and local replies where there is none.

use crate::host::{HeaderMap, Headers, Host, LocalReply};
use crate::policy::stop::Reason;
use crate::policy::{EmitStopSignal, Policy};

/// Tells who stopped the retries and why.
pub const RETRY_STOP: &str = "x-retry-stop";
/// Envoy's own mark for "do not retry", obeyed by this proxy's router and by Envoys above.
pub const RATELIMITED: &str = "x-envoy-ratelimited";
/// gRPC A6: −1 ends the retries of a client's own policy.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
const NEVER: &str = "-1";
/// Read by the route's `rate_limited_retry_back_off`: whole seconds that the router waits before it retries.
const WAIT_SECONDS: &str = "x-retry-after-seconds";
pub const GRPC_STATUS: &str = "grpc-status";
/// What `x-retry-stop` says of a final failure that nobody stopped (`stop_signal.emit: failed`).
pub const FAILED: &str = "failed";

/// Marks a response on its way down so that this proxy's router does not retry it, and nobody above does.
pub fn mark(host: &dyn Host, policy: &Policy, value: &str, response: &Headers) {
    let _ = host.set_header(HeaderMap::Response, RATELIMITED, "true");
    if policy.emit == EmitStopSignal::None {
        return;
    }
    if response.get(RETRY_STOP).is_none() {
        // What a layer below has said stays: it is the one who knows.
        let _ = host.set_header(HeaderMap::Response, RETRY_STOP, value);
    }
    if is_grpc(response) && response.get(PUSHBACK).is_none() {
        let _ = host.set_header(HeaderMap::Response, PUSHBACK, NEVER);
    }
}

/// Has this proxy's router wait before it retries this response.
pub fn ask_to_wait(host: &dyn Host, seconds: u64) {
    let _ = host.set_header(HeaderMap::Response, WAIT_SECONDS, &seconds.to_string());
}

/// Takes that off again, from a response that was not retried after all.
pub fn forget_wait(host: &dyn Host) {
    let _ = host.remove_header(HeaderMap::Response, WAIT_SECONDS);
}

/// Takes the router's mark off.
pub fn unmark(host: &dyn Host) {
    let _ = host.remove_header(HeaderMap::Response, RATELIMITED);
}

/// Takes all signals off, where none is to leave this proxy.
pub fn silence(host: &dyn Host) {
    unmark(host);
    let _ = host.remove_header(HeaderMap::Response, RETRY_STOP);
}

/// Tells callers of a request that Envoy's own limits refused when to come back: soon, but not at once.
pub fn bulkhead(host: &dyn Host) {
    if matches!(host.header(HeaderMap::Response, OVERLOADED), Ok(Some(_)))
        && matches!(host.header(HeaderMap::Response, RETRY_AFTER), Ok(None))
    {
        let _ = host.set_header(HeaderMap::Response, RETRY_AFTER, BULKHEAD_SECONDS);
    }
}

/// Envoy's mark on what its circuit breaker refused.
const OVERLOADED: &str = "x-envoy-overloaded";
pub const RETRY_AFTER: &str = "retry-after";
const BULKHEAD_SECONDS: &str = "1";

fn is_grpc(headers: &Headers) -> bool {
    headers.get(GRPC_STATUS).is_some() || headers.get("content-type").is_some_and(is_grpc_type)
}

/// `application/grpc`, alone or with a suffix (`+proto`, `;…`), as Envoy reads it.
pub fn is_grpc_type(value: &[u8]) -> bool {
    value.strip_prefix(b"application/grpc").is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';' | b' ')))
}

/// A local reply to be made.
pub struct Refusal {
    pub reason: Reason,
    pub grpc: bool,
    pub status: u16,
    /// Whole seconds, sent as `retry-after`.
    pub retry_after: Option<u64>,
}

impl Refusal {
    /// The reason's own status, and no time at which to come back.
    pub fn plain(reason: Reason, grpc: bool) -> Self {
        Self { reason, grpc, status: reason.http_status(), retry_after: None }
    }
}

/// Answers the request in the upstream's place (RFC 9457; trailers-only where it is gRPC: the proxy then sends the
/// body as `grpc-message`). Whether the proxy took it: if not, the request has to go on.
#[must_use]
pub fn refuse(host: &dyn Host, policy: &Policy, refusal: &Refusal) -> bool {
    let Refusal { reason, grpc, status, retry_after } = *refusal;
    let problem = format!(
        r#"{{"status":{status},"title":"{}","detail":"{}","reason":"{}"}}"#,
        title(status),
        reason.sentence(),
        reason.name()
    );
    let retry_after = retry_after.map(|seconds| seconds.to_string());
    let mut headers = Vec::with_capacity(5);
    if !grpc {
        headers.push(("content-type", "application/problem+json"));
    }
    if let Some(seconds) = &retry_after {
        headers.push((RETRY_AFTER, seconds));
    }
    if policy.emit != EmitStopSignal::None {
        headers.push((RETRY_STOP, reason.name()));
        headers.push((RATELIMITED, "true"));
        if grpc {
            headers.push((PUSHBACK, NEVER));
        }
    }
    let details = format!("retry_budget_{}", reason.name());
    let reply = LocalReply {
        status,
        details: &details,
        headers: &headers,
        body: if grpc { reason.sentence().as_bytes() } else { problem.as_bytes() },
        grpc_status: reason.grpc_status(),
    };
    host.reply(&reply).is_ok()
}

/// RFC 9457 §3.1.2: with no problem type of its own, the status's own phrase (RFC 9110).
fn title(status: u16) -> &'static str {
    match status {
        429 => "Too Many Requests",
        504 => "Gateway Timeout",
        _ => "Service Unavailable",
    }
}

#[cfg(test)]
mod tests {
    use super::is_grpc_type;

    #[test]
    fn grpc_is_known_by_its_content_type() {
        for yes in ["application/grpc", "application/grpc+proto", "application/grpc;charset=utf-8"] {
            assert!(is_grpc_type(yes.as_bytes()), "{yes}");
        }
        for no in ["application/grpc-web", "application/json", "", "application/grp"] {
            assert!(!is_grpc_type(no.as_bytes()), "{no}");
        }
    }
}
