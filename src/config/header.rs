//! Names of header fields in a configuration, and where deadlines are read from.

use super::json::{Node, Value};
use super::values::{List, Words};
use super::write::Json;
use crate::policy::deadline::{Accept, Format};

pub const ALLOWED: &str = "the name of a header field";

/// For the JSON Schema; says the same as `is_name`.
pub const PATTERN: &str = "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$";

/// RFC 9110 §5.6.2: a token. Names are compared in lower case.
pub fn is_name(text: &str) -> bool {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(is_token)
}

impl Words for Format {
    const WORDS: &'static [(&'static str, Self)] = &Self::NAMES;
}

/// `deadline.accept`: `{"header": NAME, "format": FORMAT}` each. A header that is named twice would be read in two ways,
/// and malformed in one of them.
impl List for Vec<Accept> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn add(&mut self, item: Node) -> bool {
        let Value::Object(entries) = item.open() else { return false };
        let (mut header, mut format) = (None, None);
        for (key, value) in entries {
            match (key.as_str(), value.open()) {
                ("header", Value::String(name)) if header.is_none() && is_name(&name) => {
                    header = Some(name.to_ascii_lowercase());
                }
                ("format", Value::String(word)) if format.is_none() => {
                    let known = Format::WORDS.iter().find(|(known, _)| *known == word);
                    let Some((_, found)) = known else { return false };
                    format = Some(*found);
                }
                _ => return false,
            }
        }
        match (header, format) {
            (Some(header), Some(format)) if self.iter().all(|known| known.header != header) => {
                self.push(Accept { header, format });
                true
            }
            _ => false,
        }
    }

    fn items(&self) -> Vec<Json> {
        let word = |accept: &Accept| Format::WORDS.iter().find(|(_, f)| *f == accept.format).map_or("", |(w, _)| *w);
        let item = |accept: &Accept| {
            Json::object([("header", Json::string(&accept.header)), ("format", Json::string(word(accept)))])
        };
        self.iter().map(item).collect()
    }

    fn allowed(&self) -> String {
        let formats: Vec<String> = Format::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        format!("{{\"header\": {ALLOWED}, each once, \"format\": one of {}}}", formats.join(", "))
    }

    fn schema(&self) -> Json {
        let formats = Format::WORDS.iter().map(|(word, _)| Json::string(word)).collect();
        let header = Json::object([("type", Json::string("string")), ("pattern", Json::string(PATTERN))]);
        let format = Json::object([("enum", Json::List(formats))]);
        Json::object([
            ("type", Json::string("object")),
            ("properties", Json::object([("header", header), ("format", format)])),
            ("required", Json::List(vec![Json::string("header"), Json::string("format")])),
            ("additionalProperties", Json::Plain("false".to_string())),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(list: &mut Vec<Accept>, item: &str) -> bool {
        List::add(list, Node::document(item.as_bytes()).unwrap())
    }

    #[test]
    fn an_item_is_a_header_with_a_format() {
        let mut list = Vec::new();
        assert!(add(&mut list, r#"{"header":"X-Deadline","format":"epoch-ms"}"#));
        assert!(add(&mut list, r#"{"format":"s","header":"x-timeout"}"#));
        for bad in [
            "{}",
            r#"{"header":"a"}"#,
            r#"{"header":"a b","format":"ms"}"#,
            r#"{"header":"","format":"ms"}"#,
            r#"{"header":"a","format":"MS"}"#,
            r#"{"header":"a","format":"ms","more":1}"#,
            r#"{"header":"a","header":"b","format":"ms"}"#,
            r#"{"header":"x-deadline","format":"ms"}"#,
            r#""x-deadline""#,
        ] {
            assert!(!add(&mut list, bad), "{bad}");
        }
        let shown = Json::List(List::items(&list)).line();
        assert_eq!(shown, r#"[{"header":"x-deadline","format":"epoch-ms"},{"header":"x-timeout","format":"s"}]"#);
    }
}
