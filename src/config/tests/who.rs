//! Which requests are repeated, by whom, and who obeys whom.

use super::*;
use crate::policy::{Honor, Idempotency, Owner, Reset};

#[test]
fn every_key_reaches_its_field() {
    let policy = good(
        r#"{"idempotency": {"methods": ["GET", "PROPFIND"], "reset": "unsent", "key_headers": ["Idempotency-Key", "x-request-token"], "grpc": false},
            "owner": {"name": "edge/eu-1", "defer": true}, "stop_signal": {"honor": false}}"#,
    )
    .policy_for(b"any");
    let text = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = Idempotency {
        methods: text(&["GET", "PROPFIND"]),
        reset: Reset::Unsent,
        key_headers: text(&["idempotency-key", "x-request-token"]),
        grpc: false,
    };
    assert_eq!(policy.idempotency, expected);
    assert_eq!(policy.owner, Owner { name: Some("edge/eu-1".to_string()), defer: true });
    assert_eq!(policy.honor, Honor(false));
}

#[test]
fn an_upstream_has_its_own() {
    let config = good(
        r#"{"idempotency": {"methods": ["GET"], "grpc": false}, "owner": {"name": "edge", "defer": true}, "stop_signal": {"honor": false, "emit": "none"},
            "upstreams": {"a": {"idempotency": {"methods": []}, "owner": {"name": null}, "stop_signal": {"honor": true}}}}"#,
    );
    let own = config.policy_for(b"a");
    assert_eq!(own.idempotency, Idempotency { methods: vec![], grpc: false, ..Idempotency::default() });
    assert_eq!(own.owner, Owner { name: None, defer: true });
    assert_eq!((own.honor, own.emit), (Honor(true), EmitStopSignal::None));
    assert_eq!(config.policy_for(b"b").honor, Honor(false));
    assert_eq!(good(&config.describe()), config);
}

#[test]
fn errors_name_the_item() {
    let method = "an HTTP method in upper case, each once";
    let header = "the name of a header field, each once";
    let owner = "null or 1 to 128 visible ASCII characters without spaces";
    for (text, error) in [
        (r#""idempotency":{"methods":["GET","post"]}"#, format!("idempotency.methods[1]: found the string \"post\", allowed is {method}")),
        (r#""idempotency":{"methods":["GET","PUT","GET"]}"#, format!("idempotency.methods[2]: found the string \"GET\", allowed is {method}")),
        (r#""idempotency":{"methods":["*"," "]}"#, format!("idempotency.methods[1]: found the string \" \", allowed is {method}")),
        (r#""idempotency":{"methods":"GET"}"#, format!("idempotency.methods: found the string \"GET\", allowed is an array with each item {method}")),
        (r#""idempotency":{"methods":null}"#, format!("idempotency.methods: found null, allowed is an array with each item {method}")),
        (r#""idempotency":{"key_headers":["a","A"]}"#, format!("idempotency.key_headers[1]: found the string \"A\", allowed is {header}")),
        (r#""idempotency":{"key_headers":[":path"]}"#, format!("idempotency.key_headers[0]: found the string \":path\", allowed is {header}")),
        (r#""idempotency":{"key_headers":[1]}"#, format!("idempotency.key_headers[0]: found 1, allowed is {header}")),
        (r#""idempotency":{"reset":"unset"}"#, "idempotency.reset: found the string \"unset\", allowed is \"unknown\" or \"unsent\"; did you mean \"unsent\"?".to_string()),
        (r#""idempotency":{"grpc":"true"}"#, "idempotency.grpc: found the string \"true\", allowed is true or false".to_string()),
        (r#""idempotency":{"method":[]}"#, "idempotency.method: found the unknown key \"method\" with an array, allowed is `methods`, `reset`, `key_headers` or `grpc`; did you mean `methods`?".to_string()),
        (r#""owner":{"name":""}"#, format!("owner.name: found the string \"\", allowed is {owner}")),
        (r#""owner":{"name":"a b"}"#, format!("owner.name: found the string \"a b\", allowed is {owner}")),
        (r#""owner":{"name":7}"#, format!("owner.name: found 7, allowed is {owner}")),
        (r#""owner":{"defer":null}"#, "owner.defer: found null, allowed is true or false".to_string()),
        (r#""owner":"edge""#, "owner: found the string \"edge\", allowed is an object".to_string()),
        (r#""stop_signal":{"honor":1}"#, "stop_signal.honor: found 1, allowed is true or false".to_string()),
        (r#""stop_signal":{"honour":true}"#, "stop_signal.honour: found the unknown key \"honour\" with true, allowed is `emit` or `honor`; did you mean `honor`?".to_string()),
    ] {
        assert_eq!(bad(&format!("{{{text}}}")), std::slice::from_ref(&error), "{text}");
        assert_eq!(bad(&format!(r#"{{"upstreams":{{"a":{{{text}}}}}}}"#)), [format!("upstreams.a.{error}")], "{text}");
    }
}
