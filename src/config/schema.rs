//! The JSON Schema of a configuration, for editors and pipelines. It is no part of the wasm module.

use super::duration;
use super::keys::KEYS;
use super::kind::{Key, Kind, Settings};
use super::show;
use super::write::Json;

/// The schema (draft 2020-12), indented.
///
/// It cannot say that a key stands once, nor what holds between keys or after merging, nor how long a duration may be;
/// and it leaves out the step of a thousandth, because validators compute `multipleOf` in floats, and some then refuse 0.3.
pub fn schema() -> String {
    let mut whole = vec![
        ("$schema".to_string(), Json::string("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_string(), Json::string("Retry Budget plugin configuration")),
        ("description".to_string(), Json::string("The policy for all upstreams. Every key is optional.")),
    ];
    whole.push(("type".to_string(), Json::string("object")));
    whole.extend(group(&KEYS, true, ""));
    Json::Object(whole).pretty()
}

/// What an object of `keys` holds; `top`: not in an entry of `upstreams`, where the default is the value of the top level.
fn group(keys: &[Key], top: bool, prefix: &str) -> Vec<(String, Json)> {
    let properties =
        keys.iter().filter(|key| top || !key.top_only).map(|key| (key.name.to_string(), property(key, top, prefix)));
    vec![
        ("properties".to_string(), Json::Object(properties.collect())),
        ("additionalProperties".to_string(), Json::Plain("false".to_string())),
    ]
}

fn property(key: &Key, top: bool, prefix: &str) -> Json {
    let path = format!("{prefix}{}", key.name);
    let mut entries =
        vec![("title".to_string(), Json::string(&path)), ("description".to_string(), Json::string(key.doc))];
    let mut settings = Settings::default();
    let mut say = |name: &str, value: Json| entries.push((name.to_string(), value));
    match &key.kind {
        Kind::Group(keys) => {
            say("type", Json::string("object"));
            group(keys, top, &format!("{path}.")).into_iter().for_each(|(name, value)| say(&name, value));
        }
        Kind::OptionalGroup { keys, .. } => {
            say("type", or_null("object"));
            group(keys, top, &format!("{path}.")).into_iter().for_each(|(name, value)| say(&name, value));
        }
        Kind::Upstreams => {
            say("type", Json::string("object"));
            say("propertyNames", Json::object([("minLength", Json::number(1))]));
            let mut entry = vec![("type".to_string(), Json::string("object"))];
            entry.extend(group(&KEYS, false, ""));
            say("additionalProperties", Json::Object(entry));
        }
        Kind::Choice(field) => {
            say("enum", Json::List(field(&mut settings).words().into_iter().map(Json::string).collect()));
        }
        Kind::Tokens { max, .. } => {
            say("type", Json::string("number"));
            say("minimum", Json::number(0));
            say("maximum", Json::number(max));
        }
        Kind::Duration { .. } => {
            say("type", Json::string("string"));
            say("pattern", Json::string(duration::PATTERN));
        }
        Kind::OptionalDuration { .. } => {
            say("type", or_null("string"));
            say("pattern", Json::string(duration::PATTERN));
        }
        Kind::OptionalShare(_) => {
            say("type", or_null("number"));
            say("exclusiveMinimum", Json::number(0));
            say("maximum", Json::number(1));
        }
        Kind::Count { max, .. } => {
            say("type", Json::string("integer"));
            say("minimum", Json::number(1));
            say("maximum", Json::number(max));
        }
        Kind::OptionalCount { max, .. } => {
            say("type", or_null("integer"));
            say("minimum", Json::number(1));
            say("maximum", Json::number(max));
        }
        Kind::OptionalName { name, .. } => {
            say("type", or_null("string"));
            say("pattern", Json::string(name.pattern()));
        }
        Kind::Names { name, .. } => {
            let item = [("type", Json::string("string")), ("pattern", Json::string(name.pattern()))];
            say("type", Json::string("array"));
            say("items", Json::object(item));
            say("uniqueItems", Json::Plain("true".to_string()));
        }
        Kind::Flag(_) => say("type", Json::string("boolean")),
        Kind::List(field) => {
            say("type", Json::string("array"));
            say("items", field(&mut settings).schema());
        }
    }
    // A key with a cap follows the other key instead.
    let follows = matches!(key.kind, Kind::Tokens { cap: Some(_), .. });
    if top
        && !follows
        && let Some(default) = show::leaf(&key.kind, &mut settings)
    {
        say("default", default);
    }
    Json::Object(entries)
}

fn or_null(kind: &str) -> Json {
    Json::List(vec![Json::string(kind), Json::string("null")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_every_key() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let ratio = &schema["properties"]["budget"]["properties"]["ratio"];
        assert_eq!(ratio["default"], 0.1);
        assert_eq!(ratio["title"], "budget.ratio");
        let statuses = &schema["properties"]["retriable"]["properties"]["statuses"];
        assert_eq!(statuses["default"], serde_json::json!(["5xx", 409, 425, 429]));
        assert!(schema["properties"]["budget"]["properties"]["initial_tokens"]["default"].is_null());
        let upstream = &schema["properties"]["upstreams"]["additionalProperties"];
        assert!(upstream["properties"]["budget"]["properties"]["ratio"]["default"].is_null());
        assert!(upstream["properties"]["placement"].is_null());
        assert_eq!(schema["properties"]["placement"]["default"], "auto");
        let retry_after = &schema["properties"]["retry_after"]["properties"];
        assert_eq!(retry_after["max"]["default"], "60s");
        assert_eq!(retry_after["wait"]["default"], false);
        assert_eq!(retry_after["hold"]["enum"], serde_json::json!(["retries", "requests", "off"]));
    }

    #[test]
    fn every_key_says_what_it_is() {
        fn check(keys: &[Key]) {
            for key in keys {
                assert!(key.doc.ends_with('.') && !key.doc.contains("  "), "{}: {}", key.name, key.doc);
                check(key.inner());
            }
        }
        check(&KEYS);
    }
}
