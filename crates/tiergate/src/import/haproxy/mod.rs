//! HAProxy's configuration, and the policy that means the same for what both have: frontends and backends, ACLs, `use_backend`, refusals,
//! priority classes, rates of clients, `maxconn`, time-outs.

mod acl;
mod bind;
mod clause;
mod frontend;
mod grammar;
mod made;
mod rules;
mod values;

use super::draft::{Draft, ImportFault, Imported, Item, name, quoted};
use grammar::{Line, Section};
use std::collections::BTreeMap;
use values::time;

/// The policy of a configuration file.
///
/// # Errors
/// The first line that cannot be read; or that nothing is left that makes a policy.
pub fn policy(
    text: &str,
    file: &str,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Imported, ImportFault> {
    let sections = grammar::read(text, file, environment)?;
    let mut draft = Draft::new(&format!("{file}, of HAProxy"));
    let (mut timeouts, mut limits) = (Item::new("[timeouts]"), Item::new("[limits]"));
    let mut made = made::Made::default();
    for section in &sections {
        match section.kind.as_str() {
            "global" | "defaults" | "frontend" | "listen" | "backend" => {}
            _ => draft.note(&section.from, "has no counterpart: leave it out"),
        }
        for line in &section.lines {
            common(line, section, &mut timeouts, &mut limits, &mut made, &mut draft);
        }
    }
    for section in sections.iter().filter(|it| it.kind == "backend" || it.kind == "listen") {
        made.table(section);
    }
    for section in sections.iter().filter(|it| it.kind == "frontend" || it.kind == "listen") {
        frontend::read(section, &sections, &mut made, &mut draft);
    }
    let backends: BTreeMap<&str, &Section> = sections
        .iter()
        .filter(|it| it.kind == "backend" || it.kind == "listen")
        .map(|it| (it.name.as_str(), it))
        .collect();
    let mut pools = Vec::new();
    for used in made.used.clone() {
        match backends.get(used.as_str()) {
            Some(section) => pools.push(pool(section, pools.is_empty(), &mut draft)),
            None => {
                let message = format!("no backend is called {used:?}");
                return Err(ImportFault { file: file.to_owned(), line: 1, message });
            }
        }
    }
    if pools.is_empty() {
        let message =
            "has no frontend with a backend, and so no server that Tiergate could protect";
        return Err(ImportFault { file: file.to_owned(), line: 1, message: message.to_owned() });
    }
    draft.items.extend(made.listeners());
    draft.items.extend(pools);
    draft.items.extend(made.classes());
    draft.items.extend(std::mem::take(&mut made.policers));
    draft.items.extend([timeouts, limits].into_iter().filter(|item| !item.is_empty()));
    draft.items.extend(made.rules);
    draft.finish(file)
}

/// A line that has the same meaning wherever it is.
fn common(
    line: &Line,
    section: &Section,
    timeouts: &mut Item,
    limits: &mut Item,
    made: &mut made::Made,
    draft: &mut Draft,
) {
    let is_front = section.kind != "backend";
    match (line.word(0), line.word(1)) {
        ("timeout", "queue") => match time(line.word(2)) {
            Some(time) if made.queue.is_none() => made.queue = Some((time, line.from.clone())),
            _ => draft.note(&line.from, "the first timeout queue counts for all: write deadline in the [[class]] of these requests"),
        },
        ("timeout", which) => {
            let keys: &[&str] = match which {
                "client" => &["request_body", "write"],
                "server" => &["response_head", "response_body"],
                "connect" => &["connect"],
                "http-request" => &["request_head"],
                "http-keep-alive" => &["idle"],
                "tunnel" => &["tunnel_idle"],
                _ => return draft.note(&line.from, "has no counterpart: leave it out"),
            };
            let Some(time) = time(line.word(2)) else {
                return draft.note(&line.from, "must be a time such as 30s, and more than 0");
            };
            for key in keys {
                match timeouts.has(key) {
                    true => draft.note(&line.from, "[timeouts] holds for all requests: write the longest there"),
                    false => timeouts.key(key, quoted(&time), &line.from),
                }
            }
        }
        ("maxconn", number) if is_front => match limits.has("connections_max") {
            true => draft.note(&line.from, "limits.connections_max holds for all listeners"),
            false => limits.key("connections_max", number, &line.from),
        },
        _ if section.kind == "global" || section.kind == "defaults" => {
            let unimportant = ["daemon", "user", "group", "chroot", "pidfile", "nbthread", "nbproc", "log", "mode", "option", "stats", "master-worker", "cpu-map", "ulimit-n", "retries", "balance"];
            // Those of `defaults` hold in each frontend.
            if matches!(line.word(0), "acl" | "http-request" | "tcp-request") {
                return;
            }
            if !unimportant.contains(&line.word(0)) {
                draft.note(&line.from, "has no counterpart: leave it out");
            }
        }
        _ => {}
    }
}

/// A backend's servers.
fn pool(section: &Section, is_first: bool, draft: &mut Draft) -> Item {
    let mut item = Item::new(if is_first { "[origin]" } else { "[[pool]]" });
    if !is_first {
        item.key("name", quoted(&name(&section.name)), &section.from);
    }
    let (mut servers, mut from) = (Vec::new(), section.from.clone());
    let mut weights = Vec::new();
    for line in &section.lines {
        match line.word(0) {
            "server" => {
                if line.words.iter().any(|it| it == "disabled") {
                    draft.note(&line.from, "it is disabled: add it to `servers` when it is back");
                    continue;
                }
                if line.words.iter().any(|it| it == "backup") {
                    draft.note(&line.from, "no backup within a pool: write a [[pool]] with this server, and fallback = its name in the other");
                    continue;
                }
                if line.words.iter().any(|it| it == "ssl") {
                    draft.less_safe(&line.from, "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool");
                }
                weights.push(line.after("weight").unwrap_or("1").to_owned());
                let address = address(line.word(2));
                servers.push(match line.after("maxconn").and_then(|it| it.parse::<u32>().ok()) {
                    Some(slots) => format!("{{ address = {}, slots = {slots} }}", quoted(&address)),
                    None => quoted(&address),
                });
                match from.text.starts_with("server") {
                    true => from.text = format!("{}; {}", from.text, line.from.text),
                    false => from = line.from.clone(),
                }
                if line.words.iter().any(|it| it == "check") {
                    draft.note(&line.from, "check: failures of requests take a server out; for active checks write [origin.health] with path = \"/\"");
                }
            }
            "balance" if line.word(1) == "leastconn" => {}
            "balance" => draft.note(&line.from, "a request goes to the server with the fewest in progress: leave it out, or bind flows to pools by weight"),
            "cookie" => draft.note(&line.from, "no stickiness to servers: each request goes to the server with the fewest in progress; keep sessions where all servers find them"),
            "mode" | "option" | "timeout" | "retries" | "stick-table" | "bind" | "acl" | "use_backend" | "default_backend" | "log" | "maxconn" => {}
            "http-request" if section.kind == "listen" => {}
            _ => draft.note(&line.from, "in a backend: write it as [[rule]] with the conditions that lead there"),
        }
    }
    if weights.iter().any(|it| *it != weights[0]) {
        draft.note(&section.from, &format!("weights {}: a request goes to the server with the fewest in progress, so a stronger one gets more by itself; for fixed parts write slots for each server", weights.join(", ")));
    }
    item.key("servers", format!("[{}]", servers.join(", ")), &from);
    item
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
