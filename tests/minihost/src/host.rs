//! What all VMs of a process share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::abi::{LogLevel, MetricKind, Status};
use crate::clock::{Clock, nanos};
use crate::error::Result;
use crate::faults::{Faults, When};
use crate::metrics::{Metrics, split_name};
use crate::module::ModuleFile;
use crate::shared_data::SharedData;

/// The `vm_id` of [`Vm::new`](crate::Vm::new); it names the shared data that the accessors of [`Host`] speak of.
pub const VM_ID: &str = "retry_budget";

/// In place of a function's name: every function.
pub const ALL: &str = "*";

type Hook = Box<dyn FnMut(&Host) + Send>;

/// One process: the module, shared data, metrics, log, clocks and faults. Clones are the same process.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) file: ModuleFile,
    pub(crate) shared: SharedData,
    pub(crate) metrics: Metrics,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) log_level: AtomicU32,
    pub(crate) yielding: AtomicBool,
    pub(crate) vms: AtomicU32,
    logs: Mutex<Vec<LogLine>>,
    hooks: Mutex<HashMap<String, Hook>>,
    hooked: AtomicBool,
}

/// A line that a module logged, whatever the log level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Number of the VM, in the order of their making.
    pub vm: u32,
    pub context: u32,
    pub level: LogLevel,
    pub message: String,
}

impl Host {
    /// A process that runs the built module; see [`module_path`](crate::module_path).
    pub fn new() -> Result<Self> {
        ModuleFile::built().map(Self::of)
    }

    /// A process that runs another module.
    pub fn with_module(wasm: &[u8]) -> Result<Self> {
        ModuleFile::compile(wasm).map(Self::of)
    }

    fn of(file: ModuleFile) -> Self {
        Self(Arc::new(Inner {
            file,
            shared: SharedData::default(),
            metrics: Metrics::default(),
            clock: Clock::default(),
            faults: Faults::default(),
            log_level: AtomicU32::new(LogLevel::Info as u32),
            yielding: AtomicBool::new(false),
            vms: AtomicU32::new(0),
            logs: Mutex::default(),
            hooks: Mutex::default(),
            hooked: AtomicBool::new(false),
        }))
    }

    /// What the module imports, as `module.name`.
    pub fn imports(&self) -> Vec<String> {
        self.0.file.imports()
    }

    /// The module's size in bytes.
    pub fn size(&self) -> usize {
        self.0.file.size
    }

    // Shared data.

    /// A key's value and cas.
    pub fn shared_data(&self, key: impl AsRef<[u8]>) -> Option<(Vec<u8>, u32)> {
        self.0.shared.get(VM_ID, key.as_ref())
    }

    /// Writes a key as a module would; cas 0 overwrites.
    pub fn set_shared_data(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, cas: u32) -> Status {
        self.0.shared.set(VM_ID, key.as_ref(), value.as_ref(), cas)
    }

    /// Every key there is, sorted.
    pub fn shared_keys(&self) -> Vec<String> {
        let text = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        self.0.shared.keys(VM_ID).into_iter().map(text).collect()
    }

    /// Sets the cas that the next write takes, to try the counter's end.
    pub fn set_next_cas(&self, cas: u32) {
        self.0.shared.set_next_cas(cas);
    }

    /// Lets threads give way before each shared-data call, so that reads and writes of several VMs interleave often.
    pub fn interleave(&self, on: bool) {
        self.0.yielding.store(on, Relaxed);
    }

    // Metrics.

    /// A counter by its raw name; 0 where there is none.
    pub fn counter(&self, name: &str) -> u64 {
        self.0.metrics.value(MetricKind::Counter, name).unwrap_or(0)
    }

    /// A gauge by its raw name.
    pub fn gauge(&self, name: &str) -> Option<u64> {
        self.0.metrics.value(MetricKind::Gauge, name)
    }

    /// What a histogram recorded.
    pub fn histogram(&self, name: &str) -> Vec<u64> {
        self.0.metrics.recorded(name)
    }

    /// Kind, raw name and value of every metric.
    pub fn metrics(&self) -> Vec<(MetricKind, String, u64)> {
        self.0.metrics.all()
    }

    /// The sum of the counters and gauges of a name whose labels include these: raw names carry labels in front,
    /// `upstream=.=orders;.;reason=.=budget;.;retry_budget_stops_total`.
    pub fn series(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let wanted = |raw: &str| {
            let (own_name, own_labels) = split_name(raw);
            own_name == name && labels.iter().all(|label| own_labels.contains(label))
        };
        self.metrics().iter().filter(|(_, raw, _)| wanted(raw)).map(|(_, _, value)| value).sum()
    }

    /// Metrics defined from now on whose raw name it picks swallow what is written and read 0, as the stats do that
    /// a proxy's `stats_matcher` excludes.
    pub fn exclude_metrics(&self, excluded: impl Fn(&str) -> bool + Send + Sync + 'static) {
        self.0.metrics.exclude(Box::new(excluded));
    }

    // Log.

    /// What was logged so far.
    pub fn logs(&self) -> Vec<LogLine> {
        self.0.logs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The same, and forgets it.
    pub fn take_logs(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.0.logs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The level that modules are told, at first `Info`. Lines below it are kept all the same.
    pub fn set_log_level(&self, level: LogLevel) {
        self.0.log_level.store(level as u32, Relaxed);
    }

    pub(crate) fn log(&self, line: LogLine) {
        self.0.logs.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }

    // Clocks.

    /// Moves both clocks. Ticks come only where a test asks for them; see [`Vm::run_for`](crate::Vm::run_for).
    pub fn advance(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    /// Sets wall time, forwards or backwards; monotonic time stays.
    pub fn set_wall_clock(&self, since_epoch: Duration) {
        self.0.clock.set_wall(since_epoch);
    }

    /// Wall time since the epoch.
    pub fn wall_clock(&self) -> Duration {
        Duration::from_nanos(self.0.clock.wall_ns())
    }

    /// Monotonic time.
    pub fn monotonic_clock(&self) -> Duration {
        Duration::from_nanos(self.0.clock.monotonic_ns())
    }

    // Faults.

    /// Makes calls of a function, or of [`ALL`], fail with a status and without any effect.
    pub fn fail(&self, function: &str, status: Status, when: When) {
        self.0.faults.add(function, status, when);
    }

    /// Ends all faults; says how many calls failed because of them.
    pub fn clear_faults(&self) -> u64 {
        self.0.faults.clear()
    }

    /// Runs something before every call of a function, one action per function: what another worker does just then,
    /// say. It may use the host, but not the VM that is calling.
    pub fn before(&self, function: &str, action: impl FnMut(&Host) + Send + 'static) {
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).insert(function.to_owned(), Box::new(action));
        self.0.hooked.store(true, Relaxed);
    }

    /// Ends what [`before`](Self::before) began.
    pub fn clear_actions(&self) {
        self.0.hooked.store(false, Relaxed);
        self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn run_hooks(&self, function: &str) {
        if !self.0.hooked.load(Relaxed) {
            return;
        }
        let taken = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner).remove(function);
        if let Some(mut hook) = taken {
            hook(self);
            // Unless the action was replaced or ended meanwhile.
            if self.0.hooked.load(Relaxed) {
                let mut hooks = self.0.hooks.lock().unwrap_or_else(PoisonError::into_inner);
                hooks.entry(function.to_owned()).or_insert(hook);
            }
        }
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.0
    }
}

impl Inner {
    pub(crate) fn monotonic_after(&self, period: Duration) -> u64 {
        self.clock.monotonic_ns().saturating_add(nanos(period))
    }
}
