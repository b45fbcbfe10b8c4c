//! `proxy_pass`: the pools that requests go to.

use super::asked::SEVERAL;
use super::grammar::Directive;
use super::server::{Condition, Here};

impl Here<'_> {
    /// Where `proxy_pass` goes: pools with what requests for them have to be. Those without a pool are refused. `at`: the path of its location,
    /// if requests are let pass there.
    pub(super) fn pools(
        &mut self,
        it: &Directive,
        at: Option<&str>,
    ) -> Vec<(Option<Condition>, Option<String>)> {
        let text = it.argument(0);
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        if scheme != "http" {
            self.draft.less_safe(
                &it.from,
                "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool",
            );
        }
        let (target, path) = match rest.find('/').filter(|_| !rest.starts_with("unix:")) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        // The client's path and query, as they are.
        let whole = ["$request_uri", "$uri$is_args$args", "$uri"];
        let cut = whole.iter().find_map(|it| target.strip_suffix(it)).filter(|it| !it.is_empty());
        let target = cut.unwrap_or(target);
        if !path.is_empty() && at.is_some_and(|at| at != path) {
            self.draft.less_safe(&it.from, "the path is not rewritten: the server gets the client's path, and so others than nginx asks it for; let it take these, or keep nginx behind for it");
        }
        let variable = target.strip_prefix('$').map(|it| it.trim_matches(['{', '}']));
        let map = variable.and_then(|it| self.http.maps.get(it));
        let entries = match (map, target.contains('$') || scheme.contains('$')) {
            (Some(map), _) => {
                let refuses = map.entries.iter().any(|it| !is_fixed(&it.value))
                    || map.entries.last().is_none_or(|it| it.matches.is_some());
                if map.is_inexact && refuses {
                    self.draft.less_safe(&it.from, SEVERAL);
                }
                map.entries.clone()
            }
            (None, false) => {
                return vec![(None, self.http.pool(target, &it.from))];
            }
            (None, true) => {
                self.draft.stricter(
                    &it.from,
                    "a server by a variable that no map sets: refused until you write rules with pool = …",
                );
                return vec![(None, None)];
            }
        };
        let mut pools = Vec::new();
        for entry in entries {
            let value = entry.value.as_str();
            let pool = if is_fixed(value) { self.http.pool(value, &entry.from) } else { None };
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
}

/// Whether a value of a map is a server.
fn is_fixed(value: &str) -> bool {
    !value.is_empty() && !value.contains('$')
}
