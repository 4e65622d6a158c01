//! Globs over upstream names: `*` stands for any bytes, none included; everything else for itself.

/// Whether a key of `upstreams` is a glob rather than a name.
pub fn is_glob(pattern: &str) -> bool {
    pattern.contains('*')
}

/// Whether `pattern` covers the whole of `name`.
///
/// The text before the first `*` and after the last must stand at the ends; each text between two takes its
/// leftmost place. Leftmost is never worse, because it leaves the most for what follows: nothing is ever tried
/// again, so no pattern is slow. (Envoy names clusters with bytes, hence no `str`.)
pub fn matches(pattern: &str, name: &[u8]) -> bool {
    let mut parts = pattern.as_bytes().split(|b| *b == b'*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in parts.filter(|part| !part.is_empty()) {
        let found = rest.windows(part.len()).position(|window| window == part);
        match found.and_then(|at| rest.get(at.saturating_add(part.len())..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stars_stand_for_any_bytes() {
        for (pattern, name) in [
            ("orders", "orders"),
            ("*", ""),
            ("*", "anything"),
            ("**", "x"),
            ("orders*", "orders"),
            ("orders*", "orders-v2"),
            ("*.local", "a.local"),
            ("outbound|*||*.svc", "outbound|80||a.svc"),
            ("a*b*c", "abbc"),
            ("a*ba", "abaXba"),
            ("*ab*ab*", "ab-ab"),
        ] {
            assert!(matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("orders", "orders-v2"),
            ("orders*", "order"),
            ("*.local", ".loca"),
            ("a*a", "a"),
            ("ab*ba", "aba"),
            ("*ab*ab*", "aab"),
            ("a.c", "abc"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        assert!(matches("a*b", b"a\xff\x00b"));
    }

    #[test]
    fn many_stars_are_not_slow() {
        let pattern = "a*".repeat(2_000) + "b";
        assert!(!matches(&pattern, "a".repeat(4_000).as_bytes()));
    }

    /// The textbook definition, exponential and obviously right.
    fn slow(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|n| slow(rest, &name[n..])),
            Some((byte, rest)) => name.first() == Some(byte) && slow(rest, &name[1..]),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(matches(&pattern, name.as_bytes()), slow(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
