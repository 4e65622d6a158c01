//! HTTP-dates (RFC 9110 §5.6.7), all three forms. `httpdate` knows the calendar; what it takes more loosely or more
//! narrowly than the RFC is settled before it is asked.

use std::time::{Duration, UNIX_EPOCH};

/// Names of days as RFC 850 has them; the other forms have their first three letters.
const DAYS: [&[u8]; 7] = [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The calendar repeats after so many years, days of the week included.
const CYCLE_YEARS: u16 = 400;
const CYCLE_SECONDS: i64 = 146_097 * 86_400;
/// `httpdate` knows no earlier year.
const FIRST_YEAR: u16 = 1970;
/// 9999-12-31T23:59:59Z, the last second with a date of four digits.
const LAST_SECOND: u64 = 253_402_300_799;

/// The moment that an HTTP-date names, in milliseconds since the epoch. `now_ms` tells the century of two digits.
///
/// The day of the week has to be the date's own, and 60 is a second only in 23:59:60, a leap second.
pub fn parse(text: &[u8], now_ms: u64) -> Option<i64> {
    Civil::imf_fixdate(text)
        .or_else(|| Civil::asctime(text))
        .or_else(|| Civil::rfc850(text, now_ms))
        .and_then(|date| date.seconds())
        .map(|seconds| seconds.saturating_mul(1000))
}

/// The parts of a date, as yet unjudged but for the year.
struct Civil {
    weekday: [u8; 3],
    day: [u8; 2],
    month: [u8; 3],
    year: u16,
    time: [u8; 8],
}

impl Civil {
    /// `Sun, 06 Nov 1994 08:49:37 GMT`
    fn imf_fixdate(text: &[u8]) -> Option<Self> {
        let [w0, w1, w2, b',', b' ', d0, d1, b' ', m0, m1, m2, b' ', year @ .., b' ', b'G', b'M', b'T'] = text else {
            return None;
        };
        let [y0, y1, y2, y3, b' ', time @ ..] = year else { return None };
        Some(Self {
            weekday: [*w0, *w1, *w2],
            day: [*d0, *d1],
            month: [*m0, *m1, *m2],
            year: number(&[*y0, *y1, *y2, *y3])?,
            time: time.try_into().ok()?,
        })
    }

    /// `Sun Nov  6 08:49:37 1994`
    fn asctime(text: &[u8]) -> Option<Self> {
        let [w0, w1, w2, b' ', m0, m1, m2, b' ', d0, d1, b' ', time @ .., b' ', y0, y1, y2, y3] = text else {
            return None;
        };
        let padded = if *d0 == b' ' { b'0' } else { *d0 };
        Some(Self {
            weekday: [*w0, *w1, *w2],
            day: [padded, *d1],
            month: [*m0, *m1, *m2],
            year: number(&[*y0, *y1, *y2, *y3])?,
            time: time.try_into().ok()?,
        })
    }

    /// `Sunday, 06-Nov-94 08:49:37 GMT`
    fn rfc850(text: &[u8], now_ms: u64) -> Option<Self> {
        let (weekday, text) = DAYS.iter().find_map(|day| Some((*day, text.strip_prefix(*day)?)))?;
        let [b',', b' ', d0, d1, b'-', m0, m1, m2, b'-', y0, y1, b' ', time @ .., b' ', b'G', b'M', b'T'] = text else {
            return None;
        };
        let date = Self {
            weekday: *weekday.first_chunk()?,
            day: [*d0, *d1],
            month: [*m0, *m1, *m2],
            year: number(&[*y0, *y1])?,
            time: time.try_into().ok()?,
        };
        date.in_century(now_ms)
    }

    /// A year of two digits in full: the latest such year that is not more than 50 years in the future.
    fn in_century(self, now_ms: u64) -> Option<Self> {
        let seconds = now_ms.div_euclid(1000).min(LAST_SECOND);
        let now = httpdate::fmt_http_date(UNIX_EPOCH.checked_add(Duration::from_secs(seconds))?);
        let now = Self::imf_fixdate(now.as_bytes())?;
        let latest = now.year.checked_add(50)?;
        let year = latest.checked_sub(latest.checked_sub(self.year)?.checked_rem(100)?)?;
        let too_late = year == latest && self.within_year()? > now.within_year()?;
        Some(Self { year: if too_late { year.checked_sub(100)? } else { year }, ..self })
    }

    /// What orders the moments of one year.
    fn within_year(&self) -> Option<(usize, [u8; 2], [u8; 8])> {
        let month = MONTHS.iter().position(|month| **month == self.month)?;
        Some((month, self.day, self.time))
    }

    /// Since the epoch; `None` where no calendar has such a date.
    fn seconds(mut self) -> Option<i64> {
        let leap = self.time == *b"23:59:60";
        if leap {
            self.time = *b"23:59:59";
        }
        let mut before = 0_i64;
        while self.year < FIRST_YEAR {
            self.year = self.year.checked_add(CYCLE_YEARS)?;
            before = before.checked_add(CYCLE_SECONDS)?;
        }
        let date = httpdate::parse_http_date(std::str::from_utf8(&self.to_imf_fixdate()?).ok()?).ok()?;
        let seconds = i64::try_from(date.duration_since(UNIX_EPOCH).ok()?.as_secs()).ok()?;
        seconds.checked_add(i64::from(leap))?.checked_sub(before)
    }

    fn to_imf_fixdate(&self) -> Option<[u8; 29]> {
        let mut text = *b"DDD, dd MMM yyyy HH:MM:SS GMT";
        let year = format!("{:04}", self.year);
        for (at, part) in
            [(0, &self.weekday[..]), (5, &self.day), (8, &self.month), (12, year.as_bytes()), (17, &self.time)]
        {
            text.get_mut(at..)?.get_mut(..part.len())?.copy_from_slice(part);
        }
        Some(text)
    }
}

/// Of ASCII digits.
fn number(digits: &[u8]) -> Option<u16> {
    u16::try_from(crate::policy::duration::digits(digits)?).ok()
}
