//! The conditions of a line, of which one must hold, each of terms of rules.

use super::super::draft::quoted;
use super::acl::{Asked, Term, acl};
use super::grammar::Line;
use std::collections::BTreeMap;

/// How conditions are read.
pub(super) struct Reading<'r> {
    pub(super) acls: &'r Acls,
    /// The listeners that speak TLS; whether all do.
    pub(super) tls: &'r (Vec<String>, bool),
    /// What no rule can ask holds, whether negated or not; why is put here. Otherwise it is an error.
    pub(super) unknown: Option<&'r mut Vec<String>>,
}

/// ACLs by name; several of one name are alternatives.
pub(super) type Acls = BTreeMap<String, Vec<Result<Asked, String>>>;

/// All must hold; the second says which must not.
#[derive(Clone, Debug, Default)]
pub(super) struct Clause {
    pub(super) terms: Vec<(Term, bool)>,
    /// More requests than this of one client.
    pub(super) rate: Option<u64>,
}

/// The clauses of the condition behind `if` or `unless` of a line, one of which must hold.
///
/// # Errors
/// What of it no rule can ask.
pub(super) fn clauses(line: &Line, mut reading: Reading<'_>) -> Result<Vec<Clause>, String> {
    let place = line.words.iter().position(|it| it == "if" || it == "unless");
    let Some(place) = place else { return Ok(vec![Clause::default()]) };
    let words = &line.words[place + 1..];
    let mut alternatives: Vec<Vec<(Vec<Asked>, bool)>> = vec![Vec::new()];
    let mut rest = words.iter();
    let mut negated = false;
    while let Some(word) = rest.next() {
        match word.as_str() {
            "||" | "or" => alternatives.push(Vec::new()),
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
                    _ => named(word, reading.acls),
                };
                let asked = asked
                    .into_iter()
                    .map(|it| reading.known(it))
                    .collect::<Result<Vec<_>, String>>()?;
                alternatives
                    .last_mut()
                    .expect("there is one")
                    .push((asked, not != std::mem::take(&mut negated)));
            }
        }
    }
    if line.words[place] == "unless" {
        // None of the alternatives: of each, one that is not so.
        let mut none = vec![Vec::new()];
        for conjunction in &alternatives {
            none = none
                .iter()
                .flat_map(|so_far: &Vec<_>| {
                    conjunction.iter().map(|(asked, not)| {
                        let mut further = so_far.clone();
                        further.push((asked.clone(), !not));
                        further
                    })
                })
                .collect();
            if none.len() > 64 {
                return Err("has more than 64 alternatives".to_owned());
            }
        }
        alternatives = none;
    }
    let mut list = Vec::new();
    for conjunction in alternatives {
        list.extend(expanded(&conjunction)?);
    }
    if list.len() > 64 {
        return Err("has more than 64 alternatives".to_owned());
    }
    Ok(list)
}

impl Reading<'_> {
    fn known(&mut self, asked: Result<Asked, String>) -> Result<Asked, String> {
        match (asked, &mut self.unknown) {
            (Ok(Asked::Tls), _) => Ok(match self.tls {
                (list, _) if list.is_empty() => Asked::Always(false),
                (_, true) => Asked::Always(true),
                (list, _) => Asked::Term(Term {
                    key: "listener".to_owned(),
                    values: list.iter().map(|it| quoted(it)).collect(),
                }),
            }),
            (Err(why), Some(unknown)) => {
                unknown.push(why);
                Ok(Asked::Unknown)
            }
            (asked, _) => asked,
        }
    }
}

fn named(name: &str, acls: &Acls) -> Vec<Result<Asked, String>> {
    let method = |names: &[&str]| {
        let values = names.iter().map(|it| quoted(it)).collect();
        Ok(Asked::Term(Term { key: "method".to_owned(), values }))
    };
    if let Some(list) = acls.get(name) {
        return list.clone();
    }
    vec![match name {
        "TRUE" => Ok(Asked::Always(true)),
        // Whatever comes to rules is HTTP, and whole.
        "HTTP" | "WAIT_END" => Ok(Asked::Always(true)),
        "FALSE" => Ok(Asked::Always(false)),
        "METH_GET" => method(&["GET", "HEAD"]),
        "METH_HEAD" | "METH_POST" | "METH_PUT" | "METH_DELETE" | "METH_OPTIONS" | "METH_TRACE"
        | "METH_CONNECT" => method(&[&name[5..]]),
        "LOCALHOST" => {
            Ok(Asked::Term(Term { key: "client".to_owned(), values: vec![quoted("127.0.0.0/8")] }))
        }
        _ => Err(format!("no ACL is called {name}")),
    }]
}

/// A conjunction of what ACLs ask, each a list of alternatives, as clauses.
fn expanded(conjunction: &[(Vec<Asked>, bool)]) -> Result<Vec<Clause>, String> {
    let mut list = vec![Clause::default()];
    for (alternatives, negated) in conjunction {
        let mut further = Vec::new();
        for clause in &list {
            if *negated {
                // None of the alternatives.
                let mut clause = clause.clone();
                let mut possible = true;
                for it in alternatives {
                    match it {
                        Asked::Term(term) => clause.terms.push((term.clone(), true)),
                        Asked::Always(always) => possible &= !always,
                        // Resolved before.
                        Asked::Tls | Asked::Unknown => {}
                        Asked::Rate(_) => {
                            return Err("not more than a rate: turn it round".to_owned());
                        }
                    }
                }
                further.extend(possible.then_some(clause));
                continue;
            }
            for it in alternatives {
                let mut clause = clause.clone();
                match it {
                    Asked::Term(term) => clause.terms.push((term.clone(), false)),
                    Asked::Rate(rate) => clause.rate = Some(*rate),
                    Asked::Always(true) | Asked::Tls | Asked::Unknown => {}
                    Asked::Always(false) => continue,
                }
                further.push(clause);
            }
        }
        if further.len() > 64 {
            return Err("has more than 64 alternatives".to_owned());
        }
        list = further;
    }
    Ok(list)
}
