//! The one shared record per upstream: what it holds and its bytes.
//!
//! It lives in the proxy's shared data, so it outlives configurations and VMs and may be read by another version of
//! the module. The layout therefore starts with a version and the tokens, at the same place in every version: a
//! balance is never refilled by an update.

use crate::policy::Budget;
use crate::policy::bucket::{Bucket, Instant, Millitokens};

/// Everything the workers share about one upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub bucket: Bucket,
    pub hold: Option<Hold>,
}

/// A time that the upstream asked for with a Retry-After: until it is over no retry starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub until: Instant,
    /// The status that carried the hint; new requests that are rejected get it too.
    pub status: u16,
}

/// The layout that this module writes, little endian: `version u8 · tokens i64 · credited u64 · per_second i64 ·
/// hold until u64 · hold status u16` (status 0: no hold).
const VERSION: u8 = 1;
const LEN: usize = 35;

impl Record {
    /// An upstream that nobody has seen yet.
    pub fn new(budget: &Budget, now: Instant) -> Self {
        Self { bucket: Bucket::new(budget, now), hold: None }
    }

    /// Brought up to the present and under the policy in force.
    #[must_use]
    pub fn touch(self, budget: &Budget, now: Instant) -> Self {
        Self { bucket: self.bucket.touch(budget, now), hold: self.hold.filter(|hold| hold.until > now) }
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

    /// Full and without a hold: a request that goes well changes nothing.
    pub fn is_at_rest(&self, budget: &Budget) -> bool {
        self.bucket.is_full(budget) && self.hold.is_none()
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let hold = self.hold.unwrap_or(Hold { until: Instant(0), status: 0 });
        let mut bytes = Vec::with_capacity(LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.bucket.tokens.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.credited.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.per_second.0.to_le_bytes());
        bytes.extend_from_slice(&hold.until.0.to_le_bytes());
        bytes.extend_from_slice(&hold.status.to_le_bytes());
        bytes
    }

    /// Reads a record. Of another version's only the tokens are understood, and time starts anew. `None`: not a record.
    pub fn from_bytes(bytes: &[u8], now: Instant) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (tokens, rest) = take(rest)?;
        let tokens = Millitokens(i64::from_le_bytes(tokens));
        if *version != VERSION {
            let bucket = Bucket { tokens, credited: now, per_second: Millitokens::ZERO };
            return Some(Self { bucket, hold: None });
        }
        let (credited, rest) = take(rest)?;
        let (per_second, rest) = take(rest)?;
        let (until, rest) = take(rest)?;
        let (status, _) = take(rest)?;
        let status = u16::from_le_bytes(status);
        let until = Instant(u64::from_le_bytes(until));
        Some(Self {
            bucket: Bucket {
                tokens,
                credited: Instant(u64::from_le_bytes(credited)),
                per_second: Millitokens(i64::from_le_bytes(per_second)),
            },
            hold: (status != 0).then_some(Hold { until, status }),
        })
    }
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
            },
            hold: hold.map(|(until, status)| Hold { until: Instant(until), status }),
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
