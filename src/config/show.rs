//! The effective policy: every key with its value, defaults and merges carried out. It is a configuration itself.

use super::Config;
use super::duration;
use super::keys::KEYS;
use super::kind::{Key, Kind, Settings};
use super::write::Json;

pub fn effective(config: &Config) -> Json {
    let mut settings = Settings::of(config.placement, &config.default);
    group(&KEYS, &mut settings, Some(config))
}

/// `config`: where the keys of the top level are shown, too.
fn group(keys: &[Key], settings: &mut Settings, config: Option<&Config>) -> Json {
    let mut entries = Vec::new();
    for key in keys.iter().filter(|key| config.is_some() || !key.top_only) {
        let value = match (&key.kind, config) {
            (Kind::Group(keys), _) => group(keys, settings, config),
            (Kind::OptionalGroup { keys, on }, _) if *on(settings) => group(keys, settings, config),
            (Kind::Upstreams, Some(config)) => upstreams(config),
            (kind, _) => match leaf(kind, settings) {
                Some(value) => value,
                None => continue,
            },
        };
        entries.push((key.name.to_string(), value));
    }
    Json::Object(entries)
}

fn upstreams(config: &Config) -> Json {
    let entry = |policy: &super::Policy| group(&KEYS, &mut Settings::of(None, policy), None);
    Json::Object(config.upstreams.iter().map(|(name, policy)| (name.clone(), entry(policy))).collect())
}

/// The value of a key that holds no others; `null` of one that could.
pub fn leaf(kind: &Kind, settings: &mut Settings) -> Option<Json> {
    Some(match kind {
        Kind::Group(_) | Kind::Upstreams => return None,
        Kind::OptionalGroup { .. } => Json::null(),
        Kind::Choice(field) => Json::string(field(settings).word()),
        Kind::Tokens { field, .. } => Json::number(field(settings)),
        Kind::OptionalShare(field) => or_null(field(settings).map(Json::number)),
        Kind::Count { field, .. } => Json::number(*field(settings)),
        Kind::OptionalCount { field, .. } => or_null(field(settings).map(Json::number)),
        Kind::Duration { field, .. } => Json::string(&duration::text(*field(settings))),
        Kind::OptionalDuration { field, .. } => {
            or_null(field(settings).map(|millis| Json::string(&duration::text(millis))))
        }
        Kind::OptionalName { field, .. } => or_null(field(settings).as_deref().map(Json::string)),
        Kind::Names { field, .. } => Json::List(field(settings).iter().map(|name| Json::string(name)).collect()),
        Kind::Flag(field) => Json::Plain(field(settings).to_string()),
        Kind::List(field) => Json::List(field(settings).items()),
    })
}

fn or_null(value: Option<Json>) -> Json {
    value.unwrap_or_else(Json::null)
}
