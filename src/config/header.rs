//! Where deadlines are read from.

use super::json::{Node, Value};
use super::name::Name;
use super::text::alternatives;
use super::values::{List, Words};
use super::write::Json;
use crate::policy::deadline::{Accept, Format};

impl Words for Format {
    const WORDS: &'static [(&'static str, Self)] = &Self::NAMES;
}

/// `{"header": NAME, "format": FORMAT}`
fn accept(item: Node) -> Option<Accept> {
    let Value::Object(entries) = item.open() else { return None };
    let (mut header, mut format) = (None, None);
    for (key, value) in entries {
        match (key.as_str(), value.open()) {
            ("header", _) if header.is_none() => header = Some(Name::Header.read(value)?),
            ("format", Value::String(word)) if format.is_none() => {
                format = Some(Format::WORDS.iter().find(|(known, _)| *known == word)?.1);
            }
            _ => return None,
        }
    }
    Some(Accept { header: header?, format: format? })
}

/// `deadline.accept`. A header that is named twice would be read in two ways, and malformed in one of them.
impl List for Vec<Accept> {
    fn clear(&mut self) {
        Vec::clear(self);
    }

    fn add(&mut self, item: Node) -> bool {
        let accept = accept(item).filter(|accept| self.iter().all(|known| known.header != accept.header));
        let good = accept.is_some();
        self.extend(accept);
        good
    }

    fn items(&self) -> Vec<Json> {
        let word = |accept: &Accept| Format::WORDS.iter().find(|(_, f)| *f == accept.format).map_or("", |(w, _)| *w);
        let item = |accept: &Accept| {
            Json::object([("header", Json::string(&accept.header)), ("format", Json::string(word(accept)))])
        };
        self.iter().map(item).collect()
    }

    fn allowed(&self) -> String {
        let formats = alternatives(Format::WORDS.iter().map(|(word, _)| *word), '"');
        format!("{{\"header\": {}, each once, \"format\": {formats}}}", Name::Header.allowed())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn schema(&self) -> Json {
        let formats = Format::WORDS.iter().map(|(word, _)| Json::string(word)).collect();
        let header =
            Json::object([("type", Json::string("string")), ("pattern", Json::string(Name::Header.pattern()))]);
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
