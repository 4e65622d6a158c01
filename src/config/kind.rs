//! What a key is, and what the keys of one level are read into.

use super::marks::{Mark, Marks};
use super::name::Name;
use super::values::{Choice, List};
use crate::policy::breaker::BreakerPolicy;
use crate::policy::bucket::Millitokens;
use crate::policy::{Placement, Policy};

/// What the keys of one level are read into. Every leaf knows the field that it fills.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub placement: Option<Placement>,
    pub policy: Policy,
    /// What the keys of `breaker` say. It gets into the policy when the level settles: an upstream may switch off what
    /// stands above, or complete it.
    pub breaker: BreakerPolicy,
    /// Whether there is a `breaker`.
    pub breaks: bool,
    pub named: Marks,
}

impl Settings {
    pub fn of(placement: Option<Placement>, policy: &Policy) -> Self {
        let breaker = policy.breaker.clone().unwrap_or_default();
        let breaks = policy.breaker.is_some();
        Self { placement, policy: policy.clone(), breaker, breaks, named: Marks::default() }
    }
}

pub struct Key {
    pub name: &'static str,
    /// For the JSON Schema: what an editor shows. No part of the module, which shows it to nobody.
    #[cfg(not(target_arch = "wasm32"))]
    pub doc: &'static str,
    pub kind: Kind,
    /// Not in the entries of `upstreams`: one module has one placement, and upstreams hold no upstreams.
    pub top_only: bool,
    /// For the keys whose being named has effect on other keys.
    pub mark: Option<Mark>,
}

/// What stands at a key. The functions lead to the field: one for reading, writing and showing it.
pub enum Kind {
    Group(&'static [Key]),
    /// The same, or `null` for none; `on`: which of them.
    OptionalGroup {
        keys: &'static [Key],
        on: fn(&mut Settings) -> &mut bool,
    },
    /// Names and globs, each with the keys that are not `top_only`.
    Upstreams,
    /// One of several words.
    Choice(fn(&mut Settings) -> &mut dyn Choice),
    /// A number from 0 to `max` in thousandths. With a `cap`, a key beside it, the value may not exceed the
    /// other's, and is the other's where nobody names it.
    Tokens {
        max: Millitokens,
        cap: Option<&'static Key>,
        field: fn(&mut Settings) -> &mut Millitokens,
    },
    /// A share in thousandths, more than nothing and at most all, or `null` for none.
    OptionalShare(fn(&mut Settings) -> &mut Option<Millitokens>),
    /// A whole number from 1 to `max`.
    Count {
        max: u32,
        field: fn(&mut Settings) -> &mut u32,
    },
    /// The same, or `null` for none.
    OptionalCount {
        max: u32,
        field: fn(&mut Settings) -> &mut Option<u32>,
    },
    /// A string such as `"1.5s"`, from `min` to `max`; all three in milliseconds.
    Duration {
        min: u64,
        max: u64,
        field: fn(&mut Settings) -> &mut u64,
    },
    /// The same, or `null` for none. With a `cap`, a key beside it, the value may not exceed the other's.
    OptionalDuration {
        min: u64,
        max: u64,
        cap: Option<&'static Key>,
        field: fn(&mut Settings) -> &mut Option<u64>,
    },
    /// A name, or `null` for none.
    OptionalName {
        name: Name,
        field: fn(&mut Settings) -> &mut Option<String>,
    },
    /// An array of names, each once.
    Names {
        name: Name,
        field: fn(&mut Settings) -> &mut Vec<String>,
    },
    /// `true` or `false`.
    Flag(fn(&mut Settings) -> &mut bool),
    /// An array, which replaces the one that stood there.
    List(fn(&mut Settings) -> &mut dyn List),
}

impl Key {
    #[cfg_attr(target_arch = "wasm32", allow(unused_variables))]
    pub const fn new(name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Self {
            name,
            #[cfg(not(target_arch = "wasm32"))]
            doc,
            kind,
            top_only: false,
            mark: None,
        }
    }

    pub const fn top(name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Self { top_only: true, ..Self::new(name, doc, kind) }
    }

    pub const fn marked(mark: Mark, name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Self { mark: Some(mark), ..Self::new(name, doc, kind) }
    }

    /// The keys in a group.
    pub fn inner(&self) -> &'static [Key] {
        match self.kind {
            Kind::Group(keys) | Kind::OptionalGroup { keys, .. } => keys,
            _ => &[],
        }
    }
}
