//! What is wrong with a policy file: every fault with its place, the key, what was found, what was
//! expected.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// Most faults that are told of one file; the rest are counted.
const FAULTS_MAX: usize = 100;

/// One fault of a policy file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
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

/// All faults of a policy file, in the order of the file. Never empty.
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
            write!(f, "{separator}{}:{}:{}: ", self.file, fault.line, fault.column)?;
            if !fault.key.is_empty() {
                write!(f, "{}: ", fault.key)?;
            }
            f.write_str(&fault.message)?;
        }
        if self.more > 0 {
            write!(f, "\n{}: and {} more faults", self.file, self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Why a policy file could not be put in force.
#[derive(Debug)]
pub enum ConfigError {
    /// A file could not be read: the policy, or the page that it names.
    Read(PathBuf, std::io::Error),
    /// A file is larger than it may be, in bytes.
    TooLarge(PathBuf, u64),
    /// A file of secrets is not as it must be.
    Secret(PathBuf, String),
    /// The policy says what makes no sense.
    Faults(Errors),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Read(path, cause) => {
                write!(f, "{}: cannot be read: {cause}", path.display())
            }
            ConfigError::TooLarge(path, max) => {
                write!(f, "{}: must have at most {max} bytes", path.display())
            }
            ConfigError::Secret(path, fault) => write!(f, "{}: {fault}", path.display()),
            ConfigError::Faults(errors) => errors.fmt(f),
        }
    }
}

impl std::error::Error for ConfigError {}

/// Where a value stands in the file, and under which key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub key: String,
    pub span: Range<usize>,
}

impl Place {
    /// The place of a key in the table here.
    pub(super) fn of_key(&self, key: &str, span: Range<usize>) -> Place {
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let key = match !key.is_empty() && key.bytes().all(bare) {
            true => shortened(key),
            false => format!("{:?}", shortened(key)),
        };
        let dot = if self.key.is_empty() { "" } else { "." };
        Place { key: format!("{}{dot}{key}", self.key), span }
    }

    /// The place of an element of the list here; `index` counts from 0.
    pub(super) fn of_element(&self, index: usize, span: Range<usize>) -> Place {
        Place { key: format!("{}[{}]", self.key, index + 1), span }
    }
}

/// The faults found so far.
#[derive(Debug)]
pub(super) struct Faults {
    found: Vec<(Range<usize>, String, String)>,
    /// The keys among them.
    keys: HashSet<String>,
}

impl Faults {
    pub(super) fn new() -> Self {
        Faults { found: Vec::new(), keys: HashSet::new() }
    }

    /// Something is wrong at a place.
    pub(super) fn add(&mut self, place: &Place, message: impl Into<String>) {
        self.found.push((place.span.clone(), place.key.clone(), message.into()));
        self.keys.insert(place.key.clone());
    }

    /// Something is missing from the table at a place, unless it is there and wrong in itself.
    pub(super) fn missing(&mut self, table: &Place, key: &str, how: &str) {
        let place = table.of_key(key, table.span.clone());
        if !self.keys.contains(&place.key) {
            self.add(&place, format!("is missing; {how}"));
        }
    }

    /// Whether the value of a key of the table at a place is wrong.
    pub(super) fn at_key(&self, table: &Place, key: &str) -> bool {
        self.keys.contains(&table.of_key(key, 0..0).key)
    }

    /// Whether the first element of the list at a place is wrong.
    pub(super) fn in_list(&self, list: &Place) -> bool {
        self.keys.contains(&list.of_element(0, 0..0).key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The faults by line and column; to be called only if there are any.
    pub(super) fn into_errors(mut self, file: &str, lines: &Lines<'_>) -> Errors {
        self.found.sort_by_key(|(span, ..)| span.start);
        let more = self.found.len().saturating_sub(FAULTS_MAX);
        self.found.truncate(FAULTS_MAX);
        let fault = |(span, key, message): (Range<usize>, String, String)| {
            let (line, column) = lines.place(span.start);
            Fault { line, column, key, message }
        };
        Errors { file: file.to_owned(), faults: self.found.into_iter().map(fault).collect(), more }
    }
}

/// Where the lines of a text begin.
#[derive(Debug)]
pub(super) struct Lines<'s> {
    source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    pub(super) fn of(source: &'s str) -> Self {
        let ends = source.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Lines { source, starts }
    }

    /// Line and column in characters of a byte, both from 1.
    pub(super) fn place(&self, at: usize) -> (usize, usize) {
        let line = self.starts.partition_point(|start| *start <= at);
        let before = self.source.get(self.starts[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

/// ", did you mean `x`?" for the known word most like `word`, or the list of all known ones.
pub(super) fn instead<'k>(word: &str, known: impl Iterator<Item = &'k str> + Clone) -> String {
    // The comparison is quadratic; nobody means a known word by one this long.
    let near = known
        .clone()
        .filter(|_| word.len() <= 64)
        .map(|known| (strsim::jaro_winkler(word, known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0));
    match near {
        Some((_, near)) => format!(", did you mean `{near}`?"),
        None => {
            let mut known: Vec<_> = known.take(20).map(|known| format!("`{known}`")).collect();
            known.sort_unstable();
            format!(", expected one of {}", known.join(", "))
        }
    }
}

/// A text as short as a message can bear.
pub(super) fn shortened(text: &str) -> String {
    const LEN_MAX: usize = 60;
    match text.char_indices().nth(LEN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
