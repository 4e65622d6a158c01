//! What holds for any configuration.

use super::*;
use proptest::prelude::*;

/// What may stand at `breaker`.
fn breaker_keys() -> impl Strategy<Value = String> {
    let keys = vec![
        ("consecutive_failures", "3"),
        ("failure_ratio", "0.25"),
        ("window", "\"2s\""),
        ("min_requests", "4"),
        ("slow_call", "\"1s\""),
        ("open_for", "\"5s\""),
        ("half_open_probes", "2"),
    ];
    // One of the first keys may be `null` instead.
    let object = (proptest::sample::subsequence(keys, 0..4), 0_usize..6).prop_map(|(keys, null)| {
        let value = |n, value| if n == null { "null" } else { value };
        let entries = keys.iter().enumerate().map(|(n, (key, text))| format!(r#""{key}":{}"#, value(n, text)));
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    });
    prop_oneof![1 => Just("null".to_string()), 5 => object]
}

/// Configurations of known keys, with good and bad values.
fn documents() -> impl Strategy<Value = String> {
    let number = prop_oneof!["[0-9]{1,7}(\\.[0-9]{1,3})?", "-?[0-9]{1,3}(\\.[0-9]{1,5})?(e[0-9])?"];
    let pick = |words: &'static [&'static str]| proptest::sample::select(words).prop_map(str::to_string);
    let leaf = prop_oneof![
        (pick(&["ratio", "max_tokens", "initial_tokens", "min_retries_per_second"]), number)
            .prop_map(|(key, number)| format!(r#""budget":{{"{key}":{number}}}"#)),
        "[0-9]{1,5}(\\.[0-9]{1,4})?(ms|s|m|h|)".prop_map(|text| format!(r#""retry_after":{{"max":"{text}"}}"#)),
        pick(&[
            "\"retry_after\":{\"wait\":true,\"hold\":\"off\"}",
            "\"mode\":\"off\"",
            "\"log\":\"all\"",
            "\"stop_signal\":{\"emit\":\"none\"}",
            "\"stop_signal\":{}",
            "\"mode\":1"
        ]),
        breaker_keys().prop_map(|breaker| format!(r#""breaker":{breaker}"#)),
        pick(&[
            r#""idempotency":{"methods":["GET","POST"],"key_headers":["A","b"]}"#,
            r#""idempotency":{"grpc":false,"methods":[]}"#,
            r#""owner":{"name":"edge","defer":true},"stop_signal":{"honor":false}"#,
            r#""owner":{"name":null}"#,
        ]),
        proptest::collection::vec(95_u16..610, 0..5).prop_map(|list| format!(r#""retriable":{{"statuses":{list:?}}}"#)),
        proptest::collection::vec(0_u8..18, 0..5)
            .prop_map(|list| format!(r#""retriable":{{"grpc_statuses":{list:?}}}"#)),
    ];
    let object = proptest::collection::vec(leaf, 0..3).prop_map(|entries| entries.join(","));
    let upstreams = proptest::collection::vec(("[a-c*]{0,3}", object.clone()), 0..3);
    (object, upstreams).prop_map(|(top, upstreams)| {
        let upstreams: Vec<String> =
            upstreams.iter().map(|(name, object)| format!(r#""{name}":{{{object}}}"#)).collect();
        let comma = if top.is_empty() { "" } else { "," };
        format!(r#"{{{top}{comma}"upstreams":{{{}}}}}"#, upstreams.join(","))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn bytes_are_read_or_refused(bytes: Vec<u8>) {
        let _ = Config::parse(&bytes);
    }

    #[test]
    fn json_like_text_is_read_or_refused(text in "[\\[\\]{}:,\" \\\\eu0-9.a-f*-]{0,60}") {
        if let Err(errors) = Config::parse(text.as_bytes()) {
            prop_assert!(errors.iter().count() > 0);
        }
    }

    #[test]
    fn the_effective_policy_is_the_same_configuration(text in documents()) {
        if let Ok(config) = Config::parse(text.as_bytes()) {
            for shown in [config.describe(), config.describe_pretty()] {
                prop_assert_eq!(Config::parse(shown.as_bytes()), Ok(config.clone()), "{}", shown);
            }
        }
    }

    #[test]
    fn odd_names_survive(name: String) {
        let text = format!(r#"{{"upstreams":{{{}:{{"mode":"off"}}}}}}"#, crate::config::text::quote(&name));
        match Config::parse(text.as_bytes()) {
            Ok(config) => {
                prop_assert_eq!(config.policy_for(name.as_bytes()).mode, Mode::Off);
                let shown = config.describe();
                prop_assert_eq!(Config::parse(shown.as_bytes()), Ok(config));
            }
            Err(_) => prop_assert!(name.is_empty()),
        }
    }
}
