//! From JSON to settings by the table of keys: every key is judged, every error kept, none stops the reading.

use super::duration;
use super::error::{Errors, Path};
use super::header;
use super::json::{Node, Value};
use super::keys::{Key, Kind, Settings};
use super::nearest::nearest;
use super::number;
use super::text::{alternatives, quote_short};
use super::values::{Choice, List};
use crate::policy::bucket::Millitokens;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// What is allowed where a group of keys stands, and at the top.
pub const OBJECT: &str = "an object";

#[derive(Default)]
pub struct Reader<'a> {
    pub errors: Errors,
    /// Every known key that was met, and whether its value was good.
    pub(super) met: BTreeMap<Path, bool>,
    /// The content of `upstreams`, which waits until the level that it is merged over has been read.
    pub upstreams: Vec<(String, Path, Node<'a>)>,
}

impl<'a> Reader<'a> {
    /// Reads an object of `keys`: the whole configuration (`top`), an entry of `upstreams`, or a group in them.
    pub fn object(
        &mut self,
        keys: &'static [Key],
        top: bool,
        node: Node<'a>,
        path: &Path,
        settings: &mut Settings,
    ) -> bool {
        let Some(entries) = self.entries(node, path, OBJECT) else { return false };
        for (name, node) in entries {
            let path = path.key(&name);
            match keys.iter().find(|key| key.name == name) {
                Some(key) if top || !key.top_only => {
                    let good = self.value(key, top, node, &path, settings);
                    self.met.insert(path, good);
                }
                Some(key) => self.errors.add(
                    &path,
                    "a key that has effect for all upstreams",
                    &format!("`{}` at the top level only", key.name),
                ),
                None => self.unknown(keys, top, &name, node, &path),
            }
        }
        true
    }

    /// The entries of an object without those that repeat a key.
    fn entries(&mut self, node: Node<'a>, path: &Path, allowed: &str) -> Option<Vec<(String, Node<'a>)>> {
        let Value::Object(mut entries) = node.open() else {
            self.errors.add(path, &node.to_string(), allowed);
            return None;
        };
        let mut first: BTreeMap<String, Node> = BTreeMap::new();
        entries.retain(|(name, value)| match first.get(name) {
            Some(before) => {
                self.errors.add(&path.key(name), &format!("the key twice, with {before} and with {value}"), "once");
                false
            }
            None => first.insert(name.clone(), *value).is_none(),
        });
        Some(entries)
    }

    fn value(&mut self, key: &'static Key, top: bool, node: Node<'a>, path: &Path, settings: &mut Settings) -> bool {
        match key.kind {
            Kind::Group(keys) => self.object(keys, top, node, path, settings),
            Kind::Upstreams => self.upstreams(key, node, path),
            Kind::Choice(field) => self.choice(key, node, path, field(settings)),
            Kind::Tokens { max, field, .. } => self.tokens(key, node, path, max, field(settings)),
            Kind::Duration { min, max, field } => self.duration(key, node, path, min..=max, field(settings)),
            Kind::OptionalDuration { min, max, field } => {
                let field = field(settings);
                if matches!(node.open(), Value::Null) {
                    *field = None;
                    return true;
                }
                let mut millis = 0;
                let good = self.duration(key, node, path, min..=max, &mut millis);
                *field = good.then_some(millis);
                good
            }
            Kind::OptionalHeader(field) => match node.open() {
                Value::Null => {
                    *field(settings) = None;
                    true
                }
                Value::String(text) if header::is_name(&text) => {
                    *field(settings) = Some(text.to_ascii_lowercase());
                    true
                }
                _ => self.wrong(path, node, &key.allowed()),
            },
            Kind::Flag(field) => self.flag(key, node, path, field(settings)),
            Kind::List(field) => self.list(key, node, path, field(settings)),
        }
    }

    fn upstreams(&mut self, key: &Key, node: Node<'a>, path: &Path) -> bool {
        let Some(entries) = self.entries(node, path, &key.allowed()) else { return false };
        for (name, node) in entries {
            let path = path.key(&name);
            match name.as_str() {
                "" => self.errors.add(&path, "an empty name", "the name of a cluster or a glob with *"),
                _ => self.upstreams.push((name, path, node)),
            }
        }
        true
    }

    fn choice(&mut self, key: &Key, node: Node, path: &Path, field: &mut dyn Choice) -> bool {
        let word = match node.open() {
            Value::String(word) => word,
            _ => return self.wrong(path, node, &key.allowed()),
        };
        let good = field.choose(&word);
        if !good {
            let guess =
                nearest(&word, field.words().into_iter().map(|known| (known, known))).map(|w| format!("\"{w}\""));
            self.errors.add_with_guess(path, &node.to_string(), &key.allowed(), guess.as_deref());
        }
        good
    }

    fn tokens(&mut self, key: &Key, node: Node, path: &Path, max: Millitokens, field: &mut Millitokens) -> bool {
        let tokens = match node.open() {
            Value::Number(text) => number::thousandths(text).map(Millitokens),
            _ => None,
        };
        match tokens.filter(|tokens| (Millitokens::ZERO..=max).contains(tokens)) {
            Some(tokens) => *field = tokens,
            None => return self.wrong(path, node, &key.allowed()),
        }
        true
    }

    fn duration(&mut self, key: &Key, node: Node, path: &Path, range: RangeInclusive<u64>, field: &mut u64) -> bool {
        let millis = match node.open() {
            Value::String(text) => duration::millis(&text),
            _ => None,
        };
        match millis.filter(|millis| range.contains(millis)) {
            Some(millis) => *field = millis,
            None => return self.wrong(path, node, &key.allowed()),
        }
        true
    }

    fn flag(&mut self, key: &Key, node: Node, path: &Path, field: &mut bool) -> bool {
        match node.open() {
            Value::Bool(value) => *field = value,
            _ => return self.wrong(path, node, &key.allowed()),
        }
        true
    }

    fn list(&mut self, key: &Key, node: Node, path: &Path, field: &mut dyn List) -> bool {
        let Value::Array(items) = node.open() else { return self.wrong(path, node, &key.allowed()) };
        field.clear();
        let mut good = true;
        for (n, item) in items.into_iter().enumerate() {
            if !field.add(item) {
                good = self.wrong(&path.index(n), item, &field.allowed());
            }
        }
        good
    }

    fn wrong(&mut self, path: &Path, node: Node, allowed: &str) -> bool {
        self.errors.add(path, &node.to_string(), allowed);
        false
    }

    fn unknown(&mut self, keys: &'static [Key], top: bool, name: &str, node: Node, path: &Path) {
        let known = || keys.iter().filter(|key| top || !key.top_only);
        // A key one level up from its group, by its own name or with a dot, is a common slip, too.
        let mut candidates: Vec<(String, String)> =
            known().map(|key| (key.name.to_string(), key.name.to_string())).collect();
        for group in known() {
            if let Kind::Group(keys) = group.kind {
                let dotted = |key: &Key| format!("{}.{}", group.name, key.name);
                candidates.extend(
                    keys.iter().flat_map(|key| [(key.name.to_string(), dotted(key)), (dotted(key), dotted(key))]),
                );
            }
        }
        let guess = nearest(name, candidates.iter().map(|(text, key)| (text.as_str(), format!("`{key}`"))));
        let found = format!("the unknown key {} with {node}", quote_short(name));
        self.errors.add_with_guess(path, &found, &alternatives(known().map(|key| key.name), '`'), guess.as_deref());
    }
}

fn allowed_duration(min: u64, max: u64) -> String {
    format!(
        "a duration from \"{}\" to \"{}\" in whole milliseconds, such as \"250ms\", \"1.5s\" or \"2m\"",
        duration::text(min),
        duration::text(max)
    )
}

impl Key {
    /// What is allowed at this key, for an error.
    fn allowed(&self) -> String {
        match self.kind {
            Kind::Group(_) => OBJECT.to_string(),
            Kind::Upstreams => "an object with names of upstreams, or globs, as its keys".to_string(),
            Kind::Choice(field) => alternatives(field(&mut Settings::default()).words(), '"'),
            Kind::Tokens { max, .. } => format!("a number from 0 to {max} in steps of 0.001"),
            Kind::Duration { min, max, .. } => allowed_duration(min, max),
            Kind::OptionalDuration { min, max, .. } => format!("null or {}", allowed_duration(min, max)),
            Kind::OptionalHeader(_) => format!("null or {}", header::ALLOWED),
            Kind::Flag(_) => "true or false".to_string(),
            Kind::List(field) => format!("an array with each item {}", field(&mut Settings::default()).allowed()),
        }
    }
}
