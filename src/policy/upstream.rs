//! The one shared record per upstream: what it holds and its bytes.
//!
//! It lives in the proxy's shared data, so it outlives configurations and VMs and may be read by another version of
//! the module. The layout therefore starts with a version and the tokens, at the same place in every version: a
//! balance is never refilled by an update.

use crate::policy::Budget;
use crate::policy::breaker::{Breaker, SLOTS, State, Window};
use crate::policy::bucket::{Bucket, Instant, Millitokens};

/// Everything the workers share about one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub bucket: Bucket,
    pub hold: Option<Hold>,
    pub breaker: Breaker,
}

/// A time that the upstream asked for with a Retry-After: until it is over no retry starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Instant,
    /// The status that carried the hint; new requests that are rejected get it too.
    pub status: u16,
}

/// The layout that this module writes, little endian: `version u8 · tokens i64 · credited u64 · per_second i64 · max i64 ·
/// hold until u64 · hold status u16 · breaker state u8 · its moment u64 · lent u32 · passed u32 · streak u32 · window
/// since u64 · slots (calls u32 · failures u32) × 10`. Hold status 0: no hold.
const VERSION: u8 = 1;
const LEN: usize = 152;

impl Record {
    /// An upstream that nobody has seen yet.
    pub fn new(budget: &Budget, now: Instant) -> Self {
        Self { bucket: Bucket::new(budget, now), hold: None, breaker: Breaker::default() }
    }

    /// Brought up to the present and under the policy in force.
    #[must_use]
    pub fn touch(self, budget: &Budget, now: Instant) -> Self {
        let hold = self.hold.filter(|hold| hold.until > now);
        Self { bucket: self.bucket.touch(budget, now), hold, ..self }
    }

    /// Holds until then, unless it is held for longer.
    #[must_use]
    pub fn hold(self, hold: Hold) -> Self {
        let longer = self.hold.is_none_or(|held| held.until < hold.until);
        if longer { Self { hold: Some(hold), ..self } } else { self }
    }

    /// The hold that is not over at this moment.
    pub fn held_at(&self, moment: Instant) -> Option<Hold> {
        self.hold.filter(|hold| hold.until > moment)
    }

    /// Full, without a hold, the breaker closed with no failure counted: a request that goes well changes nothing.
    pub fn is_at_rest(&self, budget: &Budget) -> bool {
        self.bucket.is_full(budget) && self.hold.is_none() && self.breaker.is_at_rest()
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let hold = self.hold.unwrap_or(Hold { until: Instant(0), status: 0 });
        let mut bytes = Vec::with_capacity(LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.bucket.tokens.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.credited.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.per_second.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.max.0.to_le_bytes());
        bytes.extend_from_slice(&hold.until.0.to_le_bytes());
        bytes.extend_from_slice(&hold.status.to_le_bytes());
        let (state, moment, lent, passed) = match self.breaker.state {
            State::Closed => (0, Instant(0), 0, 0),
            State::Open { until } => (1, until, 0, 0),
            State::HalfOpen { lent, passed, lease } => (2, lease, lent, passed),
        };
        bytes.push(state);
        bytes.extend_from_slice(&moment.0.to_le_bytes());
        for n in [lent, passed, self.breaker.streak] {
            bytes.extend_from_slice(&n.to_le_bytes());
        }
        bytes.extend_from_slice(&self.breaker.window.since.0.to_le_bytes());
        for n in self.breaker.window.slots.iter().flat_map(|(all, failed)| [all, failed]) {
            bytes.extend_from_slice(&n.to_le_bytes());
        }
        bytes
    }

    /// Reads a record. Of another version's only the tokens are understood, and time starts anew. `None`: not a record.
    pub fn from_bytes(bytes: &[u8], now: Instant) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (tokens, rest) = take(rest)?;
        let tokens = Millitokens(i64::from_le_bytes(tokens));
        if *version != VERSION {
            let bucket = Bucket { tokens, credited: now, per_second: Millitokens::ZERO, max: Millitokens::ZERO };
            return Some(Self { bucket, hold: None, breaker: Breaker::default() });
        }
        let (credited, rest) = take(rest)?;
        let (per_second, rest) = take(rest)?;
        let (max, rest) = take(rest)?;
        let (until, rest) = take(rest)?;
        let (status, rest) = take(rest)?;
        let status = u16::from_le_bytes(status);
        let until = Instant(u64::from_le_bytes(until));
        Some(Self {
            bucket: Bucket {
                tokens,
                credited: Instant(u64::from_le_bytes(credited)),
                per_second: Millitokens(i64::from_le_bytes(per_second)),
                max: Millitokens(i64::from_le_bytes(max)),
            },
            hold: (status != 0).then_some(Hold { until, status }),
            breaker: read_breaker(rest)?,
        })
    }
}

fn read_breaker(bytes: &[u8]) -> Option<Breaker> {
    let (state, rest) = bytes.split_first()?;
    let (moment, rest) = take(rest)?;
    let moment = Instant(u64::from_le_bytes(moment));
    let (counts, rest) = take::<12>(rest)?;
    let (since, rest) = take(rest)?;
    let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
    let [lent, passed, streak] = counts.as_chunks::<4>().0 else { return None };
    let mut slots = [(0, 0); SLOTS];
    for (slot, [all, failed]) in slots.iter_mut().zip(rest.as_chunks::<4>().0.as_chunks::<2>().0) {
        *slot = (word(all), word(failed));
    }
    let state = match state {
        1 => State::Open { until: moment },
        2 => State::HalfOpen { lent: word(lent), passed: word(passed), lease: moment },
        _ => State::Closed,
    };
    Some(Breaker { state, streak: word(streak), window: Window { since: Instant(u64::from_le_bytes(since)), slots } })
}

fn take<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    Some((*head, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record(tokens: i64, credited: u64, per_second: i64, hold: Option<(u64, u16)>) -> Record {
        Record {
            bucket: Bucket {
                tokens: Millitokens(tokens),
                credited: Instant(credited),
                per_second: Millitokens(per_second),
                max: Millitokens(12_345),
            },
            hold: hold.map(|(until, status)| Hold { until: Instant(until), status }),
            breaker: Breaker::default(),
        }
    }

    proptest! {
        #[test]
        fn bytes_round_trip(tokens: i64, credited: u64, rate: i64, hold in prop::option::of((any::<u64>(), 100u16..600))) {
            let written = record(tokens, credited, rate, hold);
            prop_assert_eq!(Record::from_bytes(&written.to_bytes(), Instant(7)), Some(written));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Record::from_bytes(&bytes, Instant(0));
        }
    }

    #[test]
    fn the_breakers_bytes_round_trip() {
        let mut slots = [(0, 0); SLOTS];
        slots[0] = (7, 3);
        slots[9] = (u32::MAX, 1);
        let states = [
            State::Closed,
            State::Open { until: Instant(5) },
            State::HalfOpen { lent: 1, passed: 2, lease: Instant(u64::MAX) },
        ];
        for state in states {
            let breaker = Breaker { state, streak: 4, window: Window { since: Instant(9), slots } };
            let written = Record { breaker, ..record(1, 2, 3, None) };
            assert_eq!(written.to_bytes().len(), LEN);
            assert_eq!(Record::from_bytes(&written.to_bytes(), Instant(7)), Some(written));
        }
    }

    #[test]
    fn the_balance_of_another_version_is_kept() {
        let mut bytes = record(3400, 1, 1, None).to_bytes();
        bytes[0] = 9;
        bytes.truncate(12);
        let read = Record::from_bytes(&bytes, Instant(5)).map(|r| r.bucket);
        assert_eq!(read.map(|b| (b.tokens, b.credited)), Some((Millitokens(3400), Instant(5))));
    }

    #[test]
    fn a_shorter_hint_does_not_shorten_a_hold() {
        let held = record(0, 0, 0, Some((100, 503)));
        assert_eq!(held.hold(Hold { until: Instant(50), status: 429 }), held);
        let longer = Hold { until: Instant(150), status: 429 };
        assert_eq!(held.hold(longer).hold, Some(longer));
    }

    #[test]
    fn a_hold_ends_with_its_time() {
        let held = record(0, 0, 0, Some((100, 503)));
        assert!(held.held_at(Instant(99)).is_some());
        assert!(held.held_at(Instant(100)).is_none());
        assert!(held.touch(&Budget::default(), Instant(100)).hold.is_none());
    }
}
