//! `frontend` and `listen`: listeners and rules.

use super::super::draft::{Draft, From, Item, name, quoted};
use super::acl::{self, Acls, Decision, Term, clauses, compiled};
use super::grammar::{Line, Section};
use super::values::{as_text, seconds};
use std::collections::BTreeMap;

/// The table by which clients' rates are counted.
#[derive(Clone)]
struct Table {
    /// The time of `http_req_rate`.
    seconds: u64,
    from: From,
}

/// What the frontends become.
#[derive(Default)]
pub(super) struct Made {
    pub(super) rules: Vec<Item>,
    pub(super) policers: Vec<Item>,
    /// Backends in the order in which they are used; the first is `[origin]`.
    pub(super) used: Vec<String>,
    /// `timeout queue`.
    pub(super) queue: Option<(String, From)>,
    listeners: Vec<(String, Item)>,
    /// By HAProxy's number, the least most important.
    priorities: BTreeMap<i64, From>,
    tables: BTreeMap<String, Table>,
    known: Vec<String>,
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
    fn pool(&mut self, backend: &str) -> String {
        if !self.used.iter().any(|it| it == backend) {
            self.used.push(backend.to_owned());
        }
        match self.used[0] == backend {
            true => "default".to_owned(),
            false => name(backend),
        }
    }
}

fn class_name(priority: i64) -> String {
    match priority {
        0 => "default".to_owned(),
        it if it < 0 => format!("priority-minus-{}", it.unsigned_abs()),
        it => format!("priority-{it}"),
    }
}

/// Adds a section's listeners and rules.
pub(super) fn read(section: &Section, all: &[Section], made: &mut Made, draft: &mut Draft) {
    made.table(section);
    let addresses = binds(section, made, draft);
    if addresses.is_empty() {
        return draft.note(&section.from, "has no address: write bind");
    }
    let mut acls = Acls::new();
    for line in section.lines.iter().filter(|it| it.word(0) == "acl") {
        let asked = acl::acl(line.words.get(2..).unwrap_or_default());
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
    let default = backend.map(|backend| made.pool(&backend));
    let mut lists = Lists::default();
    for line in &section.lines {
        lists.line(line, &acls, made, draft);
    }
    let end = as_text(&section.from, "all other requests");
    match default {
        Some(pool) => {
            lists.pools.push(decision(vec![("pool", quoted(&pool))], &end));
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
    lists.policers.push(decision(vec![("police", "false".to_owned())], &end));
    let listener = Term {
        key: "listener".to_owned(),
        values: addresses.iter().map(|it| quoted(it)).collect(),
    };
    let base = vec![(listener, section.from.clone())];
    let mut lost = |from: &From, why: &str| draft.note(from, why);
    for list in [&lists.refused, &lists.pools, &lists.policers] {
        made.rules.extend(compiled(list, &base, &mut lost));
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
    /// The table of `track-sc0`.
    tracked: Option<String>,
}

impl Lists {
    fn line(&mut self, line: &Line, acls: &Acls, made: &mut Made, draft: &mut Draft) {
        match (line.word(0), line.word(1)) {
            ("acl" | "bind" | "default_backend" | "mode" | "option" | "timeout" | "maxconn" | "log" | "stick-table" | "server" | "balance" | "retries" | "description", _) => {}
            ("use_backend", backend) if !backend.contains('%') => {
                let pool = made.pool(backend);
                add(&mut self.pools, line, acls, vec![("pool", quoted(&pool))], draft);
            }
            ("use_backend", _) => draft.note(&line.from, "a backend by an expression: write a [[rule]] for each"),
            ("redirect", _) => self.redirect(line, 1, acls, draft),
            ("http-request", "redirect") => self.redirect(line, 2, acls, draft),
            ("http-request", "deny" | "tarpit" | "return") => self.denied(line, acls, made, draft),
            ("http-request", "track-sc0") => {
                if line.word(2) != "src" {
                    draft.note(&line.from, "counts by something else than the client's address: write flow = … in the rule");
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
            ("http-request", "auth") => draft.note(&line.from, "clients are recognised by [[key]] and [token]; passwords are for the origin"),
            ("http-response" | "http-after-response", _) => draft.note(&line.from, "answers are passed on as they are: set headers in the origin"),
            ("stats", _) => draft.note(&line.from, "status and metrics are on the admin listener: `admin`"),
            ("compression", _) => draft.note(&line.from, "nothing is compressed here: let the origin do it"),
            ("errorfile" | "http-error", _) => draft.note(&line.from, "refusals have a page: refusal.page, and page in a rule's refuse"),
            ("tcp-request", _) => draft.note(&line.from, "connections are bounded by limits.connections_max, and clients are told apart by [shedding]: leave it out"),
            ("cookie" | "default-server" | "http-reuse" | "fullconn", _) => draft.note(&line.from, "requests go to the server with the fewest in progress, over kept connections: leave it out"),
            _ => draft.note(&line.from, "has no counterpart: leave it out"),
        }
    }

    fn denied(&mut self, line: &Line, acls: &Acls, made: &mut Made, draft: &mut Draft) {
        let default = if line.word(1) == "return" { "200" } else { "403" };
        let status = line.after("deny_status").or_else(|| line.after("status")).unwrap_or(default);
        let status = match status {
            "403" | "404" | "410" | "451" | "429" | "503" => status,
            _ => {
                draft.note(&line.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: until the origin does, 403");
                "403"
            }
        };
        let clauses = match clauses(line, acls) {
            Ok(clauses) => clauses,
            Err(why) => return draft.note(&line.from, &why),
        };
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
                draft.note(&line.from, "no stick-table stores http_req_rate");
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
            self.policers.push(Decision { clause: clause.terms, keys, from: line.from.clone() });
        }
    }

    fn redirect(&mut self, line: &Line, at: usize, acls: &Acls, draft: &mut Draft) {
        let (kind, target) = (line.word(at), line.word(at + 1));
        if kind != "location" || target.contains('%') {
            return draft.note(
                &line.from,
                "redirects to addresses made of the request: let the origin send them",
            );
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
    acls: &Acls,
    keys: Vec<(&str, String)>,
    draft: &mut Draft,
) {
    match clauses(line, acls) {
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

/// The addresses that a section listens on.
fn binds(section: &Section, made: &mut Made, draft: &mut Draft) -> Vec<String> {
    let mut addresses = Vec::new();
    for line in section.lines.iter().filter(|it| it.word(0) == "bind") {
        for text in line.word(1).split(',') {
            let text = text.trim_start_matches("ipv4@").trim_start_matches("ipv6@");
            let address = match text.rsplit_once(':') {
                Some(("" | "*", port)) => format!("0.0.0.0:{port}"),
                Some(("::", port)) => format!("[::]:{port}"),
                _ => text.to_owned(),
            };
            if address.parse::<std::net::SocketAddr>().is_err() {
                draft.note(&line.from, "must be an address with a port, such as 0.0.0.0:80; no UNIX socket and no range of ports");
                continue;
            }
            if made.listeners.iter().any(|(known, _)| *known == address) {
                draft.note(&line.from, "is bound already");
                continue;
            }
            let mut item = Item::new("[[listener]]");
            item.key("address", quoted(&address), &line.from);
            if line.words.iter().any(|it| it == "accept-proxy") {
                item.key("proxy_protocol", true, &line.from);
                draft.note(&line.from, "PROXY headers count only from peers in `trusted`: write the addresses of what sends them");
            }
            if line.words.iter().any(|it| it == "ssl") {
                let Some(file) = line.after("crt") else {
                    draft.note(&line.from, "TLS needs crt");
                    continue;
                };
                // One file has the certificate and its key.
                item.key(
                    "tls",
                    format!("{{ certificate = {0}, key = {0} }}", quoted(file)),
                    &line.from,
                );
            }
            made.listeners.push((address.clone(), item));
            addresses.push(address);
        }
    }
    addresses
}
