//! What all roots and streams of one VM (one worker thread) share.

use super::logical::Registry;
use super::parked::ParkedReplies;
use super::served::Upstream;
use crate::host::Host;
use crate::metrics::{self, Metric};
use crate::policy::Policy;
use crate::policy::bucket::Instant;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// Upstreams that have records and series of their own; all later ones share one. Clusters come from the control
/// plane, but some kinds (dynamic forward proxy) grow with what clients ask for.
const MAX_UPSTREAMS: usize = 4096;
const OTHER: &[u8] = b"(other)";

/// Gauges are at most a second behind.
pub const TICK_MILLIS: u32 = 1000;
/// A tick may come a little early.
const REFRESH_MILLIS: u64 = 900;
/// Observations that wait for the tick at most.
const MAX_NOTED: usize = 1024;

pub struct Vm {
    pub host: Box<dyn Host>,
    pub registry: Rc<Registry>,
    pub parked: ParkedReplies,
    upstreams: RefCell<HashMap<Vec<u8>, Rc<Upstream>>>,
    refreshed: Cell<u64>,
    malformed: RefCell<HashMap<String, Metric>>,
    remaining: Metric,
    /// Observed since the last tick: recording them there spares the requests a call.
    remaining_ms: RefCell<Vec<u64>>,
}

impl Vm {
    pub fn new(host: Box<dyn Host>) -> Self {
        // Ids must differ from those of a VM that was here before: requests outlive a reload.
        let first_id = host.monotonic().unwrap_or(0);
        Self {
            host,
            registry: Rc::new(Registry::new(first_id)),
            parked: ParkedReplies::default(),
            upstreams: RefCell::new(HashMap::new()),
            refreshed: Cell::new(0),
            malformed: RefCell::new(HashMap::new()),
            remaining: metrics::deadline_remaining(),
            remaining_ms: RefCell::new(Vec::new()),
        }
    }

    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    pub fn upstream(&self, name: &[u8]) -> Option<Rc<Upstream>> {
        let mut all = self.upstreams.try_borrow_mut().ok()?;
        if let Some(known) = all.get(name) {
            return Some(Rc::clone(known));
        }
        let name = if all.len() < MAX_UPSTREAMS { name } else { OTHER };
        Some(Rc::clone(all.entry(name.to_vec()).or_insert_with(|| Rc::new(Upstream::new(name)))))
    }

    /// A value of this header could not be read. It is one of those that the configuration or the filter names, not a
    /// sender's.
    pub fn count_malformed(&self, header: &str) {
        if let Ok(mut all) = self.malformed.try_borrow_mut() {
            all.entry(header.to_owned()).or_insert_with(|| metrics::malformed(header)).add(self.host(), 1);
        }
    }

    /// A request came with so much time left.
    pub fn note_remaining(&self, millis: u64) {
        let full = match self.remaining_ms.try_borrow_mut() {
            Ok(mut noted) => {
                noted.push(millis);
                noted.len() >= MAX_NOTED
            }
            Err(_) => false,
        };
        if full {
            self.record_remaining();
        }
    }

    fn record_remaining(&self) {
        let noted = self.remaining_ms.try_borrow_mut().map(|mut noted| std::mem::take(&mut *noted)).unwrap_or_default();
        for millis in noted {
            self.remaining.set(self.host(), millis);
        }
    }

    /// A plugin has a new configuration: upstreams that it serves follow it at once, idle ones too.
    pub fn reconfigured(&self, plugin: &Rc<str>, policy_for: impl Fn(&[u8]) -> Rc<Policy>) {
        let Ok(all) = self.upstreams.try_borrow() else { return };
        for upstream in all.values() {
            let mine = upstream.latest.try_borrow().is_ok_and(|l| l.as_ref().is_some_and(|(name, _)| name == plugin));
            if mine {
                let policy = policy_for(&upstream.name);
                upstream.used_by(plugin, &policy);
                // A lower cap cuts the balance now, not when somebody calls; time counts by the new terms from here.
                let _ = upstream.account(policy.mode).look(self.host(), &policy.budget);
            }
        }
        self.refreshed.set(0);
    }

    /// Brings the gauges up to date, about once a second however often it is called. Returns the milliseconds until the
    /// next time.
    pub fn refresh(&self) -> u32 {
        let Ok(now) = self.host.monotonic() else { return TICK_MILLIS };
        let passed = Instant(now).millis_from(Instant(self.refreshed.get()));
        if passed < REFRESH_MILLIS {
            let left = u64::from(TICK_MILLIS).saturating_sub(passed).max(1);
            return u32::try_from(left).unwrap_or(TICK_MILLIS);
        }
        self.refreshed.set(now);
        self.record_remaining();
        if let Ok(all) = self.upstreams.try_borrow() {
            for upstream in all.values() {
                if let Ok(latest) = upstream.latest.try_borrow()
                    && let Some((_, policy)) = latest.as_ref()
                {
                    upstream.refresh(self.host(), policy);
                }
            }
        }
        TICK_MILLIS
    }
}
