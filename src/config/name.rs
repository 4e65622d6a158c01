//! The names that HTTP has for things: header fields, methods, and whoever retries.

use super::json::{Node, Value};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// Of a header field. Case does not matter: kept in lower case.
    Header,
    /// Of a method. Case matters (RFC 9110 §9.1), and all that are registered are in upper case: `get` is another
    /// method than `GET`, one that nobody sends. It is a slip, so it is told instead of corrected or obeyed.
    Method,
    /// Of a layer that retries; it becomes the value of a header field.
    Owner,
}

/// A name travels in every request.
const MAX_OWNER: usize = 128;

impl Name {
    /// As it is kept; `None` when `node` is no such name.
    pub fn read(self, node: Node) -> Option<String> {
        let Value::String(mut text) = node.open() else { return None };
        let good = match self {
            Self::Header => {
                text.make_ascii_lowercase();
                is_token(&text)
            }
            Self::Method => is_token(&text) && !text.bytes().any(|b| b.is_ascii_lowercase()),
            Self::Owner => (1..=MAX_OWNER).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()),
        };
        good.then_some(text)
    }

    /// For an error.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Header => "the name of a header field",
            Self::Method => "an HTTP method in upper case",
            Self::Owner => "1 to 128 visible ASCII characters without spaces",
        }
    }

    /// For the JSON Schema; says the same as `read`.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn pattern(self) -> &'static str {
        match self {
            Self::Header => "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
            Self::Method => "^[!#$%&'*+.^_`|~0-9A-Z-]+$",
            Self::Owner => "^[!-~]{1,128}$",
        }
    }
}

/// RFC 9110 §5.6.2
fn is_token(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: Name, text: &str) -> Option<String> {
        let quoted = super::super::text::quote(text);
        name.read(Node::document(quoted.as_bytes()).unwrap())
    }

    #[test]
    fn header_fields_are_tokens_in_lower_case() {
        assert_eq!(read(Name::Header, "Idempotency-Key").as_deref(), Some("idempotency-key"));
        assert_eq!(read(Name::Header, "x_!1").as_deref(), Some("x_!1"));
        for bad in ["", "a b", ":path", "a:", "é", "a\n", "a,b"] {
            assert_eq!(read(Name::Header, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn methods_are_tokens_in_upper_case() {
        for good in ["GET", "M-SEARCH", "VERSION-CONTROL", "X_2"] {
            assert_eq!(read(Name::Method, good).as_deref(), Some(good));
        }
        for bad in ["", "get", "Get", "GET ", "GET,HEAD", "*/", "É"] {
            assert_eq!(read(Name::Method, bad), None, "{bad:?}");
        }
    }

    #[test]
    fn owners_are_visible_and_short() {
        let longest = "o".repeat(MAX_OWNER);
        for good in ["gateway", "edge/eu-1", "!~", &longest] {
            assert_eq!(read(Name::Owner, good).as_deref(), Some(good));
        }
        for bad in ["", "a b", " a", "a\r\nx: y", "größe", "\u{7f}", &format!("{longest}o")] {
            assert_eq!(read(Name::Owner, bad), None, "{bad:?}");
        }
        assert!(Name::Owner.allowed().contains(&MAX_OWNER.to_string()));
    }

    #[test]
    fn only_strings_are_names() {
        for text in ["null", "1", "true", "[]", "{}", "[\"GET\"]"] {
            assert_eq!(Name::Method.read(Node::document(text.as_bytes()).unwrap()), None, "{text}");
        }
    }
}
