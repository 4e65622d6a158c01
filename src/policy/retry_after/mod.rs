//! What a failing response asks of whoever would retry: to wait so long, or not to retry at all. Retry-After (RFC 9110
//! §10.2.3, RFC 6585 §4), its kin in milliseconds, gRPC's pushback (gRFC A6), and, where a 429 has none of these, the
//! reset of a rate limit.
//!
//! Two rules settle what the formats leave open. No retry is to start earlier than a valid hint asks: of several the
//! longest counts, and fractions are rounded up. And a value that one would have to guess at is malformed: it counts as
//! absent, and is told, so that somebody may mend it.

mod date;
mod header;
mod ratelimit;
mod value;

#[cfg(test)]
mod tests;

pub use header::{HintHeader, HintHeaders};

use super::duration;
use super::outcome::{Retriable, Status};
use ratelimit::Item;
use value::Value;

/// What a response asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing.
    Ignored(Ignored),
    /// So many milliseconds, saturating; before any cap. 0 is a valid delay, and no obstacle.
    Delay(u64),
    /// Not to be retried.
    Never(Never),
}

impl Default for Hint {
    /// That of no response at all.
    fn default() -> Self {
        Self::Ignored(Ignored::Absent)
    }
}

/// Why there is no hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// Responses of this status are not asked: on a 301 or 200 Retry-After means something else, or nothing.
    Status,
    /// There is no header, or none that asks for anything.
    Absent,
    /// What is there cannot be read.
    Malformed,
}

impl Ignored {
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Status => {
                "hints are read on HTTP 429 and 503, on gRPC 8 and 14, and pushback on failing gRPC statuses"
            }
            Self::Absent => "no hint that is read at this status",
            Self::Malformed => "malformed",
        }
    }
}

/// Why there is to be no retry, by gRFC A6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {
    /// How a server says so.
    Negative,
    Malformed,
    Repeated,
}

impl Never {
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Negative => "grpc-retry-pushback-ms is negative",
            Self::Malformed => "grpc-retry-pushback-ms is malformed",
            Self::Repeated => "grpc-retry-pushback-ms is repeated",
        }
    }
}

/// What was read from a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    pub hint: Hint,
    /// The headers with a malformed value, even beside a valid one; of those only that were needed.
    pub malformed: HintHeaders,
}

/// Retry-After itself, and what says the same more finely.
const RETRY_AFTER: HintHeaders =
    HintHeaders::of(&[HintHeader::RetryAfter, HintHeader::RetryAfterMs, HintHeader::XMsRetryAfterMs]);
const PUSHBACK: HintHeaders = HintHeaders::of(&[HintHeader::GrpcRetryPushbackMs]);
/// What a 429 may have instead.
const RATE_LIMIT: HintHeaders =
    HintHeaders::of(&[HintHeader::RatelimitReset, HintHeader::XRatelimitReset, HintHeader::Ratelimit]);

const TOO_MANY_REQUESTS: u16 = 429;
const SERVICE_UNAVAILABLE: u16 = 503;
const RESOURCE_EXHAUSTED: u8 = 8;
const UNAVAILABLE: u8 = 14;

/// The headers that are read on a response of this status.
fn sources(status: Status, retriable: &Retriable) -> HintHeaders {
    let mut sources = HintHeaders::EMPTY;
    if matches!(status.http, TOO_MANY_REQUESTS | SERVICE_UNAVAILABLE)
        || matches!(status.grpc, Some(RESOURCE_EXHAUSTED | UNAVAILABLE))
    {
        sources = sources.union(RETRY_AFTER);
    }
    if status.http == TOO_MANY_REQUESTS {
        sources = sources.union(RATE_LIMIT);
    }
    if status.grpc.is_some_and(|code| retriable.grpc_statuses.contains(code)) {
        sources = sources.union(PUSHBACK);
    }
    sources
}

/// Reads the hint of a response from all its header fields (name in lower case, value), repeated ones as they come.
///
/// `now_ms` is the wall clock, in milliseconds since the epoch. HTTP-dates are measured from the response's own `Date`
/// instead where that is valid: the clock of whoever wrote both. Of several valid ones the earliest serves, which gives
/// the longest delay.
pub fn read<'a>(
    status: Status,
    retriable: &Retriable,
    now_ms: u64,
    fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
) -> Reading {
    let sources = sources(status, retriable);
    if sources.is_empty() {
        return Reading { hint: Hint::Ignored(Ignored::Status), malformed: HintHeaders::EMPTY };
    }
    let mut found = Found::default();
    for (name, value) in fields {
        if name == b"date" {
            let date = date::parse(trim(value), now_ms);
            found.date = found.date.into_iter().chain(date).min();
        } else if let Some(header) = HintHeader::named(name)
            && sources.contains(header)
        {
            found.add(header, value, now_ms);
        }
    }
    found.conclude(now_ms)
}

#[derive(Default)]
struct Found {
    /// The response's own clock, in milliseconds since the epoch.
    date: Option<i64>,
    pushback: Option<Result<u64, Never>>,
    retry_after: Group,
    /// `ratelimit-reset` and `x-ratelimit-reset`.
    reset: Group,
    ratelimit: Group,
}

impl Found {
    fn add(&mut self, header: HintHeader, field: &[u8], now_ms: u64) {
        match header {
            HintHeader::RetryAfter | HintHeader::RetryAfterMs | HintHeader::XMsRetryAfterMs => {
                self.retry_after.add(header, field, now_ms);
            }
            HintHeader::RatelimitReset | HintHeader::XRatelimitReset => self.reset.add(header, field, now_ms),
            HintHeader::Ratelimit => {
                for item in ratelimit::items(field) {
                    match item {
                        Item::Exhausted(delay) => self.ratelimit.keep(Value::After(delay)),
                        Item::Silent => {}
                        Item::Malformed => self.ratelimit.malformed.insert(header),
                    }
                }
            }
            HintHeader::GrpcRetryPushbackMs => {
                let pushback = pushback(trim(field));
                if pushback == Err(Never::Malformed) {
                    self.retry_after.malformed.insert(header);
                }
                self.pushback = Some(if self.pushback.is_some() { Err(Never::Repeated) } else { pushback });
            }
        }
    }

    /// The first group with a valid hint counts, and the longest in it. A malformed one is as if absent, here too: the
    /// next group then speaks.
    fn conclude(mut self, now_ms: u64) -> Reading {
        match self.pushback {
            Some(Err(never)) => return Reading { hint: Hint::Never(never), malformed: self.retry_after.malformed },
            Some(Ok(delay)) => self.retry_after.keep(Value::After(delay)),
            None => {}
        }
        let clock = self.date.unwrap_or_else(|| i64::try_from(now_ms).unwrap_or(i64::MAX));
        let mut malformed = HintHeaders::EMPTY;
        for group in [self.retry_after, self.reset, self.ratelimit] {
            malformed = malformed.union(group.malformed);
            if let Some(delay) = group.longest(clock) {
                return Reading { hint: Hint::Delay(delay), malformed };
            }
        }
        let ignored = if malformed.is_empty() { Ignored::Absent } else { Ignored::Malformed };
        Reading { hint: Hint::Ignored(ignored), malformed }
    }
}

/// Headers of equal rank.
#[derive(Clone, Copy, Default)]
struct Group {
    /// The longest, in milliseconds.
    after: Option<u64>,
    /// The latest HTTP-date, in milliseconds since the epoch.
    at: Option<i64>,
    malformed: HintHeaders,
}

impl Group {
    fn add(&mut self, header: HintHeader, field: &[u8], now_ms: u64) {
        if !value::read_list(field, |text| value::read(header, text, now_ms), |value| self.keep(value)) {
            self.malformed.insert(header);
        }
    }

    fn keep(&mut self, value: Value) {
        match value {
            Value::After(delay) => self.after = self.after.max(Some(delay)),
            Value::At(moment) => self.at = self.at.max(Some(moment)),
        }
    }

    fn longest(&self, clock: i64) -> Option<u64> {
        let until = |moment: i64| u64::try_from(moment.saturating_sub(clock)).unwrap_or(0);
        self.after.max(self.at.map(until))
    }
}

/// gRFC A6: an `int32` in ASCII. The leading zeros that it calls unnecessary are taken, as its implementations take them.
fn pushback(text: &[u8]) -> Result<u64, Never> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1_i64, digits),
        None => (1, text),
    };
    let millis = duration::digits(digits)
        .and_then(|magnitude| i64::try_from(magnitude).ok()?.checked_mul(sign))
        .and_then(|millis| i32::try_from(millis).ok())
        .ok_or(Never::Malformed)?;
    u64::try_from(millis).map_err(|_| Never::Negative)
}

/// Without the optional white space around a field value and around list members: SP and HTAB (RFC 9110 §5.6.3).
fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
