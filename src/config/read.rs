//! From JSON to settings by the table of keys: every key is judged, every error kept, none stops the reading.

use super::duration;
use super::error::{Errors, Path};
use super::json::{Node, Value};
use super::kind::{Key, Kind, Settings};
use super::name::Name;
use super::nearest::nearest;
use super::number;
use super::text::{alternatives, quote_short};
use super::values::{Choice, List};
use crate::policy::bucket::Millitokens;
use std::collections::BTreeMap;

/// What is allowed where a group of keys stands, and at the top.
pub const OBJECT: &str = "an object";

/// A share: more than nothing, because nothing would always be reached, and at most all.
const SHARE: (Millitokens, Millitokens) = (Millitokens(1), Millitokens(1000));

#[derive(Default)]
pub struct Reader<'a> {
    pub errors: Errors,
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
                    if let Some(mark) = key.mark {
                        settings.named.set(mark, good);
                    }
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
        let good = match key.kind {
            Kind::Group(keys) => return self.object(keys, top, node, path, settings),
            Kind::OptionalGroup { keys, on } => {
                let value = node.open();
                *on(settings) = matches!(value, Value::Object(_));
                if *on(settings) {
                    return self.object(keys, top, node, path, settings);
                }
                matches!(value, Value::Null)
            }
            Kind::Upstreams => return self.upstreams(key, node, path),
            Kind::Choice(field) => return self.choice(key, node, path, field(settings)),
            Kind::List(field) => return self.list(key, node, path, field(settings)),
            Kind::Names { name, field } => return self.names(key, node, path, name, field(settings)),
            Kind::Tokens { max, field, .. } => set(field(settings), thousandths(node, Millitokens::ZERO, max)),
            Kind::OptionalShare(field) => set(field(settings), or_null(node, thousandths(node, SHARE.0, SHARE.1))),
            Kind::Count { max, field } => set(field(settings), count(node, max)),
            Kind::OptionalCount { max, field } => set(field(settings), or_null(node, count(node, max))),
            Kind::Duration { min, max, field } => set(field(settings), millis(node, min, max)),
            Kind::OptionalDuration { min, max, field, .. } => {
                set(field(settings), or_null(node, millis(node, min, max)))
            }
            Kind::OptionalName { name, field } => set(field(settings), or_null(node, name.read(node))),
            Kind::Flag(field) => match node.open() {
                Value::Bool(value) => set(field(settings), Some(value)),
                _ => false,
            },
        };
        good || self.wrong(path, node, &key.allowed())
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

    fn names(&mut self, key: &Key, node: Node, path: &Path, name: Name, field: &mut Vec<String>) -> bool {
        let Value::Array(items) = node.open() else { return self.wrong(path, node, &key.allowed()) };
        field.clear();
        let mut good = true;
        for (n, item) in items.into_iter().enumerate() {
            match name.read(item) {
                Some(text) if !field.contains(&text) => field.push(text),
                _ => good = self.wrong(&path.index(n), item, &each_once(name)),
            }
        }
        good
    }

    /// Always false.
    fn wrong(&mut self, path: &Path, node: Node, allowed: &str) -> bool {
        self.errors.add(path, &node.to_string(), allowed);
        false
    }

    fn unknown(&mut self, keys: &'static [Key], top: bool, name: &str, node: Node, path: &Path) {
        let known = || keys.iter().filter(|key| top || !key.top_only);
        // A key one level up from its group, by its own name or with a dot, is a common slip, too.
        let mut candidates: Vec<(&str, String)> = known().map(|key| (key.name, key.name.to_string())).collect();
        let mut dotted = Vec::new();
        for group in known() {
            for key in group.inner() {
                let path = format!("{}.{}", group.name, key.name);
                candidates.push((key.name, path.clone()));
                dotted.push(path);
            }
        }
        candidates.extend(dotted.iter().map(|path| (path.as_str(), path.clone())));
        let guess = nearest(name, candidates).map(|key| format!("`{key}`"));
        let found = format!("the unknown key {} with {node}", quote_short(name));
        self.errors.add_with_guess(path, &found, &alternatives(known().map(|key| key.name), '`'), guess.as_deref());
    }
}

fn set<T>(field: &mut T, value: Option<T>) -> bool {
    match value {
        Some(value) => {
            *field = value;
            true
        }
        None => false,
    }
}

/// `value` was read from `node`, which may be `null` instead.
fn or_null<T>(node: Node, value: Option<T>) -> Option<Option<T>> {
    match node.open() {
        Value::Null => Some(None),
        _ => value.map(Some),
    }
}

fn thousandths(node: Node, min: Millitokens, max: Millitokens) -> Option<Millitokens> {
    let Value::Number(text) = node.open() else { return None };
    number::thousandths(text).map(Millitokens).filter(|value| (min..=max).contains(value))
}

fn count(node: Node, max: u32) -> Option<u32> {
    let Value::Number(text) = node.open() else { return None };
    number::whole(text).filter(|value| (1..=max).contains(value))
}

fn millis(node: Node, min: u64, max: u64) -> Option<u64> {
    let Value::String(text) = node.open() else { return None };
    duration::millis(&text).filter(|millis| (min..=max).contains(millis))
}

fn each_once(name: Name) -> String {
    format!("{}, each once", name.allowed())
}

impl Key {
    /// What is allowed at this key, for an error.
    fn allowed(&self) -> String {
        let steps = |min: Millitokens, max: Millitokens| format!("a number from {min} to {max} in steps of 0.001");
        let whole = |max: u32| format!("a whole number from 1 to {max}");
        let duration = |min: u64, max: u64| {
            let (min, max) = (duration::text(min), duration::text(max));
            format!(
                "a duration from \"{min}\" to \"{max}\" in whole milliseconds, such as \"250ms\", \"1.5s\" or \"2m\""
            )
        };
        let one = match self.kind {
            Kind::Group(_) | Kind::OptionalGroup { .. } => OBJECT.to_string(),
            Kind::Upstreams => "an object with names of upstreams, or globs, as its keys".to_string(),
            Kind::Choice(field) => alternatives(field(&mut Settings::default()).words(), '"'),
            Kind::Tokens { max, .. } => steps(Millitokens::ZERO, max),
            Kind::OptionalShare(_) => steps(SHARE.0, SHARE.1),
            Kind::Count { max, .. } | Kind::OptionalCount { max, .. } => whole(max),
            Kind::Duration { min, max, .. } | Kind::OptionalDuration { min, max, .. } => duration(min, max),
            Kind::OptionalName { name, .. } => name.allowed().to_string(),
            Kind::Flag(_) => "true or false".to_string(),
            Kind::List(field) => format!("an array with each item {}", field(&mut Settings::default()).allowed()),
            Kind::Names { name, .. } => format!("an array with each item {}", each_once(name)),
        };
        match self.kind {
            Kind::OptionalGroup { .. }
            | Kind::OptionalShare(_)
            | Kind::OptionalCount { .. }
            | Kind::OptionalDuration { .. }
            | Kind::OptionalName { .. } => format!("null or {one}"),
            _ => one,
        }
    }
}
