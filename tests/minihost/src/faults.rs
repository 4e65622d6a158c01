//! Faults: host calls that fail because a test wants them to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::abi::Status;

/// Which of the matching calls fail, counted from the moment the fault was placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// Only the nth, counted from 1.
    Nth(u64),
    /// The nth and all after it.
    From(u64),
    /// The first n.
    First(u64),
}

impl When {
    fn hits(self, nth: u64) -> bool {
        match self {
            When::Always => true,
            When::Nth(n) => nth == n,
            When::From(n) => nth >= n,
            When::First(n) => nth <= n,
        }
    }
}

struct Fault {
    name: Option<String>,
    status: Status,
    when: When,
    seen: u64,
    hit: u64,
}

#[derive(Default)]
pub(crate) struct Faults {
    any: AtomicBool,
    faults: Mutex<Vec<Fault>>,
}

impl Faults {
    pub(crate) fn add(&self, name: &str, status: Status, when: When) {
        let name = (name != crate::ALL).then(|| name.to_owned());
        let fault = Fault { name, status, when, seen: 0, hit: 0 };
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push(fault);
        self.any.store(true, Ordering::Release);
    }

    /// Takes the faults out and says how many calls they made fail.
    pub(crate) fn clear(&self) -> u64 {
        self.any.store(false, Ordering::Release);
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).drain(..).map(|fault| fault.hit).sum()
    }

    /// The status a call must fail with, if it must.
    pub(crate) fn check(&self, name: &str) -> Option<Status> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut failing = None;
        for fault in self.faults.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
            if fault.name.as_deref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            fault.seen += 1;
            if failing.is_none() && fault.when.hits(fault.seen) {
                fault.hit += 1;
                failing = Some(fault.status);
            }
        }
        failing
    }
}
