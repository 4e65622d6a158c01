//! An upstream as a worker knows it, and under one root's policy.

use crate::host::Host;
use crate::metrics::UpstreamMetrics;
use crate::policy::upstream::Record;
use crate::policy::{Mode, Policy};
use crate::store::Account;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// One upstream as this worker knows it.
pub struct Upstream {
    pub name: Vec<u8>,
    pub metrics: UpstreamMetrics,
    /// A request ended that no attempt placement has seen: nobody but the request placement is here.
    pub alone: Cell<bool>,
    enforced: Account,
    observed: Account,
    /// Who used it last: whose policy the gauges follow.
    pub latest: RefCell<Option<(Rc<str>, Rc<Policy>)>>,
}

impl Upstream {
    pub fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            metrics: UpstreamMetrics::new(name),
            alone: Cell::new(false),
            enforced: Account::new(name, false),
            observed: Account::new(name, true),
            latest: RefCell::new(None),
        }
    }

    pub fn account(&self, mode: Mode) -> &Account {
        match mode {
            Mode::Observe => &self.observed,
            Mode::Enforce | Mode::Off => &self.enforced,
        }
    }

    /// Writes what was gathered, and brings the gauges up to date.
    pub fn refresh(&self, host: &dyn Host, policy: &Policy) {
        let account = self.account(policy.mode);
        let good = account.take_good();
        if good > 0
            && let Some(breaker) = &policy.breaker
        {
            let _ = account.update(host, &policy.budget, |record, now| {
                let noted = Record { breaker: record.breaker.note(breaker, good, 0, now), ..record };
                ((noted != record).then_some(noted), ())
            });
        }
        account.refresh(host, &policy.budget);
    }

    pub fn used_by(&self, plugin: &Rc<str>, policy: &Rc<Policy>) {
        if let Ok(mut latest) = self.latest.try_borrow_mut()
            && latest.as_ref().is_none_or(|(_, known)| !Rc::ptr_eq(known, policy))
        {
            *latest = Some((Rc::clone(plugin), Rc::clone(policy)));
        }
    }
}

/// An upstream under this root's policy for it.
pub struct Served {
    pub upstream: Rc<Upstream>,
    pub policy: Rc<Policy>,
}

impl Served {
    pub fn account(&self) -> &Account {
        self.upstream.account(self.policy.mode)
    }
}
