//! What the headers of a request tell, read in one call while they are at hand.

use super::deadlines;
use super::logical::Logical;
use super::reply;
use super::response;
use super::served::Served;
use super::vm::Vm;
use crate::host::HeaderMap;
use crate::policy::Mode;
use crate::policy::deadline::{Deadline, Format, TimeLeft, WallTime};

const ATTEMPT_COUNT: &str = "x-envoy-attempt-count";
const OWNER: &str = "x-retry-owner";
const REQUEST_ID: &str = "x-request-id";
/// A request id that a proxy makes has 36 bytes; one that a client brings may be of any length.
const MAX_REQUEST_ID: usize = 128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Which attempt the caller's Envoy says that this is. Malformed, absent or 0 is the first.
    pub attempt: u32,
    /// x-request-id, cut to `MAX_REQUEST_ID`.
    pub request_id: Option<Vec<u8>>,
    /// `None`: the request has no deadline. Expired: it came too late.
    pub left: Option<TimeLeft>,
    pub grpc: bool,
    /// It may be repeated though its outcome is unknown: by its method, by a key that it brings, or as gRPC.
    pub repeatable: bool,
    /// Who owns its retries: as it says, else as this policy says. Cut like the id.
    pub owner: Option<Vec<u8>>,
    /// It says nothing of an owner, and is to say this policy's.
    pub unowned: bool,
    /// It names another owner, and this policy leaves it to that one.
    pub deferred: bool,
    /// `grpc-timeout` is there, and read: it is to be rewritten.
    pub grpc_timeout: bool,
}

impl Head {
    pub fn read(vm: &Vm, served: &Served) -> Self {
        // Unread, it is as any other request: what is not known stops nothing.
        let Ok(headers) = vm.host.headers(HeaderMap::Request) else {
            return Self { attempt: 1, repeatable: true, ..Self::default() };
        };
        let policy = &served.policy.deadline;
        let request_id = headers.get(REQUEST_ID).map(cut);
        let wall = policy.needs_wall_clock(headers.iter()).then(|| vm.host.wall_clock().ok().map(WallTime)).flatten();
        let read = policy.read(headers.iter(), wall);
        let accepted = |place: &usize| policy.accept.get(*place);
        for malformed in read.malformed.iter().filter_map(accepted) {
            vm.count_malformed(&malformed.header);
        }
        let grpc_timeout = read.present.iter().filter_map(accepted).any(|accept| accept.format == Format::Grpc);
        let grpc = headers.get("content-type").is_some_and(reply::is_grpc_type);
        let idempotency = &served.policy.idempotency;
        let method = headers.get(":method").unwrap_or_default();
        let repeatable = idempotency.methods.iter().any(|m| m.as_bytes() == method)
            || idempotency.key_headers.iter().any(|name| headers.get(name).is_some())
            || (grpc && idempotency.grpc);
        let policy = &served.policy.owner;
        let own = policy.name.as_deref().map(str::as_bytes);
        let named = headers.get(OWNER);
        let deferred = policy.defer && named.is_some() && named != own;
        let owner = named.or(own).map(cut);
        let attempt = headers.get(ATTEMPT_COUNT).and_then(response::decimal).map_or(1, u32::from).max(1);
        Self {
            attempt,
            request_id,
            left: read.remaining,
            grpc,
            repeatable,
            owner,
            unowned: named.is_none(),
            deferred,
            grpc_timeout,
        }
    }

    /// Leaves with the request what will be needed when the headers cannot be read any more.
    pub fn keep(self, logical: &Logical, deadline: Option<Deadline>) {
        if let Some(id) = self.request_id {
            let _ = logical.request_id.set(id);
        }
        if let Some(owner) = self.owner {
            let _ = logical.owner.set(owner);
        }
        logical.deadline.set(deadline);
        logical.repeatable.set(self.repeatable);
        logical.deferred.set(self.deferred);
        logical.grpc.set(self.grpc);
        logical.grpc_timeout.set(self.grpc_timeout);
    }

    /// Tells the upstream who owns the retries, where the request does not.
    pub fn tell_owner(&self, vm: &Vm, served: &Served) {
        if let Some(name) = &served.policy.owner.name
            && self.unowned
            && served.policy.mode == Mode::Enforce
        {
            let _ = vm.host.set_header(HeaderMap::Request, OWNER, name);
        }
    }

    /// The id alone.
    pub fn request_id(vm: &Vm) -> Option<Vec<u8>> {
        vm.host.header(HeaderMap::Request, REQUEST_ID).ok().flatten().map(|id| cut(&id))
    }

    /// The moment at which the time is over, if it is not over yet. One clock read, where there is a deadline.
    pub fn deadline(&self, vm: &Vm) -> Option<Deadline> {
        let left = self.left.filter(|left| !left.is_expired())?;
        Some(Deadline::after(deadlines::now(vm.host())?, left))
    }
}

fn cut(id: &[u8]) -> Vec<u8> {
    id.get(..MAX_REQUEST_ID).unwrap_or(id).to_vec()
}
