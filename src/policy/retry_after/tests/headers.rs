//! The headers beside Retry-After, and which of them counts.

use super::*;

#[test]
fn milliseconds_are_digits_or_a_decimal() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        for (text, millis) in [("4321", 4_321), ("0", 0), ("1500.5", 1_501), ("1795953690000", 1_795_953_690_000)] {
            assert_eq!(one(HTTP_503, name, text.as_bytes()), Some(millis), "{name} {text}");
        }
        assert_eq!(one(HTTP_503, name, "9".repeat(30).as_bytes()), Some(u64::MAX));
        for text in ["", "-1", "5s", "250ms", "1e3", "Sun, 29 Nov 2026 12:02:00 GMT"] {
            assert_eq!(one(HTTP_503, name, text.as_bytes()), None, "{name} {text}");
        }
    }
}

#[test]
fn the_longest_valid_hint_counts() {
    assert_eq!(hint(HTTP_503, &[("retry-after", "5"), ("retry-after-ms", "4600")]), Hint::Delay(5_000));
    assert_eq!(hint(HTTP_503, &[("retry-after", "5"), ("retry-after-ms", "5600")]), Hint::Delay(5_600));
    assert_eq!(hint(HTTP_503, &[("retry-after", "5"), ("x-ms-retry-after-ms", "5601")]), Hint::Delay(5_601));
    let fields = [("retry-after-ms", "-1"), ("retry-after", "3")];
    assert_eq!(hint(HTTP_503, &fields), Hint::Delay(3_000));
    assert_eq!(malformed(HTTP_503, &fields), ["retry-after-ms"]);
    let fields = [("retry-after", "x"), ("retry-after-ms", "x"), ("x-ms-retry-after-ms", "x")];
    assert_eq!(hint(HTTP_503, &fields), Hint::Ignored(Ignored::Malformed));
    assert_eq!(malformed(HTTP_503, &fields), ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"]);
}

#[test]
fn pushback_is_a_delay_or_the_end_of_retries() {
    for (text, expected) in [
        ("250", Hint::Delay(250)),
        (" 250 ", Hint::Delay(250)),
        ("0", Hint::Delay(0)),
        ("-0", Hint::Delay(0)),
        ("0250", Hint::Delay(250)),
        ("2147483647", Hint::Delay(2_147_483_647)),
        ("-1", Hint::Never(Never::Negative)),
        ("-2147483648", Hint::Never(Never::Negative)),
        ("2147483648", Hint::Never(Never::Malformed)),
        ("-2147483649", Hint::Never(Never::Malformed)),
        ("99999999999999999999999999999999999999999999", Hint::Never(Never::Malformed)),
        ("abc", Hint::Never(Never::Malformed)),
        ("", Hint::Never(Never::Malformed)),
        ("-", Hint::Never(Never::Malformed)),
        ("--1", Hint::Never(Never::Malformed)),
        ("+5", Hint::Never(Never::Malformed)),
        ("1.5", Hint::Never(Never::Malformed)),
        ("5s", Hint::Never(Never::Malformed)),
        ("250, 250", Hint::Never(Never::Malformed)),
    ] {
        assert_eq!(hint(grpc(14), &[(PUSHBACK, text)]), expected, "{text}");
        let told = if expected == Hint::Never(Never::Malformed) { &[PUSHBACK][..] } else { &[] };
        assert_eq!(malformed(grpc(14), &[(PUSHBACK, text)]), told, "{text}");
    }
    let repeated = [(PUSHBACK, "250"), (PUSHBACK, "250")];
    assert_eq!(hint(grpc(14), &repeated), Hint::Never(Never::Repeated));
    assert!(malformed(grpc(14), &repeated).is_empty());
}

#[test]
fn never_outweighs_any_delay_and_a_longer_retry_after_a_pushback() {
    assert_eq!(hint(grpc(14), &[("retry-after", "5"), (PUSHBACK, "-1")]), Hint::Never(Never::Negative));
    assert_eq!(hint(grpc(14), &[(PUSHBACK, "250"), ("retry-after", "1")]), Hint::Delay(1_000));
    assert_eq!(hint(grpc(14), &[(PUSHBACK, "1250"), ("retry-after", "1")]), Hint::Delay(1_250));
    assert_eq!(hint(grpc(8), &[("retry-after-ms", "300"), (PUSHBACK, "250")]), Hint::Delay(300));
}

#[test]
fn pushback_is_read_on_every_failing_grpc_status_and_retry_after_on_two() {
    for code in [1, 4, 8, 13, 14] {
        assert_eq!(hint(grpc(code), &[(PUSHBACK, "250")]), Hint::Delay(250), "{code}");
    }
    for code in [8, 14] {
        assert_eq!(hint(grpc(code), &[("retry-after", "5")]), Hint::Delay(5_000), "{code}");
    }
    for code in [1, 4, 13] {
        assert_eq!(hint(grpc(code), &[("retry-after", "5")]), Hint::Ignored(Ignored::Absent), "{code}");
        assert_eq!(hint(grpc(code), &[("retry-after", "5"), (PUSHBACK, "250")]), Hint::Delay(250), "{code}");
    }
    for code in [0, 2, 5, 16, 99] {
        let fields = [(PUSHBACK, "-1"), ("retry-after", "5")];
        assert_eq!(hint(grpc(code), &fields), Hint::Ignored(Ignored::Status), "{code}");
    }
    let unknown = Retriable { grpc_statuses: [2].into_iter().collect(), ..Retriable::default() };
    let field = [(PUSHBACK.as_bytes(), &b"250"[..])];
    assert_eq!(read(grpc(2), &unknown, NOW_MS, field).hint, Hint::Delay(250));
    assert_eq!(hint(HTTP_503, &[(PUSHBACK, "-1")]), Hint::Ignored(Ignored::Absent), "no gRPC response");
}

#[test]
fn a_429_without_a_hint_is_asked_for_its_reset() {
    for name in ["ratelimit-reset", "x-ratelimit-reset"] {
        for (text, millis) in [
            ("30", 30_000),
            ("1795953690", 90_000),
            ("1795953690500", 90_500),
            ("0.25", 250),
            ("6m0s", 360_000),
            ("0", 0),
        ] {
            assert_eq!(one(HTTP_429, name, text.as_bytes()), Some(millis), "{name} {text}");
        }
        for text in ["", "soon", "-1", "Sun, 29 Nov 2026 12:02:00 GMT"] {
            assert_eq!(one(HTTP_429, name, text.as_bytes()), None, "{name} {text}");
        }
        for status in [HTTP_503, grpc(8)] {
            assert_eq!(hint(status, &[(name, "30")]), Hint::Ignored(Ignored::Absent), "{name} {status}");
        }
    }
    assert_eq!(hint(HTTP_429, &[("ratelimit-reset", "30"), ("x-ratelimit-reset", "40")]), Hint::Delay(40_000));
}

#[test]
fn a_valid_hint_comes_before_a_reset_and_a_malformed_one_does_not() {
    for first in [("retry-after", "0"), ("retry-after-ms", "0")] {
        assert_eq!(hint(HTTP_429, &[("ratelimit-reset", "30"), first]), Hint::Delay(0));
    }
    let fields = [("retry-after", "soon"), ("ratelimit-reset", "30"), ("ratelimit", "\"a\";r=0;t=60")];
    assert_eq!(hint(HTTP_429, &fields), Hint::Delay(30_000));
    assert_eq!(malformed(HTTP_429, &fields), ["retry-after"]);
    let fields = [("ratelimit", "\"a\";r=0;t=60"), ("x-ratelimit-reset", "soon")];
    assert_eq!(hint(HTTP_429, &fields), Hint::Delay(60_000));
    assert_eq!(malformed(HTTP_429, &fields), ["x-ratelimit-reset"]);
    // What was not needed was not read.
    assert!(malformed(HTTP_429, &[("retry-after", "5"), ("ratelimit-reset", "soon")]).is_empty());
}

#[test]
fn a_429_is_asked_for_the_limits_that_are_exhausted() {
    for (text, millis) in [
        (r#""default";r=0;t=17"#, 17_000),
        (r#""default"; r=0; t=17"#, 17_000),
        (r#""default";t=17;r=0"#, 17_000),
        (r#""default";r=0;t=17;pk=:cHsdsRa894==:"#, 17_000),
        ("default;r=0;t=0", 0),
        (r#""a";r=5;t=90, "b";r=0;t=17, "c";r=0;t=20"#, 20_000),
        (r#""a,b;r=1;t=1\";";r=0;t=17"#, 17_000),
        (r#""a";r=1;r=0;t=9;t=17"#, 17_000),
        (r#""a";r=0;t=99999999999999999999999"#, u64::MAX),
    ] {
        assert_eq!(one(HTTP_429, "ratelimit", text.as_bytes()), Some(millis), "{text}");
    }
    let repeated = [("ratelimit", r#""a";r=0;t=7"#), ("ratelimit", r#""b";r=0;t=9"#)];
    assert_eq!(hint(HTTP_429, &repeated), Hint::Delay(9_000));
    for text in [r#""default";r=1;t=17"#, r#""default";r=0"#, r#""default";t=17"#, "limit=100, remaining=0, reset=17"] {
        let reading = reading(HTTP_429, &[("ratelimit", text)]);
        assert_eq!(reading, Reading { hint: Hint::Ignored(Ignored::Absent), malformed: HintHeaders::EMPTY }, "{text}");
    }
    for text in [
        "",
        ",",
        ";r=0;t=17",
        r#""a";r=0;t=-1"#,
        r#""a";r=0;t=1.5"#,
        r#""a";r=0;t=soon"#,
        r#""a";r=;t=17"#,
        r#""a";r=-1;t=17"#,
        r#""a;r=0;t=17"#,
    ] {
        assert_eq!(one(HTTP_429, "ratelimit", text.as_bytes()), None, "{text}");
    }
    assert_eq!(hint(HTTP_503, &[("ratelimit", r#""a";r=0;t=17"#)]), Hint::Ignored(Ignored::Absent));
}
