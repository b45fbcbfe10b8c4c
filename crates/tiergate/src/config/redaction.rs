//! What files put into the texts of a policy (`${file:…}`) is a secret, and never shown: in texts for people its name stands in its place.

use std::borrow::Cow;
use std::path::PathBuf;

/// Shortest secret: what is shorter can be guessed, and would be found everywhere in what is shown.
pub(super) const LEN_MIN: usize = 8;

/// The secrets of a policy.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redaction {
    /// Each with what is shown in its place.
    secrets: Vec<(String, String)>,
    /// The files that they are from.
    pub(super) files: Vec<PathBuf>,
}

impl Redaction {
    /// Adds a secret of at least [`LEN_MIN`] bytes.
    pub(super) fn add(&mut self, secret: &str, shown: &str) {
        debug_assert!(secret.len() >= LEN_MIN, "shorter ones are refused before");
        // As messages write it, too.
        for secret in [secret.to_owned(), secret.escape_debug().to_string()] {
            if !self.secrets.iter().any(|(known, _)| *known == secret) {
                self.secrets.push((secret, shown.to_owned()));
            }
        }
    }

    /// The text without the secrets, whole or cut short behind their first eight bytes, in capitals or not.
    pub fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let (mut whole, mut done, mut at) = (String::new(), 0, 0);
        while at < text.len() {
            let Some((len, shown)) = self.begins(&text[at..]) else {
                at += text[at..].chars().next().map_or(1, char::len_utf8);
                continue;
            };
            whole += &text[done..at];
            whole += shown;
            at += len;
            done = at;
        }
        match done {
            0 => Cow::Borrowed(text),
            _ => Cow::Owned(whole + &text[done..]),
        }
    }

    /// How much of a text's beginning is that of a secret, the most of all, and what is shown for it.
    fn begins(&self, text: &str) -> Option<(usize, &str)> {
        let same = |secret: &str| {
            let bytes = text.bytes().zip(secret.bytes());
            let len = bytes.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
            text.ceil_char_boundary(len)
        };
        let found = self.secrets.iter().map(|(secret, shown)| (same(secret), shown.as_str()));
        found.filter(|(len, _)| *len >= LEN_MIN).max_by_key(|(len, _)| *len)
    }
}

impl std::fmt::Debug for Redaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redaction({})", self.secrets.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_shown_nowhere() {
        let mut redaction = Redaction::default();
        redaction.add("s3cret\"Key-of-many-letters", "${file:key}");
        redaction.add("pässword1", "${file:word}");
        for (text, shown) in [
            ("header x = s3cret\"Key-of-many-letters, and", "header x = ${file:key}, and"),
            ("got \"s3cret\\\"Key-of-many-letters\"", "got \"${file:key}\""),
            ("got \"s3cret\\\"Key-of-m…\"", "got \"${file:key}…\""),
            ("S3CRET\"KEY-OF-MANY-LETTERS", "${file:key}"),
            ("PässWORD1pässword1x", "${file:word}${file:word}x"),
            ("s3cret", "s3cret"),
            ("", ""),
        ] {
            assert_eq!(redaction.redacted(text), shown);
        }
        assert_eq!(Redaction::default().redacted("as it is"), "as it is");
    }
}
