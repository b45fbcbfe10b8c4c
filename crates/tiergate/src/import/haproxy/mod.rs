//! HAProxy's configuration, and the policy that means the same for what both have: frontends and backends, ACLs, `use_backend`, refusals,
//! priority classes, rates of clients, `maxconn`, time-outs.

mod acl;
mod backend;
mod between;
mod bind;
mod clause;
mod effect;
mod frontend;
mod grammar;
mod made;
mod options;
mod path;
mod places;
mod rates;
mod rules;
mod servers;
mod texts;
mod values;

use super::draft::{Draft, ImportFault, Imported, Item, quoted};
use effect::is_harmless_globally;
use grammar::{Line, Section};
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
        if !section.is_proxy() && !matches!(section.kind.as_str(), "global" | "defaults") {
            draft.note(&section.from, "has no counterpart: leave it out");
            continue;
        }
        for line in &section.lines {
            common(line, section, &mut timeouts, &mut limits, &mut made, &mut draft);
        }
    }
    for section in sections.iter().filter(|it| it.is_proxy()) {
        made.table(section);
    }
    made.places = places::Places::read(&sections, &mut draft);
    made.close_v4();
    for (index, _) in sections.iter().enumerate().filter(|(_, it)| it.is_front()) {
        frontend::read(index, &sections, &mut made, &mut draft);
    }
    let port = made.places.port();
    let mut pools = Vec::new();
    for (used, called) in made.used.clone() {
        match backend(&sections, &used) {
            Some(section) => pools.push(backend::pool(section, &called, port, &mut draft)),
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
    draft.items.extend(made.places.listeners());
    draft.items.extend(pools);
    draft.items.extend(made.classes());
    draft.items.extend(std::mem::take(&mut made.policers));
    draft.items.extend([timeouts, limits].into_iter().filter(|item| !item.is_empty()));
    draft.items.extend(made.singles);
    draft.items.extend(made.rules);
    draft.finish(file)
}

/// The backend of a name.
fn backend<'s>(sections: &'s [Section], name: &str) -> Option<&'s Section> {
    sections.iter().rfind(|it| it.is_back() && it.name == name)
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
        (word, _) if section.kind == "global" && word.starts_with("ssl-default-bind-") => {
            draft.less_safe(&line.from, "is not taken over: TLS 1.2 and 1.3 are spoken, with the ciphers of rustls");
        }
        _ if section.kind == "global" && !is_harmless_globally(line) => {
            draft.less_safe(&line.from, "is not known here: see whether it keeps clients out");
        }
        _ => {}
    }
}
