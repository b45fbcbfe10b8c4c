//! `backend` and `listen`: their servers, and what they refuse themselves.

use super::super::draft::{Draft, From, Item, name, quoted};
use super::effect::{Effect, effect};
use super::grammar::{Line, Section};

/// Why all that leads to a backend is refused.
pub(super) struct Closed<'s> {
    from: &'s From,
    pub(super) status: &'static str,
    why: &'static str,
}

impl Closed<'_> {
    /// Whether HAProxy has no server either.
    pub(super) fn is_dead(&self) -> bool {
        self.status == "503"
    }

    pub(super) fn list(&self, draft: &mut Draft) {
        match self.is_dead() {
            true => draft.note(self.from, self.why),
            false => draft.stricter(self.from, self.why),
        }
    }
}

/// Whether what comes from a frontend to a backend is refused: because it has no servers, or refuses some itself, which no rule asks for.
pub(super) fn closed<'s>(backend: &'s Section, front: &Section) -> Option<Closed<'s>> {
    let is_same = std::ptr::eq(backend, front);
    if backend.is_disabled() || servers(backend).is_empty() {
        let why = "has no server: everything that leads there is refused";
        return Some(Closed { from: &backend.from, status: "503", why });
    }
    let refuses = |it: &&Line| matches!(effect(it), Effect::Refuses | Effect::Redirects);
    // What both take from the same `defaults`, the frontend has refused before.
    let known = |it: &&Line| front.inherited.iter().any(|other| other.from == it.from);
    let found = backend.all_lines().filter(refuses).find(|it| !is_same && !known(it))?;
    let why = "a refusal in a backend: everything that leads there is refused, until you write it as [[rule]] with the conditions that lead there";
    Some(Closed { from: &found.from, status: "404", why })
}

/// The lines of the servers that get requests: backups only where there is nothing else.
pub(super) fn servers(section: &Section) -> Vec<&Line> {
    let has = |line: &Line, word: &str| line.words.iter().any(|it| it == word);
    let by_default = |word: &str| {
        let mut defaults = section.all_lines().filter(|it| it.word(0) == "default-server");
        defaults.any(|it| has(it, word))
    };
    let (are_disabled, are_backups) = (by_default("disabled"), by_default("backup"));
    let is_live = |it: &&Line| {
        let is_disabled = has(it, "disabled") || are_disabled && !has(it, "enabled");
        it.word(0) == "server" && !is_disabled && it.after("weight") != Some("0")
    };
    let (backups, active): (Vec<&Line>, Vec<&Line>) = section
        .lines
        .iter()
        .filter(is_live)
        .partition(|it| has(it, "backup") || are_backups && !has(it, "non-backup"));
    if active.is_empty() { backups } else { active }
}

/// A backend's servers.
pub(super) fn pool(section: &Section, called: &str, draft: &mut Draft) -> Item {
    let is_first = called == "default";
    let mut item = Item::new(if is_first { "[origin]" } else { "[[pool]]" });
    if !is_first {
        item.key("name", quoted(called), &section.from);
    }
    let live = servers(section);
    let (mut addresses, mut from) = (Vec::new(), section.from.clone());
    for line in &live {
        let address = address(line.word(2));
        addresses.push(match line.after("maxconn").and_then(|it| it.parse::<u32>().ok()) {
            Some(slots) => format!("{{ address = {}, slots = {slots} }}", quoted(&address)),
            None => quoted(&address),
        });
        match from.text.starts_with("server") {
            true => from.text = format!("{}; {}", from.text, line.from.text),
            false => from = line.from.clone(),
        }
    }
    for line in section.all_lines() {
        match effect(line) {
            _ if line.word(0) == "server" => {
                server(line, live.iter().any(|it| std::ptr::eq(*it, line)), draft);
            }
            Effect::Opens(why) => draft.less_safe(&line.from, why),
            Effect::Otherwise(why) => draft.note(&line.from, why),
            Effect::Ranks if section.kind == "backend" => {
                draft.note(
                    &line.from,
                    "in a backend: write it as [[rule]] with the conditions that lead there",
                );
            }
            // Of what refuses, `closed` speaks; what exempts has nothing to exempt from.
            _ => {}
        }
    }
    let weights: Vec<&str> = live.iter().map(|it| it.after("weight").unwrap_or("1")).collect();
    if weights.iter().any(|it| *it != weights[0]) {
        draft.note(&section.from, &format!("weights {}: a request goes to the server with the fewest in progress, so a stronger one gets more by itself; for fixed parts write slots for each server", weights.join(", ")));
    }
    item.key("servers", format!("[{}]", addresses.join(", ")), &from);
    item
}

/// Lists what of a server is not taken over.
fn server(line: &Line, is_live: bool, draft: &mut Draft) {
    let has = |word: &str| line.words.iter().any(|it| it == word);
    if !is_live {
        return draft.note(&line.from, match has("backup") {
            true => "no backup within a pool: write a [[pool]] with this server, and fallback = its name in the other",
            false => "it is disabled: add it to `servers` when it is back",
        });
    }
    if has("ssl") {
        draft.less_safe(&line.from, "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool");
    }
    if has("check") {
        draft.note(&line.from, "check: failures of requests take a server out; for active checks write [origin.health] with path = \"/\"");
    }
}

/// A pool's name that no other pool of these has.
pub(super) fn pool_name(backend: &str, others: &[String]) -> String {
    let name = name(backend);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|it| !others.contains(it)).expect("they are without end")
}

/// A server's address as policies write it.
fn address(text: &str) -> String {
    let text = text.strip_prefix("ipv4@").or_else(|| text.strip_prefix("ipv6@")).unwrap_or(text);
    match text.strip_prefix("unix@") {
        Some(path) => format!("unix:{path}"),
        None if text.starts_with('/') => format!("unix:{text}"),
        None if text.contains(':') => text.to_owned(),
        None => format!("{text}:80"),
    }
}
