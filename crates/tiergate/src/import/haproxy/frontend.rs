//! `frontend` and `listen`: their rules.

use super::super::draft::{Draft, From, Item, quoted};
use super::acl::{Rate, acl};
use super::backend::{Closed, closed};
use super::between::Term;
use super::bind::binds;
use super::clause::{Acls, Clause, Reading, Side, condition};
use super::effect::{Effect, effect};
use super::grammar::{Line, Section};
use super::made::{Made, Table, class_name};
use super::rules::{Decision, compiled};
use super::values::as_text;
use std::collections::BTreeMap;

/// Adds a section's listeners and rules.
pub(super) fn read(section: &Section, all: &[Section], made: &mut Made, draft: &mut Draft) {
    if section.is_disabled() {
        return draft.note(&section.from, "is disabled, so it is not written");
    }
    let (addresses, secure) = binds(section, made, draft);
    if addresses.is_empty() {
        return draft.stricter(
            &section.from,
            "has no address that could be taken over, so it is not written: write bind",
        );
    }
    let default = section.all_lines().rfind(|it| it.word(0) == "default_backend");
    let default = match default {
        Some(line) => Some(line.word(1)),
        None => section.is_back().then_some(section.name.as_str()),
    };
    let front = Front { section, all };
    let shut = default.and_then(|it| front.closed(it));
    // It is the default pool, whatever is named before it.
    let pool = default.filter(|_| !shut.as_ref().is_some_and(Closed::is_dead));
    let pool = pool.map(|it| made.pool(it));
    let mut lists = Lists::default();
    // The ACLs of `defaults` are known there alone, and those of the section in itself.
    for lines in [&section.inherited, &section.lines] {
        let mut acls = Acls::new();
        for line in lines.iter().filter(|it| it.word(0) == "acl") {
            let asked = acl(line.words.get(2..).unwrap_or_default());
            acls.entry(line.word(1).to_owned()).or_default().push(asked);
        }
        let tls = (secure.clone(), secure.len() == addresses.len());
        let ipv6 = addresses.iter().any(|it| it.starts_with('['));
        let reading = Reading { acls, tls, ipv6 };
        for line in lines {
            lists.line(line, &front, &reading, made, draft);
        }
    }
    let end = as_text(&section.from, "all other requests");
    // A later priority replaces an earlier one.
    lists.classes.reverse();
    lists.classes.push(decision(vec![("class", quoted("default"))], &end));
    let refusal = match &shut {
        _ if default.is_none() => Some((as_text(&section.from, "no default_backend"), "503")),
        Some(shut) => {
            shut.list(draft);
            Some((end.clone(), shut.status))
        }
        None => None,
    };
    match refusal {
        None => lists.refused.append(&mut lists.classes),
        Some((from, status)) => {
            lists.refused.extend(lists.routed_classes());
            lists.refused.push(decision(vec![("refuse", status.to_owned())], &from));
        }
    }
    if let Some(pool) = pool {
        lists.pools.push(decision(vec![("pool", quoted(&pool))], &end));
    }
    lists.sort_policers(draft);
    lists.policers.push(decision(vec![("police", "false".to_owned())], &end));
    let listener = Term::new("listener", addresses.iter().map(|it| quoted(it)).collect());
    let base = vec![(listener, section.from.clone())];
    let (mut less, mut more) = (Vec::new(), Vec::new());
    for list in [&lists.refused, &lists.pools, &lists.policers] {
        let mut lost = |from: &From, why: &str| less.push((from.clone(), why.to_owned()));
        let mut stricter = |from: &From, why: &str| more.push((from.clone(), why.to_owned()));
        made.rules.extend(compiled(list, &base, &mut lost, &mut stricter));
    }
    less.iter().for_each(|(from, why)| draft.less_safe(from, why));
    more.iter().for_each(|(from, why)| draft.stricter(from, why));
}

/// A frontend among all sections.
struct Front<'s> {
    section: &'s Section,
    all: &'s [Section],
}

impl<'s> Front<'s> {
    /// Whether all that it sends to a backend is refused.
    fn closed(&self, name: &str) -> Option<Closed<'s>> {
        closed(super::backend(self.all, name)?, self.section)
    }
}

fn decision(keys: Vec<(&str, String)>, from: &From) -> Decision {
    let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    Decision { clause: Vec::new(), keys, from: from.clone() }
}

/// What is decided of requests: each list's first entry that holds.
#[derive(Default)]
struct Lists {
    refused: Vec<Decision>,
    classes: Vec<Decision>,
    pools: Vec<Decision>,
    policers: Vec<Decision>,
    /// Requests in the time of each policer, as requests and seconds, in the order of `policers`.
    rates: Vec<(u64, u64)>,
    /// What is let pass before refusals, by the ruleset, which alone it ends.
    accepted: BTreeMap<String, Vec<Clause>>,
    /// By counter, what `track-sc` counts by, and its table.
    tracked: BTreeMap<String, (String, String)>,
}

/// The ruleset of a line: `http-request`, `connection`, …
fn ruleset(line: &Line) -> &str {
    if line.word(0) == "tcp-request" { line.word(1) } else { line.word(0) }
}

impl Lists {
    fn line(
        &mut self,
        line: &Line,
        front: &Front<'_>,
        reading: &Reading,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        match effect(line) {
            Effect::Nothing => {}
            Effect::Otherwise(why) => draft.note(&line.from, why),
            Effect::Opens(why) => draft.less_safe(&line.from, why),
            Effect::Routes => self.routed(line, front, reading, made, draft),
            Effect::Redirects => self.redirected(line, reading, draft),
            Effect::Refuses => self.denied(line, front, reading, made, draft),
            Effect::Exempts => self.exempt(line, reading, draft),
            Effect::Tracks => {
                let at = line.words.iter().position(|it| it.contains("track-sc")).unwrap_or(0);
                let counter = line.word(at).split("track-sc").nth(1).unwrap_or_default();
                let counter = counter.trim_matches(['(', ')']).to_owned();
                let table = line.after("table").unwrap_or_default().to_owned();
                // The first that holds counts, and whether it does is not asked here.
                self.tracked.entry(counter).or_insert((line.word(at + 1).to_owned(), table));
            }
            Effect::Ranks => self.ranked(line, reading, made, draft),
        }
    }

    fn routed(
        &mut self,
        line: &Line,
        front: &Front<'_>,
        reading: &Reading,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        let backend = line.word(1);
        if backend.contains('%') {
            return draft.less_safe(&line.from, "a backend by an expression: write a [[rule]] with pool for each, and with refuse for those that refuse");
        }
        let read = condition(line, reading, Side::Narrow).unwrap_or_default();
        if !read.is_exact() {
            draft.less_safe(&line.from, &format!("{}: other requests get to this backend than in HAProxy, and to those behind it", read.reasons()));
        }
        let shut = front.closed(backend);
        if let Some(shut) = &shut {
            // By the load, it is for some requests only, and listed.
            if let Ok(read) = condition(line, reading, Side::Wide) {
                shut.list(draft);
                self.refuse(&read.clauses, shut.status, line);
            }
        }
        if !shut.as_ref().is_some_and(Closed::is_dead) {
            let pool = made.pool(backend);
            add(&mut self.pools, &read.clauses, vec![("pool", quoted(&pool))], line);
        }
    }

    /// The classes of what leads to a backend other than the default one.
    fn routed_classes(&self) -> Vec<Decision> {
        let both = |route: &Decision, class: &Decision| {
            let clause = route.clause.iter().chain(&class.clause).cloned().collect();
            Decision { clause, ..class.clone() }
        };
        let of = |route| self.classes.iter().map(move |class| both(route, class));
        self.pools.iter().flat_map(of).collect()
    }

    fn ranked(&mut self, line: &Line, reading: &Reading, made: &mut Made, draft: &mut Draft) {
        let number = line.word(2).strip_prefix("int(").and_then(|it| it.strip_suffix(')'));
        let Some(number) = number.and_then(|it| it.parse::<i64>().ok()) else {
            return draft.note(
                &line.from,
                "a priority by an expression: write a [[rule]] with class for each",
            );
        };
        let read = condition(line, reading, Side::Narrow).unwrap_or_default();
        if !read.is_exact() {
            draft.note(&line.from, &read.reasons());
        }
        made.priorities.entry(number).or_insert(line.from.clone());
        let class = quoted(&class_name(number));
        add(&mut self.classes, &read.clauses, vec![("class", class)], line);
    }

    /// What `allow` and `accept` exempt from the refusals behind it, of the same ruleset.
    fn exempt(&mut self, line: &Line, reading: &Reading, draft: &mut Draft) {
        let read = condition(line, reading, Side::Narrow).unwrap_or_default();
        // An exception of several conditions at once is none that a clause can have.
        if read.clauses.iter().any(|it| it.terms.len() != 1) {
            return draft.stricter(
                &line.from,
                "exempts nothing from the refusals behind it: write a [[rule]] before theirs",
            );
        }
        if !read.why.is_empty() {
            let why = read.why.join("; ");
            draft.stricter(&line.from, &format!("{why}: exempts less from the refusals behind it"));
        }
        opens(&read.open, line, draft);
        self.accepted.entry(ruleset(line).to_owned()).or_default().extend(read.clauses);
    }

    /// The lowest rates first, as HAProxy refuses what is over any rate, and a rule has one.
    fn sort_policers(&mut self, draft: &mut Draft) {
        let mut order: Vec<usize> = (0..self.policers.len()).collect();
        let (rates, policers) = (&self.rates, &self.policers);
        order.sort_by(|a, b| {
            let ((a, in_a), (b, in_b)) = (rates[*a], rates[*b]);
            let less = u128::from(a) * u128::from(in_b);
            less.cmp(&(u128::from(b) * u128::from(in_a)))
        });
        let whole = order.iter().position(|it| policers[*it].clause.is_empty());
        for it in whole.map_or(&[][..], |whole| &order[whole + 1..]) {
            draft.less_safe(&policers[*it].from, "a lower rate of all requests comes before it, so this one, with its other burst, never counts: write police in their class");
        }
        if policers.windows(2).any(|it| it[0].keys != it[1].keys) {
            for it in order.iter().skip(1) {
                draft.less_safe(&policers[*it].from, "each request counts for one rate, the lowest, and not for this one beside it: write police in their class, which holds beside the rule's");
            }
        }
        self.policers = order.into_iter().map(|it| policers[it].clone()).collect();
    }

    /// Refuses what one of the clauses holds of.
    fn refuse(&mut self, clauses: &[Clause], status: &str, line: &Line) {
        add(&mut self.refused, clauses, vec![("refuse", status.to_owned())], line);
    }

    /// The clauses of a line that refuses, without what is exempt from it. `None` if it refuses by the load, which is listed.
    fn refused(
        &self,
        line: &Line,
        reading: &Reading,
        draft: &mut Draft,
    ) -> Option<(Vec<Clause>, bool)> {
        let read = match condition(line, reading, Side::Wide) {
            Ok(read) => read,
            Err(why) => {
                draft.less_safe(&line.from, &format!("{why}: nothing is refused by it"));
                return None;
            }
        };
        opens(&read.open, line, draft);
        if !read.why.is_empty() {
            let is_all = read.clauses.iter().any(|it| it.terms.is_empty() && it.rate.is_none());
            let what = if is_all { "everything is refused" } else { "it refuses more" };
            let why = read.why.join("; ");
            draft
                .stricter(&line.from, &format!("{why}: {what}, until you write a [[rule]] for it"));
        }
        let mut clauses = read.clauses;
        for exempt in self.accepted.get(ruleset(line)).into_iter().flatten() {
            let except = exempt.terms.iter().map(|(term, not)| (term.clone(), !not));
            let except: Vec<_> = except.collect();
            clauses.iter_mut().for_each(|it| it.terms.extend(except.iter().cloned()));
        }
        Some((clauses, read.why.is_empty()))
    }

    fn denied(
        &mut self,
        line: &Line,
        front: &Front<'_>,
        reading: &Reading,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        let default = match line.word(1) {
            "return" => "200",
            "auth" => "404",
            _ => "403",
        };
        let status = line.after("deny_status").or_else(|| line.after("status")).unwrap_or(default);
        let status = match status {
            "403" | "404" | "410" | "451" | "429" | "503" => status,
            _ => {
                draft.stricter(&line.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: until the origin does, 403");
                "403"
            }
        };
        if line.word(1) == "auth" {
            draft.stricter(&line.from, "clients are recognised by [[key]] and [token], and passwords are for the origin: refused until a rule lets pass what may");
        }
        let Some((clauses, _)) = self.refused(line, reading, draft) else { return };
        for clause in clauses {
            match clause.rate.clone() {
                None => self.refuse(&[clause], status, line),
                Some(rate) => self.policed(clause, &rate, line, front, made, draft),
            }
        }
    }

    /// A refusal by a client's rate.
    fn policed(
        &mut self,
        clause: Clause,
        asked: &Rate,
        line: &Line,
        front: &Front<'_>,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        let tracked = self.tracked.get(&asked.counter).cloned();
        let (key, table) = tracked.unwrap_or(("src".to_owned(), String::new()));
        if key != "src" {
            draft.less_safe(&line.from, &format!("HAProxy counts by {key}, and here each client's address is counted: write flow = … in the rule"));
        }
        let table = if asked.table.is_empty() { table } else { asked.table.clone() };
        let table = if table.is_empty() { front.section.name.clone() } else { table };
        let Some(Table { seconds, from }) = made.tables.get(&table).cloned() else {
            return draft.less_safe(
                &line.from,
                "no stick-table that is known here stores http_req_rate: nothing is refused by it",
            );
        };
        let number = asked.number;
        let policer = format!("over-{number}-in-{seconds}s");
        if !made.known.contains(&policer) {
            made.known.push(policer.clone());
            let mut item = Item::new("[[policer]]");
            item.key("name", quoted(&policer), &line.from);
            item.key("rate", quoted(&rate(number, seconds)), &from);
            item.key("burst", number.max(1), &line.from);
            item.key("per", quoted("flow"), &from);
            made.policers.push(item);
        }
        draft.less_safe(&line.from, "HAProxy counts all requests that it tracks, also those that it refuses, so that a client that goes on stays refused; here a client over its rate gets 429, and goes on getting its rate of what this line asks: for more, refusal.block");
        let keys = vec![("police".to_owned(), quoted(&policer))];
        self.rates.push((number, seconds.max(1)));
        self.policers.push(Decision { clause: clause.terms, keys, from: line.from.clone() });
    }

    fn redirected(&mut self, line: &Line, reading: &Reading, draft: &mut Draft) {
        let at = if line.word(0) == "redirect" { 1 } else { 2 };
        let (kind, target) = (line.word(at), line.word(at + 1));
        let Some((clauses, is_exact)) = self.refused(line, reading, draft) else { return };
        let is_fixed = kind == "location" && !target.contains('%');
        if !is_fixed {
            draft.stricter(
                &line.from,
                "redirects to addresses made of the request: refused until the origin sends them",
            );
        }
        // Where more is refused, it is not sent to where it was not to go.
        let refuse = match is_fixed && is_exact {
            false => "404".to_owned(),
            true => {
                let code = line
                    .after("code")
                    .filter(|it| ["301", "302", "303", "307", "308"].contains(it))
                    .unwrap_or("302");
                format!("{{ status = {code}, redirect = {} }}", quoted(target))
            }
        };
        if clauses.iter().any(|it| it.rate.is_some()) {
            draft.less_safe(&line.from, "a redirect by a client's rate: nothing is refused by it");
        }
        let clauses: Vec<Clause> = clauses.into_iter().filter(|it| it.rate.is_none()).collect();
        self.refuse(&clauses, &refuse, line);
    }
}

/// Lists when a condition holds of more than HAProxy's, where that lets more pass.
fn opens(open: &[String], line: &Line, draft: &mut Draft) {
    if !open.is_empty() {
        draft.less_safe(&line.from, &format!("{}: more is let pass", open.join("; ")));
    }
}

/// Adds a line's decision for each of its clauses.
fn add(list: &mut Vec<Decision>, clauses: &[Clause], keys: Vec<(&str, String)>, line: &Line) {
    for clause in clauses {
        let clause = clause.terms.clone();
        list.push(Decision { clause, ..decision(keys.clone(), &line.from) });
    }
}

/// A number in a time as a rate.
fn rate(number: u64, seconds: u64) -> String {
    let seconds = seconds.max(1);
    let of =
        |unit: u64| number.checked_mul(unit).filter(|it| it % seconds == 0).map(|it| it / seconds);
    match (of(1), of(60), of(3600)) {
        (Some(it), ..) => format!("{it}/s"),
        (_, Some(it), _) => format!("{it}/m"),
        (.., Some(it)) => format!("{it}/h"),
        _ => format!("{}/h", number.saturating_mul(3600) / seconds),
    }
}
