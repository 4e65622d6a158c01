//! Host calls about the process: shared data, metrics, log, clocks, ticks.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use wasmi::{Caller, Error as WasmiError, Linker};

use super::{Call, ENV, WASI};
use crate::abi::{LogLevel, MetricKind, Status};
use crate::context::VmState;
use crate::host::LogLine;

pub(super) const ENV_NAMES: [&str; 12] = [
    "proxy_get_shared_data",
    "proxy_set_shared_data",
    "proxy_define_metric",
    "proxy_increment_metric",
    "proxy_record_metric",
    "proxy_get_metric",
    "proxy_log",
    "proxy_get_log_level",
    "proxy_get_current_time_nanoseconds",
    "proxy_set_tick_period_milliseconds",
    "proxy_call_foreign_function",
    "proxy_done",
];

pub(super) const WASI_NAMES: [&str; 1] = ["clock_time_get"];

/// WASI's error for a clock that is not there.
const ENOTSUP: u32 = 58;
/// WASI's error for memory that is not there.
const EFAULT: u32 = 21;

type Vm<'a> = Caller<'a, VmState>;

pub(super) fn define(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    define_shared_data(linker)?;
    define_metrics(linker)?;
    define_log_and_time(linker)
}

fn define_shared_data(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_get_shared_data";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, key: u32, key_len: u32, to: u32, to_len: u32, to_cas: u32| {
        give_way(&vm);
        Call::run(vm, name, |call| {
            let key = call.read(key, key_len)?;
            call.about(String::from_utf8_lossy(&key));
            let state = call.state();
            let (value, cas) = state.host.inner().shared.get(&state.vm_id, &key).ok_or(Status::NotFound)?;
            call.return_bytes(&value, to, to_len)?;
            call.write(to_cas, &cas.to_le_bytes())
        })
    })?;
    let name = "proxy_set_shared_data";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, key: u32, key_len: u32, value: u32, value_len: u32, cas: u32| {
        give_way(&vm);
        Call::run(vm, name, |call| {
            let (key, value) = (call.read(key, key_len)?, call.read(value, value_len)?);
            call.about(String::from_utf8_lossy(&key));
            let state = call.state();
            match state.host.inner().shared.set(&state.vm_id, &key, &value, cas) {
                Status::Ok => Ok(()),
                refused => Err(refused),
            }
        })
    })?;
    Ok(())
}

/// Lets another VM's thread in, where a test wants much contention.
fn give_way(vm: &Vm<'_>) {
    if vm.data().host.inner().yielding.load(Relaxed) {
        std::thread::yield_now();
    }
}

fn define_metrics(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_define_metric";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, kind: u32, metric: u32, len: u32, to: u32| {
        Call::run(vm, name, |call| {
            let metric = call.text(metric, len)?;
            call.about(&metric);
            let kind = MetricKind::from_abi(kind).ok_or(Status::BadArgument)?;
            let state = call.state();
            let cell = state.host.inner().metrics.define(kind, &metric);
            let id = state.metrics.add(kind, cell);
            call.write(to, &id.to_le_bytes())
        })
    })?;
    let name = "proxy_increment_metric";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, id: u32, offset: i64| {
        Call::run(vm, name, |call| {
            name_metric(call, id);
            call.state().metrics.increment(id, offset)
        })
    })?;
    let name = "proxy_record_metric";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, id: u32, value: u64| {
        Call::run(vm, name, |call| {
            name_metric(call, id);
            call.state().metrics.record(id, value)
        })
    })?;
    let name = "proxy_get_metric";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, id: u32, to: u32| {
        Call::run(vm, name, |call| {
            name_metric(call, id);
            let value = call.state().metrics.get(id)?;
            call.write(to, &value.to_le_bytes())
        })
    })?;
    Ok(())
}

fn name_metric(call: &mut Call<'_>, id: u32) {
    let name = call.state().metrics.name(id);
    call.about(name);
}

fn define_log_and_time(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_log";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, level: u32, message: u32, len: u32| {
        Call::run(vm, name, |call| {
            let level = LogLevel::from_abi(level).ok_or(Status::BadArgument)?;
            let message = call.text(message, len)?;
            let state = call.state();
            state.current.log.push(format!("{level:?}: {message}"));
            state.host.log(LogLine { vm: state.number, context: state.active_id(), level, message });
            Ok(())
        })
    })?;
    let name = "proxy_get_log_level";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, to: u32| {
        Call::run(vm, name, |call| {
            let level = call.state().host.inner().log_level.load(Relaxed);
            call.write(to, &level.to_le_bytes())
        })
    })?;
    let name = "proxy_get_current_time_nanoseconds";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, to: u32| {
        Call::run(vm, name, |call| {
            let now = call.state().host.inner().clock.wall_ns();
            call.write(to, &now.to_le_bytes())
        })
    })?;
    let name = "clock_time_get";
    linker.func_wrap(WASI, name, move |vm: Vm<'_>, id: u32, _precision: u64, to: u32| {
        // WASI has errors of its own, which are no statuses of the ABI.
        let mut errno = 0;
        let status = Call::run(vm, name, |call| {
            let clock = &call.state().host.inner().clock;
            let now = match id {
                0 => clock.wall_ns(),
                1 => clock.monotonic_ns(),
                _ => {
                    errno = ENOTSUP;
                    return Err(Status::BadArgument);
                }
            };
            call.write(to, &now.to_le_bytes()).inspect_err(|_| errno = EFAULT)
        })?;
        Ok::<u32, WasmiError>(if errno == 0 { status } else { errno })
    })?;
    let name = "proxy_set_tick_period_milliseconds";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, period: u32| {
        Call::run(vm, name, |call| {
            call.about(period.to_string());
            let period = Duration::from_millis(period.into());
            let state = call.state();
            let next = state.host.inner().monotonic_after(period);
            let root = state.active_root().ok_or(Status::BadArgument)?;
            root.tick_period = period;
            root.next_tick_ns = (!period.is_zero()).then_some(next);
            Ok(())
        })
    })?;
    let name = "proxy_call_foreign_function";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, function: u32, len: u32, _: u32, _: u32, _: u32, _: u32| {
        Call::run(vm, name, |call| {
            let function = call.text(function, len)?;
            call.about(function);
            Err(Status::NotFound)
        })
    })?;
    let name = "proxy_done";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>| {
        Call::run(vm, name, |call| {
            let root = call.state().active_root().ok_or(Status::NotFound)?;
            root.done = true;
            Ok(())
        })
    })?;
    Ok(())
}
