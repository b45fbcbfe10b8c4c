//! `backend` and `listen`: their servers, and what they refuse themselves.

use super::super::draft::{Draft, From, Item, name, quoted};
use super::effect::{Effect, effect};
use super::grammar::{Line, Section};
use super::servers::{default_server, server, servers, written};

/// Why all that leads to a backend is refused.
pub(super) struct Closed<'s> {
    from: &'s From,
    pub(super) status: &'static str,
    why: String,
    /// Whether it has a pool, until rules are written for it.
    pub(super) has_pool: bool,
}

impl Closed<'_> {
    pub(super) fn list(&self, draft: &mut Draft) {
        // HAProxy has no server either.
        match self.status == "503" {
            true => draft.note(self.from, &self.why),
            false => draft.stricter(self.from, &self.why),
        }
    }
}

/// Whether what comes from a frontend to a backend is refused: because it has no servers, or refuses some itself, which no rule asks for. `port`:
/// that of all listeners, if they have the same.
pub(super) fn closed<'s>(
    backend: &'s Section,
    front: &Section,
    port: Option<u16>,
) -> Option<Closed<'s>> {
    let is_same = std::ptr::eq(backend, front);
    let live = servers(backend);
    if backend.is_disabled() || live.is_empty() {
        let why = "has no server: everything that leads there is refused".to_owned();
        return Some(Closed { from: &backend.from, status: "503", why, has_pool: false });
    }
    let faults: Vec<_> = live.iter().filter_map(|it| it.address(port).err()).collect();
    if faults.len() == live.len() {
        let why = format!(
            "{}: the backend has no server that could be taken over, and everything that leads there is refused",
            faults[0]
        );
        return Some(Closed { from: &live[0].line.from, status: "404", why, has_pool: false });
    }
    let refuses = |it: &&Line| matches!(effect(it), Effect::Refuses | Effect::Redirects);
    // What both take from the same `defaults`, the frontend has refused before.
    let known = |it: &&Line| front.inherited.iter().any(|other| other.from == it.from);
    let found = backend.all_lines().filter(refuses).find(|it| !is_same && !known(it))?;
    let why = "a refusal in a backend: everything that leads there is refused, until you write it as [[rule]] with the conditions that lead there";
    Some(Closed { from: &found.from, status: "404", why: why.to_owned(), has_pool: true })
}

/// A backend's servers. `port`: that of all listeners, if they have the same.
pub(super) fn pool(section: &Section, called: &str, port: Option<u16>, draft: &mut Draft) -> Item {
    let is_first = called == "default";
    let mut item = Item::new(if is_first { "[origin]" } else { "[[pool]]" });
    if !is_first {
        item.key("name", quoted(called), &section.from);
    }
    let live = servers(section);
    let (mut addresses, mut from) = (Vec::new(), section.from.clone());
    for (address, line) in written(&live, port, draft) {
        addresses.push(address);
        match from.text.starts_with("server") {
            true => from.text = format!("{}; {}", from.text, line.from.text),
            false => from = line.from.clone(),
        }
    }
    for line in section.all_lines() {
        match effect(line) {
            _ if matches!(line.word(0), "server" | "server-template") => {
                server(line, live.iter().any(|it| std::ptr::eq(it.line, line)), draft);
            }
            _ if line.word(0) == "default-server" => default_server(line, draft),
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
    let weights: Vec<&str> = live.iter().map(super::servers::Server::weight).collect();
    if weights.iter().any(|it| *it != weights[0]) {
        draft.note(&section.from, &format!("weights {}: a request goes to the server with the fewest in progress, so a stronger one gets more by itself; for fixed parts write slots for each server", weights.join(", ")));
    }
    item.key("servers", format!("[{}]", addresses.join(", ")), &from);
    item
}

/// A pool's name that no other pool of these has.
pub(super) fn pool_name(backend: &str, others: &[String]) -> String {
    let name = name(backend);
    let numbered = (2..).map(|number| format!("{name}-{number}"));
    let mut names = std::iter::once(name.clone()).chain(numbered);
    names.find(|it| !others.contains(it)).expect("they are without end")
}
