//! A root: one plugin configuration in one VM.

use super::served::Served;
use super::vm::{TICK_MILLIS, Vm};
use crate::config::Config;
use crate::host::LogLevel;
use crate::policy::Mode;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// `xds.listener_direction`: a listener that stands before the service itself.
const INBOUND: u8 = 1;

pub struct Root {
    pub vm: Rc<Vm>,
    pub config: Config,
    plugin: Rc<str>,
    served: RefCell<HashMap<Vec<u8>, Rc<Served>>>,
    inbound: Cell<Option<bool>>,
    pub unlinked: Cell<Unlinked>,
    /// Milliseconds between two ticks, as last set.
    period: Cell<u32>,
}

/// Short enough to answer a parked attempt within 20 ms.
const HASTENED_MILLIS: u32 = 5;

/// What a stream of this root is that no placement before it has linked. The proxy runs placements of equal
/// configuration as one root, so it is learnt from the streams; knowing it spares the success path a host call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unlinked {
    #[default]
    Unknown,
    /// Only first attempts have been seen: nobody stands before this placement.
    FirstAttempts,
    /// A listener's, before the service itself: there nobody mirrors requests past it.
    Inbound,
    /// Listener streams were seen, or a first attempt turned out to be one: each has to be asked.
    Mixed,
}

impl Root {
    /// Reads the configuration at hand, of so many bytes. `None`, and every error in the log, when it is refused.
    pub fn configure(vm: &Rc<Vm>, size: usize) -> Option<Rc<Self>> {
        let host = vm.host();
        // Unreadable is not empty: defaults would then replace what the operator wrote.
        let bytes = if size == 0 { Vec::new() } else { host.plugin_configuration(size).ok()? };
        let config = match Config::parse(&bytes) {
            Ok(config) => config,
            Err(errors) => {
                for error in errors.iter() {
                    host.log(LogLevel::Error, &format!("invalid configuration: {error}"));
                }
                return None;
            }
        };
        let name = host.property("plugin_name").ok().flatten().unwrap_or_default();
        super::announce::announce(host, &config.describe());
        let plugin = Rc::from(String::from_utf8_lossy(&name));
        vm.reconfigured(&plugin, |upstream| config.policy_for(upstream));
        let _ = host.set_tick_period(TICK_MILLIS);
        Some(Rc::new(Self {
            vm: Rc::clone(vm),
            config,
            plugin,
            served: RefCell::new(HashMap::new()),
            inbound: Cell::new(None),
            unlinked: Cell::default(),
            period: Cell::new(TICK_MILLIS),
        }))
    }

    pub fn tick(&self) {
        let answered = self.vm.parked.reply(self.vm.host());
        let due_in = self.vm.refresh();
        // A hastened tick goes back to its pace, by a last shorter one, so that the gauges are not late for it.
        let next = match (answered, self.period.get()) {
            (false, _) => HASTENED_MILLIS,
            (true, TICK_MILLIS) => TICK_MILLIS,
            (true, _) => due_in,
        };
        self.tick_every(next);
    }

    /// Something is to be done from a tick, soon.
    pub fn hasten(&self) {
        self.tick_every(HASTENED_MILLIS);
    }

    fn tick_every(&self, millis: u32) {
        if self.period.get() != millis && self.vm.host.set_tick_period(millis).is_ok() {
            self.period.set(millis);
        }
    }

    /// The upstream of the stream at hand, unless it has none (no route, a redirect) or the mode is `off`.
    pub fn served(&self) -> Option<Rc<Served>> {
        let cluster = self.vm.host.property("xds\0cluster_name").ok().flatten().filter(|name| !name.is_empty())?;
        let served = self.served_as(&cluster)?;
        if served.policy.mode == Mode::Off {
            return None;
        }
        served.upstream.used_by(&self.plugin, &served.policy);
        Some(served)
    }

    fn served_as(&self, cluster: &[u8]) -> Option<Rc<Served>> {
        let mut all = self.served.try_borrow_mut().ok()?;
        if let Some(known) = all.get(cluster) {
            return Some(Rc::clone(known));
        }
        let upstream = self.vm.upstream(cluster)?;
        // Under the name that the VM counts it by: the table stays as bounded as the VM's.
        let policy = self.config.policy_for(cluster);
        let served = Rc::new(Served { upstream, policy });
        if served.upstream.name == cluster {
            all.insert(cluster.to_vec(), Rc::clone(&served));
        }
        Some(served)
    }

    /// Whether this plugin stands in an inbound listener. The same for all streams of a root: the proxy keeps plugins
    /// of different directions apart.
    pub fn is_inbound(&self) -> bool {
        if let Some(known) = self.inbound.get() {
            return known;
        }
        let direction = self.vm.host.property("xds\0listener_direction").ok().flatten();
        let inbound = direction.is_some_and(|d| d.first() == Some(&INBOUND));
        self.inbound.set(Some(inbound));
        inbound
    }
}
