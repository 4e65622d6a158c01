//! The other values of a Retry-After, and lists of them.

use super::*;

#[test]
fn digits_are_seconds() {
    for (text, millis) in [("0", 0), ("120", 120_000), ("007", 7_000), (" 5 ", 5_000), ("\t 5\t", 5_000)] {
        assert_eq!(retry_after(text), Some(millis), "{text:?}");
    }
}

#[test]
fn only_blanks_and_tabs_are_trimmed() {
    for text in ["\u{b}5", "5\u{c}", "5\r", "\n5", "\u{a0}5", "5\u{3000}", "5\0"] {
        assert_eq!(retry_after(text), None, "{text:?}");
    }
}

#[test]
fn a_large_number_is_a_unix_time() {
    for (text, millis) in [
        ("999999999", 999_999_999_000),
        ("1000000000", 0),
        ("1795953599", 0),
        ("1795953600", 0),
        ("1795953690", 90_000),
        ("0001795953690", 90_000),
        ("99999999999", 99_999_999_999_000 - NOW_MS),
        ("100000000000", 0),
        ("1795953599999", 0),
        ("1795953600001", 1),
        ("1795953690500", 90_500),
        ("18446744073709551615", u64::MAX - NOW_MS),
        ("18446744073709551616", u64::MAX - NOW_MS + 1),
        ("99999999999999999999999999", u64::MAX),
    ] {
        assert_eq!(retry_after(text), Some(millis), "{text}");
    }
    assert_eq!(retry_after("9".repeat(10_000)), Some(u64::MAX));
}

#[test]
fn a_unix_time_is_measured_by_the_own_clock() {
    let fields = [("date", "Sun, 29 Nov 2026 12:10:00 GMT"), ("retry-after", "1795953690")];
    assert_eq!(hint(HTTP_503, &fields), Hint::Delay(90_000));
}

#[test]
fn decimal_seconds_are_rounded_up() {
    for (text, millis) in [
        ("1.5", 1_500),
        ("0.0", 0),
        ("0.0001", 1),
        ("2.0004999", 2_001),
        ("1.000000000000000000000000000000000000000001", 1_001),
        ("1795953690.5", 1_795_953_690_500),
    ] {
        assert_eq!(retry_after(text), Some(millis), "{text}");
    }
    for text in [".5", "1.", ".", "1.5.2", "1,5"] {
        assert_ne!(retry_after(text), Some(1_500), "{text}");
    }
    assert_eq!([".5", "1.", "."].map(retry_after), [None; 3]);
}

#[test]
fn go_durations_are_taken() {
    for (text, millis) in
        [("30s", 30_000), ("1m30s", 90_000), ("250ms", 250), ("1h", 3_600_000), ("1.5h", 5_400_000), ("100us", 1)]
    {
        assert_eq!(retry_after(text), Some(millis), "{text}");
    }
    for text in ["-30s", "+30s", "30S", "1m30", "1 m", "30 s", "1d", "s"] {
        assert_eq!(retry_after(text), None, "{text}");
    }
}

#[test]
fn anything_else_is_malformed() {
    for text in [
        "",
        " ",
        "-1",
        "+5",
        "1e3",
        "1E3",
        "0x10",
        "0b1",
        "NaN",
        "inf",
        "Infinity",
        "null",
        "true",
        "120 seconds",
        "5;",
        "\"5\"",
        "5 5",
        "1_000",
        "--",
        "\u{b2}",
        "\u{663}",
        "\u{ff15}",
        "soon",
        "5\u{200b}",
        "P1D",
        "PT30S",
    ] {
        assert_eq!(retry_after(text), None, "{text:?}");
    }
    for bytes in [&b"\xff"[..], b"5\xff", b"\x005", b"\xb2"] {
        assert_eq!(retry_after(bytes), None, "{}", bytes.escape_ascii());
    }
}

#[test]
fn of_several_values_the_longest_counts() {
    for (text, millis) in [
        ("5, 9", 9_000),
        ("9,5", 9_000),
        ("5,9,7", 9_000),
        ("5, 1.5, 30s", 30_000),
        ("Sun, 29 Nov 2026 12:02:00 GMT, 120", 120_000),
        ("Sun, 29 Nov 2026 12:02:00 GMT, 121", 121_000),
        ("Sun, 29 Nov 2026 12:05:00 GMT, 120", 300_000),
        ("120, Sun, 29 Nov 2026 12:05:00 GMT", 300_000),
        ("120,Sunday, 29-Nov-26 12:05:00 GMT,7", 300_000),
        ("Sun, 29 Nov 2026 12:05:00 GMT, Sun, 29 Nov 2026 12:06:00 GMT", 360_000),
        ("Sun Nov 29 12:07:00 2026, Sun, 29 Nov 2026 12:06:00 GMT", 420_000),
    ] {
        assert_eq!(retry_after(text), Some(millis), "{text}");
    }
    let repeated = [("retry-after", "5"), ("retry-after", "Sun, 29 Nov 2026 12:00:09 GMT"), ("retry-after", "7")];
    assert_eq!(hint(HTTP_503, &repeated), Hint::Delay(9_000));
}

#[test]
fn empty_members_are_nothing() {
    for text in [",5", "5,", ", ,5,\t,"] {
        assert_eq!(retry_after(text), Some(5_000), "{text}");
    }
    for text in [",", " , ,", ""] {
        assert_eq!(retry_after(text), None, "{text:?}");
    }
}

#[test]
fn a_malformed_member_is_told_and_the_valid_one_counts() {
    for text in
        ["5, abc", "abc, 5", "-1,5", "Sun, 5", "5, 30 Feb 2026 12:00:00 GMT", "Mon, 30 Feb 2026 12:00:00 GMT, 5"]
    {
        let fields = [("retry-after", text)];
        assert_eq!(hint(HTTP_503, &fields), Hint::Delay(5_000), "{text}");
        assert_eq!(malformed(HTTP_503, &fields), ["retry-after"], "{text}");
    }
    let repeated = [("retry-after", "soon"), ("retry-after", "5")];
    assert_eq!(hint(HTTP_503, &repeated), Hint::Delay(5_000));
    assert_eq!(malformed(HTTP_503, &repeated), ["retry-after"]);
}

#[test]
fn long_lists_are_read_in_linear_time() {
    let list = "Sun, ".repeat(200_000) + "7";
    assert_eq!(hint(HTTP_503, &[("retry-after", &list)]), Hint::Delay(7_000));
}
