//! `proxy_pass`: the pools that requests go to.

use super::super::draft::From;
use super::asked::SEVERAL;
use super::grammar::Directive;
use super::maps::Entry;
use super::server::{Condition, Here};

impl Here<'_> {
    /// Where `proxy_pass` goes: pools with what requests for them have to be. Those without a pool are refused. `at`: the path of its location,
    /// if requests are let pass there.
    pub(super) fn pools(
        &mut self,
        it: &Directive,
        at: Option<&str>,
    ) -> Vec<(Option<Condition>, Option<String>)> {
        let to = Target::of(it.argument(0));
        let variable = to.server.strip_prefix('$').map(|it| it.trim_matches(['{', '}']));
        let Some(map) = variable.and_then(|it| self.http.maps.get(it)) else {
            if to.server.contains('$') || to.scheme.contains('$') {
                self.draft.stricter(
                    &it.from,
                    "a server by a variable that no map sets: refused until you write rules with pool = …",
                );
                return vec![(None, None)];
            }
            return vec![(None, self.pool_of(&to, at, &it.from))];
        };
        let refuses = map.entries.iter().any(|it| to.with(&it.value).is_none())
            || map.entries.last().is_none_or(|it| it.matches.is_some());
        if map.is_inexact && refuses {
            self.draft.less_safe(&it.from, SEVERAL);
        }
        let by_parameter = |entry: &Entry| {
            entry.matches.as_ref().is_some_and(|(key, _)| key.starts_with("query."))
        };
        if map.entries.iter().any(by_parameter) {
            self.draft.note(&it.from, "rules decode parameters, see all of a name, and compare its case, where nginx takes the first as it is written, in any case: other requests get to these servers than in nginx");
        }
        let mut pools = Vec::new();
        for entry in map.entries.clone() {
            // By a variable any path is asked for as it is, whatever the client's.
            let address = to.with(&entry.value);
            let pool =
                address.and_then(|it| self.pool_of(&Target::of(&it), at.map(|_| ""), &entry.from));
            if pool.is_none() {
                self.draft.stricter(
                    &entry.from,
                    "names no server: refused until you write rules with pool = …",
                );
            }
            let condition = entry.matches.map(|(key, value)| (key, value, entry.from));
            pools.push((condition, pool));
        }
        if pools.last().is_none_or(|(condition, _)| condition.is_some()) {
            // What no entry names has no server.
            pools.push((None, None));
        }
        pools
    }

    /// The pool of an address without variables.
    fn pool_of(&mut self, to: &Target<'_>, at: Option<&str>, from: &From) -> Option<String> {
        let is_tls = to.scheme.eq_ignore_ascii_case("https");
        if is_tls {
            self.draft.less_safe(
                from,
                "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool",
            );
        }
        if !to.path.is_empty() && at.is_some_and(|at| at != to.path) {
            self.draft.less_safe(from, "the path is not rewritten: the server gets the client's path, and so others than nginx asks it for; let it take these, or keep nginx behind for it");
        }
        self.http.pool(to.server, if is_tls { 443 } else { 80 }, from)
    }
}

/// The parts of an address as `proxy_pass` has it.
struct Target<'t> {
    /// `http` or `https`; empty if none is there.
    scheme: &'t str,
    /// `host:port`, the name of an upstream, or `unix:/socket`.
    server: &'t str,
    /// The path that replaces the client's, or an empty one.
    path: &'t str,
}

impl<'t> Target<'t> {
    fn of(text: &'t str) -> Self {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        let (server, path) = match rest.strip_prefix("unix:") {
            // `unix:/socket:/path`.
            Some(socket) => match socket.split_once(':') {
                Some((socket, path)) => (&rest[.."unix:".len() + socket.len()], path),
                None => (rest, ""),
            },
            None => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        };
        // The client's path and query, as they are.
        let whole = ["$request_uri", "$uri$is_args$args", "$uri"];
        let cut = whole.iter().find_map(|it| server.strip_suffix(it)).filter(|it| !it.is_empty());
        Target { scheme, server: cut.unwrap_or(server), path }
    }

    /// The address with what a map sets the variable to that is its server; `None` if nginx could not read that, or it has variables of its own.
    fn with(&self, value: &str) -> Option<String> {
        let scheme = if self.scheme.is_empty() { "" } else { "://" };
        let whole = format!("{}{scheme}{value}{}", self.scheme, self.path);
        let to = Target::of(&whole);
        let is_scheme = ["http", "https"].iter().any(|it| to.scheme.eq_ignore_ascii_case(it));
        let is_server = !to.server.is_empty() && !to.path.starts_with("//");
        (is_scheme && is_server && !value.contains('$')).then_some(whole)
    }
}
