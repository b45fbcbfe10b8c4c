//! Where the values of a policy file are, and the faults found there.

use super::error::{Errors, FAULTS_MAX, Fault, shortened};
use std::cell::RefCell;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use toml::de::{DeTable, DeValue};

/// A policy file while it is read.
#[derive(Debug)]
pub(super) struct File {
    /// Where relative file names begin.
    directory: PathBuf,
    text: String,
    /// The byte at which each line begins.
    lines: Vec<usize>,
    /// Byte, key and message.
    faults: RefCell<Vec<(usize, String, String)>>,
}

impl File {
    /// A file without faults so far.
    pub(super) fn new(name: &str, text: &str) -> Rc<Self> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Rc::new(File {
            directory: Path::new(name).parent().unwrap_or(Path::new("")).to_owned(),
            text: text.to_owned(),
            lines: std::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect(),
            faults: RefCell::default(),
        })
    }

    /// Whether no fault was found so far.
    pub(super) fn is_sound(&self) -> bool {
        self.faults.borrow().is_empty()
    }

    /// The faults in the order of the file; to be called only if there are any.
    pub(super) fn errors(&self, name: &str) -> Errors {
        let mut found = self.faults.take();
        found.sort_by_key(|(at, ..)| *at);
        let more = found.len().saturating_sub(FAULTS_MAX);
        found.truncate(FAULTS_MAX);
        let fault = |(at, key, message)| {
            let (line, column) = self.line_and_column(at);
            Fault { line, column, key, message }
        };
        Errors { file: name.to_owned(), faults: found.into_iter().map(fault).collect(), more }
    }

    /// Line and column in characters of a byte, both from 1.
    fn line_and_column(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at);
        let before = self.text.get(self.lines[line - 1]..at).unwrap_or_default();
        (line, before.chars().count() + 1)
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
        self.file.faults.borrow_mut().push((self.at, self.key.clone(), message.into()));
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

    /// The line, from 1.
    pub(super) fn line(&self) -> usize {
        self.file.line_and_column(self.at).0
    }

    /// Line and column, both from 1.
    pub(super) fn position(&self) -> (usize, usize) {
        self.file.line_and_column(self.at)
    }

    /// The path of a file that the policy names.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.file.directory.join(name)
    }
}

/// A step on the way to a value of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A key of a table.
    Key(&'static str),
    /// An element of a list, from 0.
    Element(usize),
}

/// Line, column and key of a value of a policy's text; as far as the text has it.
pub(crate) fn place_of(text: &str, steps: &[Step]) -> (usize, usize, String) {
    let file = File::new("", text);
    let root = DeValue::Table(DeTable::parse_recoverable(text).0.into_inner());
    let mut place = Place::of(&file, String::new(), 0);
    let mut value = Some(&root);
    for step in steps {
        let next = match (step, value) {
            (Step::Key(key), Some(DeValue::Table(table))) => table.get(*key),
            (Step::Element(index), Some(DeValue::Array(list))) => list.get(*index),
            _ => None,
        };
        let at = next.map_or(place.at, |it| it.span().start);
        place = match step {
            Step::Key(key) => place.key_at(key, at),
            Step::Element(index) => place.element_at(*index, at),
        };
        value = next.map(|it| it.get_ref());
    }
    let (line, column) = place.position();
    (line, column, place.key)
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
