//! `server` and `location`: listeners and rules, in an order in which the first rule that matches is what nginx would choose.
//!
//! Source: nginx.org, "How nginx processes a request" and `location`: a server by exact name, the longest `*.name`, the default one; in it
//! `=`, the longest prefix if it is `^~`, regular expressions within the longest prefix, those of the server, in order, else the longest prefix.

use super::super::draft::{Draft, From, Item, listed, name, quoted};
use super::grammar::Directive;
use super::http::Http;
use super::inherited::Inherited;
use super::listen::{Place, listeners};
use super::named::{Named, goes_on};
use super::names::{Names, heads};
use super::reasons::{left_out, no_file};
use std::collections::BTreeMap;

/// What the servers become.
#[derive(Default)]
pub(super) struct Servers {
    pub(super) listeners: Vec<Item>,
    pub(super) resources: Vec<Item>,
    pub(super) policers: Vec<Item>,
    pub(super) rules: Vec<Item>,
    /// The names of policers and resources, by what they are for.
    known: BTreeMap<String, String>,
}

impl Servers {
    /// The name of a policer or resource, near to a text, and whether it is new.
    pub(super) fn called(&mut self, purpose: &str, text: &str) -> (String, bool) {
        if let Some(called) = self.known.get(purpose) {
            return (called.clone(), false);
        }
        let plain = name(text);
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let is_free = |it: &String| self.known.values().all(|known| known != it);
        let mut all = std::iter::once(plain.clone()).chain(numbered);
        let called = all.find(is_free).expect("there is no last number");
        self.known.insert(purpose.to_owned(), called.clone());
        (called, true)
    }
}

/// A condition: key, value as TOML, where it comes from.
pub(super) type Condition = (String, String, From);

/// The conditions with another one; `None` if one of its kind is there, because a rule has no two.
pub(super) fn and(conditions: &[Condition], another: Condition) -> Option<Vec<Condition>> {
    let mut all = conditions.to_vec();
    all.iter().all(|it| it.0 != another.0).then(|| {
        all.push(another);
        all
    })
}

/// Listeners and rules of all `server` blocks.
pub(super) fn servers(list: &[Directive], http: &mut Http, draft: &mut Draft) -> Servers {
    let mut servers = Servers::default();
    let blocks: Vec<&Directive> = list.iter().filter(|it| it.name == "server").collect();
    let names: Vec<Names> = blocks.iter().map(|block| Names::read(block, draft)).collect();
    let found = listeners(&blocks, list, draft);
    servers.listeners = found.items;
    let outer = Inherited::default().within(list);
    let (single, own): (Vec<&Place>, Vec<&Place>) =
        found.places.iter().partition(|it| it.address != it.listener);
    let mut here = Here { servers: &mut servers, http, draft, named: Vec::new() };
    here.other_family(&own);
    // A connection to an address that has servers of its own comes to no others.
    for places in single.into_iter().map(|it| vec![it]).chain([own]) {
        if let [Place { closed: Some(from), .. }] = places[..] {
            let conditions = here.at(&places, from);
            here.refuse(&conditions, from);
            continue;
        }
        for (index, hosts, places) in heads(&names, &places) {
            let block = blocks[index];
            let mut conditions: Vec<Condition> = Vec::new();
            if !hosts.is_empty() {
                conditions.push(("host".to_owned(), listed(&hosts), block.from.clone()));
            }
            conditions.extend(here.at(&places, &block.from));
            if let Some(from) = &found.closed[index] {
                here.refuse(&conditions, from);
                here.keep_pools(&block.block);
                continue;
            }
            here.server(block, &conditions, &outer.within(&block.block));
        }
    }
    drop(here);
    for place in &found.places {
        let nameless = place.servers.iter().find(|it| names[**it].is_empty);
        if let Some(index) = nameless.filter(|it| **it != place.default) {
            draft.less_safe(&blocks[*index].from, "requests without Host, which HTTP/1.0 allows, are this server's: rules have no condition for them, and they get those of the default server");
        }
    }
    servers
}

/// Where a server's rules are made.
pub(super) struct Here<'h> {
    pub(super) servers: &'h mut Servers,
    pub(super) http: &'h mut Http,
    pub(super) draft: &'h mut Draft,
    /// The named locations of the server.
    pub(super) named: Vec<Named<'h>>,
}

impl<'h> Here<'h> {
    /// The conditions of connections to these places.
    fn at(&self, places: &[&Place], from: &From) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if places.len() < self.servers.listeners.len() {
            let listeners: Vec<_> = places.iter().map(|it| it.listener.to_string()).collect();
            conditions.push(("listener".to_owned(), listed(&listeners), from.clone()));
        }
        if let [place] = places
            && place.address != place.listener
        {
            let address = quoted(&place.address.ip().to_string());
            conditions.push(("destination".to_owned(), address, place.from.clone()));
        }
        conditions
    }

    /// Refuses IPv4 where nginx listens for IPv6 alone: whether a listener of `[::]` takes it, too, the system decides.
    fn other_family(&mut self, places: &[&Place]) {
        for place in
            places.iter().filter(|it| it.address.is_ipv6() && it.address.ip().is_unspecified())
        {
            let other =
                |it: &&&Place| it.address.is_ipv4() && it.address.port() == place.address.port();
            if places.iter().any(|it| other(&it)) {
                continue;
            }
            let mut conditions = self.at(&[place], &place.from);
            conditions.push(("destination".to_owned(), quoted("0.0.0.0/0"), place.from.clone()));
            self.refuse(&conditions, &place.from);
        }
    }

    fn server(
        &mut self,
        block: &'h Directive,
        conditions: &[Condition],
        inherited: &Inherited<'h>,
    ) {
        self.named = Named::all(&block.block, inherited);
        for it in &block.block {
            match it.name.as_str() {
                // Listed where the requests go on.
                _ if goes_on(it).is_some() => {}
                // For what no location takes, which is refused.
                "try_files" => self.draft.note(&it.from, no_file(it)),
                _ => left_out(it, self.draft),
            }
        }
        // In the server itself, `return` and `rewrite` come before any location.
        let mut conditions = conditions.to_vec();
        let Some(others) = self.rewritten(&block.block, &mut conditions) else {
            return self.keep_pools(&block.block);
        };
        if !self.locations(&block.block, &conditions, inherited, &[])
            && !self.tried(block, &conditions, inherited)
        {
            let mut rule = self.rule(&conditions);
            rule.remark(
                "refuse",
                404,
                "no location takes the other paths: nginx looks for files there",
            );
            self.servers.rules.push(rule);
        }
        self.otherwise(&others);
        for named in std::mem::take(&mut self.named) {
            named.note(self.draft);
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
                    self.pools(it, None);
                }
                _ => self.keep_pools(&it.block),
            }
        }
    }
}
