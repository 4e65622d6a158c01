//! A configured plugin in one VM.

use std::time::Duration;

use crate::context::{Context, HttpContext};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::stream::Stream;
use crate::vm::Vm;

/// A root context: one plugin configuration in one VM.
#[derive(Clone)]
pub struct Root {
    pub(crate) vm: Vm,
    pub(crate) id: u32,
}

impl Root {
    /// The filter of a listener for a request.
    pub fn listener(&self, stream: &Stream) -> Result<Ctx> {
        self.stream_context(stream, 0)
    }

    /// The filter of the upstream chain for the request's `nth` attempt, counted from 1.
    pub fn attempt(&self, stream: &Stream, nth: u64) -> Result<Ctx> {
        {
            let mut state = stream.lock();
            state.attempts = state.attempts.max(nth);
        }
        self.stream_context(stream, nth)
    }

    fn stream_context(&self, stream: &Stream, attempt: u64) -> Result<Ctx> {
        let mut vm = self.vm.lock();
        let http = HttpContext::new(self.id, stream.clone());
        let id = vm.add_context(Context::Http(Box::new(http)));
        vm.call("proxy_on_context_create", id, &[id, self.id])?;
        Ok(Ctx { vm: self.vm.clone(), id, stream: stream.clone(), listener: attempt == 0 })
    }

    /// Runs `proxy_on_tick` now.
    pub fn tick(&self) -> Result<()> {
        self.vm.tick(self.id)
    }

    /// The tick period that the module asked for; `None` without one.
    pub fn tick_period(&self) -> Option<Duration> {
        let mut vm = self.vm.lock();
        let period = vm.state().root(self.id)?.tick_period;
        (!period.is_zero()).then_some(period)
    }

    /// Ends the plugin, as Envoy does with the old one after a changed configuration: `proxy_on_done`, and
    /// `proxy_on_delete` unless the module wants to finish something first. Says whether it is gone.
    pub fn shutdown(&self) -> Result<bool> {
        let mut vm = self.vm.lock();
        let ready = vm.call("proxy_on_done", self.id, &[self.id])? != Some(0);
        if ready || vm.state().root(self.id).is_some_and(|root| root.done) {
            vm.call("proxy_on_delete", self.id, &[self.id])?;
            vm.state().contexts.remove(&self.id);
            return Ok(true);
        }
        Ok(false)
    }

    /// Its context id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its VM.
    pub fn vm(&self) -> &Vm {
        &self.vm
    }
}
