//! How long a request may still take: read from its headers as a time that is left, kept as a moment on the monotonic
//! clock, written again as what is left.
//!
//! Relative on the wire, because no two machines' clocks agree; absolute inside, because every attempt has to see the
//! time that the earlier ones used up.

mod wire;

pub use wire::{Format, TimeLeft, WallTime};

use super::bucket::Instant;
use wire::Value;

/// A header that may bring a deadline (`deadline.accept[]`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Its name, in lower case.
    pub header: String,
    pub format: Format,
}

/// `deadline.*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlinePolicy {
    /// Where deadlines are read from; the smallest counts.
    pub accept: Vec<Accept>,
    /// Header that tells the upstream the milliseconds left; none: not told.
    pub emit: Option<String>,
    /// Milliseconds for a request that brings no valid deadline, at most `max`; none: it has none.
    pub default: Option<u64>,
    /// Milliseconds that a longer deadline is cut to, the default too.
    pub max: u64,
    /// Milliseconds that a retry needs at least.
    pub min_remaining: u64,
}

impl Default for DeadlinePolicy {
    /// The filter's own header and gRPC's; at most 15 seconds, which is Envoy's default route timeout.
    fn default() -> Self {
        const OWN_HEADER: &str = "x-request-deadline-ms";
        let accept = [(OWN_HEADER, Format::Ms), ("grpc-timeout", Format::Grpc)];
        Self {
            accept: accept.map(|(header, format)| Accept { header: header.to_owned(), format }).into(),
            emit: Some(OWN_HEADER.to_owned()),
            default: None,
            max: 15_000,
            min_remaining: 0,
        }
    }
}

/// What the headers of a request say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Read {
    /// Counted from the moment when the request arrived; never more than `deadline.max`. None: no deadline is known.
    pub remaining: Option<TimeLeft>,
    /// Places in `deadline.accept` of the headers that are there, whatever they say; each once.
    pub present: Vec<usize>,
    /// Places in `deadline.accept` of the headers with a malformed value, even beside a valid one; each once.
    pub malformed: Vec<usize>,
}

impl DeadlinePolicy {
    /// Whether `read` needs the wall clock for these header fields. Hardly any request makes it: asking the host for
    /// the time is to be saved on the others.
    pub fn needs_wall_clock<'a>(&self, fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>) -> bool {
        let absolute = |name| self.accepted(name).any(|(_, accept)| accept.format == Format::EpochMs);
        fields.into_iter().any(|(name, _)| absolute(name))
    }

    /// Reads the deadline from a request's header fields, (lower-case name, value) each.
    ///
    /// - Every field of every accepted header is looked at, and the smallest valid value counts; 0 or a negative one
    ///   is expired.
    /// - A malformed value is as if absent, and noted in `malformed`.
    /// - A moment (`epoch-ms`) further than `deadline.max` from `wall`, in the past or the future, is as if absent too,
    ///   but not noted: its form is right, one of the clocks is wrong.
    /// - Without a valid value `deadline.default` applies.
    pub fn read<'a>(&self, fields: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, wall: Option<WallTime>) -> Read {
        let max = TimeLeft::from_millis(self.max);
        let mut read = Read::default();
        for (name, field) in fields {
            for (place, accept) in self.accepted(name) {
                note(&mut read.present, place);
                for value in accept.format.values(field) {
                    match accept.format.parse(value, wall, max) {
                        Value::Left(left) => {
                            read.remaining = Some(read.remaining.map_or(left, |least| least.min(left)))
                        }
                        Value::Skewed => {}
                        Value::Malformed => note(&mut read.malformed, place),
                    }
                }
            }
        }
        let left = read.remaining.or(self.default.map(TimeLeft::from_millis));
        Read { remaining: left.map(|left| left.min(max)), ..read }
    }

    /// Whether a retry that starts after Envoy has waited may still finish: when it starts there must be something
    /// left, and at least `deadline.min_remaining`. True where no deadline is known.
    ///
    /// `wait_millis` is the delay that Envoy is handed, 0 for none. It waits up to 1.5 times as long
    /// (`JitteredLowerBoundBackOffStrategy`), so the longest wait counts.
    pub fn leaves_time_for_retry(&self, remaining: Option<TimeLeft>, wait_millis: u64) -> bool {
        let TimeLeft(wait) = TimeLeft::from_millis(wait_millis);
        let longest = TimeLeft(wait.saturating_add(wait.div_ceil(2)));
        remaining.is_none_or(|left| {
            let left = left.saturating_sub(longest);
            !left.is_expired() && left >= TimeLeft::from_millis(self.min_remaining)
        })
    }

    fn accepted(&self, name: &[u8]) -> impl Iterator<Item = (usize, &Accept)> {
        self.accept.iter().enumerate().filter(move |(_, accept)| accept.header.as_bytes() == name)
    }
}

fn note(places: &mut Vec<usize>, place: usize) {
    if !places.contains(&place) {
        places.push(place);
    }
}

/// The moment when a request's time is up, on the process's monotonic clock. Fixed once, on arrival; whatever happens
/// to the request afterwards, attempts and waits included, only uses it up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    pub at: Instant,
}

impl Deadline {
    /// The end of `left`, counted from `now`; the end of the clock when that comes first.
    pub fn after(now: Instant, left: TimeLeft) -> Self {
        Self { at: Instant(now.0.saturating_add(left.0)) }
    }

    /// Expired from `at` on.
    pub fn remaining(self, now: Instant) -> TimeLeft {
        TimeLeft(self.at.0.saturating_sub(now.0))
    }
}

#[cfg(test)]
mod tests;
