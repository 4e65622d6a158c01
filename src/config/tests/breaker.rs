//! The breaker's keys: which of them switch which off, at one level and merged.

use super::*;
use crate::policy::breaker::BreakerPolicy;

const DEFAULT: BreakerPolicy = BreakerPolicy {
    consecutive_failures: Some(5),
    failure_ratio: None,
    window: 10_000,
    min_requests: 20,
    slow_call: None,
    open_for: 30_000,
    half_open_probes: 1,
};

const SHARE: BreakerPolicy =
    BreakerPolicy { consecutive_failures: None, failure_ratio: Some(Millitokens(500)), ..DEFAULT };

/// Of upstream `a`; that it shows and reads the same is checked, too.
fn breaker(text: &str) -> Option<BreakerPolicy> {
    let config = good(text);
    for shown in [config.describe(), config.describe_pretty()] {
        assert_eq!(good(&shown), config, "{shown}");
    }
    config.policy_for(b"a").breaker.clone()
}

#[test]
fn there_is_none_unless_it_is_asked_for() {
    assert_eq!(BreakerPolicy::default(), DEFAULT);
    for text in ["{}", r#"{"breaker":null}"#, r#"{"upstreams":{"a":{}}}"#, r#"{"upstreams":{"b":{"breaker":{}}}}"#] {
        assert_eq!(breaker(text), None, "{text}");
    }
    assert_eq!(breaker(r#"{"breaker":{}}"#), Some(DEFAULT));
}

#[test]
fn what_is_named_decides_what_opens_it() {
    let both = BreakerPolicy { consecutive_failures: Some(5), ..SHARE };
    for (keys, expected) in [
        (r#""consecutive_failures":3"#, BreakerPolicy { consecutive_failures: Some(3), ..DEFAULT }),
        (r#""failure_ratio":0.25"#, BreakerPolicy { failure_ratio: Some(Millitokens(250)), ..SHARE }),
        (r#""window":"1m""#, BreakerPolicy { window: 60_000, ..SHARE }),
        (r#""min_requests":7"#, BreakerPolicy { min_requests: 7, ..SHARE }),
        (r#""failure_ratio":0.5,"consecutive_failures":5"#, both.clone()),
        (r#""consecutive_failures":5,"min_requests":20"#, both.clone()),
        // What does not open it leaves what does alone.
        (r#""slow_call":"2s""#, BreakerPolicy { slow_call: Some(2000), ..DEFAULT }),
        (r#""slow_call":null"#, DEFAULT),
        (
            r#""open_for":"1ms","half_open_probes":1000"#,
            BreakerPolicy { open_for: 1, half_open_probes: 1000, ..DEFAULT },
        ),
        (r#""slow_call":"2s","failure_ratio":0.5"#, BreakerPolicy { slow_call: Some(2000), ..SHARE }),
        // `null` is for one who does not want it: it asks for nothing in its place.
        (r#""failure_ratio":null"#, DEFAULT),
        (r#""failure_ratio":null,"window":"1m""#, BreakerPolicy { window: 60_000, ..DEFAULT }),
        (r#""consecutive_failures":null,"failure_ratio":0.5"#, SHARE),
        (r#""consecutive_failures":null,"window":"10s""#, SHARE),
        // From one end to the other.
        (
            r#""consecutive_failures":1e6,"failure_ratio":0.001,"window":"1h","min_requests":1000000,"open_for":"24h""#,
            BreakerPolicy {
                consecutive_failures: Some(1_000_000),
                failure_ratio: Some(Millitokens(1)),
                window: 3_600_000,
                min_requests: 1_000_000,
                open_for: 86_400_000,
                ..DEFAULT
            },
        ),
        (
            r#""consecutive_failures":1,"failure_ratio":1.0,"window":"1s","min_requests":1,"slow_call":"1ms""#,
            BreakerPolicy {
                consecutive_failures: Some(1),
                failure_ratio: Some(Millitokens(1000)),
                window: 1000,
                min_requests: 1,
                slow_call: Some(1),
                ..DEFAULT
            },
        ),
    ] {
        assert_eq!(breaker(&format!(r#"{{"breaker":{{{keys}}}}}"#)).as_ref(), Some(&expected), "{keys}");
        // An upstream of its own starts from the same.
        let own = format!(r#"{{"upstreams":{{"a":{{"breaker":{{{keys}}}}}}}}}"#);
        assert_eq!(breaker(&own), Some(expected), "{own}");
    }
}

#[test]
fn an_upstream_completes_what_stands_above() {
    for (above, own, expected) in [
        (r#"{"consecutive_failures":3}"#, "{}", Some(BreakerPolicy { consecutive_failures: Some(3), ..DEFAULT })),
        ("{}", r#"{"open_for":"5s"}"#, Some(BreakerPolicy { open_for: 5000, ..DEFAULT })),
        // Named above or here: either counts.
        ("{}", r#"{"failure_ratio":0.5}"#, Some(SHARE)),
        (
            r#"{"consecutive_failures":3}"#,
            r#"{"failure_ratio":0.5}"#,
            Some(BreakerPolicy { consecutive_failures: Some(3), ..SHARE }),
        ),
        (
            r#"{"failure_ratio":0.5}"#,
            r#"{"consecutive_failures":3}"#,
            Some(BreakerPolicy { consecutive_failures: Some(3), ..SHARE }),
        ),
        (
            r#"{"failure_ratio":0.2}"#,
            r#"{"window":"1m"}"#,
            Some(BreakerPolicy { failure_ratio: Some(Millitokens(200)), window: 60_000, ..SHARE }),
        ),
        (
            r#"{"window":"1m"}"#,
            r#"{"failure_ratio":0.2}"#,
            Some(BreakerPolicy { failure_ratio: Some(Millitokens(200)), window: 60_000, ..SHARE }),
        ),
        (r#"{"window":"1m"}"#, r#"{"failure_ratio":null}"#, Some(BreakerPolicy { window: 60_000, ..DEFAULT })),
        (r#"{"slow_call":"1s"}"#, r#"{"slow_call":null}"#, Some(DEFAULT)),
        (r#"{"slow_call":"1s"}"#, r#"{"window":"10s"}"#, Some(BreakerPolicy { slow_call: Some(1000), ..SHARE })),
        // Off here, or there only here.
        (r#"{"consecutive_failures":3}"#, "null", None),
        ("null", "{}", Some(DEFAULT)),
        ("null", r#"{"min_requests":20}"#, Some(SHARE)),
    ] {
        let text = format!(r#"{{"upstreams":{{"a":{{"breaker":{own}}}}},"breaker":{above}}}"#);
        assert_eq!(breaker(&text), expected, "{text}");
    }
}

#[test]
fn the_level_above_is_its_own() {
    let config = good(r#"{"breaker":{"slow_call":"1s"},"upstreams":{"a":{"breaker":{"failure_ratio":0.5}},"b":{}}}"#);
    let slow = BreakerPolicy { slow_call: Some(1000), ..DEFAULT };
    assert_eq!(config.policy_for(b"other").breaker, Some(slow.clone()));
    assert_eq!(config.policy_for(b"b").breaker, Some(slow.clone()));
    assert_eq!(config.policy_for(b"a").breaker, Some(BreakerPolicy { slow_call: slow.slow_call, ..SHARE }));
}

#[test]
fn the_whole_of_it_is_shown() {
    let shown = good(r#"{"breaker":{"min_requests":5},"upstreams":{"a":{"breaker":null}}}"#).describe();
    let whole = r#""breaker":{"consecutive_failures":null,"failure_ratio":0.5,"window":"10s","min_requests":5,"slow_call":null,"open_for":"30s","half_open_probes":1},"#;
    assert!(shown.contains(whole) && shown.contains(r#""breaker":null,"#), "{shown}");
}

#[test]
fn errors_name_the_key() {
    let count = "a whole number from 1 to 1000000";
    let ratio = "null or a number from 0.001 to 1 in steps of 0.001";
    let example = r#"in whole milliseconds, such as "250ms", "1.5s" or "2m""#;
    let opens = "a number at `consecutive_failures` or `failure_ratio`, or null for no breaker";
    let keys = "`consecutive_failures`, `failure_ratio`, `window`, `min_requests`, `slow_call`, `open_for` or `half_open_probes`";
    for (text, error) in [
        ("true", "breaker: found true, allowed is null or an object".to_string()),
        ("[]", "breaker: found an array, allowed is null or an object".to_string()),
        (r#"{"consecutive_failures":0}"#, format!("breaker.consecutive_failures: found 0, allowed is null or {count}")),
        (
            r#"{"consecutive_failures":1.5}"#,
            format!("breaker.consecutive_failures: found 1.5, allowed is null or {count}"),
        ),
        (
            r#"{"consecutive_failures":1000001}"#,
            format!("breaker.consecutive_failures: found 1000001, allowed is null or {count}"),
        ),
        (
            r#"{"consecutive_failures":"5"}"#,
            format!("breaker.consecutive_failures: found the string \"5\", allowed is null or {count}"),
        ),
        (r#"{"failure_ratio":0}"#, format!("breaker.failure_ratio: found 0, allowed is {ratio}")),
        (r#"{"failure_ratio":50}"#, format!("breaker.failure_ratio: found 50, allowed is {ratio}")),
        (r#"{"failure_ratio":0.0005}"#, format!("breaker.failure_ratio: found 0.0005, allowed is {ratio}")),
        (
            r#"{"window":"999ms"}"#,
            format!(
                "breaker.window: found the string \"999ms\", allowed is a duration from \"1s\" to \"3600s\" {example}"
            ),
        ),
        (
            r#"{"window":"61m"}"#,
            format!(
                "breaker.window: found the string \"61m\", allowed is a duration from \"1s\" to \"3600s\" {example}"
            ),
        ),
        (
            r#"{"window":null}"#,
            format!("breaker.window: found null, allowed is a duration from \"1s\" to \"3600s\" {example}"),
        ),
        (r#"{"min_requests":0}"#, format!("breaker.min_requests: found 0, allowed is {count}")),
        (r#"{"min_requests":null}"#, format!("breaker.min_requests: found null, allowed is {count}")),
        (
            r#"{"slow_call":"0ms"}"#,
            format!(
                "breaker.slow_call: found the string \"0ms\", allowed is null or a duration from \"1ms\" to \"86400s\" {example}"
            ),
        ),
        (
            r#"{"open_for":"0s"}"#,
            format!(
                "breaker.open_for: found the string \"0s\", allowed is a duration from \"1ms\" to \"86400s\" {example}"
            ),
        ),
        (
            r#"{"open_for":30}"#,
            format!("breaker.open_for: found 30, allowed is a duration from \"1ms\" to \"86400s\" {example}"),
        ),
        (
            r#"{"half_open_probes":1001}"#,
            "breaker.half_open_probes: found 1001, allowed is a whole number from 1 to 1000".to_string(),
        ),
        (
            r#"{"failure_rate":0.5}"#,
            format!(
                "breaker.failure_rate: found the unknown key \"failure_rate\" with 0.5, allowed is {keys}; did you mean `failure_ratio`?"
            ),
        ),
        (
            r#"{"consecutive_failures":null}"#,
            format!("breaker: found a breaker that nothing opens, allowed is {opens}"),
        ),
        (
            r#"{"consecutive_failures":null,"failure_ratio":null,"window":"1s"}"#,
            format!("breaker: found a breaker that nothing opens, allowed is {opens}"),
        ),
        // One error for one slip.
        (
            r#"{"consecutive_failures":null,"failure_ratio":2}"#,
            format!("breaker.failure_ratio: found 2, allowed is {ratio}"),
        ),
    ] {
        assert_eq!(bad(&format!(r#"{{"breaker":{text}}}"#)), std::slice::from_ref(&error), "{text}");
        let own = format!(r#"{{"upstreams":{{"a":{{"breaker":{text}}}}}}}"#);
        assert_eq!(bad(&own), [format!("upstreams.a.{error}")], "{text}");
    }
}

#[test]
fn a_breaker_that_nothing_opens_is_told_where_it_is_made() {
    let told = "found a breaker that nothing opens, allowed is a number at `consecutive_failures` or `failure_ratio`, or null for no breaker";
    let above = r#"{"breaker":{"consecutive_failures":null},"upstreams":{"a":{},"b":{"breaker":{}},"c":{"breaker":{"open_for":"1s"}}}}"#;
    assert_eq!(bad(above), [format!("breaker: {told}")]);
    let below = r#"{"breaker":{"failure_ratio":0.5},"upstreams":{"a":{"breaker":{"failure_ratio":null,"consecutive_failures":null}},"b":{}}}"#;
    assert_eq!(bad(below), [format!("upstreams.a.breaker: {told}")]);
    // Off, it needs nothing that opens it.
    assert_eq!(breaker(r#"{"breaker":{"failure_ratio":0.5},"upstreams":{"a":{"breaker":null}}}"#), None);
}

#[test]
fn a_key_of_it_one_level_up_is_known() {
    for (name, guess) in
        [("open_for", "`breaker.open_for`"), ("breaker.windows", "`breaker.window`"), ("breakers", "`breaker`")]
    {
        let errors = bad(&format!(r#"{{"{name}":1}}"#));
        assert!(errors[0].ends_with(&format!("; did you mean {guess}?")), "{errors:?}");
    }
}
