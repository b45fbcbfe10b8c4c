//! Lists of decisions as rules of which the first that matches decides.

use super::super::draft::{From, Item};
use super::between::Term;
use super::path::regex;

/// Most rules that a list of decisions may become: negations double them.
const RULES_MAX: usize = 2_000;

/// One decision of a list: if a clause holds, these keys of a rule.
#[derive(Clone)]
pub(super) struct Decision {
    pub(super) clause: Vec<(Term, bool)>,
    pub(super) keys: Vec<(String, String)>,
    pub(super) from: From,
}

/// Rules of which the first that matches says the same as the list, of which the last entry has no conditions. All have the conditions of `base`,
/// unless they say more of the same, and those of `context` beside their own. What cannot be said is handed to `lost`; what refuses more than it should to `stricter`.
pub(super) fn compiled(
    list: &[Decision],
    base: &[(Term, From)],
    context: &[Term],
    lost: &mut dyn FnMut(&From, &str),
    stricter: &mut dyn FnMut(&From, &str),
) -> Vec<Item> {
    let mut compiling = Compiling { rules: Vec::new(), base, lost, stricter };
    compiling.within(context, list);
    compiling.rules
}

struct Compiling<'c> {
    rules: Vec<Item>,
    base: &'c [(Term, From)],
    lost: &'c mut dyn FnMut(&From, &str),
    stricter: &'c mut dyn FnMut(&From, &str),
}

impl Compiling<'_> {
    /// The rules of requests of which the context holds.
    fn within(&mut self, context: &[Term], list: &[Decision]) {
        for (index, it) in list.iter().enumerate() {
            if self.rules.len() > RULES_MAX {
                let refuses = |it: &&Decision| {
                    it.keys.iter().any(|(key, _)| key == "refuse" || key == "police")
                };
                if let Some(refusal) = list[index..].iter().find(refuses) {
                    let keys = vec![("refuse".to_owned(), "404".to_owned())];
                    self.rule(context, &Decision { keys, ..refusal.clone() });
                }
                return (self.stricter)(
                    &it.from,
                    "negations make too many rules of it: refused until you write it by hand",
                );
            }
            let mut terms = context.to_vec();
            let positive = it.clause.iter().filter(|(_, negated)| !negated);
            let mut possible = Some(true);
            let refuses = it.keys.iter().any(|(key, _)| key == "refuse");
            let mut is_wider = false;
            for (term, _) in positive {
                match both(&mut terms, term) {
                    // A refusal without this condition.
                    None if refuses => is_wider = true,
                    both => possible = possible.and_then(|so_far| Some(so_far & both?)),
                }
            }
            if is_wider && possible == Some(true) {
                (self.stricter)(
                    &it.from,
                    "asks twice for the same of a request, in a way that no rule can: it refuses more, until you write it by hand",
                );
            }
            match possible {
                None => {
                    (self.lost)(
                        &it.from,
                        "asks twice for the same of a request, in a way that no rule can: write it by hand",
                    );
                    continue;
                }
                // Never together.
                Some(false) => continue,
                Some(true) => {}
            }
            for (at, (term, negated)) in it.clause.iter().enumerate() {
                // What is said twice, by what counts and by what refuses, is excepted once.
                let is_same = |(other, by): &(Term, bool)| {
                    *by && (&other.key, &other.values) == (&term.key, &term.values)
                };
                if !negated || it.clause[..at].iter().any(is_same) {
                    continue;
                }
                let mut except = terms.clone();
                match both(&mut except, term) {
                    Some(true) => self.within(&except, &list[index + 1..]),
                    Some(false) => {}
                    None if refuses => (self.stricter)(
                        &it.from,
                        "excepts what no rule can: it is refused, too, until you write it by hand",
                    ),
                    None => (self.lost)(&it.from, "excepts what no rule can: write it by hand"),
                }
            }
            self.rule(&terms, it);
            // It takes all that is left.
            if terms == context {
                return;
            }
        }
    }

    fn rule(&mut self, terms: &[Term], it: &Decision) {
        let mut rule = Item::new("[[rule]]");
        for (term, from) in
            self.base.iter().filter(|it| terms.iter().all(|term| term.key != it.0.key))
        {
            rule.key(&term.key, joined(&term.values), from);
        }
        for term in terms {
            rule.key(&term.key, joined(&term.values), term.from.as_ref().unwrap_or(&it.from));
        }
        for (key, value) in &it.keys {
            rule.key(key, value, &it.from);
        }
        self.rules.push(rule);
    }
}

fn joined(values: &[String]) -> String {
    match values {
        [one] => one.clone(),
        _ => format!("[{}]", values.join(", ")),
    }
}

/// Adds a condition to others: false if never both hold; `None` if no rule can say it. A second pattern of the path becomes a regular expression.
fn both(terms: &mut Vec<Term>, further: &Term) -> Option<bool> {
    match intersected(terms, further) {
        None if further.key == "path" && terms.iter().all(|it| it.key != "path_regex") => {
            let values = further.values.iter().map(|it| expression(it)).collect::<Option<_>>()?;
            terms.push(Term { key: "path_regex".to_owned(), values, from: further.from.clone() });
            Some(true)
        }
        both => both,
    }
}

/// A pattern of a path, as TOML, as a regular expression, as TOML.
fn expression(pattern: &str) -> Option<String> {
    let pattern: String = serde_json::from_str(pattern).ok()?;
    let mut expression = "(?-u)^".to_owned();
    let mut rest = pattern.as_str();
    while let Some(letter) = rest.chars().next() {
        let (further, len) = match letter {
            '*' if rest == "*" => ("(?s:.*)".to_owned(), 1),
            '*' if rest.starts_with("**") => ("(?s:.*)".to_owned(), 2),
            '*' => ("[^/]*".to_owned(), 1),
            '?' => ("[^/]".to_owned(), 1),
            '\\' => {
                let next = rest[1..].chars().next()?;
                (regex(&next.to_string()), 1 + next.len_utf8())
            }
            it => (regex(&it.to_string()), it.len_utf8()),
        };
        expression += &further;
        rest = &rest[len..];
    }
    expression.push('$');
    Some(serde_json::Value::from(expression).to_string())
}

/// An address or network, as TOML.
fn network(value: &str) -> Option<ipnet::IpNet> {
    let text: String = serde_json::from_str(value).ok()?;
    text.parse().ok().or_else(|| Some(text.parse::<std::net::IpAddr>().ok()?.into()))
}

fn intersected(terms: &mut Vec<Term>, further: &Term) -> Option<bool> {
    let Some(known) = terms.iter_mut().find(|it| it.key == further.key) else {
        terms.push(further.clone());
        return Some(true);
    };
    if known.values == further.values {
        return Some(true);
    }
    // Of several values of a name, each list may have found another one.
    if !matches!(known.key.as_str(), "path" | "method" | "host" | "sni" | "client" | "destination")
    {
        return None;
    }
    let mut values = Vec::new();
    if matches!(known.key.as_str(), "client" | "destination") {
        for a in &known.values {
            for b in &further.values {
                match (network(a)?, network(b)?) {
                    (wide, narrow) if wide.contains(&narrow) => values.push(b.clone()),
                    (narrow, wide) if wide.contains(&narrow) => values.push(a.clone()),
                    _ => {}
                }
            }
        }
        known.values = values;
        return Some(!known.values.is_empty());
    }
    for a in &known.values {
        for b in &further.values {
            let prefix = |it: &str| {
                it.strip_suffix("*\"")
                    .filter(|it| !it.contains(['*', '?', '\\']))
                    .map(str::to_owned)
            };
            let exact = |it: &str| !it.contains(['*', '?', '\\']);
            match (prefix(a), prefix(b)) {
                _ if a == b => values.push(a.clone()),
                (Some(long), Some(short)) if long.starts_with(&short) => values.push(a.clone()),
                (Some(short), Some(long)) if long.starts_with(&short) => values.push(b.clone()),
                (Some(_), Some(_)) => {}
                (Some(short), None) if exact(b) => {
                    values.extend(b.starts_with(&short).then(|| b.clone()))
                }
                (None, Some(short)) if exact(a) => {
                    values.extend(a.starts_with(&short).then(|| a.clone()))
                }
                (None, None) if exact(a) && exact(b) => {}
                _ => return None,
            }
        }
    }
    known.values = values;
    known.values.dedup();
    Some(!known.values.is_empty())
}
