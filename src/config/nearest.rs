//! The nearest known word to an unknown one.

/// Longer words are no slip of the pen, and the distance costs the product of the lengths.
const MAX_CHARS: usize = 64;

/// The candidate with the fewest edits to `word` (case aside), the first of equals; none when more than a third
/// of the word would have to change, for such a guess only distracts.
pub fn nearest<'a, T>(word: &str, candidates: impl IntoIterator<Item = (&'a str, T)>) -> Option<T> {
    let length = word.chars().take(MAX_CHARS.saturating_add(1)).count();
    if length > MAX_CHARS {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let limit = length.max(3).div_euclid(3);
    candidates
        .into_iter()
        .map(|(text, candidate)| (distance(&word, &text.to_ascii_lowercase()), candidate))
        .filter(|(edits, _)| *edits <= limit)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance: characters inserted, removed or replaced. One row of the usual table is kept.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (1..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut left = i.saturating_add(1);
        for (cell, y) in row.iter_mut().zip(b.chars()) {
            let replaced = diagonal.saturating_add(usize::from(x != y));
            diagonal = *cell;
            left = replaced.min(left.saturating_add(1)).min(cell.saturating_add(1));
            *cell = left;
        }
    }
    row.last().copied().unwrap_or_else(|| a.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_edits() {
        for (a, b, edits) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("ration", "ratio", 1),
            ("raito", "ratio", 2),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), edits, "{a} {b}");
            assert_eq!(distance(b, a), edits, "{b} {a}");
        }
    }

    #[test]
    fn the_nearest_is_near() {
        let find = |word| nearest(word, ["ratio", "max_tokens", "min_retries_per_second"].map(|k| (k, k)));
        assert_eq!(find("ration"), Some("ratio"));
        assert_eq!(find("RATIO"), Some("ratio"));
        assert_eq!(find("maxTokens"), Some("max_tokens"));
        assert_eq!(find("min_retry_per_seconds"), Some("min_retries_per_second"));
        assert_eq!(find("x"), None);
        assert_eq!(find(""), None);
        assert_eq!(find("something_else"), None);
        assert_eq!(find(&"ratio".repeat(100_000)), None);
    }
}
