//! Name, version, commit and the effective policy in the log: once a process, not once a worker.

use crate::host::{Cas, Host, LogLevel};
use crate::store::PREFIX;
use std::hash::{DefaultHasher, Hash, Hasher};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const COMMIT: Option<&str> = option_env!("RETRY_BUDGET_COMMIT");

/// What was announced within this time is not said again: all workers start within it, an operator's change does not.
const QUIET_NANOS: u64 = 10_000_000_000;
/// As many different announcements are remembered; one is `hash u64 · time u64`.
const REMEMBERED: usize = 16;

pub fn announce(host: &dyn Host, policy: &str) {
    if first(host, "version") {
        let commit = COMMIT.unwrap_or("unknown");
        host.log(LogLevel::Info, &format!("retry-budget {VERSION} (commit {commit})"));
    }
    if first(host, policy) {
        host.log(LogLevel::Info, &format!("effective policy: {policy}"));
    }
}

/// Whether nobody in this process has said so lately. On a host error: yes.
fn first(host: &dyn Host, text: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let hash = hasher.finish();
    let key = format!("{PREFIX}announced");
    // A few tries: at worst something is said twice.
    for _ in 0..8 {
        let (Ok(now), Ok(known)) = (host.monotonic(), host.shared(key.as_bytes())) else { return true };
        let (bytes, cas) = known.unwrap_or((Vec::new(), Cas::ABSENT));
        let (entries, _) = bytes.as_chunks::<16>();
        let recent = |entry: &[u8; 16]| now.saturating_sub(word(entry, 8)) < QUIET_NANOS;
        if entries.iter().any(|e| word(e, 0) == hash && recent(e)) {
            return false;
        }
        let kept = entries.iter().filter(|e| word(e, 0) != hash && recent(e)).take(REMEMBERED);
        let mut next: Vec<u8> = kept.flatten().copied().collect();
        next.extend(hash.to_le_bytes());
        next.extend(now.to_le_bytes());
        match host.set_shared(key.as_bytes(), &next, cas) {
            Ok(false) => {}
            Ok(true) | Err(_) => return true,
        }
    }
    true
}

fn word(entry: &[u8; 16], at: usize) -> u64 {
    entry.get(at..).and_then(|rest| rest.first_chunk::<8>()).map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
