//! What the frontends become: listeners, classes, policers and rules.

use super::super::draft::{From, Item, quoted};
use super::backend::pool_name;
use super::grammar::Section;
use super::values::seconds;
use std::collections::BTreeMap;

/// The table by which clients' rates are counted.
#[derive(Clone)]
pub(super) struct Table {
    /// The time of `http_req_rate`.
    pub(super) seconds: u64,
    pub(super) from: From,
}

/// What the frontends become.
#[derive(Default)]
pub(super) struct Made {
    pub(super) rules: Vec<Item>,
    pub(super) policers: Vec<Item>,
    /// Backends in the order in which they are used, and what their pools are called; the first is `[origin]`.
    pub(super) used: Vec<(String, String)>,
    /// `timeout queue`.
    pub(super) queue: Option<(String, From)>,
    pub(super) listeners: Vec<(String, Item)>,
    /// By HAProxy's number, the least most important.
    pub(super) priorities: BTreeMap<i64, From>,
    pub(super) tables: BTreeMap<String, Table>,
    pub(super) known: Vec<String>,
}

impl Made {
    pub(super) fn listeners(&self) -> impl Iterator<Item = Item> + '_ {
        self.listeners.iter().map(|(_, item)| item.clone())
    }

    /// The classes, most important first; the one of requests without a priority is 0.
    pub(super) fn classes(&self) -> Vec<Item> {
        let mut priorities = self.priorities.clone();
        priorities
            .entry(0)
            .or_insert(From { text: "requests without a priority".to_owned(), ..From::default() });
        let class = |(number, from): (&i64, &From)| {
            let mut item = Item::new("[[class]]");
            item.key("name", quoted(&class_name(*number)), from);
            if let Some((queue, from)) = &self.queue {
                item.key("deadline", quoted(queue), from);
            }
            item
        };
        priorities.iter().map(class).collect()
    }

    /// Takes note of a section's table.
    pub(super) fn table(&mut self, section: &Section) {
        for line in section.lines.iter().filter(|it| it.word(0) == "stick-table") {
            let stored = line.after("store").unwrap_or_default();
            let rate = stored
                .split(',')
                .find_map(|it| it.strip_prefix("http_req_rate(")?.strip_suffix(')'));
            if let Some(seconds) = rate.and_then(seconds) {
                let table = Table { seconds, from: line.from.clone() };
                self.tables.insert(section.name.clone(), table);
            }
        }
    }

    /// The pool of a backend, which is used from now on.
    pub(super) fn pool(&mut self, backend: &str) -> String {
        if let Some((_, called)) = self.used.iter().find(|(used, _)| used == backend) {
            return called.clone();
        }
        let others: Vec<String> = self.used.iter().map(|(_, called)| called.clone()).collect();
        let called = match others.is_empty() {
            true => "default".to_owned(),
            false => pool_name(backend, &others),
        };
        self.used.push((backend.to_owned(), called.clone()));
        called
    }
}

pub(super) fn class_name(priority: i64) -> String {
    match priority {
        0 => "default".to_owned(),
        it if it < 0 => format!("priority-minus-{}", it.unsigned_abs()),
        it => format!("priority-{it}"),
    }
}
