//! `server` and `location`: listeners and rules, in an order in which the first rule that matches is what nginx would choose.
//!
//! Source: nginx.org, "How nginx processes a request" and `location`: a server by exact name, the longest `*.name`, the default one; in it
//! `=`, the longest prefix if it is `^~`, regular expressions in order, else the longest prefix.

use super::super::draft::{Draft, From, Item, listed, literal, quoted};
use super::grammar::Directive;
use super::http::{Http, key_of};
use super::listen::{listeners, tls_notes};
use super::reasons::why;

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
    pub(super) access: Vec<&'d Directive>,
    /// What asks for a password or another's consent.
    pub(super) guard: Option<&'d Directive>,
    /// Whether addresses that are allowed are not asked.
    pub(super) satisfy_any: bool,
    pub(super) status: Option<&'d Directive>,
    pub(super) dry_run: bool,
}

impl<'d> Inherited<'d> {
    pub(super) fn within(&self, list: &'d [Directive]) -> Self {
        let of = |names: &[&str], outer: &[&'d Directive]| -> Vec<&'d Directive> {
            let own: Vec<_> = list.iter().filter(|it| names.contains(&it.name.as_str())).collect();
            if own.is_empty() { outer.to_vec() } else { own }
        };
        let last = |name: &str| list.iter().rfind(|it| it.name == name);
        let own = list.iter().filter(|it| GUARDS.contains(&it.name.as_str()));
        let guard = own.fold(self.guard, |before, it| match it.argument(0) {
            // Each kind is switched off for itself.
            "off" => before.filter(|before| before.name != it.name),
            _ => Some(it),
        });
        Inherited {
            guard,
            satisfy_any: last("satisfy").map_or(self.satisfy_any, |it| it.argument(0) == "any"),
            limit_req: of(&["limit_req"], &self.limit_req),
            limit_conn: of(&["limit_conn"], &self.limit_conn),
            access: of(&["allow", "deny"], &self.access),
            status: last("limit_req_status").or(self.status),
            dry_run: last("limit_req_dry_run").map_or(self.dry_run, |it| it.argument(0) == "on"),
        }
    }
}

/// Directives that let pass only requests with a password, or with the consent of another server.
pub(super) const GUARDS: [&str; 4] = ["auth_basic", "auth_request", "auth_jwt", "auth_oidc"];

/// A condition: key, value as TOML, where it comes from.
pub(super) type Condition = (String, String, From);

/// Listeners and rules of all `server` blocks.
pub(super) fn servers(list: &[Directive], http: &mut Http, draft: &mut Draft) -> Servers {
    let mut servers = Servers::default();
    let blocks: Vec<&Directive> = list.iter().filter(|it| it.name == "server").collect();
    let found = listeners(&blocks, list, draft);
    let listens = found.addresses;
    servers.listeners = found.items;
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
        if listens[index].is_empty() {
            continue;
        }
        let (mut exact, mut wild) = (Vec::new(), Vec::new());
        for line in block.block.iter().filter(|it| it.name == "server_name") {
            for text in &line.arguments {
                match text.as_str() {
                    "" | "_" => {}
                    it if it.starts_with('~') || it.ends_with(".*") => draft.less_safe(
                        &line.from,
                        &format!(
                            "{it}: hosts are names or *.name, and these get the rules of the default server: write [[rule]] with host by hand"
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
        if let Some(from) = &found.closed[index] {
            here.refuse(&conditions, from);
            here.keep_pools(&block.block);
            continue;
        }
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
                "satisfy",
                "return",
                "if",
                "rewrite",
                "proxy_pass",
                "access_log",
                "error_log",
                "root",
                "index",
                "server_tokens",
                "client_max_body_size",
            ];
            match it.name.as_str() {
                "ssl" => {}
                name if handled.contains(&name) || GUARDS.contains(&name) => {}
                name if name.starts_with("ssl_") => tls_notes(it, self.draft),
                name => self.draft.note(&it.from, why(name)),
            }
        }
        // In the server itself, `return` and `rewrite` come before any location.
        let (outer, mut conditions) = (conditions, conditions.to_vec());
        let Some(others) = self.rewritten(&block.block, &mut conditions) else {
            return self.keep_pools(&block.block);
        };
        if !self.locations(&block.block, &conditions, inherited) {
            let mut rule = self.rule(&conditions);
            rule.remark(
                "refuse",
                404,
                "no location takes the other paths: nginx looks for files there",
            );
            self.servers.rules.push(rule);
        }
        if let Some(answer) = others {
            self.refused(answer, outer);
        }
    }

    /// The locations of a server or location, in the order in which nginx chooses. Whether one takes everything.
    fn locations(
        &mut self,
        list: &[Directive],
        conditions: &[Condition],
        inherited: &Inherited<'_>,
    ) -> bool {
        let mut locations: Vec<(u8, usize, &Directive)> = Vec::new();
        for it in list.iter().filter(|it| it.name == "location") {
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
        let exact: Vec<&str> =
            locations.iter().filter(|it| it.0 == 0).map(|it| it.2.argument(1)).collect();
        let (mut is_whole, mut redirects) = (false, true);
        for (kind, _, it) in &locations {
            if *kind > 0 && std::mem::take(&mut redirects) {
                self.slashes(&locations, &exact, conditions);
            }
            // A path within a path is the longer one.
            let mut own: Vec<Condition> =
                conditions.iter().filter(|it| *kind == 2 || it.0 != "path").cloned().collect();
            match *kind {
                0 => {
                    own.push(("path".to_owned(), quoted(&literal(it.argument(1))), it.from.clone()))
                }
                2 if own.iter().any(|it| it.0 == "path_regex") => {
                    self.refuse(conditions, &it.from);
                    self.draft.stricter(&it.from, "a regular expression within another: the outer location refuses everything until you write its rules");
                    self.keep_pools(&it.block);
                    continue;
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
        is_whole
    }

    /// nginx sends clients that leave out the slash at the end of a location's path there, if it proxies.
    fn slashes(
        &mut self,
        locations: &[(u8, usize, &Directive)],
        exact: &[&str],
        conditions: &[Condition],
    ) {
        let conditions: Vec<_> = conditions.iter().filter(|it| it.0 != "path").cloned().collect();
        for (_, _, it) in locations.iter().filter(|it| matches!(it.0, 1 | 3)) {
            let path = it.arguments.last().map_or("", String::as_str);
            let Some(short) = path.strip_suffix('/').filter(|it| !it.is_empty()) else { continue };
            let proxies = it.block.iter().any(|it| it.name == "proxy_pass");
            if proxies && !exact.contains(&short) {
                let mut rule = self.rule(&conditions);
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
            self.draft.less_safe(&it.from, "limits.request_body_max holds for all requests: set the largest there, and let the origin refuse");
        }
    }

    fn location(&mut self, it: &Directive, conditions: &[Condition], outer: &Inherited<'_>) {
        let inherited = outer.within(&it.block);
        self.unlike(&it.block);
        self.locations(&it.block, conditions, &inherited);
        let (mut target, mut except) = (None, None);
        for line in &it.block {
            match line.name.as_str() {
                "proxy_pass" => target = Some(line),
                "limit_except" => except = Some(line),
                "internal" => {
                    self.refuse(conditions, &line.from);
                    return self.keep_pools(&it.block);
                }
                "return"
                | "if"
                | "rewrite"
                | "location"
                | "limit_req"
                | "limit_conn"
                | "limit_req_status"
                | "limit_conn_status"
                | "limit_req_dry_run"
                | "allow"
                | "deny"
                | "satisfy"
                | "client_max_body_size"
                | "access_log" => {}
                name if GUARDS.contains(&name) => {}
                name => self.draft.note(&line.from, why(name)),
            }
        }
        let (outer, mut conditions) = (conditions, conditions.to_vec());
        let Some(others) = self.rewritten(&it.block, &mut conditions) else {
            return self.keep_pools(&it.block);
        };
        let Some(target) = target else {
            self.refuse(outer, &it.from);
            self.draft.stricter(&it.from, "nothing is proxied here: Tiergate serves no files; name the server that does, as its pool");
            return;
        };
        let serving = Serving {
            pools: self.pools(target),
            policed: self.police(&inherited),
            resource: None,
            location: it,
            target,
        };
        let resource = self.resource(&inherited, &serving.pools);
        let serving = Serving { resource, ..serving };
        if let Some(except) = except {
            let mut methods = except.arguments.clone();
            if methods.iter().any(|it| it == "GET") {
                methods.push("HEAD".to_owned());
            }
            let mut named = conditions.clone();
            if named.iter().all(|it| it.0 != "method") {
                named.push(("method".to_owned(), listed(&methods), except.from.clone()));
            }
            self.access(&named, &inherited, &serving);
            self.access(&conditions, &inherited.within(&except.block), &serving);
        } else {
            self.access(&conditions, &inherited, &serving);
        }
        if let Some(answer) = others {
            self.refused(answer, outer);
        }
    }

    /// `return`, `if` and `rewrite`, in order, with what further conditions the requests have that go on, and the answer to all others.
    /// `None` if none goes on.
    fn rewritten<'d>(
        &mut self,
        list: &'d [Directive],
        conditions: &mut Vec<Condition>,
    ) -> Option<Option<&'d Directive>> {
        let mut others = None;
        for it in list {
            match it.name.as_str() {
                "return" => {
                    self.refused(it, conditions);
                    if let Some(answer) = others {
                        conditions.pop();
                        self.refused(answer, conditions);
                    }
                    return None;
                }
                "rewrite" if redirects(it) => {
                    self.draft.stricter(&it.from, "redirects to addresses made of the request: refused until the origin sends them");
                    let mut own = conditions.clone();
                    let is_whole = [
                        "^", "^/", ".*", "^.*", "^.*$", "(.*)", "^(.*)", "^(.*)$", "^/(.*)",
                        "^/(.*)$",
                    ]
                    .contains(&it.argument(0));
                    if !is_whole && own.iter().all(|it| it.0 != "path_regex") {
                        own.push((
                            "path_regex".to_owned(),
                            quoted(it.argument(0)),
                            it.from.clone(),
                        ));
                    }
                    self.refuse(&own, &it.from);
                    if own.len() == conditions.len() {
                        if others.is_some() {
                            conditions.pop();
                            self.refuse(conditions, &it.from);
                        }
                        return None;
                    }
                }
                "rewrite" => self.draft.note(&it.from, why("rewrite")),
                "if" => self.when(it, conditions, &mut others)?,
                _ => {}
            }
        }
        Some(others)
    }

    /// `if`. `None` if everything is refused because of it.
    fn when<'d>(
        &mut self,
        it: &'d Directive,
        conditions: &mut Vec<Condition>,
        others: &mut Option<&'d Directive>,
    ) -> Option<()> {
        let text = it.arguments.join(" ");
        let answer = it.block.iter().find(|it| it.name == "return" || redirects(it));
        let Some(answer) = answer else {
            self.draft.note(&it.from, why("if"));
            return Some(());
        };
        let is_kept = ["scheme", "https", "server_port"].iter().all(|it| !text.contains(it));
        if is_kept && (answer.name == "rewrite" || is_redirect(answer)) {
            self.draft.note(&it.from, why("if"));
            return Some(());
        }
        let condition = asked(&text).filter(|(_, key, _)| conditions.iter().all(|it| it.0 != *key));
        match condition {
            Some((true, key, value)) => {
                let mut own = conditions.clone();
                own.push((key, value, it.from.clone()));
                self.refused(answer, &own);
            }
            // What is not so goes on; one such condition is enough to keep.
            Some((false, key, value)) if others.is_none() => {
                conditions.push((key, value, it.from.clone()));
                *others = Some(answer);
            }
            _ => {
                if others.is_some() {
                    conditions.pop();
                }
                self.refuse(conditions, &answer.from);
                self.draft.stricter(&it.from, "rules have conditions, but none for this: everything is refused here until you write a [[rule]] for what it refuses");
                return None;
            }
        }
        Some(())
    }

    /// The rules of clients that may, and of those that may not.
    fn access(
        &mut self,
        conditions: &[Condition],
        inherited: &Inherited<'_>,
        serving: &Serving<'_>,
    ) {
        if let Some(guard) = inherited.guard.filter(|_| !inherited.satisfy_any) {
            self.refuse(conditions, &guard.from);
            return self.draft.stricter(&guard.from, "clients are recognised by [[key]] and [token], and passwords are for the origin: refused until a rule lets pass what may");
        }
        for line in &inherited.access {
            let who = line.argument(0);
            let client =
                (who != "all").then(|| ("client".to_owned(), quoted(who), line.from.clone()));
            if line.name == "allow" {
                self.admit(conditions, client, serving);
            } else {
                let mut rule = self.rule(conditions);
                match client {
                    Some((key, ..)) if rule.has(&key) => {}
                    Some((key, value, from)) => rule.key(&key, value, &from),
                    None => {}
                }
                rule.key("refuse", true, &line.from);
                self.servers.rules.push(rule);
            }
            if who == "all" {
                return;
            }
        }
        match inherited.guard {
            Some(guard) => {
                self.refuse(conditions, &guard.from);
                self.draft.stricter(&guard.from, "clients are recognised by [[key]] and [token], and passwords are for the origin: refused until a rule lets pass what may");
            }
            None => self.admit(conditions, None, serving),
        }
    }

    /// The rules of clients that may.
    fn admit(
        &mut self,
        conditions: &[Condition],
        further: Option<Condition>,
        serving: &Serving<'_>,
    ) {
        for (condition, pool) in &serving.pools {
            for (exempt, police, from) in &serving.policed {
                let mut rule = self.rule(conditions);
                for (key, value, from) in further.iter().chain(condition).chain(exempt) {
                    if rule.has(key) {
                        self.refuse(conditions, from);
                        return self.draft.stricter(
                            from,
                            "two conditions of the same kind: refused until you write these rules by hand",
                        );
                    }
                    rule.key(key, value, from);
                }
                rule.key("class", "\"default\"", &serving.location.from);
                match pool {
                    Some(pool) => rule.key("pool", quoted(pool), &serving.target.from),
                    None => {
                        rule.key("refuse", 404, &serving.target.from);
                        self.servers.rules.push(rule);
                        break;
                    }
                }
                rule.key("police", police, from);
                match &serving.resource {
                    Some((name, from)) => rule.key("resource", quoted(name), from),
                    None if self.http.connection_zones.values().any(|all| *all) => {
                        rule.remark("resource", false, "no limit_conn of all requests here");
                    }
                    None => {}
                }
                self.servers.rules.push(rule);
            }
        }
    }

    fn rule(&self, conditions: &[Condition]) -> Item {
        let mut rule = Item::new("[[rule]]");
        for (key, value, from) in conditions {
            rule.key(key, value, from);
        }
        rule
    }

    /// A rule that refuses.
    fn refuse(&mut self, conditions: &[Condition], from: &From) {
        let mut rule = self.rule(conditions);
        rule.key("refuse", 404, from);
        self.servers.rules.push(rule);
    }

    /// The servers of what is refused stay in the policy: it is to be completed by hand.
    fn keep_pools(&mut self, list: &[Directive]) {
        for it in list {
            match it.name.as_str() {
                "proxy_pass" => {
                    self.pools(it);
                }
                _ => self.keep_pools(&it.block),
            }
        }
    }

    /// `return`.
    fn refused(&mut self, it: &Directive, conditions: &[Condition]) {
        let mut rule = self.rule(conditions);
        let (code, text) = code_and_text(it);
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
                rule.key("refuse", 404, &it.from);
                self.draft.stricter(
                    &it.from,
                    "redirects to addresses made of the request: refused until the origin sends them, or a redirect to a fixed address stands there",
                );
            }
            "444" => {
                rule.key("refuse", 403, &it.from);
                self.draft.note(&it.from, "closes without an answer: it is refused by 403; refusal.connection = \"reset\" closes all refused connections");
            }
            _ => {
                rule.key("refuse", 404, &it.from);
                self.draft.stricter(&it.from, "Tiergate answers by no other status than 403, 404, 410, 451, 429, 503 and redirects: let the origin answer; until then 404");
            }
        }
        self.servers.rules.push(rule);
    }

    /// Where `proxy_pass` goes: pools with what requests for them have to be. Those without a pool are refused.
    fn pools(&mut self, it: &Directive) -> Vec<(Option<Condition>, Option<String>)> {
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
        if !path.is_empty() {
            self.draft
                .note(&it.from, "the path is not rewritten: the server gets the client's path");
        }
        let variable = target.strip_prefix('$').map(|it| it.trim_matches(['{', '}']));
        let map = variable.and_then(|it| self.http.maps.get(it));
        let entries = match (map, target.contains('$') || scheme.contains('$')) {
            (Some(map), _) => map.entries.clone(),
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
            let is_fixed = !value.is_empty() && !value.contains('$');
            let pool = if is_fixed { self.http.pool(value, &entry.from) } else { None };
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

/// What a location does with requests that it admits.
struct Serving<'d> {
    pools: Vec<(Option<Condition>, Option<String>)>,
    policed: Vec<(Option<Condition>, String, From)>,
    resource: Option<(String, From)>,
    location: &'d Directive,
    target: &'d Directive,
}

fn code_and_text(it: &Directive) -> (&str, &str) {
    match it.arguments.len() {
        1 if it.argument(0).contains("://") => ("302", it.argument(0)),
        _ => (it.argument(0), it.argument(1)),
    }
}

fn is_redirect(it: &Directive) -> bool {
    it.name == "return" && code_and_text(it).0.starts_with('3')
}

/// Whether a `rewrite` ends in a redirect.
fn redirects(it: &Directive) -> bool {
    let to = it.argument(1);
    let flag = matches!(it.argument(2), "permanent" | "redirect");
    it.name == "rewrite"
        && (flag
            || to.starts_with("http://")
            || to.starts_with("https://")
            || to.starts_with("$scheme"))
}

/// The condition of an `if`, if a rule can have it: whether it holds for what is answered or for all else, its key and value.
fn asked(text: &str) -> Option<(bool, String, String)> {
    let text = text.strip_prefix('(')?.strip_suffix(')')?.trim();
    let mut words = text.splitn(3, ' ');
    let (variable, operator, value) = (words.next()?, words.next()?, words.next()?.trim());
    if (variable, operator, value) == ("$ssl_client_verify", "!=", "SUCCESS") {
        return Some((false, "certificate".to_owned(), "true".to_owned()));
    }
    let key = key_of(variable)?;
    let is_text = !value.contains('$') && !value.is_empty();
    match operator {
        "=" if is_text => Some((true, key, quoted(&literal(value)))),
        "!=" if is_text => Some((false, key, quoted(&literal(value)))),
        "~" | "~*" if key == "path" => {
            let flags = if operator == "~*" { "(?i)" } else { "" };
            Some((true, "path_regex".to_owned(), quoted(&format!("{flags}{value}"))))
        }
        "!~" if key == "method" => {
            let list = value.strip_prefix("^(")?.strip_suffix(")$")?;
            let names: Vec<&str> = list.split('|').collect();
            let are_names = names.iter().all(|it| it.bytes().all(|it| it.is_ascii_uppercase()));
            are_names.then(|| (false, key, listed(&names)))
        }
        _ => None,
    }
}
