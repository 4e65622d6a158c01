//! Durations of a configuration: `"250ms"`, `"1.5s"`, `"2m"`, `"1m30s"`. As Istio and the Gateway API write them, and
//! with the decimals that Envoy allows.

use crate::policy::duration::{Femtos, UNITS, with_units};

/// For the JSON Schema; says the same as `UNITS`.
#[cfg(not(target_arch = "wasm32"))]
pub const PATTERN: &str = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$";

/// Whole milliseconds; `None` when it is no duration, or finer than that.
pub fn millis(text: &str) -> Option<u64> {
    with_units(text.as_bytes(), &UNITS).and_then(Femtos::whole_millis)
}

/// The same as one number: seconds, or below one second milliseconds.
pub fn text(millis: u64) -> String {
    let (seconds, rest) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    match (seconds, rest) {
        (0, _) => format!("{rest}ms"),
        (_, 0) => format!("{seconds}s"),
        _ => format!("{seconds}.{}s", format!("{rest:03}").trim_end_matches('0')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_are_ms_s_m_h() {
        for (text, expected) in [
            ("0ms", 0),
            ("0s", 0),
            ("250ms", 250),
            ("1.5s", 1500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("1m30s", 90_000),
        ] {
            assert_eq!(millis(text), Some(expected), "{text}");
        }
        for text in [
            "", "0", "5", "1.5", "-1s", "+1s", " 1s", "1s ", "1 s", "1S", "1d", "1us", "1ns", ".5s", "1.s", "1,5s",
            "1e3s",
        ] {
            assert_eq!(millis(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_finer_than_a_millisecond_is_refused() {
        for text in ["0.5ms", "0.0001s", "1.0000000000000000000000000000001s"] {
            assert_eq!(millis(text), None, "{text}");
        }
        assert_eq!(millis("0.0010s"), Some(1));
    }

    #[test]
    fn shown_in_seconds_or_below_one_in_milliseconds() {
        let shown = [0, 1, 250, 999, 1000, 1001, 1500, 60_000, 5_400_000].map(text);
        assert_eq!(shown, ["0ms", "1ms", "250ms", "999ms", "1s", "1.001s", "1.5s", "60s", "5400s"]);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_the_same(value: u64) {
            prop_assert_eq!(millis(&text(value)), Some(value));
        }
    }
}
