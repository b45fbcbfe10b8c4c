//! Tables of a policy, and what is taken out of them if the policy's own parser refuses it.

use super::words::{Compared, ImportFault, listed, one_line};

/// Where something comes from: `nginx.conf:12: location /cart/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct From {
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl From {
    /// A fault there.
    pub(crate) fn fault(&self, message: impl Into<String>) -> ImportFault {
        ImportFault { file: self.file.clone(), line: self.line, message: message.into() }
    }

    /// As a comment.
    pub(crate) fn shown(&self) -> String {
        match self.file.is_empty() {
            true => one_line(&self.text),
            false => one_line(&format!("{}:{}: {}", self.file, self.line, self.text)),
        }
    }
}

/// A table of the policy.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// `[[rule]]`.
    pub(super) head: &'static str,
    /// Keys with their values as TOML, and where they come from.
    pub(super) lines: Vec<(String, String)>,
}

impl Item {
    pub(crate) fn new(head: &'static str) -> Self {
        Item { head, lines: Vec::new() }
    }

    /// Adds a key.
    pub(crate) fn key(&mut self, key: &str, value: impl std::fmt::Display, from: &From) {
        self.lines.push((format!("{key} = {value}"), from.shown()));
    }

    /// Adds a key that follows from nothing in particular; `why` stands beside it.
    pub(crate) fn remark(&mut self, key: &str, value: impl std::fmt::Display, why: &str) {
        self.lines.push((format!("{key} = {value}"), why.to_owned()));
    }

    /// Whether it has this key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|(line, _)| line.split(" = ").next() == Some(key))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The key of a line.
    pub(super) fn key_at(&self, line: usize) -> &str {
        self.lines[line].0.split(" = ").next().unwrap_or_default()
    }

    /// The value of a key, as TOML.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|(line, _)| line.strip_prefix(key)?.strip_prefix(" = "))
    }

    /// The value of a key that is a text.
    pub(super) fn text(&self, key: &str) -> Option<String> {
        serde_json::from_str(self.value(key)?).ok()
    }

    /// Gives a key that it has another value.
    pub(super) fn replace(&mut self, key: &str, value: &str) {
        let is_it = |line: &str| line.split(" = ").next() == Some(key);
        for (line, _) in self.lines.iter_mut().filter(|(line, _)| is_it(line)) {
            *line = format!("{key} = {value}");
        }
    }

    /// Has a rule refuse what it was to serve.
    pub(super) fn refuse(&mut self) {
        let from = self.lines.last().map_or(String::new(), |(_, from)| from.clone());
        self.lines.retain(|(line, _)| {
            let key = line.split(" = ").next().unwrap_or_default();
            !matches!(key, "class" | "pool" | "deadline" | "police" | "resource")
        });
        self.lines.push(("refuse = 404".to_owned(), from));
    }

    /// Whether requests that it lets pass are subject to a limit.
    fn is_bounded(&self) -> bool {
        let names = |key| self.value(key).is_some_and(|it| it.starts_with('"'));
        names("police") || names("resource")
    }

    /// Takes listeners that are not there out of its condition. Whether it may match at all.
    pub(super) fn keep_listeners(&mut self, there: &[String]) -> bool {
        let Some(at) = self.lines.iter().position(|(it, _)| it.starts_with("listener = ")) else {
            return true;
        };
        let value = self.lines[at].0.split_once(" = ").map_or("", |(_, value)| value);
        let named: Vec<String> = match serde_json::from_str(value) {
            Ok(serde_json::Value::String(one)) => vec![one],
            Ok(list) => serde_json::from_value(list).unwrap_or_default(),
            Err(_) => return true,
        };
        let (kept, gone): (Vec<_>, Vec<_>) = named.into_iter().partition(|it| there.contains(it));
        if !gone.is_empty() {
            self.lines[at].0 = format!("listener = {}", listed(&kept));
        }
        !kept.is_empty()
    }

    /// What is taken out of it because of a fault in this line, and how the policy compares then.
    pub(super) fn without(&self, line: Option<usize>) -> (Compared, Without) {
        let Some(line) = line.filter(|_| self.head != "[[listener]]") else {
            let is_refusal = self.head == "[[rule]]" && (self.has("refuse") || self.has("pool"));
            let compared = match (is_refusal || self.head == "[[policer]]", self.head) {
                (true, _) => Compared::LessSafe,
                (_, "[[listener]]") => Compared::Stricter,
                _ => Compared::Otherwise,
            };
            return (compared, Without::Table);
        };
        let key = self.key_at(line);
        if !self.head.starts_with("[[") {
            let compared = match key {
                "request_body_max" => Compared::LessSafe,
                _ => Compared::Otherwise,
            };
            return (compared, Without::Line(line));
        }
        match (self.head, key) {
            ("[[rule]]", "police") => (Compared::LessSafe, Without::Line(line)),
            ("[[rule]]", "resource") => (Compared::LessSafe, Without::Line(line)),
            ("[[rule]]", "refuse") if self.lines[line].0 == "refuse = 404" => {
                (Compared::LessSafe, Without::Table)
            }
            ("[[rule]]", "refuse") => {
                (Compared::Stricter, Without::Part(line, "refuse = 404".to_owned()))
            }
            ("[[rule]]", "pool" | "class" | "deadline") if self.has("refuse") => {
                (Compared::Otherwise, Without::Line(line))
            }
            ("[[rule]]", _) if self.has("refuse") => {
                let text = without_look_arounds(&self.lines[line].0);
                let without = text.map(|text| Without::Part(line, text));
                (Compared::Stricter, without.unwrap_or(Without::Line(line)))
            }
            ("[[rule]]", _) if self.is_bounded() => (Compared::LessSafe, Without::Table),
            ("[[policer]]", _) => (Compared::LessSafe, Without::Table),
            // The requests get to the pool of another rule, which may not be for them.
            ("[[rule]]", _) if self.has("pool") => (Compared::LessSafe, Without::Table),
            _ => (Compared::Otherwise, Without::Table),
        }
    }
}

/// What is taken out of a table.
pub(super) enum Without {
    Line(usize),
    /// The line becomes this one.
    Part(usize, String),
    Table,
}

/// A condition by a regular expression without its look-arounds, which matches more; if it has any.
fn without_look_arounds(line: &str) -> Option<String> {
    let expressions = line.strip_prefix("path_regex = ")?;
    let mut value: serde_json::Value = serde_json::from_str(expressions).ok()?;
    let texts = match &mut value {
        serde_json::Value::Array(list) => list.iter_mut().collect(),
        one => vec![one],
    };
    let mut any = false;
    for text in texts {
        let whole = text.as_str()?;
        let mut left = String::new();
        let (mut rest, mut depth) = (whole, 0usize);
        while let Some(letter) = rest.chars().next() {
            let begins = ["(?!", "(?=", "(?<!", "(?<="].iter().any(|it| rest.starts_with(it));
            let len = match letter {
                '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                _ => letter.len_utf8(),
            };
            if depth > 0 || begins {
                depth = match letter {
                    '(' => depth + 1,
                    ')' => depth - 1,
                    _ => depth,
                };
                any = true;
            } else {
                left.push_str(&rest[..len]);
            }
            rest = &rest[len..];
        }
        *text = left.into();
    }
    any.then(|| format!("path_regex = {value}"))
}
