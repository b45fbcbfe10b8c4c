//! What an `http` block says once for all of its servers: upstreams, zones, maps.

use super::super::draft::{Draft, From, name};
use super::grammar::Directive;
use super::maps::Map;
use super::reasons::why;
use std::collections::BTreeMap;

/// An `upstream`, or the server that a `proxy_pass` names.
pub(super) struct Upstream {
    /// Its name as a pool.
    pub(super) pool: String,
    /// Addresses, each with what said so.
    pub(super) servers: Vec<(String, From)>,
    pub(super) from: From,
}

/// What a zone counts by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Per {
    /// Each client's address.
    Client,
    /// All requests, or those of a server.
    All,
    /// What a map says.
    Map(String),
}

/// A `limit_req_zone`.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    pub(super) per: Per,
    pub(super) rate: String,
    pub(super) from: From,
}

/// All of it.
#[derive(Default)]
pub(super) struct Http {
    /// By name in small letters, because nginx compares them without case; servers without an `upstream` by address.
    pub(super) upstreams: BTreeMap<String, Upstream>,
    pub(super) zones: BTreeMap<String, Zone>,
    /// By name whether it counts all together.
    pub(super) connection_zones: BTreeMap<String, bool>,
    pub(super) maps: BTreeMap<String, Map>,
    /// The smallest and the greatest burst of each zone's `limit_req`, and the same of its `limit_conn`.
    pub(super) bursts: BTreeMap<String, (u64, u64)>,
    pub(super) connections: BTreeMap<String, (u64, u64)>,
    /// Upstreams in the order in which they are used; the first is `[origin]`.
    pub(super) used: Vec<String>,
}

impl Http {
    pub(super) fn read(list: &[Directive], draft: &mut Draft) -> Self {
        let mut http = Http::default();
        http.bounds(list);
        for it in list {
            match it.name.as_str() {
                "upstream" => http.upstream(it, draft),
                "limit_req_zone" => http.zone(it, draft),
                "limit_conn_zone" => {
                    let zone = it.option("zone").unwrap_or_default();
                    let zone = zone.split(':').next().unwrap_or_default().to_owned();
                    let key = it.argument(0);
                    if key.contains('$') && !key.contains("_addr") {
                        draft.stricter(&it.from, "connections of all are counted together: write a [[resource]] for each");
                    }
                    http.connection_zones.insert(zone, !key.contains("_addr"));
                }
                "map" => {
                    if let Some(map) = Map::read(it, draft) {
                        let name = it.argument(1).trim_start_matches('$').to_owned();
                        http.maps.insert(name, map);
                    }
                }
                _ => {}
            }
        }
        http
    }

    /// Finds the smallest and the greatest bound of each zone.
    fn bounds(&mut self, list: &[Directive]) {
        for it in list {
            let (bounds, zone, number) = match it.name.as_str() {
                "limit_req" => (&mut self.bursts, it.option("zone"), it.option("burst")),
                "limit_conn" => (
                    &mut self.connections,
                    Some(it.argument(0)),
                    it.arguments.get(1).map(String::as_str),
                ),
                _ => {
                    self.bounds(&it.block);
                    continue;
                }
            };
            let number = number.and_then(|it| it.parse().ok()).unwrap_or(0);
            let bound =
                bounds.entry(zone.unwrap_or_default().to_owned()).or_insert((number, number));
            *bound = (bound.0.min(number), bound.1.max(number));
        }
    }

    fn upstream(&mut self, it: &Directive, draft: &mut Draft) {
        let mut servers = Vec::new();
        let mut weights = Vec::new();
        for line in &it.block {
            match line.name.as_str() {
                "server" => {
                    if line.arguments.iter().any(|it| it == "down") {
                        draft.note(&line.from, "it is down: add it to `servers` when it is back");
                    } else if line.arguments.iter().any(|it| it == "backup") {
                        draft.note(&line.from, "no backup within a pool: write a [[pool]] with this server, and fallback = its name in the other");
                    } else {
                        servers.push((address(line.argument(0), 80), line.from.clone()));
                        weights.push(line.option("weight").unwrap_or("1").to_owned());
                        if let Some(connections) = line.option("max_conns") {
                            draft.note(&line.from, &format!("max_conns: write {{ address = …, slots = {connections} }} for this server; then its requests wait in the queue of their class"));
                        }
                    }
                }
                "least_conn" => {}
                "include" => draft.less_safe(&line.from, why("include")),
                "keepalive" | "keepalive_timeout" | "zone" => {
                    draft.note(&line.from, "connections to servers are kept and bounded anyway: idle_connections_max in [origin]");
                }
                _ => draft.note(&line.from, "a request goes to the server with the fewest in progress: leave it out, or bind flows to pools by weight"),
            }
        }
        if weights.iter().any(|weight| *weight != weights[0]) {
            draft.note(&it.from, &format!("weights {}: a request goes to the server with the fewest in progress, so a stronger one gets more by itself; for fixed parts write slots for each server", weights.join(", ")));
        }
        let key = small(it.argument(0));
        let pool = self.free(&key, it.argument(0));
        let upstream = Upstream { pool, servers, from: it.from.clone() };
        if self.upstreams.insert(key, upstream).is_some() {
            draft.note(
                &it.from,
                "this upstream is there twice, which nginx refuses; the last counts",
            );
        }
    }

    fn zone(&mut self, it: &Directive, draft: &mut Draft) {
        let zone = it.option("zone").unwrap_or_default().split(':').next().unwrap_or_default();
        let counted = it.argument(0);
        let map = counted.trim_start_matches('$').trim_matches(['{', '}']);
        let per = match counted {
            "$binary_remote_addr" | "$remote_addr" => Per::Client,
            "$server_name" | "$host" | "$http_host" => {
                draft
                    .stricter(&it.from, "all hosts share one bucket: write a [[policer]] for each");
                Per::All
            }
            _ if !counted.contains('$') => Per::All,
            _ if self.maps.contains_key(map) => Per::Map(map.to_owned()),
            _ => {
                draft.less_safe(&it.from, "counts each client's address instead of this: exemptions are limited too, and a limit beyond an address is wider; write per = \"flow\" and flow = … in the rule");
                Per::Client
            }
        };
        let rate = it.option("rate").unwrap_or_default();
        let Some(rate) = rate
            .strip_suffix("r/s")
            .map(|it| format!("{it}/s"))
            .or_else(|| Some(format!("{}/m", rate.strip_suffix("r/m")?)))
        else {
            draft.less_safe(&it.from, "must have a rate such as 10r/s");
            return;
        };
        self.zones.insert(zone.to_owned(), Zone { per, rate, from: it.from.clone() });
    }

    /// A name for the pool of an upstream or address, near to a text, which no other has.
    fn free(&self, key: &str, target: &str) -> String {
        let plain = name(target);
        let taken = |it: &str| {
            self.upstreams.iter().any(|(other, upstream)| other != key && upstream.pool == it)
        };
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let mut all = std::iter::once(plain.clone()).chain(numbered);
        all.find(|it| !taken(it)).expect("there is no last number")
    }

    /// The pool of an upstream or address, which is used from now on; `port`: of an address that names none.
    pub(super) fn pool(&mut self, target: &str, port: u16, from: &From) -> Option<String> {
        let mut key = small(target);
        if !self.upstreams.contains_key(&key) {
            key = address(&key, port);
        }
        if !self.upstreams.contains_key(&key) {
            let servers = vec![(address(target, port), from.clone())];
            let pool = self.free(&key, target);
            self.upstreams.insert(key.clone(), Upstream { pool, servers, from: from.clone() });
        }
        if !self.used.contains(&key) {
            self.used.push(key.clone());
        }
        let place = self.used.iter().position(|it| *it == key)?;
        Some(match place {
            0 => "default".to_owned(),
            _ => self.upstreams[&key].pool.clone(),
        })
    }
}

/// The name of a server in small letters, or the path of its socket.
fn small(text: &str) -> String {
    match text.starts_with("unix:") {
        true => text.to_owned(),
        false => text.to_ascii_lowercase(),
    }
}

/// A server's address as policies write it; `port`: if it names none.
fn address(text: &str, port: u16) -> String {
    let text = text.trim_start_matches("http://");
    if let Some(path) = text.strip_prefix("unix:") {
        return format!("unix:{}", path.trim_end_matches(':'));
    }
    let last = text.rsplit(']').next().unwrap_or(text);
    match last.contains(':') {
        true => text.to_owned(),
        false => format!("{text}:{port}"),
    }
}
