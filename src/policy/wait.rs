//! What follows from a hint: whether the retry waits for it, and how long it holds the whole upstream.

use super::outcome::Status;
use super::retry_after::Hint;
use super::{Hold, RetryAfter};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Nothing was asked for, or no delay.
    None,
    /// The proxy waits this long before it retries.
    For { seconds: u64 },
    /// There is to be no retry.
    Never,
}

/// What a hint means for the retry at hand. A wait is handed to the proxy in whole seconds, rounded up: never less than
/// was asked for.
pub fn pause(policy: &RetryAfter, hint: Hint) -> Pause {
    match hint {
        Hint::Ignored(_) | Hint::Delay(0) => Pause::None,
        Hint::Delay(ms) if policy.wait && ms <= policy.max_ms => Pause::For { seconds: ms.div_ceil(1000) },
        Hint::Delay(_) | Hint::Never(_) => Pause::Never,
    }
}

/// How long, in milliseconds, a response with this hint holds the upstream for everybody, and under which status new
/// requests are rejected meanwhile. A gRPC status counts as the HTTP one of the same meaning.
pub fn hold(policy: &RetryAfter, status: Status, hint: Hint) -> Option<(u64, u16)> {
    let Hint::Delay(ms) = hint else { return None };
    let status = match status.grpc {
        Some(14) => 503,
        Some(8) => 429,
        _ => status.http,
    };
    let held = policy.hold != Hold::Off && ms > 0 && policy.hold_statuses.contains(status);
    held.then_some((ms.min(policy.max_ms), status))
}

/// Whole seconds for the `retry-after` of a rejection: what is left, and up to a tenth more, so that those who are told
/// do not all come back at once. `random` is any number.
pub fn retry_after_seconds(left_ms: u64, random: u64) -> u64 {
    let least = left_ms.div_ceil(1000);
    let most = left_ms.saturating_add(left_ms.div_ceil(10)).div_ceil(1000);
    let choices = most.saturating_sub(least).saturating_add(1);
    least.saturating_add(random.checked_rem(choices).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::retry_after::Never;
    use proptest::prelude::*;

    fn policy(wait: bool) -> RetryAfter {
        RetryAfter { wait, ..RetryAfter::default() }
    }

    fn http(http: u16) -> Status {
        Status { http, grpc: None }
    }

    #[test]
    fn without_wait_any_delay_is_final_and_none_is_no_stop() {
        assert_eq!(pause(&policy(false), Hint::Delay(1)), Pause::Never);
        assert_eq!(pause(&policy(false), Hint::Delay(0)), Pause::None);
        assert_eq!(pause(&policy(true), Hint::default()), Pause::None);
    }

    #[test]
    fn with_wait_only_what_is_over_the_limit_is_final() {
        assert_eq!(pause(&policy(true), Hint::Delay(1500)), Pause::For { seconds: 2 });
        assert_eq!(pause(&policy(true), Hint::Delay(60_000)), Pause::For { seconds: 60 });
        assert_eq!(pause(&policy(true), Hint::Delay(60_001)), Pause::Never);
        assert_eq!(pause(&policy(true), Hint::Never(Never::Negative)), Pause::Never);
    }

    #[test]
    fn a_hold_is_the_upstreams_and_bounded() {
        let held = |status, hint| hold(&policy(false), status, hint);
        assert_eq!(held(http(503), Hint::Delay(2000)), Some((2000, 503)));
        assert_eq!(held(http(503), Hint::Delay(3_600_000)), Some((60_000, 503)));
        assert_eq!(held(http(429), Hint::Delay(2000)), None);
        assert_eq!(held(http(503), Hint::Delay(0)), None);
        assert_eq!(held(http(503), Hint::Never(Never::Negative)), None);
        assert_eq!(held(Status { http: 200, grpc: Some(14) }, Hint::Delay(250)), Some((250, 503)));
        assert_eq!(held(Status { http: 200, grpc: Some(8) }, Hint::Delay(250)), None);
        let off = RetryAfter { hold: Hold::Off, ..RetryAfter::default() };
        assert_eq!(hold(&off, http(503), Hint::Delay(2000)), None);
    }

    proptest! {
        #[test]
        fn a_wait_is_never_shorter_than_asked(ms in 1u64..=60_000) {
            let Pause::For { seconds } = pause(&policy(true), Hint::Delay(ms)) else { panic!("a wait") };
            prop_assert!(seconds * 1000 >= ms && seconds * 1000 < ms + 1000);
        }

        #[test]
        fn those_who_are_rejected_come_back_within_a_tenth_more(left in 1u64..=86_400_000, random: u64) {
            let seconds = retry_after_seconds(left, random);
            prop_assert!(seconds * 1000 >= left);
            prop_assert!(seconds <= (left * 11).div_ceil(10_000));
        }
    }
}
