//! Conditions: ACLs as conditions of rules, and lists of decisions as rules of which the first that matches decides.

use super::super::draft::{From, Item, literal, quoted};
use super::grammar::Line;
use std::collections::BTreeMap;

/// Most rules that a list of decisions may become: negations double them.
const RULES_MAX: usize = 2_000;

/// A condition that a rule can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) key: String,
    /// As TOML; one is enough.
    pub(super) values: Vec<String>,
}

/// What an ACL asks.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// Something of the request.
    Term(Term),
    /// Whether a client asks for more than this number in the time of the table.
    Rate(u64),
    /// Always the same.
    Always(bool),
    /// Whether it came by TLS.
    Tls,
    /// Something that no rule can ask.
    Unknown,
}

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

/// What `acl NAME …` asks.
pub(super) fn acl(words: &[String]) -> Result<Asked, String> {
    let (criterion, mut rest) = words.split_first().ok_or("must ask something")?;
    let (mut caseless, mut way) = (false, None);
    while let Some((first, further)) = rest.split_first() {
        match first.as_str() {
            "-i" => (caseless, rest) = (true, further),
            "-m" => {
                let (kind, further) = further.split_first().ok_or("must say how behind -m")?;
                (way, rest) = (Some(kind.clone()), further);
            }
            "--" => {
                rest = further;
                break;
            }
            it if it.starts_with('-') && it.len() == 2 => {
                return Err(format!("{it}: write the values into the rule"));
            }
            _ => break,
        }
    }
    let (name, argument) = match criterion.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')')),
        None => (criterion.as_str(), ""),
    };
    let name = name.strip_prefix("req.").unwrap_or(name);
    if matches!(name, "sc_http_req_rate" | "sc0_http_req_rate" | "src_http_req_rate") {
        return match rest {
            [gt, number] if gt == "gt" => {
                number.parse().map(Asked::Rate).map_err(|_| "must be a number".to_owned())
            }
            _ => Err("only `gt` and a number".to_owned()),
        };
    }
    let (base, suffix) = ["_beg", "_end", "_sub", "_dir", "_dom", "_reg"]
        .iter()
        .find_map(|it| Some((name.strip_suffix(it)?, &it[1..])))
        .unwrap_or((name, "str"));
    let way = way.as_deref().unwrap_or(suffix);
    let first = argument.split(',').next().unwrap_or_default().to_ascii_lowercase();
    let key = match (base, first.as_str()) {
        ("ssl_fc", _) => return Ok(Asked::Tls),
        ("always_true", _) => return Ok(Asked::Always(true)),
        ("always_false", _) => return Ok(Asked::Always(false)),
        ("path", _) => "path".to_owned(),
        // The beginning of the URL is that of the path; the rest has the query, too.
        ("url", _)
            if way == "beg" && rest.iter().all(|it| it.starts_with('/') && !it.contains('?')) =>
        {
            "path".to_owned()
        }
        ("url", _) => {
            return Err(format!(
                "{criterion}: the URL has the query, and rules see path and parameters one by one"
            ));
        }
        ("hdr" | "fhdr", "host") => "host".to_owned(),
        ("hdr" | "fhdr", name) if !name.is_empty() => format!("header.{}", quoted(name)),
        ("cook", _) => format!("cookie.{}", quoted(argument)),
        ("urlp" | "url_param", _) => format!("query.{}", quoted(argument)),
        ("method", _) => "method".to_owned(),
        ("src", _) => "client".to_owned(),
        ("dst", _) => "destination".to_owned(),
        ("ssl_fc_sni", _) => "sni".to_owned(),
        _ => return Err(format!("{criterion}: no condition of rules asks for it")),
    };
    if way == "found" {
        return match key.contains('.') {
            true => Ok(Asked::Term(Term { key, values: vec!["true".to_owned()] })),
            false => Err("-m found: only of headers, cookies and parameters".to_owned()),
        };
    }
    if rest.is_empty() {
        return Err("must have values".to_owned());
    }
    if key == "path" && (caseless || way == "reg") {
        let flags = if caseless { "(?i)" } else { "" };
        let one = |text: &String| match way {
            "reg" => Ok(quoted(&format!("{flags}{text}"))),
            "beg" => Ok(quoted(&format!("{flags}^{}", regex(text)))),
            "end" => Ok(quoted(&format!("{flags}{}$", regex(text)))),
            "sub" => Ok(quoted(&format!("{flags}{}", regex(text)))),
            "str" => Ok(quoted(&format!("{flags}^{}$", regex(text)))),
            _ => Err(format!("{way} without regard to case")),
        };
        let values = rest.iter().map(one).collect::<Result<_, _>>()?;
        return Ok(Asked::Term(Term { key: "path_regex".to_owned(), values }));
    }
    if caseless && !matches!(key.as_str(), "host" | "sni" | "client" | "destination") {
        return Err("-i: patterns of this kind regard the case".to_owned());
    }
    let mut values = Vec::new();
    for text in rest {
        let text = text.as_str();
        match (key.as_str(), way) {
            ("client" | "destination" | "method", "str" | "ip") => values.push(quoted(text)),
            ("host" | "sni", "str") => values.push(quoted(&text.to_ascii_lowercase())),
            ("host" | "sni", "end") if text.starts_with('.') => {
                values.push(quoted(&format!("*{text}")))
            }
            ("host" | "sni", "dom") => values.extend([quoted(text), quoted(&format!("*.{text}"))]),
            ("host" | "sni" | "client" | "destination" | "method", _) => {
                return Err(format!("{way}: not of {key}"));
            }
            (_, "str") => values.push(quoted(&literal(text))),
            (_, "beg") => values.push(quoted(&format!("{}*", literal(text)))),
            (_, "end") => values.push(quoted(&format!("**{}", literal(text)))),
            (_, "sub") => values.push(quoted(&format!("**{}*", literal(text)))),
            ("path", "dir") => {
                let text = literal(text.trim_matches('/'));
                values.extend([quoted(&format!("**/{text}/*")), quoted(&format!("**/{text}"))]);
            }
            _ => return Err(format!("{way}: write a pattern with * and ? by hand")),
        }
    }
    Ok(Asked::Term(Term { key, values }))
}

/// A text as a regular expression that means it.
fn regex(text: &str) -> String {
    let mut escaped = String::new();
    for letter in text.chars() {
        if !letter.is_alphanumeric()
            && letter != '/'
            && letter != '_'
            && letter != '-'
            && letter.is_ascii()
        {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
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

/// One decision of a list: if a clause holds, these keys of a rule.
#[derive(Clone)]
pub(super) struct Decision {
    pub(super) clause: Vec<(Term, bool)>,
    pub(super) keys: Vec<(String, String)>,
    pub(super) from: From,
}

/// Rules of which the first that matches says the same as the list, of which the last entry has no conditions. What cannot be said is handed
/// to `lost`; what refuses more than it should to `stricter`.
pub(super) fn compiled(
    list: &[Decision],
    base: &[(Term, From)],
    lost: &mut dyn FnMut(&From, &str),
    stricter: &mut dyn FnMut(&From, &str),
) -> Vec<Item> {
    let mut compiling = Compiling { rules: Vec::new(), base, lost, stricter };
    compiling.within(&[], list);
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
            for (term, _) in it.clause.iter().filter(|(_, negated)| *negated) {
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
            rule.key(&term.key, joined(&term.values), &it.from);
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
            terms.push(Term { key: "path_regex".to_owned(), values });
            Some(true)
        }
        both => both,
    }
}

/// A pattern of a path, as TOML, as a regular expression, as TOML.
fn expression(pattern: &str) -> Option<String> {
    let pattern: String = serde_json::from_str(pattern).ok()?;
    let mut expression = "^".to_owned();
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
    let is_plain = matches!(known.key.as_str(), "path" | "method" | "host");
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
                (None, None) if exact(a) && exact(b) && is_plain => {}
                _ => return None,
            }
        }
    }
    known.values = values;
    known.values.dedup();
    Some(!known.values.is_empty())
}
