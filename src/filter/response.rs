//! What a response tells.

use super::stream::number;
use super::vm::Vm;
use crate::host::{HeaderMap, Headers};
use crate::policy::outcome::{Retriable, Status};

/// The response headers at hand, read in one call, and their status.
pub fn read(vm: &Vm) -> Option<(Headers, Status)> {
    let headers = vm.host.headers(HeaderMap::Response).ok()?;
    let status = Status {
        http: headers.get(":status").and_then(decimal).unwrap_or(0),
        grpc: headers.get("grpc-status").and_then(decimal).and_then(|code| u8::try_from(code).ok()),
    };
    Some((headers, status))
}

/// ASCII digits, and nothing else.
pub fn decimal(bytes: &[u8]) -> Option<u16> {
    if bytes.is_empty() || !bytes.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

/// In `on_done` of an attempt: whether the response was handed down. It was dropped when the router retries.
pub fn was_handed_down(vm: &Vm) -> bool {
    vm.host.property("response\0code").is_ok_and(|code| code.is_some())
}

/// In `on_done`, of a response that was seen to its end: whether it is no failure, in its trailers neither.
pub fn ended_well(vm: &Vm, retriable: &Retriable) -> bool {
    let property = |path| vm.host.property(path).ok().flatten();
    let Some(http) = property("response\0code").as_deref().and_then(number) else { return false };
    let http = u16::try_from(http).unwrap_or(0);
    let grpc = property("response\0grpc_status").as_deref().and_then(number).and_then(|code| u8::try_from(code).ok());
    http < 500 && !retriable.is_failing(Status { http, grpc })
}
