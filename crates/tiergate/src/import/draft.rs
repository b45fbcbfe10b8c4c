//! A policy that is being made of another system's configuration: tables whose lines say where they come from, and what has no
//! place in it. What the policy's own parser refuses is taken out and listed, so that whatever is written passes `tiergate check`.

mod item;
mod words;

use crate::config::parse;
use item::Without;
pub(super) use item::{From, Item};
use std::fmt::Write as _;
use std::net::SocketAddr;
use tiergate_core::plan::Spec;
pub use words::ImportFault;
use words::{Compared, one_line};
pub(super) use words::{listed, literal, name, quoted};

/// Most times that something is taken out before the import is given up.
const ROUNDS_MAX: usize = 64;

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

/// A policy in the making.
#[derive(Debug)]
pub(super) struct Draft {
    title: String,
    pub(super) items: Vec<Item>,
    notes: Vec<(Compared, String)>,
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
        self.bound_pools();
        self.bound_classes();
        let mut first = None;
        for _ in 0..ROUNDS_MAX {
            self.refuse_without_pools();
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
                first.get_or_insert_with(|| format!("{}: {}", fault.key, fault.message));
                gone.push((item, line, fault.message));
            }
            self.leave_out(gone, file)?;
        }
        let first = first.unwrap_or_default();
        let message = format!("makes no policy: too much of it is not valid here, first {first}");
        Err(ImportFault { file: file.to_owned(), line: 1, message })
    }

    /// Leaves out the pools that are more than a policy can have.
    fn bound_pools(&mut self) {
        let most = Spec::POOLS_MAX;
        let mut pools = 0;
        let notes = &mut self.notes;
        self.items.retain(|item| {
            pools += usize::from(item.head == "[[pool]]");
            let is_kept = item.head != "[[pool]]" || pools <= most;
            if !is_kept {
                let from = item.lines.first().map_or("", |(_, from)| from.as_str());
                let note = format!("{from}: a policy has at most {most} pools beside that of [origin]: what leads there is refused");
                notes.push((Compared::Stricter, one_line(&note)));
            }
            is_kept
        });
    }

    /// Has the last class that a policy can have take the requests of those behind it.
    fn bound_classes(&mut self) {
        let most = Spec::CLASSES_MAX;
        let classes = self.items.iter().filter(|it| it.head == "[[class]]");
        let names: Vec<String> = classes.filter_map(|it| it.text("name")).collect();
        let Some((last, gone)) = names.get(most - 1).zip(names.get(most..)) else { return };
        let (Some(first), false) = (gone.first(), gone.is_empty()) else { return };
        let is_gone = |name: Option<String>| name.is_some_and(|name| gone.contains(&name));
        let mut from = None;
        self.items.retain(|item| {
            let is_kept = item.head != "[[class]]" || !is_gone(item.text("name"));
            if !is_kept && from.is_none() {
                from = item.lines.first().map(|(_, from)| from.clone());
            }
            is_kept
        });
        for item in self.items.iter_mut().filter(|it| is_gone(it.text("class"))) {
            item.replace("class", &quoted(last));
        }
        let note = format!(
            "{}: a policy has at most {most} classes, and this would have {}: {first} and what is less important are in {last}; join some that need not be told apart",
            from.unwrap_or_default(),
            names.len()
        );
        self.notes.push((Compared::Otherwise, one_line(&note)));
    }

    /// Has rules refuse what is for a pool that is not there. Those stand before all others where an earlier rule would let it pass.
    fn refuse_without_pools(&mut self) {
        let pools = self.items.iter().filter(|it| it.head == "[[pool]]");
        let there: Vec<String> = pools.filter_map(|it| it.text("name")).collect();
        let is_gone = |item: &Item| {
            item.text("pool").is_some_and(|it| it != "default" && !there.contains(&it))
        };
        self.items.retain(|it| it.head != "[[resource]]" || !is_gone(it));
        let Some(begin) = self.items.iter().position(|it| it.head == "[[rule]]") else {
            return;
        };
        let mut first = begin;
        let mut is_let_pass = false;
        for index in begin..self.items.len() {
            let item = &mut self.items[index];
            if item.head != "[[rule]]" || !is_gone(item) {
                is_let_pass |= item.has("class") && !item.has("pool") && !item.has("refuse");
                continue;
            }
            item.refuse();
            let from = item.lines.last().map_or("", |(_, from)| from.as_str());
            let note = format!("{from}: its pool is not there: what leads to it is refused");
            let note = (Compared::Stricter, one_line(&note));
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            if is_let_pass {
                let item = self.items.remove(index);
                self.items.insert(first, item);
                first += 1;
            }
        }
    }

    /// Whether another listener takes the connections of this one, if it is left out.
    fn is_taken(&self, index: usize) -> bool {
        let address = |it: &Item| -> Option<SocketAddr> { it.text("address")?.parse().ok() };
        let Some(own) = address(&self.items[index]) else { return false };
        self.items.iter().enumerate().any(|(at, it)| {
            let takes = |it: SocketAddr| {
                let is_all = it.ip().is_unspecified() && (it.is_ipv6() || own.is_ipv4());
                it.port() == own.port() && (is_all || it == own)
            };
            at != index && it.head == "[[listener]]" && address(it).is_some_and(takes)
        })
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
            let is_taken = self.items[index].head == "[[listener]]" && self.is_taken(index);
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
            // The rules of what takes its connections decide about them.
            let compared = if is_taken { Compared::LessSafe } else { compared };
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
    fn what_a_listener_that_is_left_out_had_another_may_take() {
        let from = From { file: "f".to_owned(), line: 1, text: "x".to_owned() };
        let mut draft = Draft::new("f");
        let mut add = |head, key: &str, value: &str| {
            let mut item = Item::new(head);
            item.key(key, value, &from);
            draft.items.push(item);
        };
        add("[[listener]]", "address", "\"0.0.0.0:80\"");
        add("[[listener]]", "address", "\"127.0.0.1:80\"");
        add("[origin]", "servers", "[\"127.0.0.1:81\"]");
        let made = draft.finish("f").expect("one is valid");
        assert_eq!(made.less_safe, 1, "{}", made.policy);
    }

    #[test]
    fn what_is_for_a_pool_that_is_not_there_is_refused() {
        let from = From { file: "f".to_owned(), line: 1, text: "x".to_owned() };
        let mut draft = Draft::new("f");
        let mut add = |head, lines: &[(&str, &str)]| {
            let mut item = Item::new(head);
            lines.iter().for_each(|(key, value)| item.key(key, value, &from));
            draft.items.push(item);
        };
        add("[origin]", &[("servers", "[\"127.0.0.1:81\"]")]);
        for number in 0..40 {
            let server = format!("[\"127.0.0.1:{}\"]", 1000 + number);
            add("[[pool]]", &[("name", &format!("\"p{number}\"")), ("servers", &server)]);
        }
        add("[[class]]", &[("name", "\"default\"")]);
        add("[[rule]]", &[("path", "\"/0\""), ("class", "\"default\""), ("pool", "\"p39\"")]);
        add("[[rule]]", &[("class", "\"default\"")]);
        add("[[rule]]", &[("path", "\"/1\""), ("pool", "\"p38\"")]);
        add("[[rule]]", &[("path", "\"/2\""), ("pool", "\"p31\"")]);
        let made = draft.finish("f").expect("what is left is valid");
        let policy = &made.policy;
        assert_eq!(policy.matches("[[pool]]").count(), 32, "{policy}");
        let at = |text: &str| policy.find(text).unwrap_or_else(|| panic!("no {text} in\n{policy}"));
        let refused = |path: &str| at(&format!("path = \"{path}\" # f:1: x\nrefuse = 404"));
        assert!(refused("/0") > 0 && refused("/1") < at("[[rule]]\nclass"), "{policy}");
        assert!(policy.contains("pool = \"p31\"") && made.less_safe == 0, "{policy}");
    }

    #[test]
    fn texts_are_written_whole() {
        let long = "a\u{7f}\n${x}".repeat(200);
        let toml = format!("key = {}", quoted(&long));
        let read: toml::Table = toml.parse().expect("TOML");
        assert_eq!(read["key"].as_str(), Some(long.replace("${", "$${").as_str()));
    }
}
