//! The plugin configuration: JSON → validated [`Config`]; every error with its JSON path.
//!
//! `keys` describes each key once. `read` judges a text by it, `show` prints the policy that came out,
//! [`schema()`] tells editors. A configuration with any error is refused whole: half a policy would be a policy
//! that nobody has asked for.

mod duration;
mod error;
mod glob;
mod header;
mod json;
mod keys;
mod kind;
mod marks;
mod name;
mod nearest;
mod number;
mod read;
#[cfg(not(target_arch = "wasm32"))]
mod schema;
mod settle;
mod show;
mod text;
mod values;
mod write;

#[cfg(test)]
mod tests;

pub use error::{ConfigError, Errors};
#[cfg(not(target_arch = "wasm32"))]
pub use schema::schema;
pub use text::quote as json_string;

use crate::policy::{Placement, Policy};
use error::Path;
use json::Node;
use keys::KEYS;
use kind::Settings;
use read::Reader;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A valid configuration; the default is that of `{}`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Where the module sits; `None`: it finds out by itself.
    pub placement: Option<Placement>,
    default: Rc<Policy>,
    /// By name or glob, merged over the top level.
    upstreams: BTreeMap<String, Rc<Policy>>,
    /// The globs among them, in order of text.
    globs: Vec<String>,
}

impl Config {
    /// Reads a plugin configuration. None at all (nothing, or nothing but white space) is `{}`.
    pub fn parse(bytes: &[u8]) -> Result<Self, Errors> {
        let mut reader = Reader::default();
        let mut top = Settings::default();
        let root = Path::root();
        if bytes.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        match Node::document(bytes) {
            Ok(document) => {
                reader.object(&KEYS, true, document, &root, &mut top);
            }
            Err(broken) => {
                let found = format!("broken JSON at line {}, column {} ({})", broken.line, broken.column, broken.why);
                reader.errors.add(&root, &found, read::OBJECT);
            }
        }
        // Before the top level settles: a cap that an upstream changes moves what follows it, there too.
        let unsettled = top.clone();
        reader.settle(&KEYS, &root, &mut top);
        let mut upstreams = BTreeMap::new();
        for (name, path, node) in std::mem::take(&mut reader.upstreams) {
            let mut own = Settings { named: unsettled.named.below(), ..unsettled.clone() };
            if reader.object(&KEYS, false, node, &path, &mut own) {
                reader.settle(&KEYS, &path, &mut own);
            }
            upstreams.insert(name, Rc::new(own.policy));
        }
        if !reader.errors.is_empty() {
            return Err(reader.errors);
        }
        let globs = upstreams.keys().filter(|name| glob::is_glob(name)).cloned().collect();
        Ok(Self { placement: top.placement, default: Rc::new(top.policy), upstreams, globs })
    }

    /// The policy for one upstream: of its exact name, else of the longest glob (the first in order of text among
    /// equals), else of the top level. Any bytes may be asked for.
    pub fn policy_for(&self, upstream: &[u8]) -> Rc<Policy> {
        let exact = std::str::from_utf8(upstream).ok().and_then(|name| self.upstreams.get(name));
        let globbed = || {
            let matching = self.globs.iter().filter(|glob| glob::matches(glob, upstream));
            self.upstreams.get(matching.reduce(|best, glob| if glob.len() > best.len() { glob } else { best })?)
        };
        Rc::clone(exact.or_else(globbed).unwrap_or(&self.default))
    }

    /// The effective configuration as JSON on one line: all keys, the entries of `upstreams` merged. Parsed, it gives
    /// the same configuration again.
    pub fn describe(&self) -> String {
        show::effective(self).line()
    }

    /// The same, indented.
    pub fn describe_pretty(&self) -> String {
        show::effective(self).pretty()
    }
}
