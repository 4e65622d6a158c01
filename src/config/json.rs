//! JSON as it was written: repeated keys stay, numbers keep their digits. `serde_json::Value` keeps neither.

use super::text;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// One value, still text: opened level by level, so nothing is read that no rule asks for.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a>(&'a str);

/// A [`Node`], opened.
pub enum Value<'a> {
    Null,
    Bool(bool),
    /// The digits as written.
    Number(&'a str),
    String(String),
    Array(Vec<Node<'a>>),
    /// In order, repeated keys too.
    Object(Vec<(String, Node<'a>)>),
    /// A string or key with half a surrogate pair, which no text can hold.
    NotText,
}

/// Where and why a text is no JSON; line and column count from 1.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    pub line: usize,
    pub column: usize,
    pub why: String,
}

impl<'a> Node<'a> {
    /// The one value that `bytes` are. Nesting is not followed here, so depth costs no stack.
    pub fn document(bytes: &'a [u8]) -> Result<Self, Broken> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            Broken {
                line: before.split(|b| *b == b'\n').count(),
                column: before.rsplit(|b| *b == b'\n').next().unwrap_or_default().len().saturating_add(1),
                why: "a byte that is not UTF-8".to_string(),
            }
        })?;
        serde_json::from_str::<&RawValue>(text).map(Self::from).map_err(|error| {
            let (line, column, why) = (error.line(), error.column(), error.to_string());
            let position = format!(" at line {line} column {column}");
            Broken { line, column, why: why.strip_suffix(&position).unwrap_or(&why).to_string() }
        })
    }

    pub fn open(self) -> Value<'a> {
        let opened = match self.0.bytes().next() {
            Some(b'{') => serde_json::from_str(self.0).map(|Entries(entries)| Value::Object(entries)),
            Some(b'[') => serde_json::from_str::<Vec<&RawValue>>(self.0)
                .map(|items| Value::Array(items.into_iter().map(Self::from).collect())),
            Some(b'"') => serde_json::from_str(self.0).map(Value::String),
            Some(b't') => Ok(Value::Bool(true)),
            Some(b'f') => Ok(Value::Bool(false)),
            Some(b'n') => Ok(Value::Null),
            _ => Ok(Value::Number(self.0)),
        };
        // The document was well-formed, but half surrogates show only when a string is put together.
        opened.unwrap_or(Value::NotText)
    }
}

impl<'a> From<&'a RawValue> for Node<'a> {
    fn from(raw: &'a RawValue) -> Self {
        Self(raw.get())
    }
}

impl fmt::Display for Node<'_> {
    /// For an error: the value as written where it is small, else its type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.open() {
            Value::Object(_) => f.write_str("an object"),
            Value::Array(_) => f.write_str("an array"),
            Value::NotText => f.write_str("text with half a surrogate pair"),
            Value::String(_) => write!(f, "the string {}", text::source_short(self.0)),
            Value::Null | Value::Bool(_) | Value::Number(_) => f.write_str(&text::source_short(self.0)),
        }
    }
}

struct Entries<'a>(Vec<(String, Node<'a>)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            entries.push((key, Node::from(value)));
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(text: &[u8]) -> (usize, usize) {
        let broken = Node::document(text).unwrap_err();
        assert!(!broken.why.contains("line"), "{broken:?}");
        (broken.line, broken.column)
    }

    #[test]
    fn repeated_keys_and_digits_stay() {
        let Value::Object(entries) = Node::document(br#" {"a": 1e-1, "a" :0.100 } "#).unwrap().open() else { panic!() };
        let shown: Vec<_> = entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(shown, ["a=1e-1", "a=0.100"]);
    }

    #[test]
    fn broken_json_has_a_position() {
        assert_eq!(broken(b"{\n  \"a\": NaN\n}"), (2, 8));
        assert_eq!(broken(b"{} {}"), (1, 4));
        assert_eq!(broken(b"{\"a\":1,}"), (1, 8));
        assert_eq!(broken(b"{\"a\":01}"), (1, 7));
        assert_eq!(broken(b"{\n\"\xff\"}"), (2, 2));
        assert_eq!(broken(b"\xc3"), (1, 1));
    }

    #[test]
    fn depth_costs_no_stack() {
        let deep = "[".repeat(1_000_000) + &"]".repeat(1_000_000);
        let node = Node::document(deep.as_bytes()).unwrap();
        assert!(matches!(node.open(), Value::Array(items) if items.len() == 1));
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        for text in [r#""\ud800""#, r#"{"\udc00":1}"#] {
            assert!(matches!(Node::document(text.as_bytes()).unwrap().open(), Value::NotText), "{text}");
        }
    }
}
