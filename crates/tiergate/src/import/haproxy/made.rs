//! What the frontends become: listeners, classes, policers and rules.

use super::super::draft::{From, Item, quoted};
use super::backend::pool_name;
use super::grammar::Section;
use super::places::{Place, Places};
use super::values::milliseconds;
use std::collections::BTreeMap;
use tiergate_core::plan::Spec;

const POOLS_MAX: usize = Spec::POOLS_MAX;
/// Why what leads to a backend without a pool is refused.
pub(super) const TOO_MANY: &str = "a policy has at most 32 pools beside that of [origin]: what leads there is refused, until you leave out others or have a gateway of its own for it";

/// The table by which clients' rates are counted.
#[derive(Clone)]
pub(super) struct Table {
    /// The time of `http_req_rate`.
    pub(super) milliseconds: u64,
    pub(super) from: From,
}

/// What the frontends become.
#[derive(Default)]
pub(super) struct Made {
    /// The addresses that are listened at.
    pub(super) places: Places,
    /// The rules of connections to addresses that another listener takes: before all others.
    pub(super) singles: Vec<Item>,
    pub(super) rules: Vec<Item>,
    pub(super) policers: Vec<Item>,
    /// Backends in the order in which they are used, and what their pools are called; the first is `[origin]`.
    pub(super) used: Vec<(String, String)>,
    /// `timeout queue`.
    pub(super) queue: Option<(String, From)>,
    /// By HAProxy's number, the least most important.
    pub(super) priorities: BTreeMap<i64, From>,
    pub(super) tables: BTreeMap<String, Table>,
    /// Policers by their table and number.
    pub(super) known: Vec<((String, u64), String)>,
}

impl Made {
    /// Refuses connections to an address or network that a place's listener takes.
    pub(super) fn close(&mut self, place: &Place, destination: &str) {
        let mut rule = Item::new("[[rule]]");
        rule.key("listener", quoted(&place.listener.to_string()), &place.from);
        rule.key("destination", quoted(destination), &place.from);
        rule.key("refuse", 404, &place.from);
        self.singles.push(rule);
    }

    /// Refuses connections over IPv4 where a listener takes those of IPv6 alone.
    pub(super) fn close_v4(&mut self) {
        let places: Vec<Place> = self.places.without_v4().cloned().collect();
        places.iter().for_each(|it| self.close(it, "0.0.0.0/0"));
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
            let stores = line.words.windows(2).filter(|it| it[0] == "store");
            let rate = stores
                .flat_map(|it| it[1].split(','))
                .find_map(|it| it.trim().strip_prefix("http_req_rate(")?.strip_suffix(')'));
            if let Some(milliseconds) = rate.and_then(milliseconds) {
                let table = Table { milliseconds, from: line.from.clone() };
                self.tables.insert(section.name.clone(), table);
            }
        }
    }

    /// The pool of a backend, which is used from now on; `None` if there are too many.
    pub(super) fn pool(&mut self, backend: &str) -> Option<String> {
        if let Some((_, called)) = self.used.iter().find(|(used, _)| used == backend) {
            return Some(called.clone());
        }
        // One more is `[origin]`.
        if self.used.len() > POOLS_MAX {
            return None;
        }
        let others: Vec<String> = self.used.iter().map(|(_, called)| called.clone()).collect();
        let called = match others.is_empty() {
            true => "default".to_owned(),
            false => pool_name(backend, &others),
        };
        self.used.push((backend.to_owned(), called.clone()));
        Some(called)
    }
}

pub(super) fn class_name(priority: i64) -> String {
    match priority {
        0 => "default".to_owned(),
        it if it < 0 => format!("priority-minus-{}", it.unsigned_abs()),
        it => format!("priority-{it}"),
    }
}
