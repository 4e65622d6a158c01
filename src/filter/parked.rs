//! Hedges that were refused while another attempt was in flight. A reply would kill that attempt, so they wait
//! ("parked"); when the last one in flight has ended without a response, one parked attempt is answered.
//!
//! The answer comes from the root's tick: given from the callback in which the sibling ends, it crashes Envoy.

use super::reply::{self, Refusal};
use crate::host::{ContextId, Host};
use crate::policy::Policy;
use crate::policy::stop::Reason;
use std::cell::RefCell;
use std::rc::Rc;

/// Tries of one answer that the proxy refuses, a tick each; then the request is left to its timeout.
const MAX_TRIES: u32 = 3;

#[derive(Clone)]
pub struct Parked {
    pub context: ContextId,
    pub logical: u64,
    pub reason: Reason,
    pub grpc: bool,
    pub policy: Rc<Policy>,
    pub tries: u32,
}

#[derive(Default)]
pub struct ParkedReplies {
    waiting: RefCell<Vec<Parked>>,
    due: RefCell<Vec<Parked>>,
}

impl ParkedReplies {
    pub fn park(&self, parked: Parked) {
        if let Ok(mut waiting) = self.waiting.try_borrow_mut() {
            waiting.push(parked);
        }
    }

    pub fn gone(&self, context: ContextId) {
        for list in [&self.waiting, &self.due] {
            if let Ok(mut list) = list.try_borrow_mut() {
                list.retain(|p| p.context != context);
            }
        }
    }

    /// The last attempt in flight of this request has ended without a response. Whether there is somebody to answer.
    pub fn release(&self, logical: u64) -> bool {
        let (Ok(mut waiting), Ok(mut due)) = (self.waiting.try_borrow_mut(), self.due.try_borrow_mut()) else {
            return false;
        };
        // One reply ends the whole request, its other parked attempts with it.
        let Some(first) = waiting.iter().position(|p| p.logical == logical) else { return false };
        due.push(waiting.swap_remove(first));
        true
    }

    /// Answers all that are due. To be called from a root's tick. Whether nobody is left to be answered.
    pub fn reply(&self, host: &dyn Host) -> bool {
        let due = self.due.try_borrow_mut().map(|mut due| std::mem::take(&mut *due)).unwrap_or_default();
        let mut refused = Vec::new();
        for mut parked in due {
            let answered = host.set_effective_context(parked.context).is_ok()
                && reply::refuse(host, &parked.policy, &Refusal::plain(parked.reason, parked.grpc));
            parked.tries = parked.tries.saturating_add(1);
            if !answered && parked.tries < MAX_TRIES {
                refused.push(parked);
            }
        }
        let done = refused.is_empty();
        if let Ok(mut due) = self.due.try_borrow_mut() {
            due.extend(refused);
        }
        done
    }
}
