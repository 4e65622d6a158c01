//! The proxy-wasm imports, called directly: the SDK's own wrappers panic on a status that they do not expect, and a
//! panic kills a worker's VM for every stream in it. The only file with unsafe code.

#![allow(unsafe_code)]

use super::{Cas, ContextId, HeaderMap, Headers, Host, HostError, LocalReply, LogLevel, MetricId, MetricKind, Result};
use std::ptr::null_mut;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_log(level: u32, message: *const u8, len: usize) -> u32;
    fn proxy_get_property(path: *const u8, path_len: usize, value: *mut *mut u8, len: *mut usize) -> u32;
    fn proxy_set_property(path: *const u8, path_len: usize, value: *const u8, len: usize) -> u32;
    fn proxy_get_header_map_value(
        map: u32,
        name: *const u8,
        name_len: usize,
        value: *mut *mut u8,
        len: *mut usize,
    ) -> u32;
    fn proxy_get_header_map_pairs(map: u32, value: *mut *mut u8, len: *mut usize) -> u32;
    fn proxy_replace_header_map_value(map: u32, name: *const u8, name_len: usize, value: *const u8, len: usize) -> u32;
    fn proxy_remove_header_map_value(map: u32, name: *const u8, name_len: usize) -> u32;
    fn proxy_get_shared_data(
        key: *const u8,
        key_len: usize,
        value: *mut *mut u8,
        len: *mut usize,
        cas: *mut u32,
    ) -> u32;
    fn proxy_set_shared_data(key: *const u8, key_len: usize, value: *const u8, len: usize, cas: u32) -> u32;
    fn proxy_define_metric(kind: u32, name: *const u8, len: usize, id: *mut u32) -> u32;
    fn proxy_increment_metric(id: u32, by: i64) -> u32;
    fn proxy_record_metric(id: u32, value: u64) -> u32;
    fn proxy_get_metric(id: u32, value: *mut u64) -> u32;
    fn proxy_send_local_response(
        status: u32,
        details: *const u8,
        details_len: usize,
        body: *const u8,
        body_len: usize,
        headers: *const u8,
        headers_len: usize,
        grpc_status: i32,
    ) -> u32;
    fn proxy_set_effective_context(id: u32) -> u32;
    fn proxy_set_tick_period_milliseconds(period: u32) -> u32;
    fn proxy_get_current_time_nanoseconds(time: *mut u64) -> u32;
    fn proxy_get_buffer_bytes(buffer: u32, start: usize, max: usize, data: *mut *mut u8, len: *mut usize) -> u32;
}

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn clock_time_get(clock: u32, precision: u64, time: *mut u64) -> u32;
}

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const CAS_MISMATCH: u32 = 8;
const BUFFER_PLUGIN_CONFIGURATION: u32 = 7;
const CLOCK_MONOTONIC: u32 = 1;

/// The proxy that this module runs in.
pub struct ProxyWasm;

/// A call that answers with bytes, which the host has put into memory that it asked this module for.
fn bytes(call: &'static str, f: impl FnOnce(*mut *mut u8, *mut usize) -> u32) -> Result<Option<Vec<u8>>> {
    let (mut data, mut len) = (null_mut(), 0);
    match f(&mut data, &mut len) {
        OK if data.is_null() || len == 0 => Ok(Some(Vec::new())),
        // SAFETY: the host filled `len` bytes that `proxy_on_memory_allocate` of the SDK allocated as a boxed slice
        // of exactly that length with the global allocator, and hands them over.
        OK => Ok(Some(unsafe { Vec::from_raw_parts(data, len, len) })),
        NOT_FOUND => Ok(None),
        status => Err(HostError { call, status }),
    }
}

fn done(call: &'static str, status: u32) -> Result<()> {
    if status == OK { Ok(()) } else { Err(HostError { call, status }) }
}

// SAFETY (all calls below): the host reads `len` bytes at each pointer and writes to the given addresses before it
// returns; both are borrowed for the call, and none is kept.
impl Host for ProxyWasm {
    fn property(&self, path: &str) -> Result<Option<Vec<u8>>> {
        bytes("get_property", |data, len| unsafe { proxy_get_property(path.as_ptr(), path.len(), data, len) })
    }

    fn set_property(&self, path: &str, value: &[u8]) -> Result<()> {
        done("set_property", unsafe { proxy_set_property(path.as_ptr(), path.len(), value.as_ptr(), value.len()) })
    }

    fn header(&self, map: HeaderMap, name: &str) -> Result<Option<Vec<u8>>> {
        bytes("get_header", |data, len| unsafe {
            proxy_get_header_map_value(map as u32, name.as_ptr(), name.len(), data, len)
        })
    }

    fn headers(&self, map: HeaderMap) -> Result<Headers> {
        let all = bytes("get_headers", |data, len| unsafe { proxy_get_header_map_pairs(map as u32, data, len) })?;
        Ok(Headers::new(all.unwrap_or_default()))
    }

    fn set_header(&self, map: HeaderMap, name: &str, value: &str) -> Result<()> {
        done("set_header", unsafe {
            proxy_replace_header_map_value(map as u32, name.as_ptr(), name.len(), value.as_ptr(), value.len())
        })
    }

    fn remove_header(&self, map: HeaderMap, name: &str) -> Result<()> {
        match unsafe { proxy_remove_header_map_value(map as u32, name.as_ptr(), name.len()) } {
            NOT_FOUND => Ok(()),
            status => done("remove_header", status),
        }
    }

    fn shared(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Cas)>> {
        let mut cas = 0;
        let value = bytes("get_shared_data", |data, len| unsafe {
            proxy_get_shared_data(key.as_ptr(), key.len(), data, len, &mut cas)
        })?;
        Ok(value.map(|value| (value, Cas(cas))))
    }

    fn set_shared(&self, key: &[u8], value: &[u8], cas: Cas) -> Result<bool> {
        match unsafe { proxy_set_shared_data(key.as_ptr(), key.len(), value.as_ptr(), value.len(), cas.0) } {
            CAS_MISMATCH => Ok(false),
            status => done("set_shared_data", status).map(|()| true),
        }
    }

    fn define_metric(&self, kind: MetricKind, name: &[u8]) -> Result<MetricId> {
        let mut id = 0;
        done("define_metric", unsafe { proxy_define_metric(kind as u32, name.as_ptr(), name.len(), &mut id) })?;
        Ok(MetricId(id))
    }

    fn increment(&self, counter: MetricId, by: i64) -> Result<()> {
        done("increment_metric", unsafe { proxy_increment_metric(counter.0, by) })
    }

    fn record(&self, gauge: MetricId, value: u64) -> Result<()> {
        done("record_metric", unsafe { proxy_record_metric(gauge.0, value) })
    }

    fn metric(&self, id: MetricId) -> Result<u64> {
        let mut value = 0;
        done("get_metric", unsafe { proxy_get_metric(id.0, &mut value) })?;
        Ok(value)
    }

    fn reply(&self, reply: &LocalReply<'_>) -> Result<()> {
        let headers = serialise(reply.headers);
        done("send_local_response", unsafe {
            proxy_send_local_response(
                u32::from(reply.status),
                reply.details.as_ptr(),
                reply.details.len(),
                reply.body.as_ptr(),
                reply.body.len(),
                headers.as_ptr(),
                headers.len(),
                i32::from(reply.grpc_status),
            )
        })
    }

    fn set_effective_context(&self, id: ContextId) -> Result<()> {
        done("set_effective_context", unsafe { proxy_set_effective_context(id.0) })
    }

    fn set_tick_period(&self, millis: u32) -> Result<()> {
        done("set_tick_period", unsafe { proxy_set_tick_period_milliseconds(millis) })
    }

    fn monotonic(&self) -> Result<u64> {
        let mut now = 0;
        done("clock_time_get", unsafe { clock_time_get(CLOCK_MONOTONIC, 0, &mut now) })?;
        Ok(now)
    }

    fn wall_clock(&self) -> Result<u64> {
        let mut now = 0;
        done("get_current_time", unsafe { proxy_get_current_time_nanoseconds(&mut now) })?;
        Ok(now)
    }

    fn plugin_configuration(&self, len: usize) -> Result<Vec<u8>> {
        let call = "get_plugin_configuration";
        let all =
            bytes(call, |data, got| unsafe { proxy_get_buffer_bytes(BUFFER_PLUGIN_CONFIGURATION, 0, len, data, got) })?;
        all.ok_or(HostError { call, status: NOT_FOUND })
    }

    fn log(&self, level: LogLevel, message: &str) {
        // Nobody is left to tell where even the log refuses.
        let _ = unsafe { proxy_log(level as u32, message.as_ptr(), message.len()) };
    }
}

fn serialise(headers: &[(&str, &str)]) -> Vec<u8> {
    let word = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_le_bytes();
    let mut bytes = word(headers.len()).to_vec();
    for (name, value) in headers {
        bytes.extend(word(name.len()));
        bytes.extend(word(value.len()));
    }
    for field in headers.iter().flat_map(|(name, value)| [name, value]) {
        bytes.extend_from_slice(field.as_bytes());
        bytes.push(0);
    }
    bytes
}
