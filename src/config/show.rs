//! The effective policy: every key with its value, defaults and merges carried out. It is a configuration itself.

use super::Config;
use super::duration;
use super::keys::{KEYS, Key, Kind, Settings};
use super::write::Json;

pub fn effective(config: &Config) -> Json {
    let mut settings = Settings { placement: config.placement, policy: (*config.default).clone() };
    group(&KEYS, &mut settings, Some(config))
}

/// `config`: where the keys of the top level are shown, too.
fn group(keys: &[Key], settings: &mut Settings, config: Option<&Config>) -> Json {
    let mut entries = Vec::new();
    for key in keys.iter().filter(|key| config.is_some() || !key.top_only) {
        let value = match (&key.kind, config) {
            (Kind::Group(keys), _) => group(keys, settings, config),
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
    let entry = |policy: &super::Policy| {
        let mut settings = Settings { policy: policy.clone(), ..Settings::default() };
        group(&KEYS, &mut settings, None)
    };
    Json::Object(config.upstreams.iter().map(|(name, policy)| (name.clone(), entry(policy))).collect())
}

/// The value of a key that holds no others.
pub fn leaf(kind: &Kind, settings: &mut Settings) -> Option<Json> {
    match kind {
        Kind::Group(_) | Kind::Upstreams => None,
        Kind::Choice(field) => Some(Json::string(field(settings).word())),
        Kind::Tokens { field, .. } => Some(Json::number(field(settings))),
        Kind::Duration { field, .. } => Some(Json::string(&duration::text(*field(settings)))),
        Kind::OptionalDuration { field, .. } => {
            Some(field(settings).map_or_else(Json::null, |ms| Json::string(&duration::text(ms))))
        }
        Kind::OptionalHeader(field) => Some(field(settings).as_deref().map_or_else(Json::null, Json::string)),
        Kind::Flag(field) => Some(Json::Plain(field(settings).to_string())),
        Kind::List(field) => Some(Json::List(field(settings).items())),
    }
}
