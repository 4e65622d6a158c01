//! The two clocks of the process. They stand still until a test moves them.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// 2026-01-01T00:00:00Z, where wall time begins.
pub(crate) const WALL_START: Duration = Duration::from_secs(1_767_225_600);

/// An hour: where monotonic time begins, so that a zero is never mistaken for a time.
pub(crate) const MONOTONIC_START: Duration = Duration::from_secs(3600);

pub(crate) struct Clock {
    wall_ns: AtomicU64,
    monotonic_ns: AtomicU64,
}

impl Default for Clock {
    fn default() -> Self {
        Self { wall_ns: AtomicU64::new(nanos(WALL_START)), monotonic_ns: AtomicU64::new(nanos(MONOTONIC_START)) }
    }
}

impl Clock {
    pub(crate) fn wall_ns(&self) -> u64 {
        self.wall_ns.load(SeqCst)
    }

    pub(crate) fn monotonic_ns(&self) -> u64 {
        self.monotonic_ns.load(SeqCst)
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.wall_ns.fetch_add(nanos(by), SeqCst);
        self.monotonic_ns.fetch_add(nanos(by), SeqCst);
    }

    pub(crate) fn set_wall(&self, since_epoch: Duration) {
        self.wall_ns.store(nanos(since_epoch), SeqCst);
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
