//! `track-sc` and refusals by a client's rate: a policer for each table that the counter may be in.

use super::super::draft::{Draft, From, Item, quoted};
use super::acl::Rate;
use super::between::Term;
use super::clause::{Clause, Reading, Side, condition};
use super::grammar::Line;
use super::made::{Made, Table};
use super::rules::Decision;

/// Most alternatives of what a line before does not track.
const ALTERNATIVES_MAX: usize = 64;

/// A line by which a counter follows clients.
struct Track {
    counter: String,
    order: Order,
    /// What it counts by: `src`.
    key: String,
    /// The table, if it is named.
    table: String,
    /// When it does, or more often.
    clauses: Vec<Clause>,
    is_exact: bool,
    from: From,
}

/// Requests that a counter counts.
struct Counted {
    terms: Vec<(Term, bool)>,
    /// What they are counted by: `src`.
    key: String,
    /// The table, if it is named.
    table: String,
    /// The line that says so.
    from: From,
}

/// When HAProxy reads a line: rulesets one after the other, and in each what is of `defaults` first.
type Order = (usize, bool, usize);

fn order(line: &Line, reading: &Reading) -> Order {
    let ruleset = match (line.word(0), line.word(1)) {
        ("tcp-request", "connection") => 0,
        ("tcp-request", "session") => 1,
        ("tcp-request", _) => 2,
        _ => 3,
    };
    (ruleset, reading.is_own, line.from.line)
}

/// The rates of a frontend.
#[derive(Default)]
pub(super) struct Rates {
    /// The frontend, whose table is meant where none is named.
    section: String,
    tracks: Vec<Track>,
    decisions: Vec<Decision>,
    /// Requests in the time of each, as requests and milliseconds.
    numbers: Vec<(u64, u64)>,
}

impl Rates {
    pub(super) fn new(section: &str) -> Self {
        Rates { section: section.to_owned(), ..Rates::default() }
    }

    /// Takes note of a line that tracks.
    pub(super) fn track(&mut self, line: &Line, reading: &Reading, draft: &mut Draft) {
        let at = line.words.iter().position(|it| it.contains("track-sc")).unwrap_or(0);
        let counter = line.word(at).split("track-sc").nth(1).unwrap_or_default();
        let mut why = Vec::new();
        let (mut clauses, mut is_open) = (vec![Clause::default()], false);
        match condition(line, reading, Side::Wide) {
            Ok(read) => {
                is_open = !read.open.is_empty();
                if is_open {
                    draft.less_safe(
                        &line.from,
                        &format!("{}: fewer requests are counted", read.open.join("; ")),
                    );
                }
                why.extend(read.why);
                clauses = read.clauses;
            }
            Err(load) => why.push(load),
        }
        if clauses.iter().any(|it| it.rate.is_some()) {
            why.push("a condition by a client's rate".to_owned());
            clauses.iter_mut().for_each(|it| it.rate = None);
        }
        if !why.is_empty() {
            draft.stricter(&line.from, &format!("{}: more requests are counted", why.join("; ")));
        }
        self.tracks.push(Track {
            counter: counter.trim_matches(['(', ')']).to_owned(),
            order: order(line, reading),
            key: line.word(at + 1).to_owned(),
            table: line.after("table").unwrap_or_default().to_owned(),
            clauses,
            is_exact: why.is_empty() && !is_open,
            from: line.from.clone(),
        });
    }

    /// A refusal by a client's rate.
    pub(super) fn refuse(
        &mut self,
        clause: &Clause,
        asked: &Rate,
        line: &Line,
        reading: &Reading,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        for it in self.counted(clause, asked, line, reading, draft) {
            if it.key != "src" {
                draft.less_safe(&it.from, &format!("HAProxy counts by {}, and here each client's address is counted: write flow = … in the rule", it.key));
            }
            let named = [asked.table.as_str(), &it.table, &self.section];
            let table = named.into_iter().find(|it| !it.is_empty()).unwrap_or_default();
            let Some(known) = made.tables.get(table).cloned() else {
                draft.less_safe(
                    &line.from,
                    "no stick-table that is known here stores http_req_rate: nothing is refused by it",
                );
                continue;
            };
            let policer = policer(table, &known, asked.number, line, made);
            draft.less_safe(&line.from, "HAProxy counts all requests that it tracks, also those that it refuses, so that a client that goes on stays refused; here a client over its rate gets 429, and goes on getting its rate of what this line asks: for more, refusal.block");
            self.numbers.push((asked.number, known.milliseconds));
            let keys = vec![("police".to_owned(), quoted(&policer))];
            self.decisions.push(Decision { clause: it.terms, keys, from: line.from.clone() });
        }
    }

    /// What is counted for a clause.
    fn counted(
        &self,
        clause: &Clause,
        asked: &Rate,
        line: &Line,
        reading: &Reading,
        draft: &mut Draft,
    ) -> Vec<Counted> {
        let whole = || Counted {
            terms: clause.terms.clone(),
            key: "src".to_owned(),
            table: String::new(),
            from: line.from.clone(),
        };
        if asked.counter.is_empty() {
            return vec![whole()];
        }
        let own = order(line, reading);
        let mut tracks: Vec<&Track> = self.tracks.iter().collect();
        tracks.retain(|it| it.counter == asked.counter && it.order < own);
        tracks.sort_by_key(|it| it.order);
        if tracks.is_empty() {
            draft.stricter(&line.from, "no line before it has this counter follow clients, so that HAProxy refuses nothing by it");
            return vec![whole()];
        }
        let mut counted = Vec::new();
        // A counter follows what the first line says that holds: what none of the lines before tracks.
        let mut others: Vec<Vec<(Term, bool)>> = vec![Vec::new()];
        for (index, track) in tracks.iter().enumerate() {
            for before in &others {
                for it in &track.clauses {
                    let terms = clause.terms.iter().chain(&it.terms).chain(before).cloned();
                    counted.push(Counted {
                        terms: terms.collect(),
                        key: track.key.clone(),
                        table: track.table.clone(),
                        from: track.from.clone(),
                    });
                }
            }
            let is_last = index + 1 == tracks.len();
            let further = if track.is_exact { without(&others, &track.clauses) } else { None };
            match further {
                Some(further) => others = further,
                None if is_last => {}
                None => draft.less_safe(&track.from, "requests that it does not track, and a line behind it does, may count by this table, and others the other way round: write police in rules of their own"),
            }
            if others.is_empty() {
                break;
            }
        }
        counted
    }

    /// The decisions, the lowest rates first, as HAProxy refuses what is over any rate, and a rule has one.
    pub(super) fn sorted(self, draft: &mut Draft) -> Vec<Decision> {
        let (decisions, numbers) = (&self.decisions, &self.numbers);
        let mut order: Vec<usize> = (0..decisions.len()).collect();
        order.sort_by(|a, b| {
            let ((a, in_a), (b, in_b)) = (numbers[*a], numbers[*b]);
            let less = u128::from(a) * u128::from(in_b);
            less.cmp(&(u128::from(b) * u128::from(in_a)))
        });
        let whole = order.iter().position(|it| decisions[*it].clause.is_empty());
        for it in whole.map_or(&[][..], |whole| &order[whole + 1..]) {
            draft.less_safe(&decisions[*it].from, "a lower rate of all requests comes before it, so this one, with its other burst, never counts: write police in their class");
        }
        for (index, it) in order.iter().enumerate() {
            let it = &decisions[*it];
            let meets = |other: &usize| {
                let other = &decisions[*other];
                other.keys != it.keys && !are_apart(&other.clause, &it.clause)
            };
            if order[..index].iter().any(meets) {
                draft.less_safe(&it.from, "each request counts for one rate, the lowest, and not for this one beside it: write police in their class, which holds beside the rule's");
            }
        }
        order.into_iter().map(|it| decisions[it].clone()).collect()
    }
}

/// Whether never both hold, because one asks for what the other excepts.
fn are_apart(one: &[(Term, bool)], other: &[(Term, bool)]) -> bool {
    one.iter().any(|(term, not)| other.iter().any(|it| it.0 == *term && it.1 != *not))
}

/// Alternatives, each without all of the clauses; `None` if they are too many.
fn without(
    alternatives: &[Vec<(Term, bool)>],
    clauses: &[Clause],
) -> Option<Vec<Vec<(Term, bool)>>> {
    let mut list = alternatives.to_vec();
    for clause in clauses {
        let with = |so_far: &Vec<(Term, bool)>| {
            let so_far = so_far.clone();
            clause.terms.iter().map(move |(term, not)| {
                let further = std::iter::once((term.clone(), !not));
                so_far.iter().cloned().chain(further).collect::<Vec<_>>()
            })
        };
        list = list.iter().flat_map(with).collect();
        if list.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    Some(list)
}

/// The policer of a number in a table, which has a bucket for each client.
fn policer(name: &str, table: &Table, number: u64, line: &Line, made: &mut Made) -> String {
    let key = (name.to_owned(), number);
    if let Some((_, policer)) = made.known.iter().find(|(known, _)| *known == key) {
        return policer.clone();
    }
    let time = match table.milliseconds % 1000 {
        0 => format!("{}s", table.milliseconds / 1000),
        _ => format!("{}ms", table.milliseconds),
    };
    let first = format!("over-{number}-in-{time}");
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    let mut names = std::iter::once(first.clone()).chain(numbered);
    let is_free = |it: &String| made.known.iter().all(|(_, known)| known != it);
    let policer = names.find(is_free).expect("they are without end");
    made.known.push((key, policer.clone()));
    let mut item = Item::new("[[policer]]");
    item.key("name", quoted(&policer), &line.from);
    item.key("rate", quoted(&rate(number, table.milliseconds)), &table.from);
    item.key("burst", number.max(1), &line.from);
    item.key("per", quoted("flow"), &table.from);
    made.policers.push(item);
    policer
}

/// A number in a time as a rate.
fn rate(number: u64, milliseconds: u64) -> String {
    let milliseconds = milliseconds.max(1);
    let of = |unit: u64| {
        let number = number.checked_mul(unit).filter(|it| it % milliseconds == 0);
        number.map(|it| it / milliseconds)
    };
    match (of(1000), of(60_000), of(3_600_000)) {
        (Some(it), ..) => format!("{it}/s"),
        (_, Some(it), _) => format!("{it}/m"),
        (.., Some(it)) => format!("{it}/h"),
        _ => format!("{}/h", number.saturating_mul(3_600_000) / milliseconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_whole_numbers_in_a_unit() {
        for (number, milliseconds, is) in [
            (5, 60_000, "5/m"),
            (100, 10_000, "10/s"),
            (5, 500, "10/s"),
            (1, 7_000, "514/h"),
            (7, 86_400_000, "0/h"),
        ] {
            assert_eq!(rate(number, milliseconds), is);
        }
    }
}
