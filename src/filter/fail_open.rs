//! A host that counts what it refuses. Whoever calls goes on as if nothing had to be done: the request proceeds.

use crate::host::{
    Cas, ContextId, HeaderMap, Headers, Host, HostError, LocalReply, LogLevel, MetricId, MetricKind, Result,
};
use crate::metrics::{HOST_ERRORS, Metric};
use std::cell::Cell;

/// So many refusals a VM are logged; all are counted.
const LOGGED: u32 = 10;

pub struct FailOpen<H> {
    inner: H,
    errors: Metric,
    seen: Cell<u32>,
}

impl<H: Host> FailOpen<H> {
    pub fn new(inner: H) -> Self {
        Self { inner, errors: Metric::counter(&[], HOST_ERRORS), seen: Cell::new(0) }
    }

    fn counted<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|HostError { call, status }| {
            let seen = self.seen.get().saturating_add(1);
            self.seen.set(seen);
            if seen <= LOGGED {
                self.inner.log(LogLevel::Warn, &format!("the proxy refused {call} with status {status}; going on"));
            }
            // Directly on the inner host: an error of the counter itself must not count itself.
            self.errors.add(&self.inner, 1);
        })
    }
}

impl<H: Host> Host for FailOpen<H> {
    fn property(&self, path: &str) -> Result<Option<Vec<u8>>> {
        self.counted(self.inner.property(path))
    }
    fn set_property(&self, path: &str, value: &[u8]) -> Result<()> {
        self.counted(self.inner.set_property(path, value))
    }
    fn header(&self, map: HeaderMap, name: &str) -> Result<Option<Vec<u8>>> {
        self.counted(self.inner.header(map, name))
    }
    fn headers(&self, map: HeaderMap) -> Result<Headers> {
        self.counted(self.inner.headers(map))
    }
    fn set_header(&self, map: HeaderMap, name: &str, value: &str) -> Result<()> {
        self.counted(self.inner.set_header(map, name, value))
    }
    fn remove_header(&self, map: HeaderMap, name: &str) -> Result<()> {
        self.counted(self.inner.remove_header(map, name))
    }
    fn shared(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Cas)>> {
        self.counted(self.inner.shared(key))
    }
    fn set_shared(&self, key: &[u8], value: &[u8], cas: Cas) -> Result<bool> {
        self.counted(self.inner.set_shared(key, value, cas))
    }
    fn define_metric(&self, kind: MetricKind, name: &[u8]) -> Result<MetricId> {
        self.counted(self.inner.define_metric(kind, name))
    }
    fn increment(&self, counter: MetricId, by: i64) -> Result<()> {
        self.counted(self.inner.increment(counter, by))
    }
    fn record(&self, gauge: MetricId, value: u64) -> Result<()> {
        self.counted(self.inner.record(gauge, value))
    }
    fn metric(&self, id: MetricId) -> Result<u64> {
        self.counted(self.inner.metric(id))
    }
    fn reply(&self, reply: &LocalReply<'_>) -> Result<()> {
        self.counted(self.inner.reply(reply))
    }
    fn set_effective_context(&self, id: ContextId) -> Result<()> {
        self.counted(self.inner.set_effective_context(id))
    }
    fn set_tick_period(&self, millis: u32) -> Result<()> {
        self.counted(self.inner.set_tick_period(millis))
    }
    fn monotonic(&self) -> Result<u64> {
        self.counted(self.inner.monotonic())
    }
    fn wall_clock(&self) -> Result<u64> {
        self.counted(self.inner.wall_clock())
    }
    fn plugin_configuration(&self, len: usize) -> Result<Vec<u8>> {
        self.counted(self.inner.plugin_configuration(len))
    }
    fn log(&self, level: LogLevel, message: &str) {
        self.inner.log(level, message);
    }
}
