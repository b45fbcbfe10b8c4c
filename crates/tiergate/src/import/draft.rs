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
    /// What was not taken over, with the reason and what to do instead; in the policy, too.
    pub notes: Vec<String>,
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
}

/// A policy in the making.
#[derive(Debug)]
pub(super) struct Draft {
    title: String,
    pub(super) items: Vec<Item>,
    notes: Vec<String>,
}

impl Draft {
    pub(super) fn new(title: &str) -> Self {
        Draft { title: one_line(title), items: Vec::new(), notes: Vec::new() }
    }

    /// Lists what is not taken over.
    pub(super) fn note(&mut self, from: &From, why: &str) {
        let note = format!("{}: {}", from.shown(), one_line(why));
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
            let (text, owners) = self.written();
            let faults = match parse(&text, "the policy") {
                Ok(_) => return Ok(Imported { policy: text, notes: self.notes }),
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

    /// Takes out what the parser refused: of tables that are there once the line, of others the table.
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
            let from = line.or((!item.lines.is_empty()).then_some(0));
            let from = from.map_or(String::new(), |line| item.lines[line].1.clone());
            self.notes.push(one_line(&format!("{from}: not valid here: {message}")));
            match line {
                Some(line) if !item.head.starts_with("[[") && item.head != "[origin]" => {
                    item.lines.remove(line);
                }
                _ if item.head == "[origin]" => {
                    let message = format!("makes no policy: the servers: {message}");
                    return Err(ImportFault { file: file.to_owned(), line: 1, message });
                }
                _ => {
                    self.items.remove(index);
                    removed = index;
                }
            }
        }
        self.items.retain(|item| !item.is_empty());
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
        if !self.notes.is_empty() {
            text += "\n# Not taken over:\n";
            for note in &self.notes {
                let _ = writeln!(text, "# * {note}");
            }
        }
        (text, owners)
    }
}

/// A text as TOML writes it.
pub(super) fn quoted(text: &str) -> String {
    // Without controls, JSON and TOML write a text alike. `${` is written as such.
    serde_json::Value::from(one_line(text).replace("${", "$${")).to_string()
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
