//! `server` and `location`: listeners and rules, in an order in which the first rule that matches is what nginx would choose.
//!
//! Source: nginx.org, "How nginx processes a request" and `location`: a server by exact name, the longest `*.name`, the default one; in it
//! `=`, the longest prefix if it is `^~`, regular expressions in order, else the longest prefix.

use super::super::draft::{Draft, From, Item, listed, literal, quoted};
use super::grammar::Directive;
use super::http::Http;
use super::listen::listen;
use super::reasons::why;
use std::collections::BTreeMap;

/// What the servers become.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) listeners: Vec<Item>,
    pub(super) resources: Vec<Item>,
    pub(super) policers: Vec<Item>,
    pub(super) rules: Vec<Item>,
    /// The names that policers and resources have already.
    pub(super) known: Vec<String>,
}

/// What inner levels inherit if they say nothing of their own.
#[derive(Clone, Default)]
pub(super) struct Inherited<'d> {
    pub(super) limit_req: Vec<&'d Directive>,
    pub(super) limit_conn: Vec<&'d Directive>,
    access: Vec<&'d Directive>,
    pub(super) status: Option<&'d Directive>,
    pub(super) dry_run: bool,
}

impl<'d> Inherited<'d> {
    fn within(&self, list: &'d [Directive]) -> Self {
        let of = |names: &[&str], outer: &[&'d Directive]| -> Vec<&'d Directive> {
            let own: Vec<_> = list.iter().filter(|it| names.contains(&it.name.as_str())).collect();
            if own.is_empty() { outer.to_vec() } else { own }
        };
        let last = |name: &str| list.iter().rfind(|it| it.name == name);
        Inherited {
            limit_req: of(&["limit_req"], &self.limit_req),
            limit_conn: of(&["limit_conn"], &self.limit_conn),
            access: of(&["allow", "deny"], &self.access),
            status: last("limit_req_status").or(self.status),
            dry_run: last("limit_req_dry_run").map_or(self.dry_run, |it| it.argument(0) == "on"),
        }
    }
}

/// A condition: key, value as TOML, where it comes from.
pub(super) type Condition = (String, String, From);

/// Listeners and rules of all `server` blocks.
pub(super) fn servers(list: &[Directive], http: &mut Http, draft: &mut Draft) -> Servers {
    let mut servers = Servers::default();
    let blocks: Vec<&Directive> = list.iter().filter(|it| it.name == "server").collect();
    let mut addresses: BTreeMap<String, Item> = BTreeMap::new();
    let listens: Vec<Vec<String>> =
        blocks.iter().map(|it| listen(it, &mut addresses, draft)).collect();
    servers.listeners = addresses.values().cloned().collect();
    // A default server for each set of addresses: the one that says so, or the first.
    let is_default = |index: usize| {
        let same: Vec<usize> =
            (0..blocks.len()).filter(|it| listens[*it] == listens[index]).collect();
        let says = |it: &usize| {
            blocks[*it].block.iter().any(|it| {
                it.name == "listen" && it.arguments.iter().any(|it| it.starts_with("default"))
            })
        };
        *same.iter().find(|it| says(it)).unwrap_or(&same[0]) == index
    };
    // Rank, then the longest names first.
    let mut heads: Vec<(usize, usize, usize, Vec<String>)> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let (mut exact, mut wild) = (Vec::new(), Vec::new());
        for line in block.block.iter().filter(|it| it.name == "server_name") {
            for text in &line.arguments {
                match text.as_str() {
                    "" | "_" => {}
                    it if it.starts_with('~') || it.ends_with(".*") => draft.note(
                        &line.from,
                        &format!(
                            "{it}: hosts are names or *.name: write [[rule]] with host by hand"
                        ),
                    ),
                    it => match it.strip_prefix('.') {
                        Some(rest) => {
                            exact.push(rest.to_owned());
                            wild.push(format!("*.{rest}"));
                        }
                        None if it.starts_with("*.") => wild.push(it.to_owned()),
                        None => exact.push(it.to_owned()),
                    },
                }
            }
        }
        if !exact.is_empty() {
            heads.push((0, 0, index, exact));
        }
        heads.extend(wild.into_iter().map(|it| (1, usize::MAX - it.len(), index, vec![it])));
        if is_default(index) {
            heads.push((2, 0, index, Vec::new()));
        }
    }
    heads.sort();
    let outer = Inherited::default().within(list);
    for (_, _, index, hosts) in heads {
        let block = blocks[index];
        let mut conditions: Vec<Condition> = Vec::new();
        if !hosts.is_empty() {
            conditions.push(("host".to_owned(), listed(&hosts), block.from.clone()));
        }
        if listens[index].len() < servers.listeners.len() {
            conditions.push(("listener".to_owned(), listed(&listens[index]), block.from.clone()));
        }
        let inherited = outer.within(&block.block);
        let mut here = Here { servers: &mut servers, http, draft };
        here.server(block, &conditions, &inherited);
    }
    servers
}

/// Where a server's rules are made.
pub(super) struct Here<'h> {
    pub(super) servers: &'h mut Servers,
    pub(super) http: &'h mut Http,
    pub(super) draft: &'h mut Draft,
}

impl Here<'_> {
    fn server(&mut self, block: &Directive, conditions: &[Condition], inherited: &Inherited<'_>) {
        let mut locations: Vec<(u8, usize, &Directive)> = Vec::new();
        for it in block.block.iter().filter(|it| it.name == "location") {
            let place = locations.len();
            let length = |path: &str| usize::MAX - path.len();
            match it.argument(0) {
                "=" => locations.push((0, place, it)),
                "^~" => locations.push((1, length(it.argument(1)), it)),
                "~" | "~*" => locations.push((2, place, it)),
                path if path.starts_with('@') => self.draft.note(
                    &it.from,
                    "a named location: errors of servers are answered by Tiergate itself",
                ),
                path => locations.push((3, length(path), it)),
            }
        }
        locations.sort_by_key(|(kind, order, _)| (*kind, *order));
        self.unlike(&block.block);
        for it in &block.block {
            let handled = [
                "listen",
                "server_name",
                "location",
                "limit_req",
                "limit_conn",
                "limit_req_status",
                "limit_conn_status",
                "limit_req_dry_run",
                "allow",
                "deny",
                "return",
                "proxy_pass",
                "access_log",
                "error_log",
                "root",
                "index",
                "server_tokens",
                "client_max_body_size",
            ];
            if !handled.contains(&it.name.as_str()) && !it.name.starts_with("ssl_") {
                self.draft.note(&it.from, why(&it.name));
            }
        }
        // In the server itself, `return` comes before any location.
        if let Some(it) = block.block.iter().find(|it| it.name == "return") {
            return self.refused(it, conditions);
        }
        let exact: Vec<&str> =
            locations.iter().filter(|it| it.0 == 0).map(|it| it.2.argument(1)).collect();
        let (mut is_whole, mut redirects) = (false, true);
        for (kind, _, it) in &locations {
            if *kind > 0 && std::mem::take(&mut redirects) {
                self.slashes(&locations, &exact, conditions);
            }
            let mut own = conditions.to_vec();
            match *kind {
                0 => {
                    own.push(("path".to_owned(), quoted(&literal(it.argument(1))), it.from.clone()))
                }
                2 => {
                    let flags = if it.argument(0) == "~*" { "(?i)" } else { "" };
                    own.push((
                        "path_regex".to_owned(),
                        quoted(&format!("{flags}{}", it.argument(1))),
                        it.from.clone(),
                    ));
                }
                _ => {
                    let path = it.arguments.last().map_or("", String::as_str);
                    is_whole |= path == "/";
                    if path != "/" {
                        own.push((
                            "path".to_owned(),
                            quoted(&format!("{}*", literal(path))),
                            it.from.clone(),
                        ));
                    }
                }
            }
            self.location(it, &own, inherited);
        }
        if !is_whole {
            let mut rule = self.rule(conditions);
            rule.remark(
                "refuse",
                404,
                "no location takes the other paths: nginx looks for files there",
            );
            self.servers.rules.push(rule);
        }
    }

    /// nginx sends clients that leave out the slash at the end of a location's path there, if it proxies.
    fn slashes(
        &mut self,
        locations: &[(u8, usize, &Directive)],
        exact: &[&str],
        conditions: &[Condition],
    ) {
        for (_, _, it) in locations.iter().filter(|it| matches!(it.0, 1 | 3)) {
            let path = it.arguments.last().map_or("", String::as_str);
            let Some(short) = path.strip_suffix('/').filter(|it| !it.is_empty()) else { continue };
            let proxies = it.block.iter().any(|it| it.name == "proxy_pass");
            if proxies && !exact.contains(&short) {
                let mut rule = self.rule(conditions);
                let from = From {
                    text: format!("{}, which redirects to its slash", it.from.text),
                    ..it.from.clone()
                };
                rule.key("path", quoted(&literal(short)), &from);
                rule.key(
                    "refuse",
                    format!("{{ status = 301, redirect = {} }}", quoted(path)),
                    &from,
                );
                self.servers.rules.push(rule);
            }
        }
    }

    /// What a location says that holds for all servers here.
    fn unlike(&mut self, list: &[Directive]) {
        for it in list.iter().filter(|it| it.name == "client_max_body_size") {
            self.draft.note(&it.from, "limits.request_body_max holds for all requests: set the largest there, and let the origin refuse");
        }
    }

    fn location(&mut self, it: &Directive, conditions: &[Condition], outer: &Inherited<'_>) {
        let inherited = outer.within(&it.block);
        self.unlike(&it.block);
        let mut target = None;
        for line in &it.block {
            match line.name.as_str() {
                "proxy_pass" => target = Some(line),
                "return" => return self.refused(line, conditions),
                "location" => self.draft.note(
                    &line.from,
                    "locations in locations: write a [[rule]] with this path before the other's",
                ),
                "limit_req"
                | "limit_conn"
                | "limit_req_status"
                | "limit_conn_status"
                | "limit_req_dry_run"
                | "allow"
                | "deny"
                | "client_max_body_size"
                | "access_log" => {}
                name => self.draft.note(&line.from, why(name)),
            }
        }
        let Some(target) = target else {
            let mut rule = self.rule(conditions);
            rule.key("refuse", 404, &it.from);
            self.servers.rules.push(rule);
            self.draft.note(&it.from, "nothing is proxied here: Tiergate serves no files; name the server that does, as its pool");
            return;
        };
        let pools = self.pools(target);
        let policed = self.police(&inherited);
        let resource = self.resource(&inherited, &pools);
        let admit = |here: &mut Self, further: Option<Condition>| {
            for (condition, pool) in &pools {
                for (exempt, police, from) in &policed {
                    let mut rule = here.rule(conditions);
                    for (key, value, from) in further.iter().chain(condition).chain(exempt) {
                        if rule.has(key) {
                            here.draft.note(
                                from,
                                "two conditions of the same kind: write this rule by hand",
                            );
                            return;
                        }
                        rule.key(key, value, from);
                    }
                    rule.key("class", "\"default\"", &it.from);
                    rule.key("pool", quoted(pool), &target.from);
                    rule.key("police", police, from);
                    match &resource {
                        Some((name, from)) => rule.key("resource", quoted(name), from),
                        None if here.http.connection_zones.values().any(|all| *all) => {
                            rule.remark("resource", false, "no limit_conn of all requests here");
                        }
                        None => {}
                    }
                    here.servers.rules.push(rule);
                }
            }
        };
        for line in &inherited.access {
            let who = line.argument(0);
            let client =
                (who != "all").then(|| ("client".to_owned(), quoted(who), line.from.clone()));
            if line.name == "allow" {
                admit(self, client);
            } else {
                let mut rule = self.rule(conditions);
                if let Some((key, value, from)) = client {
                    rule.key(&key, value, &from);
                }
                rule.key("refuse", true, &line.from);
                self.servers.rules.push(rule);
            }
            if who == "all" {
                return;
            }
        }
        admit(self, None);
    }

    fn rule(&self, conditions: &[Condition]) -> Item {
        let mut rule = Item::new("[[rule]]");
        for (key, value, from) in conditions {
            rule.key(key, value, from);
        }
        rule
    }

    /// `return`.
    fn refused(&mut self, it: &Directive, conditions: &[Condition]) {
        let mut rule = self.rule(conditions);
        let (code, text) = match it.arguments.len() {
            1 if it.argument(0).contains("://") => ("302", it.argument(0)),
            _ => (it.argument(0), it.argument(1)),
        };
        match code {
            "403" | "404" | "410" | "451" | "429" | "503" => rule.key("refuse", code, &it.from),
            "301" | "302" | "303" | "307" | "308" if !text.contains('$') => {
                rule.key(
                    "refuse",
                    format!("{{ status = {code}, redirect = {} }}", quoted(text)),
                    &it.from,
                );
            }
            "301" | "302" | "303" | "307" | "308" => {
                self.draft.note(
                    &it.from,
                    "redirects to addresses made of the request: let the origin send them",
                );
                return;
            }
            "444" => {
                rule.key("refuse", 403, &it.from);
                self.draft.note(&it.from, "closes without an answer: it is refused by 403; refusal.connection = \"reset\" closes all refused connections");
            }
            _ => {
                rule.key("refuse", 404, &it.from);
                self.draft.note(&it.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: let the origin answer; until then 404");
            }
        }
        self.servers.rules.push(rule);
    }

    /// Where `proxy_pass` goes: pools with what requests for them have to be.
    fn pools(&mut self, it: &Directive) -> Vec<(Option<Condition>, String)> {
        let text = it.argument(0);
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        if scheme != "http" {
            self.draft.note(
                &it.from,
                "TLS to servers is not taken over, and the policy sends plain HTTP: add tls = true to [origin] or the pool",
            );
        }
        let (target, path) = match rest.find('/').filter(|_| !rest.starts_with("unix:")) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if !path.is_empty() {
            self.draft
                .note(&it.from, "the path is not rewritten: the server gets the client's path");
        }
        if let Some(variable) = target.strip_prefix('$') {
            let Some(map) = self.http.maps.get(variable) else {
                self.draft.note(
                    &it.from,
                    "a server by a variable that no map sets: write rules with pool = …",
                );
                return Vec::new();
            };
            let (key, entries) = (map.key.clone(), map.entries.clone());
            let pool = |entry: super::http::Entry| {
                let pool = self.http.pool(&entry.value, &entry.from)?;
                Some((entry.matches.map(|it| (key.clone(), it, entry.from)), pool))
            };
            return entries.into_iter().filter_map(pool).collect();
        }
        self.http.pool(target, &it.from).map(|pool| (None, pool)).into_iter().collect()
    }
}
