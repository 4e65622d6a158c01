//! The one place that decides whether a retry may happen, and the names of the reasons why not.

use super::bucket::Instant;
use super::deadline::Deadline;
use super::retry_after::Hint;
use super::{Policy, wait};
use crate::upstream::Record;

/// Why a retry was stopped, or a request rejected. The order is that of the decision: the first reason that holds is
/// the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Too little time is left for a retry.
    Deadline,
    /// The response asks for a pause that is not waited for.
    RetryAfter,
    /// An earlier response asked for a pause, for everybody.
    Hold,
    /// The upstream's bucket holds no whole token.
    Budget,
}

impl Reason {
    pub const ALL: [Self; 4] = [Self::Deadline, Self::RetryAfter, Self::Hold, Self::Budget];

    /// As in headers, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::RetryAfter => "retry-after",
            Self::Hold => "hold",
            Self::Budget => "budget",
        }
    }

    /// For people who read a refusal; says nothing about the inside of the proxy.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Deadline => "The time that the request may take is over.",
            Self::RetryAfter => "The upstream asked not to be called again so early; the request was not retried.",
            Self::Hold => "The upstream asked for a pause that is not over; the request was not sent.",
            Self::Budget => "The retry budget of the upstream is exhausted; the request was not retried.",
        }
    }

    /// HTTP status of a local reply.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Deadline => 504,
            Self::RetryAfter | Self::Hold | Self::Budget => 503,
        }
    }

    /// gRPC status of a local reply (4 DEADLINE_EXCEEDED, 14 UNAVAILABLE).
    pub const fn grpc_status(self) -> u8 {
        match self {
            Self::Deadline => 4,
            Self::RetryAfter | Self::Hold | Self::Budget => 14,
        }
    }
}

/// The retry that is asked about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retry {
    /// What the failing response at hand asks for; none where there is no response.
    pub hint: Hint,
    /// Not to start before: what an earlier response of the same request asked for.
    pub not_before: Option<Instant>,
    /// When the time of the whole request ends, where that is known.
    pub ends: Option<Deadline>,
    /// A token was set aside for it already.
    pub paid: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The retry may happen, after so many seconds if a number is there. The record as it is then, with the retry paid.
    Allow {
        record: Record,
        wait_seconds: Option<u64>,
    },
    Stop(Reason),
}

/// Whether one more attempt may be made on an upstream in this state, brought up to the present by `Record::touch`.
pub fn decide(policy: &Policy, retry: &Retry, upstream: Record, now: Instant) -> Verdict {
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
    // Judged for the moment when the retry would start: a wait that outlasts the hold is no stop.
    if upstream.held_at(now.plus_millis(wait_millis)).is_some() {
        return Verdict::Stop(Reason::Hold);
    }
    if retry.paid {
        return Verdict::Allow { record: upstream, wait_seconds };
    }
    match upstream.bucket.withdraw() {
        Some(bucket) => Verdict::Allow { record: Record { bucket, ..upstream }, wait_seconds },
        None => Verdict::Stop(Reason::Budget),
    }
}
