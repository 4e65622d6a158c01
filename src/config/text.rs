//! Text of a stranger's hand, made fit for one line of a log: no control or invisible characters, bounded length.

/// How many characters of a value or a name an error shows: enough for any sensible cluster name.
const SHOWN: usize = 80;

/// `text` as a JSON string of one line, in full.
pub fn quote(text: &str) -> String {
    let mut out = String::from('"');
    text.chars().for_each(|c| push_quoted(&mut out, c));
    out.push('"');
    out
}

/// The same for an error: cut where it is long.
pub fn quote_short(text: &str) -> String {
    let mut out = String::from('"');
    text.chars().take(SHOWN).for_each(|c| push_quoted(&mut out, c));
    out.push_str(if is_long(text) { "…\"" } else { "\"" });
    out
}

/// A piece of JSON source as its author wrote it, cut where it is long.
pub fn source_short(source: &str) -> String {
    let mut out = String::new();
    source.chars().take(SHOWN).for_each(|c| push_visible(&mut out, c));
    if is_long(source) {
        out.push('…');
    }
    out
}

/// Whether an error would cut it.
pub fn is_long(text: &str) -> bool {
    text.chars().nth(SHOWN).is_some()
}

/// "`a`, `b` or `c`"
pub fn alternatives<'a>(words: impl IntoIterator<Item = &'a str>, quote: char) -> String {
    let words: Vec<String> = words.into_iter().map(|w| format!("{quote}{w}{quote}")).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

fn push_quoted(out: &mut String, c: char) {
    if matches!(c, '"' | '\\') {
        out.push('\\');
    }
    push_visible(out, c);
}

fn push_visible(out: &mut String, c: char) {
    if is_visible(c) {
        return out.push(c);
    }
    let mut units = [0; 2];
    c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
}

/// Neither a control character nor one that hides text or turns its direction (a log is read by people).
fn is_visible(c: char) -> bool {
    !c.is_control()
        && !matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_json_and_means_the_same() {
        for text in
            ["", "plain", "a\"b\\c", "line\nbreak\u{0}\u{7f}\u{85}", "\u{202e}rtl", "\u{e0041}", "größer 漢字 🦀"]
        {
            let quoted = quote(text);
            assert_eq!(serde_json::from_str::<String>(&quoted).unwrap(), text, "{quoted}");
            assert!(quoted.chars().all(is_visible), "{quoted}");
        }
    }

    #[test]
    fn long_text_is_cut_by_characters() {
        assert_eq!(quote_short(&"é".repeat(SHOWN)), format!("\"{}\"", "é".repeat(SHOWN)));
        assert_eq!(quote_short(&"é".repeat(500)), format!("\"{}…\"", "é".repeat(SHOWN)));
        assert_eq!(source_short(&"1".repeat(500)), format!("{}…", "1".repeat(SHOWN)));
    }

    #[test]
    fn alternatives_read_as_a_sentence() {
        assert_eq!(alternatives(["a", "b", "c"], '`'), "`a`, `b` or `c`");
        assert_eq!(alternatives(["a"], '"'), "\"a\"");
        assert_eq!(alternatives([], '"'), "");
    }
}
