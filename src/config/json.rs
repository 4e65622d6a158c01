//! JSON as it was written: repeated keys stay, numbers keep their digits. `serde_json::Value` keeps neither.

use super::text;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// One value, still text: opened level by level, so nothing is read that no rule asks for.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a>(&'a RawValue);

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
        serde_json::from_str(text).map(Self).map_err(|error| {
            let (line, column, why) = (error.line(), error.column(), error.to_string());
            let position = format!(" at line {line} column {column}");
            Broken { line, column, why: why.strip_suffix(&position).unwrap_or(&why).to_string() }
        })
    }

    pub fn open(self) -> Value<'a> {
        let text = self.0.get();
        let opened = match text.bytes().next() {
            Some(b'{') => serde_json::from_str(text).map(|Entries(entries)| Value::Object(entries)),
            Some(b'[') => serde_json::from_str(text)
                .map(|items: Vec<&RawValue>| Value::Array(items.into_iter().map(Node).collect())),
            Some(b'"') => serde_json::from_str(text).map(Value::String),
            Some(b't') => Ok(Value::Bool(true)),
            Some(b'f') => Ok(Value::Bool(false)),
            Some(b'n') => Ok(Value::Null),
            _ => Ok(Value::Number(text)),
        };
        // The document is known to be well-formed: nothing else can be wrong with it.
        opened.unwrap_or(Value::NotText)
    }
}

/// The entries of an object, in order and repeated, as no map would keep them.
struct Entries<'a>(Vec<(String, Node<'a>)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
                let mut entries = Vec::new();
                while let Some((key, value)) = map.next_entry()? {
                    entries.push((key, Node(value)));
                }
                Ok(Entries(entries))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}

impl fmt::Display for Node<'_> {
    /// For an error: the value as written where it is small, else its type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.get();
        match text.bytes().next() {
            Some(b'{' | b'"') if matches!(self.open(), Value::NotText) => {
                f.write_str("text with half a surrogate pair")
            }
            Some(b'{') => f.write_str("an object"),
            Some(b'[') => f.write_str("an array"),
            Some(b'"') => write!(f, "the string {}", text::source_short(text)),
            _ => f.write_str(&text::source_short(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    /// All that a value says, as `serde_json` would have it.
    fn whole(node: Node) -> Result<serde_json::Value, ()> {
        Ok(match node.open() {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => value.into(),
            Value::Number(text) => serde_json::from_str(text).map_err(|_| ())?,
            Value::String(text) => text.into(),
            Value::Array(items) => items.into_iter().map(whole).collect::<Result<_, _>>()?,
            Value::Object(entries) => entries
                .into_iter()
                .map(|(key, value)| Ok((key, whole(value)?)))
                .collect::<Result<serde_json::Map<_, _>, ()>>()?
                .into(),
            Value::NotText => return Err(()),
        })
    }

    #[test]
    fn texts_mean_what_they_say() {
        for text in [
            " [ ] ",
            "{\t}",
            r#"[[],{},"",[{}]]"#,
            r#"{"":{"":[]}}"#,
            r#"{"a\"]}":"[{\\","b":"\\\"","c" : [ "," , ":" , "]" ]}"#,
            r#"["\u00e9\uD83E\uDD80\/\b\f\n\r\t\\", "größer 漢字 🦀"]"#,
            "[1 ,\n2\r\n, -3.5e+7,true , false,null]",
        ] {
            assert_eq!(
                whole(Node::document(text.as_bytes()).unwrap()),
                Ok(serde_json::from_str(text).unwrap()),
                "{text}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5_000))]

        #[test]
        fn read_as_serde_json_reads_it(text in "[\\[{]{0,2}[\\[\\]{}:,\" \\\\eu/d8c0-9.a-f*-]{0,24}[\\]}]{0,2}") {
            same(&text)?;
        }

        #[test]
        fn well_formed_text_too(json in json(), spaced: bool) {
            let shown = if spaced { serde_json::to_string_pretty(&json) } else { serde_json::to_string(&json) };
            same(&shown.unwrap())?;
        }

        #[test]
        fn escapes_too(text in "(\\\\u[dD][89ab][0-9a-f]{2}|\\\\u[dD][c-f]00|\\\\u00[0-9a-f]{2}|\\\\[\"/bfnrt\\\\]|[a-zé🦀]){0,6}") {
            same(&format!("[\"{text}\",{{\"{text}\":1}}]"))?;
        }
    }

    fn same(text: &str) -> Result<(), TestCaseError> {
        let expected = serde_json::from_str::<serde_json::Value>(text).ok();
        let read = Node::document(text.as_bytes()).ok().and_then(|node| whole(node).ok());
        prop_assert_eq!(read, expected, "{}", text);
        Ok(())
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..5).prop_map(Into::into),
                proptest::collection::vec((any::<String>(), inner), 0..5)
                    .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
            ]
        })
    }

    #[test]
    fn half_a_surrogate_pair_is_no_text() {
        for text in [r#""\ud800""#, r#"{"\udc00":1}"#] {
            assert!(matches!(Node::document(text.as_bytes()).unwrap().open(), Value::NotText), "{text}");
        }
    }
}
