//! `[origin]`: the servers that requests go to.

use super::kind::{Choice, Text, list};
use super::origin_tls::{
    self, OriginProtocol, OriginTls, OriginTlsKeys, PROTOCOLS, TlsOrFlag, TransportKeys,
};
use super::place::At;
use super::section::{Kind, section, table};
use super::server::{Server, ServerKind, Servers, Written, servers};
use super::show;
use super::slots::{self, PoolSlots, SlotsKeys, SlotsKind};
use super::values::{FLAG, SHARE, TIME, whole};
use super::workers::WorkersKeys;
use serde_json::json;
use std::time::Duration;
use tiergate_core::control::Slots;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::origin::{OnCancel, SERVERS_MAX};

section! {
    /// The origin: one or several servers that answer alike.
    pub(super) struct OriginKeys {
        /// The servers: `"host:port"`, `"http://host"`, `"[::1]:80"`, `"unix:/path"`, or a table `{ address, slots }` for one with
        /// a [number of slots of its own](#servers-of-unlike-strength). The next request goes to the one with the fewest requests in progress. A name with several addresses stands for as many servers, which
        /// are shown by their addresses; names are looked up every 10 s, and when connects fail.
        servers: Vec<At<Written>> = list(ServerKind, SERVERS_MAX, "servers")
            .or_else("must name at least one server")
            .needed("write servers = [\"host:port\"]");
        /// Concurrency limit: the number of requests in progress at all servers together. `"adaptive"`, or a
        /// number up to 1000000.
        /// Why: the capacity of a server is rarely known, and it changes.
        slots: At<Slots> = SlotsKind.placed().or("adaptive");
        /// Whether other gateways send requests to these servers, too: write it in all of them. The limit is then found together
        /// with them, without a connection between them, see [shared origins](#shared-origins). Only with
        /// `slots = "adaptive"`.
        /// Why: with one gateway the usual limit follows changes sooner, and needs no clock.
        shared: Option<At<bool>> = FLAG.placed().optional("`false`");
        /// Whether `slots` is the limit of each server, or of each without slots of its own, instead of all together: see
        /// [servers of unlike strength](#servers-of-unlike-strength). A server that another name or address reaches has several.
        /// Why: servers behind one origin are mostly alike, and one limit is found sooner than several.
        slots_per_server: Option<At<bool>> =
            FLAG.placed().optional("`false`, unless a server has slots of its own");
        /// TLS to the servers: `true`, or a table `{ server_name, ca, certificate, key, verify }`; see [TLS and HTTP/2 to the origin](#tls-and-http2-to-the-origin).
        tls: Option<Option<At<OriginTlsKeys>>> = TlsOrFlag.optional("`false`: plain TCP");
        /// What the servers speak: `"http1"`; `"h2"`, HTTP/2 also without TLS (prior knowledge); `"auto"`, as each server
        /// chooses in the TLS handshake.
        /// Why: every server speaks it, and a connection for each request cannot hold another one up.
        protocol: Option<At<OriginProtocol>> = Choice(&PROTOCOLS).placed().optional("`\"http1\"`");
        /// Connections over HTTP/2 to each server by each thread; each carries up to 128 requests at once, or fewer if the server
        /// says so. A request that finds them full waits for up to `timeouts.connect`, then gets 503. Connections that are half full of tunnels
        /// and streams do not count.
        /// Why: more than the slots of nearly every origin, and a lost packet holds up one part of the requests only.
        http2_connections_max: usize = whole(1..=64).or(4);
        /// After how long without a byte from the server a connection over HTTP/2 with requests in progress is asked whether the server is still there (PING); if
        /// it does not answer within 20 s, or within as long if that is less, the connection is closed and its requests fail. Less than five
        /// minutes only for servers that allow it.
        /// Why: gRPC servers end the connection of a client that asks more often than every five minutes. That a machine is gone the system finds out
        /// within about 30 s, by probes of TCP.
        ping_interval: Duration = TIME.or("6m");
        /// Active health checks.
        health: Option<HealthCheck> = table().optional("none: only failures of requests count");
        /// Failures in a row after which a server is taken out of rotation: failed connects, or requests
        /// that got no proper response, or 500, 502, 503 or 504, where the other servers do better. 0: only active checks take
        /// servers out.
        /// Why: one failed connection may be chance, three in a row are not.
        failures_max: u32 = whole(0..=1000).or(3);
        /// How long a failed server is out of rotation before one request tries it again.
        /// Why: a restarting server is back within seconds; one trial request a second costs nothing.
        retry_after: Duration = TIME.or("1s");
        /// How long a request waits for a server that refuses connections, where no other server is usable: it keeps its
        /// slot and connects again every 20 to 160 ms. After five times as long of an outage requests are refused at once.
        /// `"1ms"`: they get 502 at once.
        /// Why: a request waits as long for a slot by default. An outage that lasts for longer is not taken for a restart:
        /// 503 at once is better than a useless wait.
        restart_max: Duration = TIME.or("2s");
        /// Retries allowed, as a share of the requests of the last ten seconds, in addition to
        /// `retry_budget_min`. Beyond it requests are not retried. A request whose idle connection turns out to be closed is sent
        /// again once beside it.
        /// Why: as in Finagle: when the origin fails, retries would multiply the load just as it comes back.
        retry_budget: f64 = SHARE.or("20%");
        /// Retries a second that are always allowed, however few requests there are.
        /// Why: as in Finagle: at low traffic, requests survive the restart of a server.
        retry_budget_min: u32 = whole(0..=1_000_000).or(10);
        /// What happens to a request at the origin when its client leaves. `"finish"`: the rest of the response is
        /// read and dropped, and the slot is free at its end. `"abort"`: the connection is closed, and the slot
        /// is free at once. `"learn"`: whichever suits each server, found out by trying both.
        /// Why: most servers work on for clients that have left, and a slot that were free at once would let
        /// more requests be in progress there than there are slots.
        on_cancel: OnCancel = Choice(&ON_CANCEL).or("learn");
        /// Idle connections kept to each server by each thread.
        /// Why: more than the slots of nearly every origin: a request for which none is idle opens a
        /// connection. `timeouts.origin_idle` soon closes those that are not used.
        idle_connections_max: usize = whole(0..=65_536).or(1024);
        /// The [processes](#workers-processes-of-a-pool) that serve the default pool, where the gateway starts them or sets their priorities.
        workers: Option<At<WorkersKeys>> = table().placed().optional("none");
    }
}

section! {
    /// Active health checks.
    #[derive(PartialEq, Eq)]
    pub struct HealthCheck {
        /// The path requested by GET; 2xx and 3xx are healthy.
        path: String = PATH.needed("write path = \"/\"");
        /// Time between two checks; of a server that is left out, `retry_after` if that is less.
        /// Why: with `fall` 3 a dead server is found in about five seconds.
        interval: Duration = TIME.or("2s");
        /// Longest time that a check may take. Where no other server is usable, a server that accepts connections and
        /// answers no checks is used for five times `restart_max` nevertheless: it may only pause.
        /// Why: a server that needs longer for its health page is not healthy.
        timeout: Duration = TIME.or("1s");
        /// Failures in a row that make a server unhealthy.
        /// Why: the same as `failures_max`.
        fall: u32 = whole(1..=1000).or(3);
        /// Successes in a row that bring a server back that checks, or failed connects, took out. Where it was responses that
        /// failed, one is enough for a request to try it.
        /// Why: one success may come from a server that is still starting.
        rise: u32 = whole(1..=1000).or(2);
    }
}

pub(super) const ON_CANCEL: [(&str, OnCancel); 3] =
    [("learn", OnCancel::Learn), ("finish", OnCancel::Finish), ("abort", OnCancel::Abort)];

/// The origin: one or several servers that answer alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Where the servers listen. Never empty.
    pub servers: Vec<Server>,
    /// Whether each server has a limit of its own.
    pub slots_per_server: bool,
    /// The servers that have a number of slots of their own, whatever the plan says for all.
    pub server_slots: Vec<(Server, u32)>,
    /// TLS to the servers; `None`: plain TCP.
    pub tls: Option<OriginTls>,
    /// What they speak.
    pub protocol: OriginProtocol,
    /// Connections over HTTP/2 to each server, by each thread.
    pub http2_connections_max: usize,
    /// How long such a connection is silent before it is asked whether the server is still there.
    pub ping_interval: Duration,
    /// Active health checks; `None`: passive ones only.
    pub health: Option<HealthCheck>,
    /// Failures in a row after which a server is left out; 0: none is.
    pub failures_max: u32,
    /// How long a failed server is left out before one request tries it again.
    pub retry_after: Duration,
    /// How long requests wait for a server that refuses connections, where no other is usable.
    pub restart_max: Duration,
    /// How many requests may be retried.
    pub retries: Allowance,
    /// What happens to a request when its client leaves.
    pub on_cancel: OnCancel,
    /// Idle connections kept to each server, by each thread.
    pub idle_connections_max: usize,
}

impl OriginKeys {
    /// What it says of TLS and protocol.
    pub(super) fn transport_keys(&self) -> TransportKeys<'_> {
        TransportKeys {
            tls: self.tls.as_ref().and_then(Option::as_ref),
            protocol: self.protocol.as_ref(),
        }
    }

    /// What it says of slots.
    pub(super) fn slots_keys(&self) -> SlotsKeys<'_> {
        SlotsKeys {
            servers: &self.servers,
            slots: &self.slots,
            shared: self.shared.as_ref(),
            slots_per_server: self.slots_per_server.as_ref(),
        }
    }
}

/// The origin; without servers only after a fault.
pub(super) fn origin(raw: OriginKeys, slots: &PoolSlots) -> Origin {
    let Servers { addresses, numbers } = servers(&raw.servers);
    let transport = raw.transport_keys();
    origin_tls::check(&transport, &raw.servers);
    Origin {
        tls: transport.tls(),
        protocol: transport.protocol(),
        http2_connections_max: raw.http2_connections_max,
        ping_interval: raw.ping_interval,
        servers: addresses,
        server_slots: numbers,
        slots_per_server: slots.is_per_server,
        health: raw.health,
        failures_max: raw.failures_max,
        retry_after: raw.retry_after,
        restart_max: raw.restart_max,
        retries: Allowance { share: raw.retry_budget, floor: raw.retry_budget_min },
        on_cancel: raw.on_cancel,
        idle_connections_max: raw.idle_connections_max,
    }
}

/// The path of a health check: it is written into a request line as it is.
const PATH: Text<String> = Text {
    expected: "a path such as \"/\"",
    schema: || json!({ "pattern": "^/[!-~]*$", "examples": ["/", "/health"] }),
    parse: |text| match text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err(Some("must begin with `/` and have neither spaces nor controls".to_owned())),
    },
};

impl Origin {
    /// For `tiergate check`.
    pub(crate) fn words(&self, slots: &Slots) -> Vec<String> {
        let server = |server: &Server| match self.slots_of(server) {
            Some(slots) => {
                format!("{server}: {}, its own number", slots::words(&Slots::Fixed(slots)))
            }
            None => server.to_string(),
        };
        let mut lines: Vec<String> = self.servers.iter().map(server).collect();
        lines.extend(self.slots_words(slots));
        lines.extend(self.care_words());
        lines
    }

    /// The servers and their limits in a line.
    pub(crate) fn servers_words(&self, slots: &Slots) -> String {
        let server = |server: &Server| match self.slots_of(server) {
            Some(slots) => format!("{server} ({slots} at once)"),
            None => server.to_string(),
        };
        let servers: Vec<String> = self.servers.iter().map(server).collect();
        let slots = self.slots_words(slots).map_or(String::new(), |words| format!("; {words}"));
        servers.join(", ") + &slots
    }

    /// The limit of all servers together, or of each that has no number of its own; `None`: each has one.
    fn slots_words(&self, slots: &Slots) -> Option<String> {
        let words = slots::words(slots);
        match (self.slots_per_server, self.server_slots.len()) {
            (false, _) => Some(words),
            (true, 0) => Some(format!("at each server {words}")),
            (true, _) if self.is_all_own() => None,
            (true, _) => Some(format!("at each other server {words}")),
        }
    }

    /// Whether every server has a number of slots of its own.
    pub(crate) fn is_all_own(&self) -> bool {
        !self.server_slots.is_empty() && self.server_slots.len() == self.servers.len()
    }

    /// The number of slots that a server has of its own.
    pub fn slots_of(&self, server: &Server) -> Option<u32> {
        let mut own = self.server_slots.iter();
        own.find(|(of, _)| of == server).map(|(_, slots)| *slots)
    }

    /// How its servers are spoken to, unless that is HTTP/1.1 over plain TCP.
    fn transport_words(&self) -> Option<String> {
        let protocol = self.protocol.words();
        match &self.tls {
            None if self.protocol == OriginProtocol::Http1 => None,
            None => Some(format!("{protocol} in cleartext")),
            Some(tls) => Some(format!("{protocol} over {}", tls.words())),
        }
    }

    /// How its servers are looked after, and what becomes of requests that fail or whose clients leave.
    pub(crate) fn care_words(&self) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.transport_words());
        lines.push(match self.failures_max {
            0 => "no server is left out because requests fail".to_owned(),
            max => format!(
                "a server is left out after {max} failures in a row, and tried again after {}",
                show::time(self.retry_after)
            ),
        });
        lines.push(format!(
            "each request waits up to {} for a server that restarts",
            show::time(self.restart_max)
        ));
        lines.push(format!(
            "at most {} of the requests of the last 10s, and {} a second, are retried",
            show::share(self.retries.share),
            self.retries.floor
        ));
        lines.push(
            match self.on_cancel {
                OnCancel::Learn => {
                    "when a client leaves: what suits the server, found out by trying"
                }
                OnCancel::Finish => "when a client leaves: its response is read to the end",
                OnCancel::Abort => "when a client leaves: its connection to the server is closed",
            }
            .to_owned(),
        );
        if let Some(HealthCheck { path, interval, timeout, fall, rise }) = &self.health {
            let (interval, timeout) = (show::time(*interval), show::time(*timeout));
            lines.push(format!(
                "health: GET {path} every {interval}, at most {timeout} each; out after {fall} \
                 failures, back after {rise} successes"
            ));
        }
        lines
    }
}
