//! `frontend` and `listen`: their rules.

use super::super::draft::{Draft, From, Item, quoted};
use super::acl::{Term, acl};
use super::bind::binds;
use super::clause::{Acls, Clause, Reading, clauses};
use super::grammar::{Line, Section};
use super::made::{Made, Table, class_name};
use super::rules::{Decision, compiled};
use super::values::as_text;

/// Adds a section's listeners and rules.
pub(super) fn read(section: &Section, all: &[Section], made: &mut Made, draft: &mut Draft) {
    made.table(section);
    let (addresses, secure) = binds(section, made, draft);
    if addresses.is_empty() {
        return draft.stricter(
            &section.from,
            "has no address that could be taken over, so it is not written: write bind",
        );
    }
    let are_all = secure.len() == addresses.len();
    let tls = (secure, are_all);
    let defaults = all.iter().rfind(|it| it.kind == "defaults");
    let defaults = defaults.map_or(&[][..], |it| &it.lines);
    let inherited =
        defaults.iter().filter(|it| matches!(it.word(0), "acl" | "http-request" | "tcp-request"));
    let lines: Vec<&Line> = inherited.chain(&section.lines).collect();
    let mut acls = Acls::new();
    for line in lines.iter().filter(|it| it.word(0) == "acl") {
        let asked = acl(line.words.get(2..).unwrap_or_default());
        acls.entry(line.word(1).to_owned()).or_default().push(asked);
    }
    let backend = match section.kind.as_str() {
        "listen" if section.lines.iter().any(|it| it.word(0) == "server") => {
            Some(section.name.clone())
        }
        _ => {
            let default = |lines: &[Line]| {
                lines
                    .iter()
                    .rfind(|it| it.word(0) == "default_backend")
                    .map(|it| it.word(1).to_owned())
            };
            let inherited =
                || all.iter().rfind(|it| it.kind == "defaults").and_then(|it| default(&it.lines));
            default(&section.lines).or_else(inherited)
        }
    };
    // It is the default pool, whatever is named before it.
    let is_closed = backend.as_ref().is_some_and(|backend| made.is_closed(backend, draft));
    let default = backend.map(|backend| made.pool(&backend));
    let mut lists = Lists::default();
    for line in lines {
        lists.line(line, &Known { acls: &acls, tls: &tls }, made, draft);
    }
    let end = as_text(&section.from, "all other requests");
    match default {
        Some(pool) => {
            lists.pools.push(decision(vec![("pool", quoted(&pool))], &end));
            if is_closed {
                lists.refused.push(decision(vec![("refuse", "404".to_owned())], &end));
            }
        }
        None => {
            let none = as_text(&section.from, "no default_backend");
            lists.refused.push(decision(vec![("refuse", "503".to_owned())], &none));
        }
    }
    // A later priority replaces an earlier one.
    lists.classes.reverse();
    lists.classes.push(decision(vec![("class", quoted("default"))], &end));
    lists.refused.append(&mut lists.classes);
    lists.sort_policers(draft);
    lists.policers.push(decision(vec![("police", "false".to_owned())], &end));
    let listener = Term {
        key: "listener".to_owned(),
        values: addresses.iter().map(|it| quoted(it)).collect(),
    };
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

/// What conditions of a section may name.
struct Known<'k> {
    acls: &'k Acls,
    /// The listeners that speak TLS; whether all do.
    tls: &'k (Vec<String>, bool),
}

impl Known<'_> {
    /// The clauses of a line, if rules can have all of them.
    fn clauses(&self, line: &Line) -> Result<Vec<Clause>, String> {
        clauses(line, Reading { acls: self.acls, tls: self.tls, unknown: None })
    }

    /// The clauses of a line that refuses: what no rule can ask is left out, so that it refuses more; with the reasons. A bound on load, which
    /// refuses only some, is an error.
    fn wider(&self, line: &Line) -> Result<(Vec<Clause>, Vec<String>), String> {
        let mut unknown = Vec::new();
        let reading = Reading { acls: self.acls, tls: self.tls, unknown: Some(&mut unknown) };
        let clauses = clauses(line, reading);
        let load = [
            "sc",
            "src_",
            "fe_",
            "be_",
            "srv_",
            "nbsrv",
            "queue",
            "avg_queue",
            "connslots",
            "rand",
            "only `gt`",
        ];
        if let Some(why) = unknown.iter().find(|it| load.iter().any(|load| it.starts_with(load))) {
            return Err(why.clone());
        }
        match clauses {
            Ok(clauses) => Ok((clauses, unknown)),
            Err(why) if why.contains("a rate") => Err(why),
            Err(why) => Ok((vec![Clause::default()], vec![why])),
        }
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
    /// What is let pass before refusals: connections, requests.
    accepted: [Vec<Clause>; 2],
    /// The table of `track-sc0`.
    tracked: Option<String>,
}

impl Lists {
    fn line(&mut self, line: &Line, acls: &Known<'_>, made: &mut Made, draft: &mut Draft) {
        match (line.word(0), line.word(1)) {
            ("acl" | "bind" | "default_backend" | "mode" | "option" | "timeout" | "maxconn" | "log" | "stick-table" | "server" | "balance" | "retries" | "description", _) => {}
            ("use_backend", backend) if !backend.contains('%') => {
                let pool = made.pool(backend);
                add(&mut self.pools, line, acls, vec![("pool", quoted(&pool))], draft);
                if made.is_closed(backend, draft) {
                    add(&mut self.refused, line, acls, vec![("refuse", "404".to_owned())], draft);
                }
            }
            ("use_backend", _) => draft.note(&line.from, "a backend by an expression: write a [[rule]] for each"),
            ("redirect", _) => self.redirect(line, 1, acls, draft),
            ("http-request", "redirect") => self.redirect(line, 2, acls, draft),
            ("http-request", "deny" | "tarpit" | "return" | "reject" | "silent-drop" | "auth") | ("block", _) => self.denied(line, 1, acls, made, draft),
            ("http-request", "allow") => self.allowed(line, 1, acls, draft),
            ("tcp-request", _) if line.words.iter().any(|it| it == "reject" || it == "silent-drop") => self.denied(line, 0, acls, made, draft),
            ("tcp-request", "connection" | "content" | "session") if line.word(2) == "accept" => self.allowed(line, 0, acls, draft),
            ("tcp-request", _) if line.word(2).starts_with("track-sc") => self.tracked = Some(line.after("table").unwrap_or_default().to_owned()),
            ("http-request", "track-sc0") => {
                if line.word(2) != "src" {
                    draft.less_safe(&line.from, "counts by something else than the client's address: write flow = … in the rule");
                }
                self.tracked = Some(line.after("table").unwrap_or_default().to_owned());
            }
            ("http-request", "set-priority-class") => {
                let number = line.word(2).strip_prefix("int(").and_then(|it| it.strip_suffix(')')?.parse::<i64>().ok());
                let Some(number) = number else {
                    return draft.note(&line.from, "a priority by an expression: write a [[rule]] with class for each");
                };
                made.priorities.entry(number).or_insert(line.from.clone());
                add(&mut self.classes, line, acls, vec![("class", quoted(&class_name(number)))], draft);
            }
            ("http-request", "set-priority-offset") => draft.note(&line.from, "write deadline in the rule: what has waited longest within a class is served first"),
            ("http-request", "set-header" | "add-header" | "del-header" | "replace-header") => draft.note(&line.from, "the origin gets the client's headers and X-Forwarded-…: see [forwarding]; set others in the origin"),
            ("http-request", "set-path" | "replace-path" | "set-uri" | "replace-uri" | "set-query") | ("reqrep" | "rspadd", _) => draft.note(&line.from, "paths are not rewritten: do it in the origin"),
            ("http-response" | "http-after-response", _) => draft.note(&line.from, "answers are passed on as they are: set headers in the origin"),
            ("stats", _) => draft.note(&line.from, "status and metrics are on the admin listener: `admin`"),
            ("compression", _) => draft.note(&line.from, "nothing is compressed here: let the origin do it"),
            ("errorfile" | "http-error", _) => draft.note(&line.from, "refusals have a page: refusal.page, and page in a rule's refuse"),
            ("tcp-request", _) => draft.note(&line.from, "connections are bounded by limits.connections_max, and clients are told apart by [shedding]; see whether it keeps clients out"),
            ("cookie" | "default-server" | "http-reuse" | "fullconn", _) => draft.note(&line.from, "requests go to the server with the fewest in progress, over kept connections: leave it out"),
            _ => draft.note(&line.from, "has no counterpart: see whether it keeps clients out, and write a [[rule]] with refuse if so"),
        }
    }

    /// What `allow` and `accept` exempt from the refusals behind it.
    fn allowed(&mut self, line: &Line, phase: usize, acls: &Known<'_>, draft: &mut Draft) {
        match acls.clauses(line) {
            // An exception of several conditions at once is none that a clause can have.
            Ok(clauses) if clauses.iter().all(|it| it.terms.len() == 1 && it.rate.is_none()) => {
                self.accepted[phase].extend(clauses);
            }
            Ok(_) => draft.stricter(
                &line.from,
                "exempts nothing from the refusals behind it: write a [[rule]] before theirs",
            ),
            Err(why) => draft.stricter(
                &line.from,
                &format!("{why}: exempts nothing from the refusals behind it"),
            ),
        }
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

    fn denied(
        &mut self,
        line: &Line,
        phase: usize,
        acls: &Known<'_>,
        made: &mut Made,
        draft: &mut Draft,
    ) {
        let default = match line.word(1) {
            "return" => "200",
            "auth" => "404",
            _ => "403",
        };
        let status = line.after("deny_status").or_else(|| line.after("status")).unwrap_or(default);
        let mut status = match status {
            "403" | "404" | "410" | "451" | "429" | "503" => status,
            _ => {
                draft.stricter(&line.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: until the origin does, 403");
                "403"
            }
        };
        if line.word(1) == "auth" {
            draft.stricter(&line.from, "clients are recognised by [[key]] and [token], and passwords are for the origin: refused until a rule lets pass what may");
        }
        let (mut clauses, unknown) = match acls.wider(line) {
            Ok(it) => it,
            Err(why) => {
                return draft.less_safe(&line.from, &format!("{why}: nothing is refused by it"));
            }
        };
        if !unknown.is_empty() {
            status = "404";
            let whole = clauses.iter().any(|it| it.terms.is_empty());
            let what = if whole { "everything is refused" } else { "it refuses more" };
            draft.stricter(
                &line.from,
                &format!("{}: {what}, until you write a [[rule]] for it", unknown.join("; ")),
            );
        }
        for clause in &mut clauses {
            for exempt in &self.accepted[phase] {
                clause.terms.extend(exempt.terms.iter().map(|(term, not)| (term.clone(), !not)));
            }
        }
        for clause in clauses {
            let Some(number) = clause.rate else {
                let refuse = vec![("refuse".to_owned(), status.to_owned())];
                self.refused.push(Decision {
                    clause: clause.terms,
                    keys: refuse,
                    from: line.from.clone(),
                });
                continue;
            };
            let table = self.tracked.clone().filter(|it| !it.is_empty());
            let table = match table {
                Some(table) => made.tables.get(&table),
                None => made.tables.values().next(),
            };
            let Some(Table { seconds, from }) = table.cloned() else {
                draft.less_safe(
                    &line.from,
                    "no stick-table stores http_req_rate: nothing is refused by it",
                );
                continue;
            };
            let policer = format!("over-{number}-in-{seconds}s");
            if !made.known.contains(&policer) {
                made.known.push(policer.clone());
                let mut item = Item::new("[[policer]]");
                item.key("name", quoted(&policer), &line.from);
                item.key("rate", quoted(&rate(number, seconds)), &from);
                item.key("burst", number.max(1), &line.from);
                item.key("per", quoted("flow"), &from);
                made.policers.push(item);
                if status != "429" {
                    draft.note(&line.from, "clients over their rate get 429");
                }
                draft.note(&line.from, "HAProxy counts refused requests too, so a client that goes on stays refused; here it gets its rate: for more, refusal.block");
            }
            let keys = vec![("police".to_owned(), quoted(&policer))];
            self.rates.push((number, seconds.max(1)));
            self.policers.push(Decision { clause: clause.terms, keys, from: line.from.clone() });
        }
    }

    fn redirect(&mut self, line: &Line, at: usize, acls: &Known<'_>, draft: &mut Draft) {
        let (kind, target) = (line.word(at), line.word(at + 1));
        if kind != "location" || target.contains('%') {
            draft.stricter(
                &line.from,
                "redirects to addresses made of the request: refused until the origin sends them",
            );
            let (clauses, unknown) = match acls.wider(line) {
                Ok(it) => it,
                Err(why) => return draft.less_safe(&line.from, &why),
            };
            if !unknown.is_empty() {
                draft.stricter(&line.from, &format!("{}: it refuses more", unknown.join("; ")));
            }
            for clause in clauses.into_iter().filter(|it| it.rate.is_none()) {
                let refuse = decision(vec![("refuse", "404".to_owned())], &line.from);
                self.refused.push(Decision { clause: clause.terms, ..refuse });
            }
            return;
        }
        let code = line
            .after("code")
            .filter(|it| ["301", "302", "303", "307", "308"].contains(it))
            .unwrap_or("302");
        let refuse = format!("{{ status = {code}, redirect = {} }}", quoted(target));
        add(&mut self.refused, line, acls, vec![("refuse", refuse)], draft);
    }
}

/// Adds a line's decision for each of its clauses.
fn add(
    list: &mut Vec<Decision>,
    line: &Line,
    acls: &Known<'_>,
    keys: Vec<(&str, String)>,
    draft: &mut Draft,
) {
    match acls.clauses(line) {
        Err(why) => draft.note(&line.from, &why),
        Ok(clauses) if clauses.iter().any(|it| it.rate.is_some()) => {
            draft.note(
                &line.from,
                "a decision by a client's rate: only refusals can be, by a [[policer]]",
            );
        }
        Ok(clauses) => {
            for clause in clauses {
                list.push(Decision { clause: clause.terms, ..decision(keys.clone(), &line.from) });
            }
        }
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
