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
}

/// The layout that this module writes: `version u8 · tokens i64 · credited u64 · per_second i64`, little endian.
const VERSION: u8 = 1;
const LEN: usize = 25;

impl Record {
    /// An upstream that nobody has seen yet.
    pub fn new(budget: &Budget, now: Instant) -> Self {
        Self { bucket: Bucket::new(budget, now) }
    }

    /// Brought up to the present and under the policy in force.
    #[must_use]
    pub fn touch(self, budget: &Budget, now: Instant) -> Self {
        Self { bucket: self.bucket.touch(budget, now) }
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(LEN);
        bytes.push(VERSION);
        bytes.extend_from_slice(&self.bucket.tokens.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.credited.0.to_le_bytes());
        bytes.extend_from_slice(&self.bucket.per_second.0.to_le_bytes());
        bytes
    }

    /// Reads a record. Of another version's only the tokens are understood, and time starts anew. `None`: not a record.
    pub fn from_bytes(bytes: &[u8], now: Instant) -> Option<Self> {
        let (version, rest) = bytes.split_first()?;
        let (tokens, rest) = take(rest)?;
        let tokens = Millitokens(i64::from_le_bytes(tokens));
        if *version != VERSION {
            return Some(Self { bucket: Bucket { tokens, credited: now, per_second: Millitokens::ZERO } });
        }
        let (credited, rest) = take(rest)?;
        let (per_second, _) = take(rest)?;
        Some(Self {
            bucket: Bucket {
                tokens,
                credited: Instant(u64::from_le_bytes(credited)),
                per_second: Millitokens(i64::from_le_bytes(per_second)),
            },
        })
    }
}

fn take(bytes: &[u8]) -> Option<([u8; 8], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<8>()?;
    Some((*head, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_round_trip(tokens: i64, credited: u64, per_second: i64) {
            let record = Record {
                bucket: Bucket { tokens: Millitokens(tokens), credited: Instant(credited), per_second: Millitokens(per_second) },
            };
            prop_assert_eq!(Record::from_bytes(&record.to_bytes(), Instant(7)), Some(record));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Record::from_bytes(&bytes, Instant(0));
        }
    }

    #[test]
    fn the_balance_of_another_version_is_kept() {
        let mut bytes =
            Record { bucket: Bucket { tokens: Millitokens(3400), credited: Instant(1), per_second: Millitokens(1) } }
                .to_bytes();
        bytes[0] = 9;
        bytes.truncate(12);
        let read = Record::from_bytes(&bytes, Instant(5)).map(|r| r.bucket);
        assert_eq!(read.map(|b| (b.tokens, b.credited)), Some((Millitokens(3400), Instant(5))));
    }
}
