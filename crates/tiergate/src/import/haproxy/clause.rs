//! The conditions of a line, of which one must hold, each of terms of rules.

use super::super::draft::quoted;
use super::acl::{Asked, Rate, acl, predefined};
use super::between::{Between, Bound, Term};
use super::grammar::Line;
use std::collections::BTreeMap;

/// Most alternatives of a condition.
const ALTERNATIVES_MAX: usize = 64;

/// ACLs by name; several of one name are alternatives.
pub(super) type Acls = BTreeMap<String, Vec<Asked>>;

/// What conditions are read with.
pub(super) struct Reading {
    pub(super) acls: Acls,
    /// The listeners that speak TLS; whether all do.
    pub(super) tls: (Vec<String>, bool),
    /// Whether clients may have IPv6 addresses.
    pub(super) ipv6: bool,
    /// Whether the lines are the section's own, and not those of its `defaults`.
    pub(super) is_own: bool,
}

/// Which condition of rules is meant, where none is the same as HAProxy's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// One that holds whenever HAProxy's does.
    Wide,
    /// One that holds only when HAProxy's does.
    Narrow,
}

/// All must hold; the second says which must not.
#[derive(Clone, Debug, Default)]
pub(super) struct Clause {
    pub(super) terms: Vec<(Term, bool)>,
    /// More requests than this of one client.
    pub(super) rate: Option<Rate>,
}

/// A condition as rules ask it.
#[derive(Clone, Debug, Default)]
pub(super) struct Read {
    /// One must hold.
    pub(super) clauses: Vec<Clause>,
    /// Why it is not the same as HAProxy's.
    pub(super) why: Vec<String>,
    /// Where it is not on the side that is meant.
    pub(super) open: Vec<String>,
}

impl Read {
    pub(super) fn is_exact(&self) -> bool {
        self.why.is_empty() && self.open.is_empty()
    }

    /// All reasons why it is not the same.
    pub(super) fn reasons(&self) -> String {
        let mut all: Vec<&str> = self.why.iter().chain(&self.open).map(String::as_str).collect();
        all.dedup();
        all.join("; ")
    }
}

/// The condition behind `if` or `unless` of a line.
///
/// # Errors
/// On the wide side, what of it depends on the load: it holds of some requests only.
pub(super) fn condition(line: &Line, reading: &Reading, side: Side) -> Result<Read, String> {
    let place = line.words.iter().position(|it| it == "if" || it == "unless");
    let Some(place) = place else {
        return Ok(Read { clauses: vec![Clause::default()], ..Read::default() });
    };
    let mut read = Read::default();
    let all = alternatives(&line.words[place + 1..], reading);
    let all = match line.words[place].as_str() {
        "unless" => all.and_then(|all| negated(&all)),
        _ => all,
    };
    let clauses = match all {
        Ok(all) => expanded(&all, side, &mut read)?,
        Err(why) => Err(why),
    };
    read.clauses = clauses.unwrap_or_else(|why| {
        read.why.push(why);
        match side {
            Side::Wide => vec![Clause::default()],
            Side::Narrow => Vec::new(),
        }
    });
    read.why.dedup();
    read.open.dedup();
    Ok(read)
}

/// What an ACL of some name asks, and whether it must not.
type Literal = (Vec<Asked>, bool);

/// Conjunctions, of which one must hold.
fn alternatives(words: &[String], reading: &Reading) -> Result<Vec<Vec<Literal>>, String> {
    let mut all: Vec<Vec<Literal>> = vec![Vec::new()];
    let mut rest = words.iter();
    let mut negated = false;
    while let Some(word) = rest.next() {
        match word.as_str() {
            "||" | "or" => all.push(Vec::new()),
            "!" => negated = !negated,
            _ => {
                let (not, word) = match word.strip_prefix('!') {
                    Some(word) => (true, word),
                    None => (false, word.as_str()),
                };
                let asked = match word {
                    "{" => {
                        let inner: Vec<String> =
                            rest.by_ref().take_while(|it| *it != "}").cloned().collect();
                        vec![acl(&inner)]
                    }
                    _ => reading.acls.get(word).cloned().unwrap_or_else(|| vec![predefined(word)]),
                };
                let asked = asked.into_iter().map(|it| reading.known(it)).collect();
                let literal = (asked, not != std::mem::take(&mut negated));
                all.last_mut().expect("there is one").push(literal);
            }
        }
    }
    match all.iter().any(Vec::is_empty) {
        true => Err("a condition that asks nothing".to_owned()),
        false => Ok(all),
    }
}

/// None of the alternatives: of each, one that is not so.
fn negated(all: &[Vec<Literal>]) -> Result<Vec<Vec<Literal>>, String> {
    let mut none = vec![Vec::new()];
    for conjunction in all {
        none = none
            .iter()
            .flat_map(|so_far: &Vec<Literal>| {
                conjunction.iter().map(|(asked, not)| {
                    let mut further = so_far.clone();
                    further.push((asked.clone(), !not));
                    further
                })
            })
            .collect();
        if none.len() > ALTERNATIVES_MAX {
            return Err(format!("has more than {ALTERNATIVES_MAX} alternatives"));
        }
    }
    Ok(none)
}

/// Conjunctions of what ACLs ask, each a list of alternatives, as clauses; the inner error says why there are none.
///
/// # Errors
/// As of [`condition`].
fn expanded(
    all: &[Vec<Literal>],
    side: Side,
    read: &mut Read,
) -> Result<Result<Vec<Clause>, String>, String> {
    let mut clauses = Vec::new();
    for conjunction in all {
        let mut list = vec![Clause::default()];
        for (alternatives, not) in conjunction {
            let mut choices = Vec::new();
            for it in alternatives {
                choices.push(choice(it, *not, side, read)?);
            }
            list = match not {
                // None of the alternatives: all of what is left of them.
                true => joined(&list, &choices.into_iter().map(|it| vec![it]).collect::<Vec<_>>()),
                false => joined(&list, &[choices]),
            };
            if list.len() > ALTERNATIVES_MAX {
                return Ok(Err(format!("has more than {ALTERNATIVES_MAX} alternatives")));
            }
        }
        clauses.extend(list);
    }
    Ok(match clauses.len() > ALTERNATIVES_MAX {
        true => Err(format!("has more than {ALTERNATIVES_MAX} alternatives")),
        false => Ok(clauses),
    })
}

/// What holds or not, or a condition.
enum Choice {
    Always(bool),
    Term(Term, bool),
    Rate(Rate),
}

/// Each of the clauses with one of each of the choices.
fn joined(clauses: &[Clause], all: &[Vec<Choice>]) -> Vec<Clause> {
    let mut list = clauses.to_vec();
    for choices in all {
        let with = |clause: &Clause, choice: &Choice| {
            let mut clause = clause.clone();
            match choice {
                Choice::Always(always) => return always.then_some(clause),
                Choice::Term(term, not) => clause.terms.push((term.clone(), *not)),
                Choice::Rate(rate) => clause.rate = Some(rate.clone()),
            }
            Some(clause)
        };
        list = list
            .iter()
            .flat_map(|it| choices.iter().filter_map(move |choice| with(it, choice)))
            .collect();
    }
    list
}

fn choice(asked: &Asked, not: bool, side: Side, read: &mut Read) -> Result<Choice, String> {
    let between = match asked {
        Asked::Request(between) => between,
        Asked::Rate(rate) if !not && side == Side::Wide => return Ok(Choice::Rate(rate.clone())),
        Asked::Rate(_) if side == Side::Wide => {
            return Err("not more than a rate: turn it round".to_owned());
        }
        Asked::Load(why) if side == Side::Wide => return Err(why.clone()),
        Asked::Load(why) => {
            read.why.push(why.clone());
            return Ok(Choice::Always(false));
        }
        Asked::Rate(_) => {
            let why = "a decision by a client's rate: only refusals can be, by a [[policer]]";
            read.why.push(why.to_owned());
            return Ok(Choice::Always(false));
        }
        Asked::Tls => unreachable!("it is known which listeners speak TLS"),
    };
    read.why.extend(between.why.clone());
    let bound = match (side == Side::Wide) != not {
        true => &between.wide,
        false => {
            read.open.extend(between.open.map(str::to_owned));
            &between.narrow
        }
    };
    Ok(match bound {
        Bound::Always(always) => Choice::Always(*always != not),
        Bound::Term(term) => Choice::Term(term.clone(), not),
    })
}

impl Reading {
    /// What an ACL asks of what comes to this frontend.
    fn known(&self, asked: Asked) -> Asked {
        match asked {
            Asked::Tls => Asked::Request(match &self.tls {
                (list, _) if list.is_empty() => Between::always(false),
                (_, true) => Between::always(true),
                (list, _) => {
                    let listeners = list.iter().map(|it| quoted(it)).collect();
                    Between::exact(Term::new("listener", listeners))
                }
            }),
            Asked::Request(between) if self.ipv6 => Asked::Request(Between {
                wide: with_ipv6(between.wide),
                narrow: with_ipv6(between.narrow),
                ..between
            }),
            asked => asked,
        }
    }
}

/// For HAProxy an IPv4 address is also those of IPv6 that have it in them: `2002:a.b.c.d::` and `::a.b.c.d`.
fn with_ipv6(bound: Bound) -> Bound {
    let Bound::Term(mut term) = bound else { return bound };
    if !matches!(term.key.as_str(), "client" | "destination") {
        return Bound::Term(term);
    }
    let of = |value: &String| {
        let text: String = serde_json::from_str(value).ok()?;
        let network: ipnet::Ipv4Net =
            text.parse().ok().or_else(|| Some(text.parse::<std::net::Ipv4Addr>().ok()?.into()))?;
        let [a, b, c, d] = network.trunc().addr().octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        let len = network.prefix_len();
        Some([
            quoted(&format!("2002:{high:x}:{low:x}::/{}", 16 + len)),
            quoted(&format!("::{high:x}:{low:x}/{}", 96 + len)),
        ])
    };
    let more: Vec<String> = term.values.iter().filter_map(of).flatten().collect();
    term.values.extend(more);
    Bound::Term(term)
}
