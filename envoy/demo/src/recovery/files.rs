//! A thousand callers that wait are a thousand open sockets, in every Envoy too.

use std::sync::Once;

/// Many a shell allows a thousand at first.
const MANY: libc::rlim_t = 10_000;

/// Lifts this process's own limit, which those that it starts inherit, as far as it may.
pub fn allow_many() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the one writes the struct that it is given, the other reads it; where they fail, nothing changes.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && limit.rlim_cur < MANY {
                limit.rlim_cur = MANY.min(limit.rlim_max);
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            }
        }
    });
}
