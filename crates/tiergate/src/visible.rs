//! Text for a terminal: what would move its cursor, recolour it or turn its lines around is shown as an escape instead. Names of files
//! and classes, and paths, are written by others.

use std::borrow::Cow;
use std::fmt::Write;

/// One line, with each control character as `char::escape_debug` shows it: `\u{1b}`, `\n`.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escaped(text, is_hidden)
}

/// The same of several lines: line feeds and tabs stay.
pub(crate) fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |letter| is_hidden(letter) && !matches!(letter, '\n' | '\t'))
}

fn escaped(text: &str, is_hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match is_hidden(letter) {
            true => write!(shown, "{}", letter.escape_debug()).expect("a string takes any text"),
            false => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Control characters, and those that have what follows read from the other side.
/// Source: Unicode Standard Annex 9, explicit directional formatting characters.
fn is_hidden(letter: char) -> bool {
    let turns = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_escaped() {
        for (text, shown) in [
            ("/a b\"\\é\u{a0}", "/a b\"\\é\u{a0}"),
            ("\u{1b}[31mx", "\\u{1b}[31mx"),
            ("a\nb\tc\r\u{0}", "a\\nb\\tc\\r\\0"),
            ("\u{9b}2J\u{7f}\u{202e}", "\\u{9b}2J\\u{7f}\\u{202e}"),
        ] {
            assert_eq!(line(text), shown);
        }
        assert_eq!(lines("a\n\tb\u{1b}c\r\n"), "a\n\tb\\u{1b}c\\r\n");
    }
}
