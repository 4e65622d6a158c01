//! HTTP-dates, and the clock that they are measured by.

use super::*;

#[test]
fn a_date_has_one_of_three_forms() {
    for text in [
        "Sun, 29 Nov 2026 12:02:00 GMT",
        "Sunday, 29-Nov-26 12:02:00 GMT",
        "Sun Nov 29 12:02:00 2026",
        " Sun, 29 Nov 2026 12:02:00 GMT\t",
    ] {
        assert_eq!(retry_after(text), Some(120_000), "{text:?}");
    }
    for text in ["Sat, 05 Dec 2026 12:00:00 GMT", "Saturday, 05-Dec-26 12:00:00 GMT", "Sat Dec  5 12:00:00 2026"] {
        assert_eq!(retry_after(text), Some(6 * 86_400_000), "{text:?}");
    }
    assert_eq!(retry_after("Sat Dec 05 12:00:00 2026"), Some(6 * 86_400_000), "a day of two digits");
}

#[test]
fn a_date_that_is_past_is_no_delay() {
    for text in [
        "Sun, 29 Nov 2026 11:00:00 GMT",
        "Sun, 29 Nov 2026 12:00:00 GMT",
        "Thu, 01 Jan 1970 00:00:00 GMT",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sat, 01 Jan 0000 00:00:00 GMT",
    ] {
        assert_eq!(retry_after(text), Some(0), "{text}");
    }
}

#[test]
fn a_date_far_ahead_is_a_long_delay() {
    assert!(retry_after("Fri, 31 Dec 9999 23:59:59 GMT").is_some_and(|delay| delay > OVER));
}

#[test]
fn the_clock_is_exact_to_the_millisecond() {
    let field = [(&b"retry-after"[..], &b"Sun, 29 Nov 2026 12:00:02 GMT"[..])];
    let read = |now| read(HTTP_503, &Retriable::default(), now, field).hint;
    assert_eq!(read(NOW_MS + 1), Hint::Delay(1_999));
    assert_eq!(read(NOW_MS + 1_999), Hint::Delay(1));
    assert_eq!(read(NOW_MS + 2_001), Hint::Delay(0));
    assert_eq!(read(0), Hint::Delay(NOW_MS + 2_000));
    assert_eq!(read(u64::MAX), Hint::Delay(0));
}

#[test]
fn two_digits_are_a_year_at_most_50_years_ahead() {
    let year = 31_556_952_000;
    for text in ["Friday, 29-Nov-75 12:00:00 GMT", "Sunday, 29-Nov-76 12:00:00 GMT"] {
        assert!(retry_after(text).is_some_and(|delay| delay > 48 * year && delay < 51 * year), "{text}");
    }
    // A second later it would be more than 50 years: 1976, when it was a Monday.
    assert_eq!(retry_after("Monday, 29-Nov-76 12:00:01 GMT"), Some(0));
    assert_eq!(retry_after("Monday, 06-Dec-76 00:00:00 GMT"), Some(0));
    for text in ["Sunday, 29-Nov-76 12:00:01 GMT", "Monday, 29-Nov-76 12:00:00 GMT", "Saturday, 29-Nov-75 12:00:00 GMT"]
    {
        assert_eq!(retry_after(text), None, "{text}");
    }
    // The rule moves with the clock: on 2080-01-01 this is 2129.
    let field = [(&b"retry-after"[..], &b"Sunday, 02-Jan-29 00:00:00 GMT"[..])];
    let in_2080 = read(HTTP_503, &Retriable::default(), 3_471_292_800_000, field);
    assert_eq!(in_2080.hint, Hint::Delay(1_546_387_200_000));
}

#[test]
fn impossible_dates_are_malformed() {
    for text in [
        "Mon, 30 Feb 2026 12:00:00 GMT",
        "Sun, 31 Nov 2026 12:00:00 GMT",
        "Sun, 29 Feb 2026 12:00:00 GMT",
        "Sun, 00 Nov 2026 12:00:00 GMT",
        "Sun, 32 Nov 2026 12:00:00 GMT",
        "Mon, 29 Nov 2026 12:02:00 GMT",
        "Monday, 29-Nov-26 12:02:00 GMT",
        "Mon Nov 29 12:02:00 2026",
        "Sun, 29 Nov 2026 24:00:00 GMT",
        "Sun, 29 Nov 2026 12:60:00 GMT",
        "Sun, 29 Nov 2026 12:02:60 GMT",
        "Sun, 29 Nov 2026 23:59:61 GMT",
    ] {
        assert_eq!(retry_after(text), None, "{text}");
    }
}

#[test]
fn a_leap_second_is_the_second_after() {
    for text in ["Thu, 31 Dec 2026 23:59:60 GMT", "Thursday, 31-Dec-26 23:59:60 GMT", "Thu Dec 31 23:59:60 2026"] {
        assert_eq!(retry_after(text), retry_after("Fri, 01 Jan 2027 00:00:00 GMT"), "{text}");
    }
}

#[test]
fn what_only_resembles_a_date_is_malformed() {
    for text in [
        "sun, 29 nov 2026 12:02:00 gmt",
        "SUN, 29 NOV 2026 12:02:00 GMT",
        "Sun, 29 Nov 2026 12:02:00 UTC",
        "Sun, 29 Nov 2026 12:02:00 +0000",
        "Sun, 29 Nov 2026 12:02:00",
        "Sun, 29 Nov 2026 12:02:00 GMT+1",
        "Sun, 29 Nov 2026 12:02:00 GMT soon",
        "Sun,  29 Nov 2026 12:02:00 GMT",
        "Sun,29 Nov 2026 12:02:00 GMT",
        "Sun 29 Nov 2026 12:02:00 GMT",
        "Sun, 29  Nov 2026 12:02:00 GMT",
        "Sun, 29 Nov 26 12:02:00 GMT",
        "Sun, 29 Nov 02026 12:02:00 GMT",
        "Sun, 29-Nov-2026 12:02:00 GMT",
        "Sat, 5 Dec 2026 12:00:00 GMT",
        "Sun, 29 Nov 2026 12:02 GMT",
        "Sun, 29 Nov 2026 1:02:00 GMT",
        "Sun, 29 November 2026 12:02:00 GMT",
        "Sunday, 29-Nov-26X12:02:00 GMT",
        "Sunday, 29-Nov-2026 12:02:00 GMT",
        "Sun, 29-Nov-26 12:02:00 GMT",
        "Sun Nov 29 12:02:00 26",
        "Sun Nov 29 12:02:00 2026 GMT",
        "29 Nov 2026 12:02:00 GMT",
        "2026-11-29T12:02:00Z",
        "2026-11-29",
        "Sun, 29 Nov 2026 12:02:00 GM\u{442}",
    ] {
        assert_eq!(retry_after(text), None, "{text}");
    }
}

#[test]
fn a_date_is_measured_from_the_responses_own_date() {
    let ahead = "Sun, 29 Nov 2026 12:10:00 GMT";
    let at = "Sun, 29 Nov 2026 12:10:30 GMT";
    assert_eq!(hint(HTTP_503, &[("date", ahead), ("retry-after", at)]), Hint::Delay(30_000));
    assert_eq!(hint(HTTP_503, &[("retry-after", at), ("date", ahead)]), Hint::Delay(30_000));
    let rfc850 = "Sunday, 29-Nov-26 12:10:00 GMT";
    assert_eq!(hint(HTTP_503, &[("date", rfc850), ("retry-after", at)]), Hint::Delay(30_000));
    let early = "Wed, 31 Dec 1969 23:59:00 GMT";
    assert_eq!(
        hint(HTTP_503, &[("date", early), ("retry-after", "Wed, 31 Dec 1969 23:59:30 GMT")]),
        Hint::Delay(30_000)
    );
    // Not valid: from now.
    for date in ["yesterday", "", "Mon, 29 Nov 2026 12:10:00 GMT", "1795953600"] {
        assert_eq!(hint(HTTP_503, &[("date", date), ("retry-after", at)]), Hint::Delay(630_000), "{date}");
    }
    // Of two the earlier, in any order.
    let earlier = "Sun, 29 Nov 2026 12:09:00 GMT";
    for dates in [[ahead, earlier], [earlier, ahead]] {
        let fields = [("date", dates[0]), ("date", dates[1]), ("retry-after", at)];
        assert_eq!(hint(HTTP_503, &fields), Hint::Delay(90_000));
    }
    assert!(malformed(HTTP_503, &[("date", "yesterday"), ("retry-after", at)]).is_empty());
}
