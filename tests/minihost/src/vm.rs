//! One instance of the module, as one worker thread has it.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmi::{Instance, Store, Val};

use crate::calls::Calls;
use crate::context::{Context, Current, RootContext, VmState};
use crate::error::{Error, Result, Trap};
use crate::host::{Host, VM_ID};
use crate::imports;
use crate::metrics::MetricIds;
use crate::root::Root;

/// One instance of the module. Clones are the same instance; calls into it come one at a time. For true parallelism
/// give each thread a `Vm` of its own, over one [`Host`].
#[derive(Clone)]
pub struct Vm(Arc<Mutex<Instanced>>);

pub(crate) struct Instanced {
    store: Store<VmState>,
    instance: Instance,
    next_context: u32,
    dead: Option<String>,
}

impl Vm {
    /// Starts an instance: `_initialize` or `_start`, where the module has one.
    pub fn new(host: &Host) -> Result<Self> {
        Self::with_id(host, VM_ID)
    }

    /// The same under another `vm_id`, which has shared data of its own; Istio sets none, which is the empty one.
    pub fn with_id(host: &Host, vm_id: &str) -> Result<Self> {
        let file = &host.inner().file;
        let number = host.inner().vms.fetch_add(1, Relaxed);
        let state = VmState {
            host: host.clone(),
            vm_id: vm_id.to_owned(),
            number,
            memory: None,
            allocate: None,
            contexts: HashMap::new(),
            metrics: MetricIds::default(),
            current: Current::default(),
            calls: Calls::default(),
            list_calls: true,
        };
        let mut store = Store::new(&file.engine, state);
        let load = |error: wasmi::Error| Error::Load(error.to_string());
        let instance = imports::linker(file)
            .and_then(|linker| linker.instantiate_and_start(&mut store, &file.module))
            .map_err(load)?;
        let abi = ["proxy_abi_version_0_2_0", "proxy_abi_version_0_2_1"];
        if !abi.iter().any(|version| instance.get_func(&store, version).is_some()) {
            return Err(Error::Load(format!("it exports neither {} nor {}", abi[0], abi[1])));
        }
        let allocate = ["proxy_on_memory_allocate", "malloc"];
        let allocate = allocate.iter().find_map(|name| instance.get_typed_func::<u32, u32>(&store, name).ok());
        store.data_mut().memory = instance.get_memory(&store, "memory");
        store.data_mut().allocate = allocate;
        let mut vm = Instanced { store, instance, next_context: 1, dead: None };
        match vm.exports("_initialize") {
            true => vm.call("_initialize", 0, &[])?,
            false => vm.call("_start", 0, &[])?,
        };
        Ok(Self(Arc::new(Mutex::new(vm))))
    }

    /// Makes a root context for a plugin and configures it: `proxy_on_context_create`, `proxy_on_vm_start`,
    /// `proxy_on_configure`. A changed configuration is a new root beside the old one, as in Envoy, which then shuts
    /// the old one down.
    pub fn configure(&self, root_id: &str, plugin_name: &str, configuration: impl AsRef<[u8]>) -> Result<Root> {
        let configuration = configuration.as_ref().to_vec();
        let mut vm = self.lock();
        let size = configuration.len() as u32;
        let id = vm.add_context(Context::Root(RootContext {
            root_id: root_id.to_owned(),
            plugin_name: plugin_name.to_owned(),
            configuration,
            tick_period: Duration::ZERO,
            next_tick_ns: None,
            done: false,
        }));
        vm.call("proxy_on_context_create", id, &[id, 0])?;
        // Without the callback the answer is yes.
        for (callback, size) in [("proxy_on_vm_start", 0), ("proxy_on_configure", size)] {
            if vm.call(callback, id, &[id, size])? == Some(0) {
                return Err(Error::Refused { callback, log: vm.state().current.log.clone() });
            }
        }
        Ok(Root { vm: self.clone(), id })
    }

    /// All host calls since the instance started or since [`take_calls`](Self::take_calls).
    pub fn calls(&self) -> Calls {
        self.lock().state().calls.clone()
    }

    /// The same, and starts over.
    pub fn take_calls(&self) -> Calls {
        std::mem::take(&mut self.lock().state().calls)
    }

    /// The host calls of the latest callback.
    pub fn last_calls(&self) -> Calls {
        self.lock().state().current.calls.clone()
    }

    /// Whether the record lists every call (as it does at first) or only counts: for long runs.
    pub fn list_calls(&self, on: bool) {
        self.lock().state().list_calls = on;
    }

    /// Lets time pass on both clocks of the process and runs this VM's ticks when they are due, in order.
    pub fn run_for(&self, time: Duration) -> Result<()> {
        let host = self.lock().state().host.clone();
        let end = host.inner().monotonic_after(time);
        loop {
            let due = self.lock().next_tick().filter(|(at, _)| *at <= end);
            let now = host.inner().clock.monotonic_ns();
            let until = due.map_or(end, |(at, _)| at);
            host.advance(Duration::from_nanos(until.saturating_sub(now)));
            match due {
                Some((_, root)) => self.tick(root)?,
                None => return Ok(()),
            }
        }
    }

    /// Runs one tick, after which the next is a period away.
    pub(crate) fn tick(&self, root: u32) -> Result<()> {
        let mut vm = self.lock();
        let now = vm.state().host.inner().clock.monotonic_ns();
        if let Some(root) = vm.state().root(root).filter(|root| !root.tick_period.is_zero()) {
            root.next_tick_ns = Some(now + crate::clock::nanos(root.tick_period));
        }
        vm.call("proxy_on_tick", root, &[root]).map(drop)
    }

    /// Whether a trap has killed the instance.
    pub fn is_dead(&self) -> bool {
        self.lock().dead.is_some()
    }

    /// Bytes of linear memory, to see leaks.
    pub fn memory_size(&self) -> usize {
        let vm = self.lock();
        vm.store.data().memory.map_or(0, |memory| memory.data_size(&vm.store))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Instanced> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Instanced {
    pub(crate) fn state(&mut self) -> &mut VmState {
        self.store.data_mut()
    }

    /// Whether the module has a function.
    pub(crate) fn exports(&self, function: &str) -> bool {
        self.instance.get_func(&self.store, function).is_some()
    }

    pub(crate) fn add_context(&mut self, context: Context) -> u32 {
        let id = self.next_context;
        self.next_context += 1;
        self.state().contexts.insert(id, context);
        id
    }

    /// Time and root of the tick that is due first.
    fn next_tick(&mut self) -> Option<(u64, u32)> {
        let ticks = self.state().contexts.iter().filter_map(|(id, context)| match context {
            Context::Root(root) => root.next_tick_ns.map(|at| (at, *id)),
            Context::Http(_) => None,
        });
        ticks.min()
    }

    /// Enters the module. `None` where it has no such function or that returns nothing.
    pub(crate) fn call(&mut self, callback: &'static str, context: u32, args: &[u32]) -> Result<Option<u32>> {
        if let Some(why) = &self.dead {
            return Err(Error::Dead(format!("{callback} in a VM that is dead: {why}")));
        }
        if context != 0 && !self.state().contexts.contains_key(&context) {
            return Err(Error::Dead(format!("{callback} of context {context}, which is gone")));
        }
        self.state().current = Current { callback, context, ..Current::default() };
        let Some(function) = self.instance.get_func(&self.store, callback) else { return Ok(None) };
        let args: Vec<Val> = args.iter().map(|arg| Val::I32(arg.cast_signed())).collect();
        let mut results = vec![Val::I32(0); function.ty(&self.store).results().len()];
        let outcome = function.call(&mut self.store, &args, &mut results);
        let current = &mut self.store.data_mut().current;
        if let Err(cause) = outcome {
            self.dead = Some(format!("{callback} of context {context} trapped"));
            return Err(Error::Trap(Box::new(Trap {
                callback,
                context,
                cause: cause.to_string(),
                calls: current.calls.list.iter().map(ToString::to_string).collect(),
                log: current.log.clone(),
            })));
        }
        if let Some(what) = current.crash.take() {
            self.dead = Some(what.clone());
            return Err(Error::HostCrash { callback, what });
        }
        Ok(match results.first() {
            Some(Val::I32(result)) => Some(result.cast_unsigned()),
            _ => None,
        })
    }
}
