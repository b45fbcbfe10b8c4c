//! Where the values of a policy file are, and the faults found there.

use super::error::{Errors, FAULTS_MAX, Spot, shortened};
use super::redaction::Redaction;
use super::source::{Source, Sources};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use toml::de::DeValue;

/// The files of a policy while they are read.
#[derive(Debug)]
pub(super) struct File {
    parts: Vec<Part>,
    found: RefCell<Found>,
}

/// One of the files. A place is a byte of all their texts, one behind the other.
#[derive(Debug)]
struct Part {
    name: Arc<str>,
    /// Where relative file names begin.
    directory: PathBuf,
    text: Arc<str>,
    begin: usize,
    /// The byte at which each line begins.
    lines: Vec<usize>,
}

/// What was found while reading.
#[derive(Debug, Default)]
struct Found {
    /// Byte, key and message.
    faults: Vec<(usize, String, String)>,
    /// What the operator should know.
    warnings: Vec<String>,
    secrets: Redaction,
    /// Where the values are that have secrets in them.
    secret_at: HashSet<usize>,
}

impl Part {
    fn of(source: &Source) -> Part {
        let Source { name, text, begin } = source;
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Part {
            name: name.clone(),
            directory: Path::new(&**name).parent().unwrap_or(Path::new("")).to_owned(),
            lines: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect(),
            text: text.clone(),
            begin: *begin,
        }
    }

    /// Line and column in characters of a byte of all texts, both from 1.
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let at = at - self.begin;
        let line = self.lines.partition_point(|start| *start <= at);
        let before = self.text.get(self.lines[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }
}

impl File {
    /// A file without faults so far.
    pub(super) fn new(name: &str, text: &str) -> Rc<Self> {
        Self::of(&Sources::of(name, text))
    }

    /// The files of a policy, without faults so far.
    pub(super) fn of(sources: &Sources) -> Rc<Self> {
        let parts = sources.files.iter().map(Part::of).collect();
        Rc::new(File { parts, found: RefCell::default() })
    }

    /// Whether no fault was found so far.
    pub(super) fn is_sound(&self) -> bool {
        self.found.borrow().faults.is_empty()
    }

    /// The faults in the order of the files; to be called only if there are any.
    pub(super) fn errors(&self, name: &str) -> Errors {
        let Found { faults: mut found, secrets, .. } = self.found.take();
        found.sort_by_key(|(at, ..)| *at);
        let more = found.len().saturating_sub(FAULTS_MAX);
        found.truncate(FAULTS_MAX);
        let fault = |(at, key, message): (_, String, String)| {
            let key = secrets.redacted(&key).into_owned();
            self.spot(at, key).fault(secrets.redacted(&message).into_owned())
        };
        Errors { file: name.to_owned(), faults: found.into_iter().map(fault).collect(), more }
    }

    /// The warnings and secrets that were found.
    pub(super) fn remarks(&self) -> (Vec<String>, Redaction) {
        let found = self.found.borrow();
        (found.warnings.clone(), found.secrets.clone())
    }

    /// The file that a byte is in.
    fn part(&self, at: usize) -> &Part {
        let index = self.parts.partition_point(|part| part.begin <= at);
        &self.parts[index.max(1) - 1]
    }

    fn spot(&self, at: usize, key: String) -> Spot {
        let part = self.part(at);
        let (line, column) = part.line_and_column(at);
        Spot { file: part.name.clone(), line, column, key }
    }
}

/// The place of a value: where it begins, and under which key.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The key as a path, `class[2].minimum`; empty for the file as a whole.
    pub(super) key: String,
    /// The byte at which it begins.
    pub(super) at: usize,
    /// Of a table, its keys and where their values begin.
    keys: Vec<(String, usize)>,
    file: Rc<File>,
}

impl Place {
    /// The place of a key, which begins at a byte.
    pub(super) fn of(file: &Rc<File>, key: String, at: usize) -> Place {
        Place { key, at, keys: Vec::new(), file: file.clone() }
    }

    /// The place of this value, with the keys that it has if it is a table.
    pub(super) fn of_value(mut self, value: &DeValue<'_>) -> Place {
        let keys = value.as_table().into_iter().flatten();
        self.keys = keys.map(|(key, it)| (key.get_ref().to_string(), it.span().start)).collect();
        self
    }

    /// The place of a key of this table; of a key that it does not have, where the table begins.
    pub(super) fn key(&self, key: &str) -> Place {
        let at = self.keys.iter().find(|(known, _)| known == key).map_or(self.at, |(_, at)| *at);
        self.key_at(key, at)
    }

    /// The same, where the value is known to begin at a byte.
    pub(super) fn key_at(&self, key: &str, at: usize) -> Place {
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        let key = match !key.is_empty() && key.bytes().all(bare) {
            true => shortened(key),
            false => format!("{:?}", shortened(key)),
        };
        let dot = if self.key.is_empty() { "" } else { "." };
        Place::of(&self.file, format!("{}{dot}{key}", self.key), at)
    }

    /// The place of an element of this list; `index` counts from 0.
    pub(super) fn element_at(&self, index: usize, at: usize) -> Place {
        Place::of(&self.file, format!("{}[{}]", self.key, index + 1), at)
    }

    /// Whether this table has a key, whatever its value.
    pub(super) fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(known, _)| known == key)
    }

    /// Takes a key for left out of this table.
    pub(super) fn forget(&mut self, key: &str) {
        self.keys.retain(|(known, _)| known != key);
    }

    /// Reports a fault here.
    pub(super) fn fault(&self, message: impl Into<String>) {
        let (mut found, mut message) = (self.file.found.borrow_mut(), message.into());
        // What the message repeats of a secret could be too short to be recognised.
        if found.secret_at.contains(&self.at)
            && let Some((expected, _)) = message.split_once(", got ")
        {
            message = format!("{expected}, got something else");
        }
        found.faults.push((self.at, self.key.clone(), message));
    }

    /// Reports a fault at a key of this table.
    pub(super) fn fault_at(&self, key: &str, message: impl Into<String>) {
        self.key(key).fault(message);
    }

    /// Reports that a key is missing from this table; `how` says what to write.
    pub(super) fn missing(&self, key: &str, how: &str) {
        self.fault_at(key, format!("is missing; {how}"));
    }

    /// Whether the file has no fault so far.
    pub(super) fn is_sound(&self) -> bool {
        self.file.is_sound()
    }

    /// Reports what the operator should know.
    pub(super) fn warn(&self, message: String) {
        let warnings = &mut self.file.found.borrow_mut().warnings;
        // Of a policy of which parts are observed, both sides are read.
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }

    /// Takes a part of the value here for a secret; `shown` is what people see in its place.
    pub(super) fn hide(&self, secret: &str, shown: &str) {
        let mut found = self.file.found.borrow_mut();
        found.secrets.add(secret, shown);
        found.secret_at.insert(self.at);
    }

    /// Notes a file that a secret is from.
    pub(super) fn reads(&self, file: PathBuf) {
        self.file.found.borrow_mut().secrets.files.push(file);
    }

    /// The place for messages.
    pub(super) fn spot(&self) -> Spot {
        self.file.spot(self.at, self.key.clone())
    }

    /// Another place of the policy, for a message.
    pub(super) fn elsewhere(&self, at: usize) -> String {
        let Spot { file, line, column, .. } = self.file.spot(at, String::new());
        format!("{file}:{line}:{column}")
    }

    /// The file, if it is not the policy's first, and the line, from 1.
    pub(super) fn file_and_line(&self) -> (Option<Arc<str>>, usize) {
        let part = self.file.part(self.at);
        let included = (part.begin > 0).then(|| part.name.clone());
        (included, part.line_and_column(self.at).0)
    }

    /// The path of a file that the policy names.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.file.part(self.at).directory.join(name)
    }
}

/// A value and its place.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) place: Place,
}

/// What was found, for a message.
pub(super) fn found(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{:?}", shortened(text)),
        DeValue::Integer(number) => shortened(&number.to_string()),
        DeValue::Float(number) => shortened(&number.to_string()),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// Reports that a value is of the wrong kind; always `None`.
pub(super) fn wrong<T>(value: &DeValue<'_>, place: &Place, expected: impl Display) -> Option<T> {
    place.fault(format!("must be {expected}, got {}", found(value)));
    None
}
