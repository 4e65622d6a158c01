//! Decimal numbers, exactly: through a float `0.3` would need rounding, and rounding would let `0.0005` pass.

/// A JSON number in thousandths; `None` when it is finer than that or beyond an `i64`.
///
/// `text` is a number by JSON's grammar. Trailing zeros and exponents are no obstacle: `1e-1`, `0.100` and
/// `100000e-6` are the same number.
pub fn thousandths(text: &str) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (mut value, mut zeros, mut places, mut fraction) = (0_i64, 0_i64, 0_i64, false);
    for byte in mantissa.bytes() {
        if byte == b'.' {
            fraction = true;
            continue;
        }
        places = places.checked_add(i64::from(fraction))?;
        match byte.saturating_sub(b'0') {
            0 if value == 0 => {}
            // They count only where another digit follows.
            0 => zeros = zeros.checked_add(1)?,
            digit => {
                value = times_ten(value, zeros.checked_add(1)?)?.checked_add(i64::from(digit))?;
                zeros = 0;
            }
        }
    }
    if value == 0 {
        return Some(0); // Whatever the exponent.
    }
    let exponent = exponent.parse::<i64>().ok()?;
    let value = times_ten(value, exponent.checked_add(zeros)?.checked_sub(places)?.checked_add(3)?)?;
    if negative { value.checked_neg() } else { Some(value) }
}

/// `value` · 10^`times`
fn times_ten(value: i64, times: i64) -> Option<i64> {
    value.checked_mul(10_i64.checked_pow(u32::try_from(times).ok()?)?)
}

/// A JSON number that is whole (as JSON Schema has it: `503.0` is), and that `T` can hold.
pub fn whole<T: TryFrom<i64>>(text: &str) -> Option<T> {
    let thousandths = thousandths(text)?;
    match thousandths.checked_rem(1000)? {
        0 => T::try_from(thousandths.checked_div(1000)?).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::bucket::Millitokens;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("0e999999999999999999999", 0),
            ("0.1", 100),
            ("0.3", 300),
            ("0.10000000000000000000", 100),
            ("1e-1", 100),
            ("1E-3", 1),
            ("100000e-6", 100),
            ("0.001", 1),
            ("1.5e+2", 150_000),
            ("10", 10_000),
            ("1000000", 1_000_000_000),
            ("1e6", 1_000_000_000),
            ("-2.5", -2500),
            ("9223372036854775.807", i64::MAX),
            ("1000000000000000000000e-20", 10_000),
        ] {
            assert_eq!(thousandths(text), Some(value), "{text}");
        }
    }

    #[test]
    fn finer_than_thousandths_or_too_large_is_none() {
        for text in [
            "0.0005",
            "0.1001",
            "0.10000000000000000001",
            "1e-4",
            "1e-99999999999999999999",
            "9223372036854775.808",
            "1e16",
            "1e99",
            "1e99999999999999999999",
            "-1e99",
        ] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }

    #[test]
    fn whole_numbers_may_be_written_as_decimals() {
        assert_eq!(whole::<u16>("503"), Some(503));
        assert_eq!(whole::<u16>("503.0"), Some(503));
        assert_eq!(whole::<u16>("5.03e2"), Some(503));
        assert_eq!(whole::<u16>("503.5"), None);
        assert_eq!(whole::<u16>("-1"), None);
        assert_eq!(whole::<u8>("256"), None);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_the_same(value: i64) {
            prop_assert_eq!(thousandths(&Millitokens(value).to_string()), if value == i64::MIN { None } else { Some(value) });
        }

        #[test]
        fn any_number_is_read_or_refused(text in "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,30})?([eE][+-]?[0-9]{1,25})?") {
            let _ = thousandths(&text);
        }
    }
}
