//! JSON to be read by people: keys in the order of the documentation, lists of plain values on one line.

use super::text;
use std::fmt::Display;

#[derive(Clone, Debug)]
pub enum Json {
    /// A string, number or word, written out.
    Plain(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub fn string(text: &str) -> Self {
        Self::Plain(text::quote(text))
    }

    pub fn null() -> Self {
        Self::Plain("null".to_string())
    }

    /// Of a type that displays as a JSON number.
    pub fn number(number: impl Display) -> Self {
        Self::Plain(number.to_string())
    }

    pub fn object<const N: usize>(entries: [(&str, Json); N]) -> Self {
        Self::Object(entries.into_iter().map(|(key, value)| (key.to_string(), value)).collect())
    }

    /// The JSON Schema of an integer in a range.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn integer_from_to(low: impl Display, high: impl Display) -> Self {
        Self::object([
            ("type", Self::string("integer")),
            ("minimum", Self::number(low)),
            ("maximum", Self::number(high)),
        ])
    }

    /// On one line.
    pub fn line(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// Indented by two spaces.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    /// `depth`: how far to indent; `None`: all on one line.
    fn write(&self, out: &mut String, depth: Option<usize>) {
        let inner = depth.map(|depth| depth.saturating_add(1));
        match self {
            Self::Plain(text) => out.push_str(text),
            Self::List(items) => {
                let inner = inner.filter(|_| !items.iter().all(|item| matches!(item, Self::Plain(_))));
                let separator = if depth.is_some() && inner.is_none() { ", " } else { "," };
                out.push('[');
                for (n, item) in items.iter().enumerate() {
                    if n > 0 {
                        out.push_str(separator);
                    }
                    new_line(out, inner);
                    item.write(out, inner);
                }
                if !items.is_empty() {
                    new_line(out, inner.and(depth));
                }
                out.push(']');
            }
            Self::Object(entries) => {
                out.push('{');
                for (n, (key, value)) in entries.iter().enumerate() {
                    if n > 0 {
                        out.push(',');
                    }
                    new_line(out, inner);
                    out.push_str(&text::quote(key));
                    out.push_str(if inner.is_some() { ": " } else { ":" });
                    value.write(out, inner);
                }
                if !entries.is_empty() {
                    new_line(out, depth);
                }
                out.push('}');
            }
        }
    }
}

fn new_line(out: &mut String, depth: Option<usize>) {
    if let Some(depth) = depth {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("  "));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_or_indented() {
        let json = Json::object([
            ("a", Json::List(vec![Json::number(1), Json::string("x\n")])),
            ("b", Json::object([])),
            ("c", Json::List(vec![])),
            ("d", Json::List(vec![Json::object([("e", Json::number("0.1"))])])),
        ]);
        assert_eq!(json.line(), r#"{"a":[1,"x\u000a"],"b":{},"c":[],"d":[{"e":0.1}]}"#);
        let pretty = "{\n  \"a\": [1, \"x\\u000a\"],\n  \"b\": {},\n  \"c\": [],\n  \"d\": [\n    {\n      \"e\": 0.1\n    }\n  ]\n}";
        assert_eq!(json.pretty(), pretty);
    }
}
