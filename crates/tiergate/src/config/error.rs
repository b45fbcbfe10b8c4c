//! What is wrong with a policy file: every fault with its line and column, the key, what was expected
//! and what was found.

use crate::{userinfo, visible};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Most faults of one file that are reported; the rest are counted.
pub(super) const FAULTS_MAX: usize = 100;

/// One fault of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name: the policy's, or that of one that it includes.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key as a path (`class[2].minimum`, places in lists counted from 1); empty if the file as
    /// a whole is meant.
    pub key: String,
    /// What was expected and what was found.
    pub message: String,
}

/// A place of a policy, for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The file's name.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key as a path.
    pub key: String,
}

impl Spot {
    /// What is wrong here.
    pub fn fault(self, message: String) -> Fault {
        let Spot { file, line, column, key } = self;
        Fault { file, line, column, key, message }
    }
}

/// All faults of a policy, in the order of its files. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    /// The file's name as given.
    pub file: String,
    /// The first [`FAULTS_MAX`] faults.
    pub faults: Vec<Fault>,
    /// How many more there are.
    pub more: usize,
}

impl fmt::Display for Errors {
    /// One line a fault: `policy.toml:14:10: class[2].queue: must be at most 1000000, got 9999999`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            let Fault { line, column, .. } = fault;
            write!(f, "{separator}{}:{line}:{column}: ", visible::line(&fault.file))?;
            if !fault.key.is_empty() {
                write!(f, "{}: ", visible::line(&fault.key))?;
            }
            f.write_str(&visible::line(&fault.message))?;
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more faults", visible::line(&self.file), self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Why a policy file could not be put in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read: the policy, or the page that it names.
    #[error("{path}: cannot be read: {cause}", path = visible::line(&.0.to_string_lossy()), cause = .1)]
    Read(PathBuf, std::io::Error),
    /// A file is larger than it may be, in bytes.
    #[error("{path}: must have at most {max} bytes", path = visible::line(&.0.to_string_lossy()), max = .1)]
    TooLarge(PathBuf, u64),
    /// The policy says what makes no sense.
    #[error("{0}")]
    Faults(Errors),
}

/// Most known words that a message lists: more than any table has keys, fewer than a policy may have names.
const SHOWN_MAX: usize = 64;

/// ", did you mean `x`?" for the known word most like `word`, or the list of all known ones.
pub(super) fn instead<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    // The comparison is quadratic, and a word this long is no misspelling of a known one.
    let near = || {
        known
            .clone()
            .filter(|known| word.len() <= 64 && !is_another(word, known))
            .map(|known| (strsim::jaro_winkler(word, known), known))
            .filter(|(likeness, _)| *likeness > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, near)| near)
    };
    // `lifo` is a part of `adaptive-lifo`, and of no other.
    let whole = || {
        let mut whole = known.clone().filter(|known| known.split('-').any(|it| it == word));
        whole.next().filter(|_| whole.next().is_none())
    };
    match near().or_else(whole) {
        Some(near) => format!(", did you mean `{near}`?"),
        None => {
            let others = known.clone().count().saturating_sub(SHOWN_MAX);
            let mut known: Vec<_> =
                known.take(SHOWN_MAX).map(|known| format!("`{known}`")).collect();
            known.sort_unstable();
            let others = match others {
                0 => String::new(),
                others => format!(", or {others} others"),
            };
            format!(", expected one of {}{others}", known.join(", "))
        }
    }
}

/// Whether a word that looks like a known one is likely meant for another: misspellings begin as the word does, and `http2` is not
/// `http1`; `RS265` has the digits of `RS256`.
fn is_another(word: &str, known: &str) -> bool {
    let without_digits = |text: &str| text.replace(|it: char| it.is_ascii_digit(), "");
    let digits = |text: &str| {
        let mut digits: Vec<_> = text.chars().filter(char::is_ascii_digit).collect();
        digits.sort_unstable();
        digits
    };
    let begin = |text: &str| text.chars().next().map(|it| it.to_ascii_lowercase());
    let begins_otherwise = word.len() == known.len() && begin(word) != begin(known);
    let differs_by_digits =
        without_digits(word) == without_digits(known) && digits(word) != digits(known);
    begins_otherwise || differs_by_digits
}

/// A text as short as a message can bear, without the password of a URL.
pub(crate) fn shortened(text: &str) -> String {
    const LEN_MAX: usize = 60;
    let text = userinfo::masked(text);
    match text.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_names_have_for_terminals_is_escaped() {
        let text = "[origin]\nservers = [\"a:1\"]\n[[class]]\nname = \"\\u001B[31mx\\ny\"\n[[rule]]\nclass = \"other\"\n";
        let said = crate::config::parse(text, "p\n\u{1b}.toml").expect_err("no class").to_string();
        let expected = "p\\n\\u{1b}.toml:6:9: rule[1].class: no class is called \"other\", expected one of `\\u{1b}[31mx\\ny`";
        assert_eq!(said.lines().last(), Some(expected));
        let missing = ConfigError::Read("/\u{1b}c".into(), std::io::ErrorKind::NotFound.into());
        assert!(missing.to_string().starts_with("/\\u{1b}c: cannot be read: "), "{missing}");
    }
}
