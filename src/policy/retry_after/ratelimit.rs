//! `RateLimit: "default";r=0;t=17`: items with parameters (draft-ietf-httpapi-ratelimit-headers, RFC 9651). Only an
//! item with nothing remaining (`r=0`) asks for anything: to wait for `t` seconds.

use super::trim;
use crate::policy::duration;

/// What one item says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Nothing remains, for so many milliseconds.
    Exhausted(u64),
    /// Something remains, or it is not told when more will.
    Silent,
    Malformed,
}

/// The items of a field. It is not judged whether all of it is a list by RFC 9651: an item that says `r=0;t=17` is
/// clear enough beside one that says nothing.
pub fn items(field: &[u8]) -> impl Iterator<Item = Item> {
    let mut parts = split(field, b',').map(trim).filter(|part| !part.is_empty()).peekable();
    // A field without any item is as malformed as an empty Retry-After.
    let empty = parts.peek().is_none().then_some(Item::Malformed);
    parts.map(item).chain(empty)
}

fn item(text: &[u8]) -> Item {
    let mut parts = split(text, b';');
    if parts.next().is_none_or(|name| trim(name).is_empty()) || !Quotes::are_closed(text) {
        return Item::Malformed;
    }
    let (mut remaining, mut seconds) = (None, None);
    for parameter in parts {
        // Of parameters with one name the last counts (RFC 9651 §4.2.3.2).
        match trim(parameter) {
            [b'r', b'=', value @ ..] => remaining = Some(duration::digits(value)),
            [b't', b'=', value @ ..] => seconds = Some(duration::digits(value)),
            _ => {}
        }
    }
    match (remaining, seconds) {
        (Some(Some(0)), Some(Some(seconds))) => {
            Item::Exhausted(u64::try_from(seconds.saturating_mul(1000)).unwrap_or(u64::MAX))
        }
        (Some(None), _) | (Some(Some(0)), Some(None)) => Item::Malformed,
        _ => Item::Silent,
    }
}

/// The pieces between separators that stand outside quoted strings.
fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut quotes = Quotes::default();
    text.split(move |byte| quotes.is_outside(*byte) && *byte == separator)
}

/// Walks over quoted strings, in which a backslash makes the next byte literal.
#[derive(Default)]
struct Quotes {
    open: bool,
    escaped: bool,
}

impl Quotes {
    /// Takes the next byte; whether it is part of no string.
    fn is_outside(&mut self, byte: u8) -> bool {
        let literal = std::mem::take(&mut self.escaped);
        match byte {
            _ if literal => {}
            b'\\' if self.open => self.escaped = true,
            b'"' => self.open = !self.open,
            _ => return !self.open,
        }
        false
    }

    fn are_closed(text: &[u8]) -> bool {
        let mut quotes = Self::default();
        for byte in text {
            quotes.is_outside(*byte);
        }
        !quotes.open
    }
}
