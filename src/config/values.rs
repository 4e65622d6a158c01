//! The kinds of values that more than one key has: their words, their items, what is allowed, how they are shown.

use super::json::{Node, Value};
use super::number;
use super::write::Json;
use crate::policy::outcome::{GrpcStatusSet, StatusSet};
use crate::policy::{DepositOn, EmitStopSignal, Hold, LogDecisions, Mode, Placement, Reset};

/// A field that is one of several words.
pub trait Choice {
    fn words(&self) -> Vec<&'static str>;
    fn word(&self) -> &'static str;
    /// Whether there is such a word; it is then chosen.
    fn choose(&mut self, word: &str) -> bool;
}

/// A type whose values have words in a configuration.
pub trait Words: Copy + PartialEq + 'static {
    const WORDS: &'static [(&'static str, Self)];
}

impl<T: Words> Choice for T {
    fn words(&self) -> Vec<&'static str> {
        T::WORDS.iter().map(|(word, _)| *word).collect()
    }

    fn word(&self) -> &'static str {
        T::WORDS.iter().find(|(_, value)| value == self).map_or("", |(word, _)| *word)
    }

    fn choose(&mut self, word: &str) -> bool {
        match T::WORDS.iter().find(|(known, _)| *known == word) {
            Some((_, value)) => {
                *self = *value;
                true
            }
            None => false,
        }
    }
}

impl Words for Mode {
    const WORDS: &'static [(&'static str, Self)] =
        &[("enforce", Self::Enforce), ("observe", Self::Observe), ("off", Self::Off)];
}

impl Words for Option<Placement> {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", None),
        ("request", Some(Placement::Request)),
        ("attempt", Some(Placement::Attempt)),
        ("callee", Some(Placement::Callee)),
    ];
}

impl Words for DepositOn {
    const WORDS: &'static [(&'static str, Self)] = &[("request", Self::Request), ("success", Self::Success)];
}

impl Words for EmitStopSignal {
    const WORDS: &'static [(&'static str, Self)] =
        &[("stopped", Self::Stopped), ("failed", Self::Failed), ("none", Self::None)];
}

impl Words for Hold {
    const WORDS: &'static [(&'static str, Self)] =
        &[("retries", Self::Retries), ("requests", Self::Requests), ("off", Self::Off)];
}

impl Words for Reset {
    const WORDS: &'static [(&'static str, Self)] = &[("unknown", Self::Unknown), ("unsent", Self::Unsent)];
}

impl Words for LogDecisions {
    const WORDS: &'static [(&'static str, Self)] = &[("all", Self::All), ("stops", Self::Stops), ("off", Self::Off)];
}

/// A field that is a list.
pub trait List {
    fn clear(&mut self);
    /// Whether the item is allowed; it is then added.
    fn add(&mut self, item: Node) -> bool;
    /// The items as a configuration would name them.
    fn items(&self) -> Vec<Json>;
    /// What an item may be, for an error: "an HTTP status …".
    fn allowed(&self) -> String;
    /// What an item may be, for the JSON Schema.
    #[cfg(not(target_arch = "wasm32"))]
    fn schema(&self) -> Json;
}

/// Statuses of one class: 500 to 599.
const CLASS: u16 = 100;

/// `5xx` → 500..=599
fn class(word: &str) -> Option<std::ops::RangeInclusive<u16>> {
    let (digit, rest) = word.split_at_checked(1)?;
    if !rest.eq_ignore_ascii_case("xx") {
        return None;
    }
    let first = digit.parse::<u16>().ok()?.checked_mul(CLASS)?;
    let last = first.checked_add(CLASS)?.checked_sub(1)?;
    (StatusSet::RANGE.0 <= first && last <= StatusSet::RANGE.1).then_some(first..=last)
}

impl List for StatusSet {
    fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    fn add(&mut self, item: Node) -> bool {
        let (low, high) = Self::RANGE;
        let statuses = match item.open() {
            Value::Number(text) => number::whole(text).filter(|s| (low..=high).contains(s)).map(|s| s..=s),
            Value::String(word) => class(&word),
            _ => None,
        };
        statuses.map(|statuses| statuses.for_each(|status| self.insert(status))).is_some()
    }

    /// Whole classes first.
    fn items(&self) -> Vec<Json> {
        let words: Vec<String> = (0..=9).map(|digit| format!("{digit}xx")).collect();
        let whole = |word: &&String| class(word).is_some_and(|mut statuses| statuses.all(|s| self.contains(s)));
        let classes: Vec<&String> = words.iter().filter(whole).collect();
        let named = |status: &u16| !classes.iter().any(|word| class(word).is_some_and(|all| all.contains(status)));
        let rest = self.iter().filter(named).map(Json::number);
        classes.iter().map(|word| Json::string(word)).chain(rest).collect()
    }

    fn allowed(&self) -> String {
        let (low, high) = Self::RANGE;
        format!("an HTTP status from {low} to {high} or a class from \"1xx\" to \"5xx\"")
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn schema(&self) -> Json {
        let (low, high) = Self::RANGE;
        let status = Json::integer_from_to(low, high);
        let class = Json::object([("type", Json::string("string")), ("pattern", Json::string("^[1-5][xX]{2}$"))]);
        Json::object([("anyOf", Json::List(vec![status, class]))])
    }
}

/// The lowest gRPC code that can be failing. 0 is OK: Envoy never retries it, and to judge it would reserve a
/// token for every success.
const LOWEST_FAILING_GRPC: u8 = 1;

impl List for GrpcStatusSet {
    fn clear(&mut self) {
        *self = Self::EMPTY;
    }

    fn add(&mut self, item: Node) -> bool {
        let code = match item.open() {
            Value::Number(text) => number::whole(text).filter(|c| (LOWEST_FAILING_GRPC..=Self::MAX).contains(c)),
            _ => None,
        };
        code.map(|code| self.insert(code)).is_some()
    }

    fn items(&self) -> Vec<Json> {
        self.iter().map(Json::number).collect()
    }

    fn allowed(&self) -> String {
        format!("a gRPC status code from {LOWEST_FAILING_GRPC} to {} (0 is OK, never a failure)", Self::MAX)
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn schema(&self) -> Json {
        Json::integer_from_to(LOWEST_FAILING_GRPC, Self::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(list: &mut dyn List, item: &str) -> bool {
        list.add(Node::document(item.as_bytes()).unwrap())
    }

    fn shown(list: &dyn List) -> String {
        Json::List(list.items()).line()
    }

    #[test]
    fn statuses_are_numbers_and_classes() {
        let mut set = StatusSet::EMPTY;
        for item in ["503", "404.0", "\"4xx\"", "\"4XX\"", "100", "599"] {
            assert!(add(&mut set, item), "{item}");
        }
        assert_eq!(shown(&set), r#"["4xx",100,503,599]"#);
        for item in [
            "99", "600", "503.5", "\"503\"", "\"0xx\"", "\"6xx\"", "\"5x\"", "\"5xxx\"", "\"éxx\"", "\"\"", "null",
            "[]",
        ] {
            assert!(!add(&mut set, item), "{item}");
        }
    }

    #[test]
    fn ok_is_no_failing_grpc_status() {
        let mut set = GrpcStatusSet::EMPTY;
        assert!(add(&mut set, "1") && add(&mut set, "16"));
        for item in ["0", "17", "-1", "\"UNAVAILABLE\"", "1.5", "257"] {
            assert!(!add(&mut set, item), "{item}");
        }
        assert_eq!(shown(&set), "[1,16]");
    }

    #[test]
    fn every_word_means_itself() {
        fn check<T: Words>(mut field: T) {
            for word in field.words() {
                assert!(field.choose(word));
                assert_eq!(field.word(), word);
            }
            assert!(!field.choose("ENFORCE") && !field.choose(""));
        }
        check(Mode::default());
        check(None::<Placement>);
        check(DepositOn::default());
        check(EmitStopSignal::default());
        check(Hold::default());
        check(Reset::default());
        check(LogDecisions::default());
    }
}
