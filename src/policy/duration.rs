//! Lengths of time as they are written, exactly: `1.5` (of some unit), and `1m30s` in the way of Go's `ParseDuration`.
//! Bytes, because headers promise no UTF-8.
//!
//! Through a float a fraction could be rounded down, and a wait would end too early.

/// A length of time in femtoseconds, saturating: fine enough that 15 decimals of a second are exact, and a `u64` of
/// milliseconds still is far from the end of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Femtos(u128);

impl Femtos {
    pub const MILLISECOND: Self = Self(1_000_000_000_000);
    pub const SECOND: Self = Self(1_000_000_000_000_000);
    const MINUTE: Self = Self(60_000_000_000_000_000);
    const HOUR: Self = Self(3_600_000_000_000_000_000);

    /// Milliseconds, rounded up: a wait of so many is never too short.
    pub fn millis_rounded_up(self) -> u64 {
        u64::try_from(self.0.div_ceil(Self::MILLISECOND.0)).unwrap_or(u64::MAX)
    }

    /// Milliseconds; `None` when it is finer than that, or longer than a `u64` can say.
    pub fn whole_millis(self) -> Option<u64> {
        let whole = self.0.checked_rem(Self::MILLISECOND.0)? == 0;
        whole.then_some(self.0.checked_div(Self::MILLISECOND.0)?).and_then(|millis| u64::try_from(millis).ok())
    }
}

pub type Unit = (&'static [u8], Femtos);

/// From milliseconds up, the longer names first where one begins another.
pub const UNITS: [Unit; 4] =
    [(b"ms", Femtos::MILLISECOND), (b"s", Femtos::SECOND), (b"m", Femtos::MINUTE), (b"h", Femtos::HOUR)];

/// All units of Go's `ParseDuration`; the micro sign has two code points, U+00B5 and U+03BC.
pub const GO_UNITS: [Unit; 8] = [
    (b"ns", Femtos(1_000_000)),
    (b"us", Femtos(1_000_000_000)),
    (b"\xc2\xb5s", Femtos(1_000_000_000)),
    (b"\xce\xbcs", Femtos(1_000_000_000)),
    (b"ms", Femtos::MILLISECOND),
    (b"s", Femtos::SECOND),
    (b"m", Femtos::MINUTE),
    (b"h", Femtos::HOUR),
];

/// ASCII digits and nothing else, saturating.
pub fn digits(text: &[u8]) -> Option<u128> {
    let (digits, rest) = take_digits(text)?;
    rest.is_empty().then(|| value(digits))
}

/// A number of `unit`s: ASCII digits, or digits on both sides of a point.
pub fn decimal(text: &[u8], unit: Femtos) -> Option<Femtos> {
    let (number, rest) = Decimal::take(text)?;
    rest.is_empty().then(|| number.times(unit))
}

/// Numbers that each have a unit, in any order, as often as they come; their sum. No signs; unlike Go's, a point has
/// digits on both sides, and a zero needs its unit, too.
pub fn with_units(mut text: &[u8], units: &[Unit]) -> Option<Femtos> {
    let mut sum = 0_u128;
    loop {
        let (number, rest) = Decimal::take(text)?;
        let (unit, rest) = units.iter().find_map(|(name, unit)| Some((*unit, rest.strip_prefix(*name)?)))?;
        sum = sum.saturating_add(number.times(unit).0);
        if rest.is_empty() {
            return Some(Femtos(sum));
        }
        text = rest;
    }
}

struct Decimal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
}

/// Decimals that are multiplied; those after them only round up. So many of them, of an hour, fit into a `u128`.
const PLACES: usize = 18;
const SCALE: u128 = 1_000_000_000_000_000_000;

impl<'a> Decimal<'a> {
    /// The number at the start, and what follows it.
    fn take(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (whole, rest) = take_digits(text)?;
        let (fraction, rest) = match rest.strip_prefix(b".") {
            Some(rest) => take_digits(rest)?,
            None => (&[][..], rest),
        };
        Some((Self { whole, fraction }, rest))
    }

    /// What a femtosecond cannot say is rounded up.
    fn times(&self, unit: Femtos) -> Femtos {
        let (near, far) = self.fraction.split_at_checked(PLACES).unwrap_or((self.fraction, &[]));
        let missing = u32::try_from(PLACES.saturating_sub(near.len())).unwrap_or(0);
        let more = u128::from(far.iter().any(|digit| *digit != b'0'));
        let scaled = value(near).saturating_mul(10_u128.saturating_pow(missing)).saturating_add(more);
        let part = scaled.saturating_mul(unit.0).div_ceil(SCALE);
        Femtos(value(self.whole).saturating_mul(unit.0).saturating_add(part))
    }
}

/// The ASCII digits at the start, one at least, and what follows them.
fn take_digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).filter(|(digits, _)| !digits.is_empty())
}

/// Of ASCII digits, saturating.
fn value(digits: &[u8]) -> u128 {
    let digit = |byte: u8| u128::from(byte.saturating_sub(b'0'));
    digits.iter().fold(0, |value: u128, byte| value.saturating_mul(10).saturating_add(digit(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(text: &str) -> Option<u64> {
        with_units(text.as_bytes(), &GO_UNITS).map(Femtos::millis_rounded_up)
    }

    #[test]
    fn a_decimal_is_rounded_up_never_down() {
        for (text, millis) in [
            ("0", 0),
            ("0.0", 0),
            ("1.5", 1500),
            ("01.50", 1500),
            ("0.001", 1),
            ("0.0001", 1),
            ("1.0000000000000000000000000000000001", 1001),
            ("1.0000000000000000000000000000000000", 1000),
            ("0.999999999999999999999999", 1000),
            ("1.9999999999999999999", 2000),
            ("18446744073709551.615", u64::MAX),
            ("18446744073709551.6151", u64::MAX),
            ("99999999999999999999999999999999999999999999.5", u64::MAX),
        ] {
            let read = decimal(text.as_bytes(), Femtos::SECOND);
            assert_eq!(read.map(Femtos::millis_rounded_up), Some(millis), "{text}");
        }
        for text in ["", ".", ".5", "1.", "1.5.", "1..5", "1.5s", "+1", "-1", "1e3", " 1", "1,5", "\u{b2}", "0x1"] {
            assert_eq!(decimal(text.as_bytes(), Femtos::SECOND), None, "{text}");
        }
    }

    #[test]
    fn go_durations_are_sums_of_numbers_with_units() {
        for (text, millis) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("250ms", 250),
            ("1.5h", 5_400_000),
            ("1h1m1s1ms", 3_661_001),
            ("1s1m1s", 62_000),
            ("0s", 0),
            ("1ns", 1),
            ("1000000ns", 1),
            ("1000001ns", 2),
            ("0.5us0.5us", 1),
            ("999999.5ns0.5ns", 1),
            ("1500us", 2),
            ("2000\u{b5}s", 2),
            ("2000\u{3bc}s", 2),
            ("0.000000000000000000000000001h", 1),
            ("5124095576h", 18_446_744_073_600_000),
            ("99999999999999999999999999999999999999999h1ms", u64::MAX),
        ] {
            assert_eq!(go(text), Some(millis), "{text}");
        }
        for text in [
            "", "5", "s", "ms", "1m30", "-30s", "+30s", "30S", "1d", "1 s", "30s ", ".5s", "1.s", "1mss", "1e3s",
            "1h,1m",
        ] {
            assert_eq!(go(text), None, "{text}");
        }
    }

    #[test]
    fn whole_milliseconds_are_exact() {
        let whole = |text: &str| with_units(text.as_bytes(), &UNITS).and_then(Femtos::whole_millis);
        assert_eq!(whole("1.5s"), Some(1500));
        assert_eq!(whole("0.001000000000000000000000s"), Some(1));
        assert_eq!(whole("1.5ms"), None);
        assert_eq!(whole("0.0010000000000000000000000000001s"), None);
        assert_eq!(whole("0.5ms0.5ms"), Some(1));
        assert_eq!(whole("99999999999999999999999999999999999999999h"), None);
        assert_eq!(whole("1us"), None, "no unit of these");
    }

    #[test]
    fn digits_saturate() {
        assert_eq!(digits(b"007"), Some(7));
        assert_eq!(digits("9".repeat(100).as_bytes()), Some(u128::MAX));
        assert_eq!(digits(b""), None);
        assert_eq!(digits(b"1\xff"), None);
    }
}
