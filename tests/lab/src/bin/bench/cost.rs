//! What a process has cost so far.

use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

/// The CPU time that a process has used, user and system. `None` where there is no `/proc`.
pub fn cpu_time(pid: u32) -> Result<Option<Duration>> {
    match by_threads(pid) {
        Some(nanos) => Ok(Some(Duration::from_nanos(nanos))),
        None => by_ticks(pid),
    }
}

/// To the nanosecond, where the kernel keeps such accounts. Envoy's threads live as long as it does.
fn by_threads(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let used = |thread: fs::DirEntry| -> Option<u64> {
        let account = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        account.split_whitespace().next()?.parse().ok()
    };
    threads.map(|thread| used(thread.ok()?)).sum()
}

/// In hundredths of a second.
fn by_ticks(pid: u32) -> Result<Option<Duration>> {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return Ok(None) };
    // The name, in parentheses, may hold anything: fields are counted from its end, `utime` and `stime` being the
    // 14th and 15th of all.
    let (_, fields) = stat.rsplit_once(')').context("a stat line without a name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(Some(Duration::from_secs_f64(ticks as f64 / ticks_per_second())))
}

fn ticks_per_second() -> f64 {
    // SAFETY: it takes a number and returns one.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}
