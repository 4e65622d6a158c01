//! One value of a hint header, and lists of them.

use super::header::HintHeader;
use super::{date, trim};
use crate::policy::duration::{self, Femtos, GO_UNITS};

/// When to come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// After so many milliseconds.
    After(u64),
    /// At an HTTP-date, in milliseconds since the epoch: by the clock of whoever sent it.
    At(i64),
}

/// Whole numbers from here on are Unix times in seconds (2001-09-09): as a delay this would be 31 years.
const UNIX_SECONDS_FROM: u128 = 1_000_000_000;
/// And from here on in milliseconds (1973-03-03): as seconds this would be the year 5138.
const UNIX_MILLIS_FROM: u128 = 100_000_000_000;

/// Reads one trimmed value; `None` when it is malformed.
pub fn read(header: HintHeader, text: &[u8], now_ms: u64) -> Option<Value> {
    match header {
        HintHeader::RetryAfter => {
            seconds(text, now_ms).map(Value::After).or_else(|| date::parse(text, now_ms).map(Value::At))
        }
        HintHeader::RatelimitReset | HintHeader::XRatelimitReset => seconds(text, now_ms).map(Value::After),
        HintHeader::RetryAfterMs | HintHeader::XMsRetryAfterMs => {
            duration::decimal(text, Femtos::MILLISECOND).map(|delay| Value::After(delay.millis_rounded_up()))
        }
        HintHeader::GrpcRetryPushbackMs | HintHeader::Ratelimit => None,
    }
}

/// Seconds, a Unix time, a decimal or a duration with units, as milliseconds from now.
///
/// Only whole numbers are Unix times. A decimal of that size is the delay that it says, 31 years or more: no retry,
/// which is never too early.
fn seconds(text: &[u8], now_ms: u64) -> Option<u64> {
    let Some(number) = duration::digits(text) else {
        let delay = duration::decimal(text, Femtos::SECOND).or_else(|| duration::with_units(text, &GO_UNITS));
        return delay.map(Femtos::millis_rounded_up);
    };
    let millis = match number {
        UNIX_MILLIS_FROM.. => number.saturating_sub(u128::from(now_ms)),
        UNIX_SECONDS_FROM.. => number.saturating_mul(1000).saturating_sub(u128::from(now_ms)),
        _ => number.saturating_mul(1000),
    };
    Some(u64::try_from(millis).unwrap_or(u64::MAX))
}

/// Hands the valid values of a field to `keep`; whether nothing in it was malformed.
///
/// Proxies may join repeated fields to a list (RFC 9110 §5.3), dates among them, so a date may stand anywhere in one,
/// with its own comma in it: two neighbours that make a date together are one. Empty members are nothing (§5.6.1), but
/// a field of nothing else is malformed.
pub fn read_list(field: &[u8], read: impl Fn(&[u8]) -> Option<Value>, mut keep: impl FnMut(Value)) -> bool {
    let (mut any, mut well_formed) = (false, true);
    let mut rest = Some(field);
    while let Some(list) = rest {
        let (first, after) = cut(list);
        let (pair, beyond) = match after.map(cut) {
            Some((_, beyond)) => (before(list, beyond), beyond),
            None => (first, None),
        };
        if let Some(value) = read(trim(pair)) {
            keep(value);
            any = true;
            rest = beyond;
            continue;
        }
        let member = trim(first);
        if !member.is_empty() {
            any = true;
            match read(member) {
                Some(value) => keep(value),
                None => well_formed = false,
            }
        }
        rest = after;
    }
    any && well_formed
}

/// What stands before the first comma, and what after it, where there is one.
fn cut(list: &[u8]) -> (&[u8], Option<&[u8]>) {
    let first = list.split(|byte| *byte == b',').next().unwrap_or(list);
    (first, list.get(first.len().saturating_add(1)..))
}

/// All of `list` up to the comma before `rest`, its end.
fn before<'a>(list: &'a [u8], rest: Option<&[u8]>) -> &'a [u8] {
    let cut = rest.map_or(0, |rest| rest.len().saturating_add(1));
    list.get(..list.len().saturating_sub(cut)).unwrap_or(list)
}
