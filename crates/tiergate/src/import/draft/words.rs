//! Words of a policy and of what is said of it.

/// What is wrong with a file that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportFault {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// What was expected, and what was found.
    pub message: String,
}

impl std::fmt::Display for ImportFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for ImportFault {}

/// How the policy compares with the original where something is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Compared {
    /// It lets pass what the original refuses.
    LessSafe,
    /// It refuses what the original lets pass.
    Stricter,
    /// It serves otherwise, or the same.
    Otherwise,
}

impl Compared {
    pub(super) fn heading(self) -> &'static str {
        match self {
            Compared::LessSafe => "LESS SAFE than the original; mend these first:",
            Compared::Stricter => "stricter than the original:",
            Compared::Otherwise => "Not taken over:",
        }
    }
}

/// A text as TOML writes it: whole, because a pattern without its end is another one.
pub(crate) fn quoted(text: &str) -> String {
    // JSON and TOML write a text alike, but TOML escapes one control character more. `${` is written as such.
    let text = serde_json::Value::from(text.replace("${", "$${")).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// Texts as a list, or one alone.
pub(crate) fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    match texts {
        [one] => quoted(one.as_ref()),
        _ => format!(
            "[{}]",
            texts.iter().map(|it| quoted(it.as_ref())).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// A name as policies take them: of at most 64 letters, digits, `-`, `_` and `.`.
pub(crate) fn name(text: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = text.chars().map(|it| if fits(it) { it } else { '-' }).take(48).collect();
    match name.as_str() {
        "" => "unnamed".to_owned(),
        "default" => "default-pool".to_owned(),
        _ => name,
    }
}

/// A literal as a pattern of paths and values writes it; with `*` behind, a prefix.
pub(crate) fn literal(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for letter in text.chars() {
        if matches!(letter, '*' | '?' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern
}

/// A text without controls, which TOML allows neither in comments nor in texts, and not too long.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(400).collect()
}
