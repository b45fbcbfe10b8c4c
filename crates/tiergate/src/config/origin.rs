//! `[origin]`: the servers that requests go to.

use super::kind::{Choice, Scalar, Text, list};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::server::{SERVER, Server, servers};
use super::show;
use super::values::{FLAG, SHARE, TIME, whole};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tiergate_core::control::Slots;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::origin::{OnCancel, SERVERS_MAX};
use toml::de::DeValue;

section! {
    /// The origin: one or several servers that answer alike.
    pub(super) struct OriginKeys {
        /// The servers: `"host:port"`, `"http://host"`, `"[::1]:80"`, `"unix:/path"`. The next request goes
        /// to the one with the fewest requests in progress. A name with several addresses stands for as many servers, which
        /// are shown by their addresses; names are looked up every 10 s, and when connects fail.
        servers: Vec<At<Server>> = list(SERVER, SERVERS_MAX, "servers")
            .or_else("must name at least one server")
            .needed("write servers = [\"host:port\"]");
        /// Concurrency limit: the number of requests in progress at all servers together. `"adaptive"`, or a
        /// number up to 1000000.
        /// Why: the capacity of a server is rarely known, and it changes.
        slots: Slots = SlotsKind.or("adaptive");
        /// Whether other gateways send requests to these servers, too: write it in all of them. The limit is then found together
        /// with them, without a connection between them, see [shared origins](#shared-origins). Only with
        /// `slots = "adaptive"`.
        /// Why: with one gateway the usual limit follows changes sooner, and needs no clock.
        shared: Option<At<bool>> = FLAG.placed().optional("`false`");
        /// Whether `slots` is the limit of each server, instead of all together: see
        /// [servers of unlike strength](#servers-of-unlike-strength). A server that another name or address reaches has several.
        /// Why: servers behind one origin are mostly alike, and one limit is found sooner than several.
        slots_per_server: bool = FLAG.or(false);
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

const SLOTS: &str = "\"adaptive\" or a number of requests";

/// `"adaptive"`, or how many.
pub(super) struct SlotsKind;

impl Kind for SlotsKind {
    type Value = Slots;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Slots> {
        match value {
            DeValue::String(text) if text == "adaptive" => Some(Slots::default()),
            DeValue::Integer(_) => {
                let number = Scalar { expected: SLOTS, ..whole(1..=1_000_000) };
                number.read(value, place).map(Slots::Fixed)
            }
            _ => wrong(value, place, SLOTS),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        let number = whole::<u32>(1..=1_000_000).schema(definitions);
        json!({ "oneOf": [{ "const": "adaptive" }, number] })
    }
}

/// The origin: one or several servers that answer alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Origin {
    /// Where the servers listen. Never empty.
    pub servers: Vec<Server>,
    /// Whether each server has a limit of its own.
    pub slots_per_server: bool,
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
    /// How the number of slots is set.
    pub(super) fn limit(&self) -> Slots {
        limit(&self.slots, self.shared.as_ref(), false)
    }
}

/// The origin; without servers only after a fault.
pub(super) fn origin(raw: OriginKeys) -> Origin {
    Origin {
        servers: servers(raw.servers),
        slots_per_server: raw.slots_per_server,
        health: raw.health,
        failures_max: raw.failures_max,
        retry_after: raw.retry_after,
        restart_max: raw.restart_max,
        retries: Allowance { share: raw.retry_budget, floor: raw.retry_budget_min },
        on_cancel: raw.on_cancel,
        idle_connections_max: raw.idle_connections_max,
    }
}

/// How the number of slots is set, where `shared` says whether other gateways have the same servers; reports a number of
/// slots that they are to find together.
pub(super) fn limit(slots: &Slots, shared: Option<&At<bool>>, inherited: bool) -> Slots {
    match (slots, shared) {
        (Slots::Fixed(slots), Some(At { value: true, place })) => {
            place.fault(format!(
                "has no effect with slots = {slots}: write slots = \"adaptive\", or divide the slots among \
                 the gateways and remove this"
            ));
            Slots::Fixed(*slots)
        }
        (Slots::Adaptive(bounds), given) if given.map_or(inherited, |it| it.value) => {
            Slots::Shared(bounds.clone())
        }
        (slots, _) => slots.clone(),
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
        let mut lines: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        lines.push(slots_words(slots, self.slots_per_server));
        lines.extend(self.care_words());
        lines
    }

    /// How its servers are looked after, and what becomes of requests that fail or whose clients leave.
    pub(crate) fn care_words(&self) -> Vec<String> {
        let mut lines = Vec::new();
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

/// A limit in words, of all servers together or of each.
pub(crate) fn slots_words(slots: &Slots, is_per_server: bool) -> String {
    let words = limit_words(slots);
    if is_per_server { format!("at each server {words}") } else { words }
}

fn limit_words(slots: &Slots) -> String {
    match slots {
        Slots::Fixed(slots) => format!("at most {slots} at once (fixed)"),
        Slots::Adaptive(_) => {
            "as many at once as it can take, measured continuously (adaptive)".to_owned()
        }
        Slots::Shared(_) => {
            "as many at once as it can take with the requests of other gateways, measured at the \
             same moments of the wall clock as they do (adaptive, shared)"
                .to_owned()
        }
    }
}
