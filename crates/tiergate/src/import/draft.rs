//! A policy that is being made of another system's configuration: tables whose lines say where they come from, and what has no
//! place in it. What the policy's own parser refuses is taken out and listed, so that whatever is written passes `tiergate check`.

use crate::config::parse;
use std::fmt::Write as _;

/// Most times that something is taken out before the import is given up.
const ROUNDS_MAX: usize = 64;

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

/// What an import gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The policy, which passes `tiergate check`.
    pub policy: String,
    /// What was not taken over, with the reason and what to do instead; in the policy, too. First what makes it less safe.
    pub notes: Vec<String>,
    /// How many of the notes say where the policy is less safe than the original.
    pub less_safe: usize,
}

/// Where something comes from: `nginx.conf:12: location /cart/`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct From {
    pub(super) file: String,
    pub(super) line: usize,
    pub(super) text: String,
}

impl From {
    /// A fault there.
    pub(super) fn fault(&self, message: impl Into<String>) -> ImportFault {
        ImportFault { file: self.file.clone(), line: self.line, message: message.into() }
    }

    /// As a comment.
    pub(super) fn shown(&self) -> String {
        match self.file.is_empty() {
            true => one_line(&self.text),
            false => one_line(&format!("{}:{}: {}", self.file, self.line, self.text)),
        }
    }
}

/// A table of the policy.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// `[[rule]]`.
    head: &'static str,
    /// Keys with their values as TOML, and where they come from.
    lines: Vec<(String, String)>,
}

impl Item {
    pub(super) fn new(head: &'static str) -> Self {
        Item { head, lines: Vec::new() }
    }

    /// Adds a key.
    pub(super) fn key(&mut self, key: &str, value: impl std::fmt::Display, from: &From) {
        self.lines.push((format!("{key} = {value}"), from.shown()));
    }

    /// Adds a key that follows from nothing in particular; `why` stands beside it.
    pub(super) fn remark(&mut self, key: &str, value: impl std::fmt::Display, why: &str) {
        self.lines.push((format!("{key} = {value}"), why.to_owned()));
    }

    /// Whether it has this key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.lines.iter().any(|(line, _)| line.split(" = ").next() == Some(key))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The key of a line.
    fn key_at(&self, line: usize) -> &str {
        self.lines[line].0.split(" = ").next().unwrap_or_default()
    }

    /// The value of a key, as TOML.
    fn value(&self, key: &str) -> Option<&str> {
        self.lines.iter().find_map(|(line, _)| line.strip_prefix(key)?.strip_prefix(" = "))
    }

    /// Whether requests that it lets pass are subject to a limit.
    fn is_bounded(&self) -> bool {
        let names = |key| self.value(key).is_some_and(|it| it.starts_with('"'));
        names("police") || names("resource")
    }

    /// Takes listeners that are not there out of its condition. Whether it may match at all.
    fn keep_listeners(&mut self, there: &[String]) -> bool {
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
    fn without(&self, line: Option<usize>) -> (Compared, Without) {
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
enum Without {
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

/// A policy in the making.
#[derive(Debug)]
pub(super) struct Draft {
    title: String,
    pub(super) items: Vec<Item>,
    notes: Vec<(Compared, String)>,
}

/// How the policy compares with the original where something is not taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Compared {
    /// It lets pass what the original refuses.
    LessSafe,
    /// It refuses what the original lets pass.
    Stricter,
    /// It serves otherwise, or the same.
    Otherwise,
}

impl Compared {
    fn heading(self) -> &'static str {
        match self {
            Compared::LessSafe => "LESS SAFE than the original; mend these first:",
            Compared::Stricter => "stricter than the original:",
            Compared::Otherwise => "Not taken over:",
        }
    }
}

impl Draft {
    pub(super) fn new(title: &str) -> Self {
        Draft { title: one_line(title), items: Vec::new(), notes: Vec::new() }
    }

    /// Lists what is not taken over, and has nothing to do with what is refused.
    pub(super) fn note(&mut self, from: &From, why: &str) {
        self.compared(Compared::Otherwise, from, why);
    }

    /// Lists what the original refuses and the policy lets pass.
    pub(super) fn less_safe(&mut self, from: &From, why: &str) {
        self.compared(Compared::LessSafe, from, why);
    }

    /// Lists what the policy refuses and the original lets pass.
    pub(super) fn stricter(&mut self, from: &From, why: &str) {
        self.compared(Compared::Stricter, from, why);
    }

    fn compared(&mut self, compared: Compared, from: &From, why: &str) {
        let note = (compared, format!("{}: {}", from.shown(), one_line(why)));
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The policy.
    ///
    /// # Errors
    /// When nothing is left that makes one.
    pub(super) fn finish(mut self, file: &str) -> Result<Imported, ImportFault> {
        for _ in 0..ROUNDS_MAX {
            self.notes.sort_by_key(|(compared, _)| *compared);
            let (text, owners) = self.written();
            let faults = match parse(&text, "the policy") {
                Ok(_) => {
                    let is_less = |it: &&(Compared, String)| it.0 == Compared::LessSafe;
                    let less_safe = self.notes.iter().filter(is_less).count();
                    let notes = self.notes.into_iter().map(|(_, note)| note).collect();
                    return Ok(Imported { policy: text, notes, less_safe });
                }
                Err(errors) => errors.faults,
            };
            let mut gone = Vec::new();
            for fault in faults {
                let Some(Some((item, line))) = owners.get(fault.line - 1).copied() else {
                    let message = format!("makes no policy: {}: {}", fault.key, fault.message);
                    return Err(ImportFault { file: file.to_owned(), line: 1, message });
                };
                gone.push((item, line, fault.message));
            }
            self.leave_out(gone, file)?;
        }
        let message = "makes no policy: too much of it is not valid here".to_owned();
        Err(ImportFault { file: file.to_owned(), line: 1, message })
    }

    /// Takes out what the parser refused: of tables that are there once the line, of others the table; of a rule that refuses the condition,
    /// so that it refuses more and not less.
    fn leave_out(
        &mut self,
        mut gone: Vec<(usize, Option<usize>, String)>,
        file: &str,
    ) -> Result<(), ImportFault> {
        gone.sort_by_key(|(item, line, _)| std::cmp::Reverse((*item, *line)));
        gone.dedup_by_key(|(item, line, _)| (*item, *line));
        let mut removed = usize::MAX;
        for (index, line, message) in gone {
            if index == removed {
                continue;
            }
            let item = &mut self.items[index];
            // Of a listener that is left out: below.
            if item.head == "[[rule]]" && line.is_some_and(|it| item.key_at(it) == "listener") {
                continue;
            }
            let from = line.or((!item.lines.is_empty()).then_some(0));
            let from = from.map_or(String::new(), |line| item.lines[line].1.clone());
            if item.head == "[origin]" {
                let message = format!("makes no policy: the servers: {message}");
                return Err(ImportFault { file: file.to_owned(), line: 1, message });
            }
            let (compared, without) = item.without(line);
            let done = match without {
                Without::Line(line) => {
                    item.lines.remove(line);
                    match compared {
                        Compared::Stricter => "; the rule refuses without regard to it",
                        _ => "",
                    }
                }
                Without::Part(line, text) => {
                    item.lines[line].0 = text;
                    "; the rule refuses more than the original"
                }
                Without::Table => {
                    self.items.remove(index);
                    removed = index;
                    ""
                }
            };
            let note = (compared, one_line(&format!("{from}: not valid here: {message}{done}")));
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        // Nothing comes by a listener that is not there, and what comes by the others a rule still decides.
        let listeners = self.items.iter().filter(|it| it.head == "[[listener]]");
        let names = listeners.flat_map(|it| ["address", "name"].map(|key| it.value(key)));
        let there: Vec<String> =
            names.flatten().filter_map(|it| serde_json::from_str(it).ok()).collect();
        let are_named = self.items.iter().any(|it| it.has("listener"));
        if there.is_empty() && are_named {
            let message = "makes no policy: none of its listeners is valid here".to_owned();
            return Err(ImportFault { file: file.to_owned(), line: 1, message });
        }
        self.items.retain_mut(|item| {
            !item.is_empty() && (item.head != "[[rule]]" || item.keep_listeners(&there))
        });
        Ok(())
    }

    /// The text, and what each of its lines belongs to: item and line.
    #[expect(clippy::type_complexity)]
    fn written(&self) -> (String, Vec<Option<(usize, Option<usize>)>>) {
        let mut text = format!(
            "# Made by `tiergate import` of {}.\n# Try it before you use it: tiergate check, tiergate simulate --log.\n",
            self.title
        );
        let mut owners = vec![None; 2];
        for (index, item) in self.items.iter().enumerate() {
            let _ = write!(text, "\n{}\n", item.head);
            owners.extend([None, Some((index, None))]);
            for (line, (key, from)) in item.lines.iter().enumerate() {
                let _ = writeln!(text, "{key} # {}", one_line(from));
                owners.push(Some((index, Some(line))));
            }
        }
        let mut before = None;
        for (compared, note) in &self.notes {
            if before != Some(*compared) {
                let _ = write!(text, "\n# {}\n", compared.heading());
                before = Some(*compared);
            }
            let _ = writeln!(text, "# * {note}");
        }
        (text, owners)
    }
}

/// A text as TOML writes it: whole, because a pattern without its end is another one.
pub(super) fn quoted(text: &str) -> String {
    // JSON and TOML write a text alike, but TOML escapes one control character more. `${` is written as such.
    let text = serde_json::Value::from(text.replace("${", "$${")).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// Texts as a list, or one alone.
pub(super) fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    match texts {
        [one] => quoted(one.as_ref()),
        _ => format!(
            "[{}]",
            texts.iter().map(|it| quoted(it.as_ref())).collect::<Vec<_>>().join(", ")
        ),
    }
}

/// A name as policies take them: of at most 64 letters, digits, `-`, `_` and `.`.
pub(super) fn name(text: &str) -> String {
    let fits = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let name: String = text.chars().map(|it| if fits(it) { it } else { '-' }).take(48).collect();
    match name.as_str() {
        "" => "unnamed".to_owned(),
        "default" => "default-pool".to_owned(),
        _ => name,
    }
}

/// A literal as a pattern of paths and values writes it; with `*` behind, a prefix.
pub(super) fn literal(text: &str) -> String {
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
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).take(400).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_keeps_the_listeners_that_are_there() {
        let from = From { file: "f".to_owned(), line: 1, text: "x".to_owned() };
        let item = |head: &'static str, lines: &[(&str, &str)]| {
            let mut item = Item::new(head);
            for (key, value) in lines {
                item.key(key, value, &from);
            }
            item
        };
        let mut draft = Draft::new("f");
        draft.items = vec![
            item("[[listener]]", &[("address", "\"0.0.0.0:80\"")]),
            item("[[listener]]", &[("address", "\"127.0.0.1:80\"")]),
            item("[origin]", &[("servers", "[\"127.0.0.1:81\"]")]),
            item("[[class]]", &[("name", "\"default\"")]),
            item(
                "[[rule]]",
                &[("listener", "[\"0.0.0.0:80\", \"127.0.0.1:80\"]"), ("refuse", "404")],
            ),
            item("[[rule]]", &[("listener", "\"127.0.0.1:80\""), ("refuse", "410")]),
        ];
        let policy = draft.finish("f").expect("one is valid").policy;
        assert!(policy.contains("listener = \"0.0.0.0:80\" # f:1: x\nrefuse = 404"), "{policy}");
        assert!(!policy.contains("refuse = 410"), "{policy}");
    }

    #[test]
    fn texts_are_written_whole() {
        let long = "a\u{7f}\n${x}".repeat(200);
        let toml = format!("key = {}", quoted(&long));
        let read: toml::Table = toml.parse().expect("TOML");
        assert_eq!(read["key"].as_str(), Some(long.replace("${", "$${").as_str()));
    }
}
