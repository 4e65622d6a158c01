//! One stream that passes the filter: finds out where it stands and hands the callbacks to that placement.

use super::attempt::Attempt;
use super::callee::Callee;
use super::flow::Flow;
use super::logical::LINK;
use super::request::Request;
use super::response::attempt_count;
use super::root::{Root, Unlinked};
use crate::host::ContextId;
use crate::policy::Placement;
use std::rc::Rc;

/// Clusters of an Istio waypoint (`inbound-vip|PORT|PROTOCOL|HOST`). Its listener is inbound, yet it is the one that
/// retries.
const WAYPOINT_CLUSTER: &[u8] = b"inbound-vip|";

pub struct Stream {
    root: Rc<Root>,
    context: ContextId,
    role: Role,
    /// The end of the response has passed.
    complete: bool,
}

enum Role {
    /// Nothing to do: no upstream, `mode: off`, or request headers that never came.
    Idle,
    Request(Request),
    Attempt(Attempt),
    Callee(Callee),
}

impl Stream {
    pub fn new(root: Rc<Root>, context: ContextId) -> Self {
        Self { root, context, role: Role::Idle, complete: false }
    }

    pub fn on_request_headers(&mut self) -> Flow {
        let (role, flow) = self.begin();
        self.role = role;
        flow
    }

    fn begin(&self) -> (Role, Flow) {
        let root = &self.root;
        let host = root.vm.host();
        let forced = root.config.placement;
        // A link says that a placement before this one has seen the request: this is an attempt.
        let read = match forced {
            None | Some(Placement::Attempt) => host.property(LINK),
            Some(_) => Ok(None),
        };
        let unreadable = read.is_err();
        let link = read.ok().flatten();
        let count = if link.is_none() && forced.is_none() { self.count_unlinked() } else { None };
        let Some(served) = root.served() else { return (Role::Idle, Flow::Continue) };
        let placement = forced.unwrap_or_else(|| match (&link, count) {
            (Some(_), _) => Placement::Attempt,
            (None, Some(1..)) => Placement::Attempt,
            (None, _) if root.is_inbound() && !served.upstream.name.starts_with(WAYPOINT_CLUSTER) => Placement::Callee,
            (None, _) => Placement::Request,
        });
        let vm = Rc::clone(&root.vm);
        match placement {
            Placement::Request => {
                let (request, flow) = Request::begin(vm, served);
                (Role::Request(request), flow)
            }
            Placement::Attempt => {
                let (attempt, flow) = Attempt::begin(root, served, self.context, link.as_deref(), count, unreadable);
                (Role::Attempt(attempt), flow)
            }
            Placement::Callee => {
                let (callee, flow) = Callee::begin(vm, served);
                (Role::Callee(callee), flow)
            }
        }
    }

    /// The attempt count of a stream without a link.
    fn count_unlinked(&self) -> Option<u32> {
        let known = &self.root.unlinked;
        match known.get() {
            Unlinked::FirstAttempts => return Some(1),
            Unlinked::Inbound => return Some(0),
            Unlinked::Unknown | Unlinked::Mixed => {}
        }
        let count = attempt_count(&self.root.vm);
        match (count, known.get()) {
            (Some(1), Unlinked::Unknown) => known.set(Unlinked::FirstAttempts),
            (Some(0), _) if self.root.is_inbound() => known.set(Unlinked::Inbound),
            (Some(0), _) => known.set(Unlinked::Mixed),
            _ => {}
        }
        count
    }

    /// The end of the request has passed; not called for one that ends with its headers.
    pub fn on_request_end(&mut self) -> Flow {
        match &mut self.role {
            Role::Idle => Flow::Continue,
            Role::Request(request) => request.on_request_end(),
            Role::Attempt(attempt) => attempt.on_request_end(),
            Role::Callee(callee) => callee.on_request_end(),
        }
    }

    pub fn on_response_headers(&mut self, end: bool) {
        self.on_response_end(end);
        match &mut self.role {
            Role::Idle => {}
            Role::Request(request) => request.on_response_headers(),
            Role::Attempt(attempt) => attempt.on_response_headers(),
            Role::Callee(callee) => callee.on_response_headers(),
        }
    }

    pub fn on_response_trailers(&mut self) {
        self.on_response_end(true);
        if let Role::Attempt(attempt) = &mut self.role {
            attempt.on_response_trailers();
        }
    }

    /// Every part of a response may be its last.
    pub fn on_response_end(&mut self, end: bool) {
        self.complete |= end;
    }

    /// Called for streams of a listener alone: what was taken for an attempt is found out.
    pub fn on_log(&mut self) {
        if matches!(self.role, Role::Attempt(_)) {
            self.root.unlinked.set(Unlinked::Mixed);
        }
    }

    pub fn on_done(&mut self) {
        let complete = self.complete;
        match std::mem::replace(&mut self.role, Role::Idle) {
            Role::Idle => {}
            Role::Request(request) => request.on_done(complete),
            Role::Attempt(attempt) => attempt.on_done(complete),
            Role::Callee(callee) => callee.on_done(complete),
        }
    }
}
