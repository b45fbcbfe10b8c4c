//! nginx's configuration, and the policy that means the same for what both have: upstreams, servers by name and address, locations, maps,
//! limits of rates, refusals.

mod access;
mod grammar;
mod http;
mod inherited;
mod limits;
mod listen;
mod location;
mod pools;
mod reasons;
mod rewrite;
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
            // A file of conf.d, which is read within `http`.
            "server" | "upstream" | "map" | "limit_req_zone" | "limit_conn_zone" => list.push(it),
            "events"
            | "user"
            | "pid"
            | "worker_processes"
            | "worker_rlimit_nofile"
            | "error_log" => {}
            "stream" | "mail" => {
                draft.note(&it.from, "Tiergate speaks HTTP only: keep nginx for it")
            }
            _ => draft.note(&it.from, "has no counterpart: leave it out"),
        }
    }
    // Maps before the zones that count by them.
    list.sort_by_key(|it| it.name != "map");
    let mut http = Http::read(&list, &mut draft);
    let (mut timeouts, mut limits) = (Item::new("[timeouts]"), Item::new("[limits]"));
    for it in &list {
        common(it, &mut timeouts, &mut limits, &mut draft);
    }
    let servers = server::servers(&list, &mut http, &mut draft);
    if servers.listeners.is_empty() && list.iter().any(|it| it.name == "server") {
        let message = "has no `listen` that can be taken over: write an address with a port, and TLS with its certificate";
        return Err(ImportFault { file: file.to_owned(), line: 1, message: message.to_owned() });
    }
    let Some(first) = http.used.first().cloned() else {
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
    draft.items.extend(servers.rules);
    draft.finish(file)
}

/// A directive that holds for all servers.
fn common(it: &Directive, timeouts: &mut Item, limits: &mut Item, draft: &mut Draft) {
    let known = [
        "map",
        "upstream",
        "server",
        "limit_req_zone",
        "limit_conn_zone",
        "limit_req",
        "limit_conn",
        "limit_req_status",
        "limit_conn_status",
        "limit_req_dry_run",
        "allow",
        "deny",
        "satisfy",
        "ssl",
    ];
    let unimportant = [
        "sendfile",
        "tcp_nopush",
        "tcp_nodelay",
        "types_hash_max_size",
        "default_type",
        "types",
        "server_tokens",
        "server_names_hash_bucket_size",
        "access_log",
        "error_log",
        "log_format",
        "client_body_temp_path",
        "proxy_temp_path",
        "fastcgi_temp_path",
        "uwsgi_temp_path",
        "scgi_temp_path",
        "variables_hash_max_size",
    ];
    let keys: &[&str] = match it.name.as_str() {
        "keepalive_timeout" => &["idle"],
        "client_header_timeout" => &["request_head"],
        "client_body_timeout" => &["request_body"],
        "send_timeout" => &["write"],
        "proxy_connect_timeout" => &["connect"],
        "proxy_read_timeout" => &["response_head", "response_body"],
        "client_max_body_size" => {
            match size(it.argument(0)) {
                Some(size) => limits.key("request_body_max", size, &it.from),
                None => draft.note(&it.from, "must be a size such as 10m"),
            }
            return;
        }
        name if name.starts_with("ssl_") => return listen::tls_notes(it, draft),
        name if inherited::GUARDS.contains(&name) => return,
        name if known.contains(&name) || unimportant.contains(&name) => return,
        _ => return draft.note(&it.from, reasons::why(&it.name)),
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

/// A size in bytes; 0 is no bound.
fn size(text: &str) -> Option<u64> {
    let digits = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}
