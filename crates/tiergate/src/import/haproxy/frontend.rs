//! `frontend` and `listen`: their rules.

use super::super::draft::{Draft, From, Item, quoted};
use super::acl::{Asked, acl};
use super::backend::{Closed, closed};
use super::between::Term;
use super::clause::{Acls, Clause, Reading, Side, condition};
use super::effect::{Effect, effect};
use super::grammar::{Line, Section};
use super::made::{Made, TOO_MANY, class_name};
use super::places::Place;
use super::rates::Rates;
use super::rules::{Decision, compiled};
use super::values::as_text;
use std::collections::BTreeMap;

/// Adds the rules of the section of this number.
pub(super) fn read(index: usize, all: &[Section], made: &mut Made, draft: &mut Draft) {
    let section = &all[index];
    if section.is_disabled() {
        return draft.note(&section.from, "is disabled, so it is not written");
    }
    let places: Vec<Place> = made.places.of(index).cloned().collect();
    if places.is_empty() {
        return draft.stricter(
            &section.from,
            "has no address that could be taken over, so it is not written: write bind",
        );
    }
    let (single, own): (Vec<Place>, Vec<Place>) = places.into_iter().partition(Place::is_single);
    let front = Front { section, all, port: made.places.port() };
    for place in single {
        if place.is_closed {
            made.close(&place, &place.address.ip().to_string());
            continue;
        }
        let rules = front.rules(&[place], made, draft);
        made.singles.extend(rules);
    }
    if !own.is_empty() {
        let rules = front.rules(&own, made, draft);
        made.rules.extend(rules);
    }
}

/// A frontend among all sections.
struct Front<'s> {
    section: &'s Section,
    all: &'s [Section],
    /// The port of all listeners, if they have the same.
    port: Option<u16>,
}

impl<'s> Front<'s> {
    /// Whether all that it sends to a backend is refused.
    fn closed(&self, name: &str) -> Option<Closed<'s>> {
        closed(super::backend(self.all, name)?, self.section, self.port)
    }

    /// The rules of what comes to these places: several of listeners of their own, or one whose connections another listener takes.
    fn rules(&self, places: &[Place], made: &mut Made, draft: &mut Draft) -> Vec<Item> {
        let section = self.section;
        let default = section.all_lines().rfind(|it| it.word(0) == "default_backend");
        let default = match default {
            Some(line) => Some(line.word(1)),
            None => section.is_back().then_some(section.name.as_str()),
        };
        let shut = default.and_then(|it| self.closed(it));
        // It is the default pool, whatever is named before it.
        let live = default.filter(|_| shut.as_ref().is_none_or(|it| it.has_pool));
        let pool = live.and_then(|it| made.pool(it));
        let mut lists = Lists { rates: Rates::new(&section.name), ..Lists::default() };
        let read = self.readings(places);
        for (lines, reading) in &read {
            lines
                .iter()
                .filter(|it| effect(it) == Effect::Tracks)
                .for_each(|it| lists.rates.track(it, reading, draft));
        }
        for (lines, reading) in &read {
            lines.iter().for_each(|it| lists.line(it, self, reading, made, draft));
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
            None if pool.is_none() => {
                draft.stricter(&section.from, TOO_MANY);
                Some((end.clone(), "404"))
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
        let mut policers = std::mem::take(&mut lists.rates).sorted(draft);
        policers.push(decision(vec![("police", "false".to_owned())], &end));
        let listeners = places.iter().map(|it| quoted(&it.listener.to_string())).collect();
        let base = vec![(Term::new("listener", listeners), section.from.clone())];
        let context = match places {
            [one] if one.is_single() => {
                vec![Term::quoted("destination", &[one.address.ip().to_string()])]
            }
            _ => Vec::new(),
        };
        let (mut less, mut more, mut rules) = (Vec::new(), Vec::new(), Vec::new());
        for list in [&lists.refused, &lists.pools, &policers] {
            let mut lost = |from: &From, why: &str| less.push((from.clone(), why.to_owned()));
            let mut stricter = |from: &From, why: &str| more.push((from.clone(), why.to_owned()));
            rules.extend(compiled(list, &base, &context, &mut lost, &mut stricter));
        }
        less.iter().for_each(|(from, why)| draft.less_safe(from, why));
        more.iter().for_each(|(from, why)| draft.stricter(from, why));
        rules
    }

    /// The lines with what their conditions are read with: the ACLs of `defaults` are known there alone, and those of the section in itself.
    fn readings(&self, places: &[Place]) -> Vec<(&'s [Line], Reading)> {
        let secure: Vec<String> =
            places.iter().filter(|it| it.tls.is_some()).map(|it| it.listener.to_string()).collect();
        let reading = |lines: &'s [Line], is_own| {
            let mut acls = Acls::new();
            for line in lines.iter().filter(|it| it.word(0) == "acl") {
                let asked = match acl(line.words.get(2..).unwrap_or_default()) {
                    Asked::Request(between) => Asked::Request(between.said_by(&line.from)),
                    other => other,
                };
                acls.entry(line.word(1).to_owned()).or_default().push(asked);
            }
            let tls = (secure.clone(), secure.len() == places.len());
            let ipv6 = places.iter().any(|it| it.address.is_ipv6());
            (lines, Reading { acls, tls, ipv6, is_own })
        };
        let section = self.section;
        vec![reading(&section.inherited, false), reading(&section.lines, true)]
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
    rates: Rates,
    /// What is let pass before refusals, by the ruleset, which alone it ends.
    accepted: BTreeMap<String, Vec<Clause>>,
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
            Effect::Refuses => self.denied(line, reading, made, draft),
            Effect::Exempts => self.exempt(line, reading, draft),
            // Before all others.
            Effect::Tracks => {}
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
        let has_pool = shut.as_ref().is_none_or(|it| it.has_pool);
        let pool = if has_pool { made.pool(backend) } else { None };
        // By the load, it is for some requests only, and listed.
        if let Ok(wide) = condition(line, reading, Side::Wide) {
            if let Some(shut) = &shut {
                shut.list(draft);
                self.refuse(&wide.clauses, shut.status, line);
            } else if pool.is_none() {
                draft.stricter(&line.from, TOO_MANY);
                self.refuse(&wide.clauses, "404", line);
            }
        }
        if let Some(pool) = pool {
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

    fn denied(&mut self, line: &Line, reading: &Reading, made: &mut Made, draft: &mut Draft) {
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
                Some(rate) => self.rates.refuse(&clause, &rate, line, reading, made, draft),
            }
        }
    }

    fn redirected(&mut self, line: &Line, reading: &Reading, draft: &mut Draft) {
        let is_other = ["prefix", "scheme"].iter().any(|it| line.after(it).is_some());
        let target = line.after("location").filter(|it| !is_other && !it.contains('%'));
        let Some((clauses, is_exact)) = self.refused(line, reading, draft) else { return };
        if target.is_none() {
            draft.stricter(
                &line.from,
                "redirects to addresses made of the request: refused until the origin sends them",
            );
        }
        // Where more is refused, it is not sent to where it was not to go.
        let refuse = match target.filter(|_| is_exact) {
            None => "404".to_owned(),
            Some(target) => {
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
