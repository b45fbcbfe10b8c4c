//! What is wrong with a scenario, at its line.

use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// One fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file's name as given.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key as a path (`population[2].class`, places in lists counted from 1); empty: the file as
    /// a whole, or the message says it.
    pub key: String,
    /// What was expected and what was found.
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: ", self.file, self.line, self.column)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// A step on the way to a value.
#[derive(Clone, Copy, Debug)]
pub enum Step<'k> {
    /// Into a table.
    Key(&'k str),
    /// Into a list, from 0.
    Place(usize),
}

impl<'k> From<&'k str> for Step<'k> {
    fn from(key: &'k str) -> Self {
        Step::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(place: usize) -> Self {
        Step::Place(place)
    }
}

/// A file whose values can be found again.
#[derive(Clone, Copy, Debug)]
pub struct Source<'s> {
    /// Its name in messages.
    pub file: &'s str,
    /// Its text.
    pub text: &'s str,
}

impl Source<'_> {
    /// Something is wrong with the value at the end of the way, or, where it is not written, with the
    /// last of its tables that is.
    pub fn fault(&self, way: &[Step<'_>], message: impl Into<String>) -> Fault {
        let at = self.find(way).1;
        let (line, column) = self.place(at);
        let key = way.iter().fold(String::new(), |key, step| match step {
            Step::Key(name) if key.is_empty() => (*name).to_owned(),
            Step::Key(name) => format!("{key}.{name}"),
            Step::Place(place) => format!("{key}[{}]", place + 1),
        });
        Fault { file: self.file.to_owned(), line, column, key, message: message.into() }
    }

    /// Whether the value is written.
    pub fn has(&self, way: &[Step<'_>]) -> bool {
        self.find(way).0
    }

    /// A fault that the TOML reader found.
    pub fn unreadable(&self, fault: &toml::de::Error) -> Fault {
        let (line, column) = self.place(fault.span().map_or(0, |span| span.start));
        let message = fault.message().trim().replace('\n', " ");
        let file = self.file.to_owned();
        Fault { file, line, column, key: String::new(), message }
    }

    /// Line and column in characters of a byte, both from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let before = self.text.get(..at).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
    }

    /// Whether the way leads to a value, and where it, or the last value on it, begins.
    fn find(&self, way: &[Step<'_>]) -> (bool, usize) {
        let Ok(root) = DeTable::parse(self.text) else {
            return (false, 0);
        };
        let mut at = 0;
        let mut here: Option<&Spanned<DeValue<'_>>> = None;
        for step in way {
            let table = match here {
                None => Some(root.get_ref()),
                Some(value) => value.get_ref().as_table(),
            };
            let next = match step {
                Step::Key(key) => table.and_then(|table| table.get(*key)),
                Step::Place(place) => here
                    .and_then(|value| value.get_ref().as_array())
                    .and_then(|list| list.get(*place)),
            };
            let Some(next) = next else {
                return (false, at);
            };
            at = next.span().start;
            here = Some(next);
        }
        (true, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Source<'_> = Source {
        file: "s.toml",
        text: "seconds = 1\n[server]\nworkers = 2\n[[population]]\nname = \"a\"\n  [[population]]\nrequest = [{ path = \"/\" },\n  { path = \"x\" }]\n",
    };

    #[test]
    fn a_fault_is_at_its_value_or_at_the_table_that_lacks_it() {
        let say = |way: &[Step<'_>]| SOURCE.fault(way, "no").to_string();
        assert_eq!(say(&["seconds".into()]), "s.toml:1:11: seconds: no");
        assert_eq!(say(&["server".into(), "cores".into()]), "s.toml:2:1: server.cores: no");
        assert_eq!(
            say(&["population".into(), 1.into(), "request".into(), 1.into(), "path".into()]),
            "s.toml:8:12: population[2].request[2].path: no"
        );
        assert_eq!(
            say(&["population".into(), 1.into(), "class".into()]),
            "s.toml:6:3: population[2].class: no"
        );
        assert!(SOURCE.has(&["server".into(), "workers".into()]));
        assert!(!SOURCE.has(&["limit".into()]));
    }
}
