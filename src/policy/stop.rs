//! The one place that decides whether a retry may happen, and the names of the reasons why not.

use super::breaker::Admission;
use super::bucket::Instant;
use super::deadline::Deadline;
use super::retry_after::Hint;
use super::{Policy, wait};
use crate::policy::upstream::Record;

/// Why a retry was stopped, or a request rejected. The order is that of the decision: the first reason that holds is
/// the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request names another layer as the one that retries.
    Owner,
    /// A layer below has stopped its retries already.
    Upstream,
    /// To repeat it may do twice what was to be done once: after a failure the outcome is unknown.
    NotIdempotent,
    /// Too little time is left for a retry.
    Deadline,
    /// The response asks for a pause that is not waited for.
    RetryAfter,
    /// An earlier response asked for a pause, for everybody.
    Hold,
    /// Too many calls to the upstream have failed.
    Breaker,
    /// The upstream's bucket holds no whole token.
    Budget,
}

impl Reason {
    pub const ALL: [Self; 8] = [
        Self::Owner,
        Self::Upstream,
        Self::NotIdempotent,
        Self::Deadline,
        Self::RetryAfter,
        Self::Hold,
        Self::Breaker,
        Self::Budget,
    ];

    /// As in headers, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Upstream => "upstream",
            Self::NotIdempotent => "not-idempotent",
            Self::Deadline => "deadline",
            Self::RetryAfter => "retry-after",
            Self::Hold => "hold",
            Self::Breaker => "breaker",
            Self::Budget => "budget",
        }
    }

    /// For people who read a refusal; says nothing about the inside of the proxy.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Owner => "Another layer retries this request; it was not retried here.",
            Self::Upstream => "A layer below has stopped its retries; the request was not retried.",
            Self::NotIdempotent => {
                "The outcome is unknown and the request may not be repeated blindly; it was not retried."
            }
            Self::Deadline => "The time that the request may take is over.",
            Self::RetryAfter => "The upstream asked not to be called again so early; the request was not retried.",
            Self::Hold => "The upstream asked for a pause that is not over; the request was not sent.",
            Self::Breaker => "Too many calls to the upstream have failed; the request was not sent.",
            Self::Budget => "The retry budget of the upstream is exhausted; the request was not retried.",
        }
    }

    /// HTTP status of a local reply.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Deadline => 504,
            _ => 503,
        }
    }

    /// gRPC status of a local reply (4 DEADLINE_EXCEEDED, 14 UNAVAILABLE).
    pub const fn grpc_status(self) -> u8 {
        match self {
            Self::Deadline => 4,
            _ => 14,
        }
    }
}

/// The retry that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The request names another owner of its retries, and is left to that one.
    pub deferred: bool,
    /// The failing response at hand says that a layer below has stopped.
    pub stopped_below: bool,
    /// The request may be repeated: it is idempotent, or has not reached the upstream.
    pub repeatable: bool,
    /// What the failing response at hand asks for; none where there is no response.
    pub hint: Hint,
    /// Not to start before: what an earlier response of the same request asked for.
    pub not_before: Option<Instant>,
    /// When the time of the whole request ends, where that is known.
    pub ends: Option<Deadline>,
    /// A token was set aside for it already.
    pub paid: bool,
    /// It starts now; if not, a failing response is at hand and it may follow.
    pub starts: bool,
}

impl Default for Retry {
    /// Nothing speaks against it.
    fn default() -> Self {
        Self {
            deferred: false,
            stopped_below: false,
            repeatable: true,
            hint: Hint::default(),
            not_before: None,
            ends: None,
            paid: false,
            starts: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The retry may happen, after so many seconds if a number is there. The record as it is then, with the retry paid.
    Allow {
        record: Record,
        wait_seconds: Option<u64>,
        /// It has taken a place of the half-open breaker.
        probe: bool,
    },
    Stop(Reason),
}

/// Whether one more attempt may be made on an upstream in this state, brought up to the present by `Record::touch`.
pub fn decide(policy: &Policy, retry: &Retry, upstream: Record, now: Instant) -> Verdict {
    if retry.deferred {
        return Verdict::Stop(Reason::Owner);
    }
    if retry.stopped_below && policy.honor.0 {
        return Verdict::Stop(Reason::Upstream);
    }
    if !retry.repeatable {
        return Verdict::Stop(Reason::NotIdempotent);
    }
    let pause = wait::pause(&policy.retry_after, retry.hint);
    let wait_seconds = match pause {
        wait::Pause::For { seconds } => Some(seconds),
        wait::Pause::None | wait::Pause::Never => None,
    };
    let wait_millis = wait_seconds.map_or(0, |seconds| seconds.saturating_mul(1000));
    if !policy.deadline.leaves_time_for_retry(retry.ends.map(|ends| ends.remaining(now)), wait_millis) {
        return Verdict::Stop(Reason::Deadline);
    }
    if pause == wait::Pause::Never || retry.not_before.is_some_and(|moment| now < moment) {
        return Verdict::Stop(Reason::RetryAfter);
    }
    // Hold and breaker are judged for the moment when the retry would start: a wait that outlasts them is no stop.
    let then = now.plus_millis(wait_millis);
    if upstream.held_at(then).is_some() {
        return Verdict::Stop(Reason::Hold);
    }
    let mut record = upstream;
    let mut probe = false;
    if let Some(breaker) = &policy.breaker {
        match upstream.breaker.admit(breaker, None, then) {
            Admission::Pass => {}
            Admission::Refuse { .. } => return Verdict::Stop(Reason::Breaker),
            // Its place is taken when it starts.
            Admission::Probe(_) if !retry.starts => {}
            Admission::Probe(probing) => (record.breaker, probe) = (probing, true),
        }
    }
    if retry.paid {
        return Verdict::Allow { record, wait_seconds, probe };
    }
    match upstream.bucket.withdraw() {
        Some(bucket) => Verdict::Allow { record: Record { bucket, ..record }, wait_seconds, probe },
        None => Verdict::Stop(Reason::Budget),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::breaker::{Breaker, BreakerPolicy, State};
    use crate::policy::bucket::{Bucket, Millitokens};
    use crate::policy::upstream::Hold;

    const NOW: Instant = Instant(1_000_000_000_000);

    fn record(tokens: i64) -> Record {
        let max = Millitokens(10_000);
        let bucket = Bucket { tokens: Millitokens(tokens), credited: NOW, per_second: Millitokens(0), max };
        Record { bucket, hold: None, breaker: Breaker::default() }
    }

    fn reason(policy: &Policy, retry: &Retry, record: Record) -> Option<Reason> {
        match decide(policy, retry, record, NOW) {
            Verdict::Stop(reason) => Some(reason),
            Verdict::Allow { .. } => None,
        }
    }

    /// Everything speaks against the retry; taken away one by one, each reason comes to light in its turn.
    #[test]
    fn the_first_reason_that_holds_counts() {
        let policy = Policy { breaker: Some(BreakerPolicy::default()), ..Policy::default() };
        let until = NOW.plus_millis(5000);
        let mut upstream = record(0);
        upstream.hold = Some(Hold { until, status: 503 });
        upstream.breaker.state = State::Open { until };
        let mut retry = Retry {
            deferred: true,
            stopped_below: true,
            repeatable: false,
            hint: Hint::Delay(1000),
            ends: Some(Deadline { at: NOW }),
            ..Retry::default()
        };
        let mut seen = vec![reason(&policy, &retry, upstream)];
        retry.deferred = false;
        seen.push(reason(&policy, &retry, upstream));
        retry.stopped_below = false;
        seen.push(reason(&policy, &retry, upstream));
        retry.repeatable = true;
        seen.push(reason(&policy, &retry, upstream));
        retry.ends = None;
        seen.push(reason(&policy, &retry, upstream));
        retry.hint = Hint::default();
        seen.push(reason(&policy, &retry, upstream));
        upstream.hold = None;
        seen.push(reason(&policy, &retry, upstream));
        upstream.breaker = Breaker::default();
        seen.push(reason(&policy, &retry, upstream));
        assert_eq!(seen, Reason::ALL.map(Some));
        assert_eq!(reason(&policy, &retry, record(1000)), None);
    }

    #[test]
    fn a_wait_that_outlasts_hold_and_breaker_is_no_stop() {
        let mut policy = Policy { breaker: Some(BreakerPolicy::default()), ..Policy::default() };
        policy.retry_after.wait = true;
        let until = NOW.plus_millis(1500);
        let mut upstream = record(1000);
        upstream.hold = Some(Hold { until, status: 503 });
        upstream.breaker.state = State::Open { until };
        let retry = Retry { hint: Hint::Delay(1200), ..Retry::default() };
        assert_eq!(reason(&policy, &retry, upstream), None);
    }

    #[test]
    fn what_is_paid_is_not_charged_again() {
        let retry = Retry { paid: true, starts: true, ..Retry::default() };
        let allowed = Verdict::Allow { record: record(0), wait_seconds: None, probe: false };
        assert_eq!(decide(&Policy::default(), &retry, record(0), NOW), allowed);
    }
}
