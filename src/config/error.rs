//! What is wrong with a configuration: where, what was found, what is allowed, and the remedy, one sentence each.

use super::text;
use std::fmt;

/// Errors kept and shown; a configuration that is wrong in more places is wrong in the same way many times.
const MAX_ERRORS: usize = 50;

/// A place in the configuration. Displayed as a user would write it, `upstreams["a.b"].budget.ratio`; `$` is the whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Segment>);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Key(String),
    Index(usize),
}

impl Path {
    pub fn root() -> Self {
        Self::default()
    }

    pub fn key(&self, name: &str) -> Self {
        self.then(Segment::Key(name.to_string()))
    }

    pub fn index(&self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Self {
        Self(self.0.iter().cloned().chain([segment]).collect())
    }
}

impl fmt::Display for Path {
    /// Names that are long or odd are quoted; long ones are cut, here and nowhere else, so that no two paths are one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |name: &str| {
            name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                && !text::is_long(name)
        };
        let starts_plain = matches!(self.0.first(), Some(Segment::Key(name)) if plain(name));
        f.write_str(if starts_plain { "" } else { "$" })?;
        for (n, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(name) if !plain(name) => write!(f, "[{}]", text::quote_short(name))?,
                Segment::Key(name) if n == 0 => f.write_str(name)?,
                Segment::Key(name) => write!(f, ".{name}")?,
            }
        }
        Ok(())
    }
}

/// One thing that is wrong. [`Display`](fmt::Display) gives the whole sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Where: `budget.ratio`, `upstreams["a.b"].retriable.statuses[2]`, `$`.
    pub path: String,
    /// What was found and what is allowed, on one line.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Everything that is wrong with a configuration, one thing at least.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    kept: Vec<ConfigError>,
    /// How many more there were, in words.
    more: Option<ConfigError>,
    dropped: usize,
}

impl Errors {
    /// One line each; where there are very many the last one says how many more.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.kept.iter().chain(&self.more)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn add(&mut self, path: &Path, found: &str, allowed: &str) {
        self.push(path, format!("found {found}, allowed is {allowed}"));
    }

    /// The same with what the author may have meant.
    pub(super) fn add_with_guess(&mut self, path: &Path, found: &str, allowed: &str, guess: Option<&str>) {
        match guess {
            Some(guess) => self.push(path, format!("found {found}, allowed is {allowed}; did you mean {guess}?")),
            None => self.add(path, found, allowed),
        }
    }

    fn push(&mut self, path: &Path, message: String) {
        if self.kept.len() < MAX_ERRORS {
            self.kept.push(ConfigError { path: path.to_string(), message });
        } else {
            self.dropped = self.dropped.saturating_add(1);
            let message = format!("… and {} more", self.dropped);
            self.more = Some(ConfigError { path: Path::root().to_string(), message });
        }
    }
}

impl fmt::Display for Errors {
    /// One error per line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_reads_as_it_would_be_written() {
        let root = Path::root();
        assert_eq!(root.to_string(), "$");
        assert_eq!(root.key("budget").key("ratio").to_string(), "budget.ratio");
        assert_eq!(root.key("retriable").key("statuses").index(2).to_string(), "retriable.statuses[2]");
        assert_eq!(root.key("upstreams").key("orders-v2").key("log").to_string(), "upstreams.orders-v2.log");
        let subset = root.key("upstreams").key("outbound|80||a.b").key("log");
        assert_eq!(subset.to_string(), "upstreams[\"outbound|80||a.b\"].log");
        for (odd, path) in [("", "$[\"\"]"), ("a b", "$[\"a b\"]"), ("7", "$[\"7\"]"), ("\n\"", "$[\"\\u000a\\\"\"]")] {
            assert_eq!(root.key(odd).to_string(), path);
        }
    }

    #[test]
    fn a_path_is_bounded() {
        let path = Path::root().key(&"x".repeat(1_000_000)).to_string();
        assert!(path.len() < 200 && path.contains('…'), "{path}");
    }

    #[test]
    fn errors_beyond_the_cap_are_counted() {
        let mut errors = Errors::default();
        (0..1000).for_each(|n| errors.add(&Path::root().index(n), "this", "that"));
        assert_eq!(errors.iter().count(), MAX_ERRORS + 1);
        assert!(errors.to_string().ends_with("\n$: … and 950 more"), "{errors}");
    }
}
