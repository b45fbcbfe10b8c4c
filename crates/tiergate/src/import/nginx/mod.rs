//! nginx's configuration, and the policy that means the same for what both have: upstreams, servers by name and address, locations, maps,
//! limits of rates, refusals.

mod access;
mod asked;
mod bodies;
mod expression;
mod grammar;
mod http;
mod inherited;
mod limits;
mod listen;
mod location;
mod lua;
mod maps;
mod named;
mod names;
mod pools;
mod reasons;
mod rewrite;
mod served;
mod server;

use super::draft::{Draft, From, ImportFault, Imported, Item, quoted};
use grammar::{Directive, Open};
use http::Http;

/// The policy of a configuration file. `open` reads what `include` names.
///
/// # Errors
/// The first line that cannot be read; or that nothing is left that makes a policy.
pub fn policy(text: &str, file: &str, open: Open<'_>) -> Result<Imported, ImportFault> {
    let directives = grammar::read(text, file, open)?;
    let mut draft = Draft::new(&format!("{file}, of nginx"));
    let mut list: Vec<Directive> = Vec::new();
    for it in directives {
        match it.name.as_str() {
            "http" => list.extend(it.block),
            "stream" | "mail" => {
                draft.note(&it.from, "Tiergate speaks HTTP only: keep nginx for it")
            }
            name if MAIN.contains(&name) => {}
            // A file of conf.d, which is read within `http`.
            _ => list.push(it),
        }
    }
    // Maps before the zones that count by them.
    list.sort_by_key(|it| it.name != "map");
    let mut http = Http::read(&list, &mut draft);
    let (mut timeouts, mut limits) = (Item::new("[timeouts]"), Item::new("[limits]"));
    for it in &list {
        common(it, &mut timeouts, &mut draft);
    }
    bodies::limit(&list, &mut limits, &mut draft);
    asked::redefined(&list, &mut draft);
    let servers = server::servers(&list, &mut http, &mut draft);
    if servers.listeners.is_empty() && list.iter().any(|it| it.name == "server") {
        let message = "has no `listen` that can be taken over: write an address with a port, and TLS with its certificate";
        return Err(ImportFault { file: file.to_owned(), line: 1, message: message.to_owned() });
    }
    let Some(first) = http.used.first().cloned() else {
        if let Some(it) = named::named(&list) {
            let message = format!(
                "has a proxy_pass in {} alone, and no try_files that goes on there: write a policy with its server as [origin] by hand",
                it.from.text
            );
            return Err(it.from.fault(message));
        }
        let message = "has no proxy_pass, and so no server that Tiergate could protect: serve files by nginx, and write its address into [origin]";
        return Err(ImportFault { file: file.to_owned(), line: 1, message: message.to_owned() });
    };
    draft.items.extend(servers.listeners);
    for (index, target) in http.used.clone().iter().enumerate() {
        let upstream = &http.upstreams[target];
        let mut item = Item::new(if index == 0 { "[origin]" } else { "[[pool]]" });
        if *target != first {
            item.key("name", quoted(&upstream.pool), &upstream.from);
        }
        let addresses: Vec<&str> = upstream.servers.iter().map(|(it, _)| it.as_str()).collect();
        let from = upstream.servers.iter().map(|(_, from)| from.text.as_str()).collect::<Vec<_>>();
        let from = From { text: from.join("; "), ..upstream.from.clone() };
        item.key(
            "servers",
            format!("[{}]", addresses.iter().map(|it| quoted(it)).collect::<Vec<_>>().join(", ")),
            &from,
        );
        draft.items.push(item);
    }
    let mut class = Item::new("[[class]]");
    class.remark(
        "name",
        "\"default\"",
        "nginx has no classes: put those that matter most before it",
    );
    draft.items.push(class);
    draft.items.extend(servers.resources);
    draft.items.extend(servers.policers);
    draft.items.extend([timeouts, limits].into_iter().filter(|item| !item.is_empty()));
    let foremost = foremost(&servers.rules, &mut draft);
    draft.items.extend(foremost);
    draft.items.extend(servers.rules);
    draft.finish(file)
}

/// Directives that stand outside of `http`.
const MAIN: [&str; 19] = [
    "events",
    "user",
    "pid",
    "worker_processes",
    "worker_rlimit_nofile",
    "worker_rlimit_core",
    "worker_priority",
    "worker_cpu_affinity",
    "worker_shutdown_timeout",
    "daemon",
    "master_process",
    "env",
    "thread_pool",
    "load_module",
    "pcre_jit",
    "timer_resolution",
    "lock_file",
    "ssl_engine",
    "working_directory",
];

/// What nginx refuses whatever its configuration, or rules would see otherwise: it comes before all other rules.
fn foremost(rules: &[Item], draft: &mut Draft) -> Vec<Item> {
    let mut list = Vec::new();
    let mut refuse = |key: &str, value: &str, why: &str| {
        let mut rule = Item::new("[[rule]]");
        rule.remark(key, quoted(value), why);
        rule.remark("refuse", 404, why);
        list.push(rule);
    };
    refuse("method", "TRACE", "nginx answers TRACE by 405");
    refuse("path_regex", "^[^/]", "nginx answers OPTIONS * by 400");
    if rules.iter().any(|it| it.has("path_regex")) {
        let why = "expressions see %25 in a path as it is, and nginx's see %";
        refuse("path_regex", "%", why);
        let from = From { text: "%25 in paths".to_owned(), ..From::default() };
        draft.stricter(
            &from,
            &format!("{why}: refused, until you know that no rule with path_regex depends on it"),
        );
    }
    list
}

/// A directive that holds for all servers.
fn common(it: &Directive, timeouts: &mut Item, draft: &mut Draft) {
    let keys: &[&str] = match it.name.as_str() {
        "keepalive_timeout" => &["idle"],
        "client_header_timeout" => &["request_head"],
        "client_body_timeout" => &["request_body"],
        "send_timeout" => &["write"],
        "proxy_connect_timeout" => &["connect"],
        "proxy_read_timeout" => &["response_head", "response_body"],
        _ => return reasons::left_out(it, draft),
    };
    let Some(time) = time(it.argument(0)) else {
        return draft.note(&it.from, "must be a time such as 30s, and more than 0");
    };
    for key in keys.iter().filter(|key| !timeouts.has(key)).copied().collect::<Vec<_>>() {
        timeouts.key(key, quoted(&time), &it.from);
    }
}

/// A time as policies write it.
fn time(text: &str) -> Option<String> {
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok().filter(|it| *it > 0)?;
    let unit = match unit {
        "" => "s",
        "ms" | "s" | "m" | "h" => unit,
        _ => return None,
    };
    Some(format!("{number}{unit}"))
}
