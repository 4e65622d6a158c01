//! Deadlines as headers carry them: how a value is read, and how what is left is written.

/// Nanoseconds that are left, saturating; 0: expired. So fine that no unit of `grpc-timeout` is rounded as it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeLeft(pub u64);

/// A moment on the wall clock, in nanoseconds since 1970-01-01T00:00:00Z. Only `epoch-ms` needs one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(pub u64);

/// `TimeoutUnit` of gRPC over HTTP/2 with its nanoseconds, the finest first.
const GRPC_UNITS: [(u8, u64); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', NANOS_PER_MILLI),
    (b'S', NANOS_PER_SECOND),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];
/// `TimeoutValue` of gRPC over HTTP/2: "positive integer as ASCII string of at most 8 digits".
const GRPC_DIGITS: usize = 8;
const GRPC_LARGEST: u64 = 99_999_999;

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl TimeLeft {
    pub const EXPIRED: Self = Self(0);

    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(NANOS_PER_MILLI))
    }

    pub const fn is_expired(self) -> bool {
        self.0 == 0
    }

    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Whole milliseconds, as `deadline.emit` and logs show them: rounded down, but 1 for the last fraction of a
    /// millisecond, and 0 only when nothing is left.
    ///
    /// 0 would tell the next hop that the time is up while this one still waits: Envoy's timers count whole
    /// milliseconds, and it rounds the fraction of a `grpc-timeout` up to 1 as well. A header in milliseconds never
    /// grows by it: it came in with at least 1.
    pub fn millis(self) -> u64 {
        let whole = self.0.checked_div(NANOS_PER_MILLI).unwrap_or(0);
        if self.is_expired() { 0 } else { whole.max(1) }
    }

    /// The same for `x-envoy-upstream-rq-timeout-ms`, at least 1 whatever is left: Envoy takes 0 for "no timeout".
    pub fn envoy_timeout_millis(self) -> u64 {
        self.millis().max(1)
    }

    /// The value of a `grpc-timeout`: the finest unit in which at most 8 digits suffice, rounded down. Never more than
    /// is left, and `0n` only when nothing is.
    pub fn grpc_timeout(self) -> String {
        let fits = |(unit, nanos): (u8, u64)| {
            let count = self.0.checked_div(nanos).filter(|count| *count <= GRPC_LARGEST)?;
            Some(format!("{count}{}", char::from(unit)))
        };
        // Hours always fit: a u64 of nanoseconds is five million of them.
        GRPC_UNITS.into_iter().find_map(fits).unwrap_or_default()
    }

    /// The time that Envoy gives an attempt, from the value of its `x-envoy-expected-rq-timeout-ms`, in milliseconds.
    /// None when it is 0 (Envoy's "no timeout") or not a number.
    pub fn told_by_envoy(value: &[u8]) -> Option<Self> {
        let left = Number::parse(trim(value))?.times(NANOS_PER_MILLI);
        (!left.is_expired()).then_some(left)
    }
}

/// How a header says what is left (`deadline.accept[].format`).
///
/// A number is ASCII digits, with at most one leading minus (none in `grpc-timeout`). Anything else is malformed: a
/// plus sign, a point, an exponent, other scripts' digits, a unit that is not the format's, an empty value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Milliseconds: `800`.
    Ms,
    /// Whole seconds: `2`.
    S,
    /// `grpc-timeout` of gRPC over HTTP/2: `500m`.
    Grpc,
    /// The moment when the time is up, in milliseconds since 1970: `1767225600000`. Depends on the clocks of two
    /// machines, hence the check for skew.
    EpochMs,
}

/// What one value says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Left(TimeLeft),
    /// A moment too far away to be meant: one of the two clocks is wrong.
    Skewed,
    Malformed,
}

impl Format {
    /// As in configurations.
    pub const NAMES: [(&'static str, Self); 4] =
        [("ms", Self::Ms), ("s", Self::S), ("grpc", Self::Grpc), ("epoch-ms", Self::EpochMs)];

    /// The values of one field. Proxies may join repeated fields to a list (RFC 9110 §5.3, with `, `; Envoy joins
    /// `grpc-timeout` with a bare comma): it is read as the fields that it was made of.
    ///
    /// A number with a bare comma is left whole, and thereby malformed: `1,000` is a thousand that a careless
    /// formatter grouped; reading it as 1 and 0 would expire the request.
    pub(super) fn values(self, field: &[u8]) -> impl Iterator<Item = &[u8]> {
        let field = trim(field);
        let joined = self == Self::Grpc || members(field).skip(1).all(|rest| rest.first().is_some_and(is_blank));
        let (list, whole) = if joined { (Some(members(field)), None) } else { (None, Some(field)) };
        list.into_iter().flatten().chain(whole).map(trim)
    }

    /// Reads one value without blanks around it. `max` is the furthest that a moment may be away from `wall`; where
    /// the wall clock is not known no moment can be placed, so that all are skewed.
    pub(super) fn parse(self, value: &[u8], wall: Option<WallTime>, max: TimeLeft) -> Value {
        let read = match self {
            Self::Ms => Number::parse(value).map(|n| Value::Left(n.times(NANOS_PER_MILLI))),
            Self::S => Number::parse(value).map(|n| Value::Left(n.times(NANOS_PER_SECOND))),
            Self::Grpc => parse_grpc(value).map(Value::Left),
            Self::EpochMs => Number::parse(value).map(|n| place(n, wall, max)),
        };
        read.unwrap_or(Value::Malformed)
    }
}

fn place(millis: Number, wall: Option<WallTime>, max: TimeLeft) -> Value {
    let Some(WallTime(now)) = wall else { return Value::Skewed };
    let moment = millis.magnitude.saturating_mul(NANOS_PER_MILLI);
    let away = if millis.negative { now.saturating_add(moment) } else { now.abs_diff(moment) };
    if away > max.0 {
        Value::Skewed
    } else if millis.negative {
        Value::Left(TimeLeft::EXPIRED)
    } else {
        Value::Left(TimeLeft(moment.saturating_sub(now)))
    }
}

fn parse_grpc(value: &[u8]) -> Option<TimeLeft> {
    let (unit, count) = value.split_last()?;
    let (_, nanos) = GRPC_UNITS.into_iter().find(|(name, _)| name == unit)?;
    let count = (count.len() <= GRPC_DIGITS).then(|| digits(count))??;
    Some(TimeLeft(count.saturating_mul(nanos)))
}

/// A whole number, its magnitude cut to what a u64 holds.
#[derive(Clone, Copy)]
struct Number {
    negative: bool,
    magnitude: u64,
}

impl Number {
    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, rest) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Some(Self { negative, magnitude: digits(rest)? })
    }

    /// Expired when negative.
    fn times(self, nanos: u64) -> TimeLeft {
        if self.negative { TimeLeft::EXPIRED } else { TimeLeft(self.magnitude.saturating_mul(nanos)) }
    }
}

/// At least one ASCII digit and nothing else; saturating.
fn digits(text: &[u8]) -> Option<u64> {
    let push = |number: u64, digit: &u8| {
        let digit = char::from(*digit).to_digit(10)?;
        Some(number.saturating_mul(10).saturating_add(u64::from(digit)))
    };
    if text.is_empty() { None } else { text.iter().try_fold(0, push) }
}

fn members(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|byte| *byte == b',')
}

/// Without the optional white space around it (RFC 9110 §5.6.3): spaces and tabs, nothing else.
fn trim(mut text: &[u8]) -> &[u8] {
    while let Some((_, rest)) = text.split_first().filter(|(first, _)| is_blank(first)) {
        text = rest;
    }
    while let Some((_, rest)) = text.split_last().filter(|(last, _)| is_blank(last)) {
        text = rest;
    }
    text
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: TimeLeft = TimeLeft(15 * NANOS_PER_SECOND);
    const NOON: WallTime = WallTime(1_767_268_800_000 * NANOS_PER_MILLI);

    fn parse(format: Format, value: &str) -> Value {
        format.parse(value.as_bytes(), Some(NOON), MAX)
    }

    fn nanos(n: u64) -> Value {
        Value::Left(TimeLeft(n))
    }

    #[test]
    fn a_number_is_digits_with_at_most_one_leading_minus() {
        for (text, millis) in [("800", 800), ("0", 0), ("-5", 0), ("-0", 0), ("007", 7), ("-99999999999999999999", 0)] {
            assert_eq!(parse(Format::Ms, text), nanos(millis * NANOS_PER_MILLI), "{text}");
            assert_eq!(parse(Format::S, text), nanos(millis * NANOS_PER_SECOND), "{text}");
        }
        let bad =
            ["", "-", "+5", "--5", "5-", "1e3", "abc", "0x10", "1.5", "5ms", "5 0", "5\0", "٣", "５", "∞", "1,000"];
        for format in [Format::Ms, Format::S, Format::EpochMs] {
            for text in bad {
                assert_eq!(parse(format, text), Value::Malformed, "{format:?} {text:?}");
            }
        }
    }

    #[test]
    fn thirty_digits_are_as_long_as_can_be() {
        let long = "9".repeat(30);
        assert_eq!(parse(Format::Ms, &long), nanos(u64::MAX));
        assert_eq!(parse(Format::S, &long), nanos(u64::MAX));
        assert_eq!(parse(Format::Grpc, &format!("{long}S")), Value::Malformed);
        assert_eq!(parse(Format::EpochMs, &long), Value::Skewed);
    }

    #[test]
    fn a_grpc_timeout_is_up_to_eight_digits_and_a_unit() {
        let good = [
            ("1H", 3_600 * NANOS_PER_SECOND),
            ("2M", 120 * NANOS_PER_SECOND),
            ("3S", 3 * NANOS_PER_SECOND),
            ("500m", 500 * NANOS_PER_MILLI),
            ("500u", 500_000),
            ("00000001n", 1),
            ("0S", 0),
            ("99999999H", u64::MAX),
        ];
        for (text, left) in good {
            assert_eq!(parse(Format::Grpc, text), nanos(left), "{text}");
        }
        for text in ["", "S", "5", "-5S", "+5S", "5s", "5h", "5U", "5 S", "5mS", "1.5S", "123456789m", "٣S"] {
            assert_eq!(parse(Format::Grpc, text), Value::Malformed, "{text:?}");
        }
    }

    #[test]
    fn a_moment_counts_from_the_wall_clock_unless_a_clock_is_wrong() {
        let noon = NOON.0 / NANOS_PER_MILLI;
        let hour = 3_600_000;
        let at = |millis: u64| parse(Format::EpochMs, &millis.to_string());
        assert_eq!(at(noon + 800), nanos(800 * NANOS_PER_MILLI));
        assert_eq!(at(noon + 15_000), nanos(MAX.0));
        assert_eq!([noon, noon - 1, noon - 15_000].map(at), [nanos(0); 3]);
        assert_eq!([noon + 15_001, noon - 15_001, noon + hour, noon - hour, 0].map(at), [Value::Skewed; 5]);
        assert_eq!(parse(Format::EpochMs, "-5"), Value::Skewed);
        assert_eq!(Format::EpochMs.parse(b"5", None, MAX), Value::Skewed);
        assert_eq!(Format::EpochMs.parse(b"abc", None, MAX), Value::Malformed);
    }

    #[test]
    fn a_list_is_the_fields_that_it_was_joined_from() {
        let split = |format: Format, field: &'static str| format.values(field.as_bytes()).collect::<Vec<_>>();
        assert_eq!(split(Format::Ms, " 800\t"), [b"800"]);
        assert_eq!(split(Format::Ms, "800, 300,\t200"), [b"800", b"300", b"200"]);
        assert_eq!(split(Format::Ms, "800, , 300"), [&b"800"[..], b"", b"300"]);
        assert_eq!(split(Format::Grpc, "500m,3S , 1H"), [&b"500m"[..], b"3S", b"1H"]);
        for whole in ["1,000", "800, 1,000", "800,", ",800", "", ","] {
            assert_eq!(split(Format::S, whole), [whole.as_bytes()]);
        }
    }

    #[test]
    fn the_last_fraction_of_a_millisecond_is_one_and_only_nothing_is_nothing() {
        assert_eq!([0, 1, 999_999, 1_000_000, 1_999_999, 2_000_000].map(|n| TimeLeft(n).millis()), [0, 1, 1, 1, 1, 2]);
        assert_eq!([0, 1, 2_999_999].map(|n| TimeLeft(n).envoy_timeout_millis()), [1, 1, 2]);
    }

    #[test]
    fn a_grpc_timeout_is_written_in_the_finest_unit_that_fits() {
        let cases = [
            (0, "0n"),
            (1, "1n"),
            (99_999_999, "99999999n"),
            (100_000_999, "100000u"),
            (500_000_000, "500000u"),
            (100_000_999_999, "100000m"),
            (100_000_999_999_999, "100000S"),
            (100_000_000 * NANOS_PER_SECOND, "1666666M"),
            (u64::MAX, "5124095H"),
        ];
        for (left, text) in cases {
            assert_eq!(TimeLeft(left).grpc_timeout(), text);
        }
    }

    #[test]
    fn what_envoy_tells_an_attempt_is_a_time_unless_it_says_none() {
        assert_eq!(TimeLeft::told_by_envoy(b"15000"), Some(TimeLeft::from_millis(15_000)));
        for none in [&b"0"[..], b"-5", b"", b"abc", b"5,6"] {
            assert_eq!(TimeLeft::told_by_envoy(none), None);
        }
    }

    /// Nanoseconds of every order of magnitude.
    fn any_left() -> impl Strategy<Value = u64> {
        (any::<u64>(), 0u32..64).prop_map(|(n, shift)| n >> shift)
    }

    proptest! {
        #[test]
        fn a_written_grpc_timeout_reads_as_no_more_and_less_than_a_unit_less(left in any_left()) {
            let text = TimeLeft(left).grpc_timeout();
            let Value::Left(read) = parse(Format::Grpc, &text) else { panic!("{text}") };
            let unit = GRPC_UNITS.iter().find(|(name, _)| text.as_bytes().last() == Some(name)).unwrap().1;
            prop_assert!(read.0 <= left && left - read.0 < unit, "{left} {text}");
            prop_assert_eq!(read.is_expired(), left == 0);
        }

        #[test]
        fn written_milliseconds_read_as_no_more_once_a_whole_one_is_left(left in any_left()) {
            let written = TimeLeft(left).millis();
            let read = parse(Format::Ms, &written.to_string());
            prop_assert_eq!(read, nanos(written * NANOS_PER_MILLI));
            prop_assert!(written * NANOS_PER_MILLI <= left.max(NANOS_PER_MILLI));
            prop_assert!(left - (written * NANOS_PER_MILLI).min(left) < NANOS_PER_MILLI);
            prop_assert_eq!(written == 0, left == 0);
        }

        /// Seconds and moments are only read; a sender that rounds down loses less than its unit.
        #[test]
        fn seconds_and_moments_read_as_no_more_than_was_given(left in 0..=MAX.0) {
            let Value::Left(read) = parse(Format::S, &(left / NANOS_PER_SECOND).to_string()) else { panic!() };
            prop_assert!(read.0 <= left && left - read.0 < NANOS_PER_SECOND);
            let moment = (NOON.0 + left) / NANOS_PER_MILLI;
            let Value::Left(read) = parse(Format::EpochMs, &moment.to_string()) else { panic!() };
            prop_assert!(read.0 <= left && left - read.0 < NANOS_PER_MILLI);
        }

        #[test]
        fn more_left_is_never_written_as_less(a in any_left(), b in any_left()) {
            let (less, more) = (TimeLeft(a.min(b)), TimeLeft(a.max(b)));
            prop_assert!(less.millis() <= more.millis());
            // From three years up gRPC's minutes are coarser than the seconds below.
            let [less, more] = [less, more].map(|l| TimeLeft(l.0.min(GRPC_LARGEST * NANOS_PER_SECOND)));
            let [less, more] = [less, more].map(|l| parse_grpc(l.grpc_timeout().as_bytes()));
            prop_assert!(less <= more);
        }
    }
}
