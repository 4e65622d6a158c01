//! The rules of a configuration as its author meets them. Those of the parts are tested beside the parts.

use super::*;
use crate::policy::bucket::Millitokens;
use crate::policy::outcome::{GrpcStatusSet, StatusSet};
use crate::policy::{Budget, DepositOn, EmitStopSignal, Hold, LogDecisions, Mode, RetryAfter};

mod breaker;
mod properties;
mod who;

fn good(text: &str) -> Config {
    Config::parse(text.as_bytes()).unwrap_or_else(|errors| panic!("{text}\n{errors}"))
}

fn bad(text: &str) -> Vec<String> {
    let errors = Config::parse(text.as_bytes()).expect_err(text);
    errors.iter().map(ToString::to_string).collect()
}

/// `budget` of an upstream in thousandths: ratio, cap, start, per second.
fn budget(config: &Config, upstream: &str) -> [i64; 4] {
    let Budget { ratio, max, initial, per_second, .. } = config.policy_for(upstream.as_bytes()).budget;
    [ratio.0, max.0, initial.0, per_second.0]
}

#[test]
fn nothing_is_the_default() {
    for text in ["", " \n\t", "{}", " {} "] {
        let config = good(text);
        assert_eq!(config, Config::default());
        assert_eq!(*config.policy_for(b"any"), Policy::default());
        assert_eq!(config.placement, None);
    }
}

#[test]
fn every_key_reaches_its_field() {
    let config = good(
        r#"{"mode": "observe", "placement": "callee", "log": "all", "stop_signal": {"emit": "failed"},
            "budget": {"ratio": 0.25, "max_tokens": 20, "initial_tokens": 5.5, "min_retries_per_second": 1e-3, "deposit_on": "success"},
            "retriable": {"statuses": ["5XX", 404], "headers": ["X-Shed"], "grpc_statuses": [14, 1]},
            "retry_after": {"max": "1m30s", "wait": true, "hold": "requests", "obey": false, "hold_statuses": [429, 503]}}"#,
    );
    assert_eq!(config.placement, Some(Placement::Callee));
    let policy = config.policy_for(b"any");
    assert_eq!(policy.mode, Mode::Observe);
    assert_eq!(policy.log, LogDecisions::All);
    assert_eq!(policy.emit, EmitStopSignal::Failed);
    let expected = Budget {
        ratio: Millitokens(250),
        max: Millitokens(20_000),
        initial: Millitokens(5_500),
        per_second: Millitokens(1),
        deposit_on: DepositOn::Success,
    };
    assert_eq!(policy.budget, expected);
    assert_eq!(policy.retriable.statuses, (500..=599).chain([404]).collect::<StatusSet>());
    assert_eq!(policy.retriable.headers, ["x-shed"]);
    assert_eq!(policy.retriable.grpc_statuses, [1, 14].into_iter().collect::<GrpcStatusSet>());
    let hold_statuses = [429, 503].into_iter().collect();
    let expected = RetryAfter { max_ms: 90_000, wait: true, hold: Hold::Requests, obey: false, hold_statuses };
    assert_eq!(policy.retry_after, expected);
    assert_eq!(good(r#"{"placement": "auto"}"#), Config::default());
}

#[test]
fn a_new_upstream_starts_with_a_full_bucket_unless_told_otherwise() {
    assert_eq!(budget(&good(r#"{"budget":{"max_tokens":3}}"#), "a"), [100, 3_000, 3_000, 0]);
    assert_eq!(budget(&good(r#"{"budget":{"max_tokens":30}}"#), "a"), [100, 30_000, 30_000, 0]);
    let merged = good(
        r#"{"budget":{"max_tokens":3},"upstreams":{"big":{"budget":{"max_tokens":50}},"slow":{"budget":{"initial_tokens":1}}}}"#,
    );
    assert_eq!(budget(&merged, "big"), [100, 50_000, 50_000, 0]);
    assert_eq!(budget(&merged, "slow"), [100, 3_000, 1_000, 0]);
    let named_above = good(r#"{"budget":{"initial_tokens":0},"upstreams":{"big":{"budget":{"max_tokens":50}}}}"#);
    assert_eq!(budget(&named_above, "big"), [100, 50_000, 0, 0]);
}

#[test]
fn upstreams_are_merged_key_by_key_and_lists_replaced() {
    let config = good(
        r#"{"upstreams": {"orders": {"budget": {"ratio": 0.2}, "retriable": {"statuses": []}}},
            "budget": {"ratio": 0.5, "min_retries_per_second": 2}, "log": "off"}"#,
    );
    assert_eq!(budget(&config, "orders"), [200, 10_000, 10_000, 2_000]);
    assert_eq!(budget(&config, "other"), [500, 10_000, 10_000, 2_000]);
    let orders = config.policy_for(b"orders");
    assert_eq!(orders.log, LogDecisions::Off);
    assert_eq!(orders.retriable.statuses, StatusSet::EMPTY);
    assert_eq!(orders.retriable.grpc_statuses, Policy::default().retriable.grpc_statuses);
}

#[test]
fn the_exact_name_wins_then_the_longest_glob() {
    let entry = |name: &str, ratio| format!(r#""{name}":{{"budget":{{"ratio":{ratio}}}}}"#);
    let entries = [
        ("*", 1),
        ("orders*", 2),
        ("orders-v*", 3),
        ("orders-v1", 4),
        ("*-v2xxxx", 5),
        ("orders-*", 6),
        ("*rders-v", 7),
    ];
    let text = entries.map(|(name, ratio)| entry(name, ratio)).join(",");
    let config = good(&format!(r#"{{"upstreams":{{{text}}}}}"#));
    for (upstream, ratio) in [
        ("orders-v1", 4),
        ("orders-v2", 3),
        ("orders-x", 6),
        ("orders", 2),
        ("orders-v2xxxx", 3), // One byte longer than `*-v2xxxx`.
        ("orders-v", 3),
        ("other", 1),
        ("orders*", 2),
    ] {
        assert_eq!(budget(&config, upstream)[0], ratio * 1000, "{upstream}");
    }
    let config = good(&format!(r#"{{"upstreams":{{{},{}}}}}"#, entry("*b", 2), entry("a*", 1)));
    assert_eq!(budget(&config, "ab")[0], 2000, "`*b` comes before `a*`");
    assert_eq!(*good("{}").policy_for(b"\xff\xfe"), Policy::default());
    let any = good(&format!(r#"{{"upstreams":{{{}}}}}"#, entry("x*", 1)));
    assert_eq!(any.policy_for(b"x\xff").budget.ratio, Millitokens(1000));
}

#[test]
fn errors_name_path_value_what_is_allowed_and_the_nearest_key() {
    let budget_keys = "`ratio`, `max_tokens`, `initial_tokens`, `min_retries_per_second` or `deposit_on`";
    let top_keys = "`mode`, `placement`, `budget`, `retriable`, `retry_after`, `deadline`, `idempotency`, `breaker`, `owner`, `stop_signal`, `log` or `upstreams`";
    let ratio = "a number from 0 to 10 in steps of 0.001";
    let tokens = "a number from 0 to 1000000 in steps of 0.001";
    let status = "an HTTP status from 100 to 599 or a class from \"1xx\" to \"5xx\"";
    let delay = r#"a duration from "0ms" to "86400s" in whole milliseconds, such as "250ms", "1.5s" or "2m""#;
    let grpc = "a gRPC status code from 1 to 16 (0 is OK, never a failure)";
    for (text, error) in [
        (r#"{"budget":{"ration":0.1}}"#, format!("budget.ration: found the unknown key \"ration\" with 0.1, allowed is {budget_keys}; did you mean `ratio`?")),
        (r#"{"budget":{"ratio":"x"}}"#, format!("budget.ratio: found the string \"x\", allowed is {ratio}")),
        (r#"{"budget":{"ratio":-1}}"#, format!("budget.ratio: found -1, allowed is {ratio}")),
        (r#"{"budget":{"ratio":10.001}}"#, format!("budget.ratio: found 10.001, allowed is {ratio}")),
        (r#"{"budget":{"ratio":0.0005}}"#, format!("budget.ratio: found 0.0005, allowed is {ratio}")),
        (r#"{"budget":{"ratio":null}}"#, format!("budget.ratio: found null, allowed is {ratio}")),
        (r#"{"budget":{"max_tokens":1000000.001}}"#, format!("budget.max_tokens: found 1000000.001, allowed is {tokens}")),
        (r#"{"budget":{"max_tokens":1e999999999999}}"#, format!("budget.max_tokens: found 1e999999999999, allowed is {tokens}")),
        (r#"{"budget":[1]}"#, "budget: found an array, allowed is an object".to_string()),
        (r#"{"budget":{"deposit_on":true}}"#, "budget.deposit_on: found true, allowed is \"request\" or \"success\"".to_string()),
        ("[]", "$: found an array, allowed is an object".to_string()),
        ("null", "$: found null, allowed is an object".to_string()),
        ("\"{}\"", "$: found the string \"{}\", allowed is an object".to_string()),
        (r#"{"mode":"enforced"}"#, "mode: found the string \"enforced\", allowed is \"enforce\", \"observe\" or \"off\"; did you mean \"enforce\"?".to_string()),
        (r#"{"ratio":0.1}"#, format!("ratio: found the unknown key \"ratio\" with 0.1, allowed is {top_keys}; did you mean `budget.ratio`?")),
        (r#"{"budget.ratio":0.1}"#, format!("$[\"budget.ratio\"]: found the unknown key \"budget.ratio\" with 0.1, allowed is {top_keys}; did you mean `budget.ratio`?")),
        (r#"{"limits":{}}"#, format!("limits: found the unknown key \"limits\" with an object, allowed is {top_keys}")),
        (r#"{"retriable":{"statuses":[503,"5xx",600]}}"#, format!("retriable.statuses[2]: found 600, allowed is {status}")),
        (r#"{"retriable":{"statuses":503}}"#, format!("retriable.statuses: found 503, allowed is an array with each item {status}")),
        (r#"{"retriable":{"grpc_statuses":[0]}}"#, format!("retriable.grpc_statuses[0]: found 0, allowed is {grpc}")),
        (r#"{"retry_after":{"max":60}}"#, format!("retry_after.max: found 60, allowed is {delay}")),
        (r#"{"retry_after":{"max":"60"}}"#, format!("retry_after.max: found the string \"60\", allowed is {delay}")),
        (r#"{"retry_after":{"max":"1.5ms"}}"#, format!("retry_after.max: found the string \"1.5ms\", allowed is {delay}")),
        (r#"{"retry_after":{"max":"24h1ms"}}"#, format!("retry_after.max: found the string \"24h1ms\", allowed is {delay}")),
        (r#"{"retry_after":{"max":null}}"#, format!("retry_after.max: found null, allowed is {delay}")),
        (r#"{"retry_after":{"wait":"true"}}"#, "retry_after.wait: found the string \"true\", allowed is true or false".to_string()),
        (r#"{"retry_after":{"hold":"request"}}"#, "retry_after.hold: found the string \"request\", allowed is \"retries\", \"requests\" or \"off\"; did you mean \"requests\"?".to_string()),
        (r#"{"retry_after":{"obey":"false"}}"#, "retry_after.obey: found the string \"false\", allowed is true or false".to_string()),
        (r#"{"retriable":{"headers":["x-shed","X-Shed"]}}"#, "retriable.headers[1]: found the string \"X-Shed\", allowed is the name of a header field, each once".to_string()),
        (r#"{"retriable":{"header":[]}}"#, "retriable.header: found the unknown key \"header\" with an array, allowed is `statuses`, `headers` or `grpc_statuses`; did you mean `headers`?".to_string()),
        (r#"{"retry_after":{"hold_statuses":[99]}}"#, format!("retry_after.hold_statuses[0]: found 99, allowed is {status}")),
        (r#"{"upstreams":{"orders":{"budget":{"ratio":11}}}}"#, format!("upstreams.orders.budget.ratio: found 11, allowed is {ratio}")),
        (r#"{"upstreams":{"outbound|80||a.b":{"budget":{"ratio":11}}}}"#, format!("upstreams[\"outbound|80||a.b\"].budget.ratio: found 11, allowed is {ratio}")),
        (r#"{"upstreams":{"a":null}}"#, "upstreams.a: found null, allowed is an object".to_string()),
        (r#"{"upstreams":["a"]}"#, "upstreams: found an array, allowed is an object with names of upstreams, or globs, as its keys".to_string()),
        (r#"{"upstreams":{"":{}}}"#, "upstreams[\"\"]: found an empty name, allowed is the name of a cluster or a glob with *".to_string()),
        (r#"{"upstreams":{"a":{"placement":"auto"}}}"#, "upstreams.a.placement: found a key that has effect for all upstreams, allowed is `placement` at the top level only".to_string()),
        (r#"{"upstreams":{"a":{"upstreams":{}}}}"#, "upstreams.a.upstreams: found a key that has effect for all upstreams, allowed is `upstreams` at the top level only".to_string()),
    ] {
        assert_eq!(bad(text), [error], "{text}");
    }
}

#[test]
fn broken_json_has_a_line_and_a_column() {
    for (text, position) in [
        ("{", "line 1, column 1"),
        ("{\"budget\":\n {\"ratio\": NaN}}", "line 2, column 12"),
        ("{} x", "line 1, column 4"),
        ("{\"mode\":\"off\",}", "line 1, column 15"),
        ("{'mode':'off'}", "line 1, column 2"),
        ("\u{feff}{}", "line 1, column 1"),
    ] {
        let errors = bad(text);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with(&format!("$: found broken JSON at {position} (")), "{errors:?}");
        assert!(errors[0].ends_with("), allowed is an object"), "{errors:?}");
    }
    let errors = Config::parse(b"{\"mode\":\"\xff\"}").unwrap_err().to_string();
    assert_eq!(errors, "$: found broken JSON at line 1, column 10 (a byte that is not UTF-8), allowed is an object");
    assert_eq!(
        bad(r#"{"mode":"\ud800"}"#),
        ["mode: found text with half a surrogate pair, allowed is \"enforce\", \"observe\" or \"off\""]
    );
    assert_eq!(bad(r#"{"\udc00":1}"#), ["$: found text with half a surrogate pair, allowed is an object"]);
}

#[test]
fn a_repeated_key_is_an_error_at_any_depth() {
    for (text, path) in [
        (r#"{"mode":"off","mode":"off"}"#, "mode"),
        (r#"{"budget":{"ratio":1},"budget":{}}"#, "budget"),
        (r#"{"budget":{"ratio":1,"r\u0061tio":1}}"#, "budget.ratio"),
        (r#"{"upstreams":{"a":{},"a":{}}}"#, "upstreams.a"),
        (r#"{"upstreams":{"a":{"log":"all","log":"all"}}}"#, "upstreams.a.log"),
    ] {
        let errors = bad(text);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(&format!("{path}: found the key twice, with ")), "{errors:?}");
    }
}

#[test]
fn initial_tokens_fit_into_the_bucket_merged_too() {
    for (text, error) in [
        (
            r#"{"budget":{"initial_tokens":12}}"#,
            "budget.initial_tokens: found 12, allowed is at most `max_tokens`, which is 10 here",
        ),
        (
            r#"{"budget":{"initial_tokens":5,"max_tokens":4.5}}"#,
            "budget.initial_tokens: found 5, allowed is at most `max_tokens`, which is 4.5 here",
        ),
        (
            r#"{"budget":{"initial_tokens":5},"upstreams":{"a":{"budget":{"max_tokens":4}}}}"#,
            "upstreams.a.budget.max_tokens: found 4, allowed is at least `initial_tokens`, which is 5 here",
        ),
        (
            r#"{"budget":{"max_tokens":5},"upstreams":{"a":{"budget":{"initial_tokens":6}}}}"#,
            "upstreams.a.budget.initial_tokens: found 6, allowed is at most `max_tokens`, which is 5 here",
        ),
        // Told once, where it was made.
        (
            r#"{"budget":{"initial_tokens":12},"upstreams":{"a":{},"b":{"budget":{"max_tokens":12}}}}"#,
            "budget.initial_tokens: found 12, allowed is at most `max_tokens`, which is 10 here",
        ),
        // A cap that could not be read caps nothing.
        (
            r#"{"budget":{"initial_tokens":12,"max_tokens":"x"}}"#,
            "budget.max_tokens: found the string \"x\", allowed is a number from 0 to 1000000 in steps of 0.001",
        ),
    ] {
        assert_eq!(bad(text), [error], "{text}");
    }
    // Names that differ only where an error would cut them.
    let long = "x".repeat(500);
    let text = format!(
        r#"{{"upstreams":{{"{long}1":{{"budget":{{"initial_tokens":1}}}},"{long}2":{{"budget":{{"max_tokens":7}}}}}}}}"#
    );
    assert_eq!(budget(&good(&text), &format!("{long}2")), [100, 7_000, 7_000, 0]);
}

#[test]
fn a_default_deadline_is_one_that_is_enforced_merged_too() {
    for (text, error) in [
        (
            r#"{"deadline":{"default":"20s"}}"#,
            r#"deadline.default: found "20s", allowed is at most `max`, which is "15s" here"#,
        ),
        (
            r#"{"deadline":{"max":"1s","default":"1001ms"}}"#,
            r#"deadline.default: found "1.001s", allowed is at most `max`, which is "1s" here"#,
        ),
        (
            r#"{"deadline":{"default":"2s"},"upstreams":{"a":{"deadline":{"max":"500ms"}}}}"#,
            r#"upstreams.a.deadline.max: found "500ms", allowed is at least `default`, which is "2s" here"#,
        ),
        (
            r#"{"upstreams":{"a":{"deadline":{"default":"3s"}}},"deadline":{"max":"2s"}}"#,
            r#"upstreams.a.deadline.default: found "3s", allowed is at most `max`, which is "2s" here"#,
        ),
        // Told once, where it was made.
        (
            r#"{"deadline":{"default":"20s"},"upstreams":{"a":{},"b":{"deadline":{"max":"20s"}}}}"#,
            r#"deadline.default: found "20s", allowed is at most `max`, which is "15s" here"#,
        ),
        // What could not be read is in conflict with nothing.
        (
            r#"{"deadline":{"default":"20s","max":"0s"}}"#,
            r#"deadline.max: found the string "0s", allowed is a duration from "1ms" to "86400s" in whole milliseconds, such as "250ms", "1.5s" or "2m""#,
        ),
    ] {
        assert_eq!(bad(text), [error], "{text}");
    }
    let config = good(
        r#"{"deadline":{"max":"20s","default":"20s"},"upstreams":{"a":{"deadline":{"max":"1s","default":null}},"b":{"deadline":{"max":"1m"}}}}"#,
    );
    let deadline = |upstream: &str| config.policy_for(upstream.as_bytes()).deadline.clone();
    assert_eq!((deadline("a").max, deadline("a").default), (1_000, None));
    assert_eq!((deadline("b").max, deadline("b").default), (60_000, Some(20_000)));
    assert_eq!((deadline("c").max, deadline("c").default), (20_000, Some(20_000)));
}

#[test]
fn all_errors_are_told() {
    let errors = bad(
        r#"{"mode":"on","budget":{"ratio":-1,"max":1},"retriable":{"statuses":[1,2]},"upstreams":{"a":{"log":"some","placement":"auto"}}}"#,
    );
    let paths: Vec<&str> = errors.iter().filter_map(|error| error.split(':').next()).collect();
    let expected = [
        "mode",
        "budget.ratio",
        "budget.max",
        "retriable.statuses[0]",
        "retriable.statuses[1]",
        "upstreams.a.log",
        "upstreams.a.placement",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn errors_are_bounded_and_stay_on_their_lines() {
    let long = "y\\n\\u202e".repeat(100_000);
    let text = format!(
        r#"{{"{long}":"{long}","upstreams":{{"{long}":{{"mode":"{long}"}}}},"retriable":{{"statuses":[{}1]}}}}"#,
        "1,".repeat(100_000)
    );
    let errors = Config::parse(text.as_bytes()).unwrap_err();
    assert!(errors.iter().all(|error| error.to_string().len() < 2_000));
    let shown = errors.to_string();
    assert!(shown.ends_with(" more"), "{shown}");
    assert!(!shown.contains('\u{202e}') && shown.lines().count() < 100, "{shown}");
}

#[test]
fn the_effective_policy_names_every_key() {
    let config = good(r#"{"budget":{"max_tokens":3.5},"upstreams":{"a*":{"retriable":{"statuses":[404]}}}}"#);
    let policy = |statuses| {
        [
            r#""budget":{"ratio":0.1,"max_tokens":3.5,"initial_tokens":3.5,"min_retries_per_second":0,"#,
            r#""deposit_on":"request"},"retriable":{"statuses":"#,
            statuses,
            r#","headers":[],"grpc_statuses":[1,4,8,13,14]},"retry_after":{"max":"60s","wait":false,"hold":"retries","#,
            r#""obey":true,"hold_statuses":[503]},"deadline":{"accept":[{"header":"x-request-deadline-ms","format":"ms"},"#,
            r#"{"header":"grpc-timeout","format":"grpc"}],"emit":"x-request-deadline-ms","default":null,"max":"15s","#,
            r#""min_remaining":"0ms"},"idempotency":{"methods":["GET","HEAD","OPTIONS","TRACE","PUT","DELETE"],"reset":"unknown","#,
            r#""key_headers":["idempotency-key"],"grpc":true},"breaker":null,"owner":{"name":null,"defer":false},"#,
            r#""stop_signal":{"emit":"stopped","honor":true},"log":"stops""#,
        ]
        .concat()
    };
    let (top, own) = (policy(r#"["5xx",409,425,429]"#), policy("[404]"));
    let expected =
        format!(r#"{{"mode":"enforce","placement":"auto",{top},"upstreams":{{"a*":{{"mode":"enforce",{own}}}}}}}"#);
    assert_eq!(config.describe(), expected);
    assert_eq!(good(&config.describe_pretty()), config);
}
