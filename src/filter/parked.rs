//! Hedges that were refused while another attempt was in flight. A reply would kill that attempt, so they wait
//! ("parked"); when the last one in flight has ended without a response, one parked attempt is answered.
//!
//! The answer comes from the root's tick: given from the callback in which the sibling ends, it crashes Envoy.

use super::reply::{self, Refusal};
use super::vm::{TICK_MILLIS, Vm};
use crate::host::ContextId;
use crate::policy::Policy;
use crate::policy::stop::Reason;
use std::cell::RefCell;
use std::rc::Rc;

/// Short enough to answer within 20 ms.
const REPLY_TICK_MILLIS: u32 = 5;

#[derive(Clone)]
pub struct Parked {
    pub context: ContextId,
    pub logical: u64,
    pub reason: Reason,
    pub grpc: bool,
    pub policy: Rc<Policy>,
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

    /// The last attempt in flight of this request has ended without a response.
    pub fn release(&self, vm: &Vm, logical: u64) {
        let (Ok(mut waiting), Ok(mut due)) = (self.waiting.try_borrow_mut(), self.due.try_borrow_mut()) else { return };
        // One reply ends the whole request, its other parked attempts with it.
        if let Some(first) = waiting.iter().position(|p| p.logical == logical) {
            due.push(waiting.swap_remove(first));
            let _ = vm.host.set_tick_period(REPLY_TICK_MILLIS);
        }
    }

    /// Answers all that are due. To be called from a root's tick.
    pub fn reply(&self, vm: &Vm) {
        let due = self.due.try_borrow_mut().map(|mut due| std::mem::take(&mut *due)).unwrap_or_default();
        if due.is_empty() {
            return;
        }
        let _ = vm.host.set_tick_period(TICK_MILLIS);
        for parked in due {
            if vm.host.set_effective_context(parked.context).is_ok() {
                reply::refuse(vm.host(), &parked.policy, &Refusal::plain(parked.reason, parked.grpc));
            }
        }
    }
}
