//! `server` and `location`: listeners and rules, in an order in which the first rule that matches is what nginx would choose.
//!
//! Source: nginx.org, "How nginx processes a request" and `location`: a server by exact name, the longest `*.name`, the default one; in it
//! `=`, the longest prefix if it is `^~`, regular expressions within the longest prefix, those of the server, in order, else the longest prefix.

use super::super::draft::{Draft, From, Item, listed};
use super::grammar::Directive;
use super::http::Http;
use super::inherited::{GUARDS, Inherited};
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
        if !self.locations(&block.block, &conditions, inherited, &[]) {
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

    /// What a location says that holds for all servers here.
    pub(super) fn unlike(&mut self, list: &[Directive]) {
        for it in list.iter().filter(|it| it.name == "client_max_body_size") {
            self.draft.less_safe(&it.from, "limits.request_body_max holds for all requests: set the largest there, and let the origin refuse");
        }
    }

    pub(super) fn rule(&self, conditions: &[Condition]) -> Item {
        let mut rule = Item::new("[[rule]]");
        for (key, value, from) in conditions {
            rule.key(key, value, from);
        }
        rule
    }

    /// A rule that refuses.
    pub(super) fn refuse(&mut self, conditions: &[Condition], from: &From) {
        let mut rule = self.rule(conditions);
        rule.key("refuse", 404, from);
        self.servers.rules.push(rule);
    }

    /// The servers of what is refused stay in the policy: it is to be completed by hand.
    pub(super) fn keep_pools(&mut self, list: &[Directive]) {
        for it in list {
            match it.name.as_str() {
                "proxy_pass" => {
                    self.pools(it);
                }
                _ => self.keep_pools(&it.block),
            }
        }
    }
}
