//! `[[pool]]`: servers with a limit of their own.

use super::kind::{Choice, list};
use super::lookup::{Interning, find};
use super::origin::{HealthCheck, ON_CANCEL, Origin, OriginKeys};
use super::origin_tls::{self, OriginProtocol, OriginTlsKeys, PROTOCOLS, TlsOrFlag, TransportKeys};
use super::place::{At, Place, wrong};
use super::section::{Definitions, Kind, section, table};
use super::server::{ServerKind, Servers, Written, servers};
use super::slots::{PoolSlots, SlotsKeys, SlotsKind};
use super::splits::Splits;
use super::values::{FLAG, Name, SHARE, TEXT, TIME, check_unique, whole};
use super::workers::{Workers, WorkersKeys, workers};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tiergate_core::control::Slots;
use tiergate_core::names::PoolId;
use tiergate_core::origin::retries::Allowance;
use tiergate_core::origin::{OnCancel, SERVERS_MAX};
use tiergate_core::plan::PoolSettings;
use toml::de::DeValue;

section! {
    /// Servers with a concurrency limit of their own.
    pub(super) struct PoolKeys {
        /// The name by which rules, classes and other pools refer to it; not `default`, which is what `[origin]`
        /// describes.
        name: Option<String> = Name.required("write name = \"…\"");
        /// The servers, as in `[origin]`. A server may be in several pools: each has its own connections to it and
        /// its own view of its health.
        servers: Vec<At<Written>> = list(ServerKind, SERVERS_MAX, "servers")
            .or_else("must name at least one server")
            .needed("write servers = [\"host:port\"]");
        /// Concurrency limit of the pool: the number of requests in progress at its servers together.
        /// `"adaptive"`, or a number up to 1000000.
        /// Why: as for `[origin]`, from which it is not inherited: a number says something about particular servers.
        slots: At<Slots> = SlotsKind.placed().or("adaptive");
        /// Whether other gateways send requests to these servers, too: write it in all of them. Only with `slots = "adaptive"`.
        shared: Option<At<bool>> = FLAG.placed().optional("`[origin]`'s; with a number of slots `false`");
        /// Whether `slots` is the limit of each server, or of each without slots of its own, instead of all together.
        slots_per_server: Option<At<bool>> =
            FLAG.placed().optional("`[origin]`'s; `true` where a server of the pool has slots of its own");
        /// The pool that takes its requests while none of its servers is usable; `"default"`: that of `[origin]`. Not
        /// while it is merely full. A request that already waits or has a slot stays.
        fallback: Option<String> = TEXT.optional("none: requests are refused with `origin_down`");
        /// TLS to the servers: `true`, `false`, or a table as in `[origin]`.
        tls: Option<Option<At<OriginTlsKeys>>> = TlsOrFlag.optional("`[origin]`'s");
        /// What the servers speak: `"http1"`, `"h2"` or `"auto"`, as in `[origin]`.
        protocol: Option<At<OriginProtocol>> = Choice(&PROTOCOLS).placed().optional("`[origin]`'s");
        /// Active health checks; `false`: none.
        health: Option<Option<HealthCheck>> = HealthOrFalse.optional("`[origin]`'s");
        /// Failures in a row after which a server is taken out of rotation.
        failures_max: Option<u32> = whole(0..=1000).optional("`[origin]`'s");
        /// How long a failed server is out of rotation before one request tries it again.
        retry_after: Option<Duration> = TIME.optional("`[origin]`'s");
        /// How long a request waits for a server that refuses connections, where no other server of the pool is usable;
        /// after five times as long of an outage requests are refused at once.
        restart_max: Option<Duration> = TIME.optional("`[origin]`'s; with a `fallback`, or in a level of an `[[adaptation]]`, none: others take them");
        /// Retries allowed, as a share of the pool's requests of the last ten seconds.
        retry_budget: Option<f64> = SHARE.optional("`[origin]`'s");
        /// Retries a second that are always allowed in the pool.
        retry_budget_min: Option<u32> = whole(0..=1_000_000).optional("`[origin]`'s");
        /// What happens to a request at the pool's servers when its client leaves.
        on_cancel: Option<OnCancel> = Choice(&ON_CANCEL).optional("`[origin]`'s");
        /// Idle connections kept to each server by each thread.
        idle_connections_max: Option<usize> = whole(0..=65_536).optional("`[origin]`'s");
        /// The [processes](#workers-processes-of-a-pool) that serve the pool, where the gateway starts them or sets their priorities.
        workers: Option<At<WorkersKeys>> = table().placed().optional("none");
    }
}

/// Health checks, or `false` for none.
struct HealthOrFalse;

impl Kind for HealthOrFalse {
    type Value = Option<HealthCheck>;

    fn read(&self, value: &DeValue<'_>, place: &Place) -> Option<Option<HealthCheck>> {
        match value {
            DeValue::Boolean(false) => Some(None),
            DeValue::Table(_) => table().read(value, place).map(Some),
            _ => wrong(value, place, "a table, or false"),
        }
    }

    fn schema(&self, definitions: &mut Definitions) -> Json {
        json!({ "oneOf": [{ "const": false }, table::<HealthCheck>().schema(definitions)] })
    }
}

/// The pools of a policy, without the default one.
pub(super) struct Pools {
    ids: Vec<PoolId>,
    pub(super) list: Vec<PoolSettings>,
    /// Their servers, in the same order.
    pub(super) origins: Vec<Origin>,
    /// The processes of those of which the policy names them.
    pub(super) workers: Vec<Workers>,
    /// Of the default pool.
    default: PoolSlots,
    /// What sends requests to several of them.
    pub(super) splits: Splits,
}

impl Pools {
    /// How many requests the servers of a pool work on at once.
    pub(super) fn slots(&self, pool: PoolId) -> &Slots {
        let place = self.ids.iter().position(|id| *id == pool);
        place.and_then(|place| self.list.get(place)).map_or(&self.default.slots, |it| &it.slots)
    }

    /// Whether every server of a pool has a number of slots of its own.
    pub(super) fn is_all_own(&self, pool: PoolId) -> bool {
        let place = self.ids.iter().position(|id| *id == pool);
        let origin = place.and_then(|place| self.origins.get(place));
        origin.map_or(self.default.is_all_own, Origin::is_all_own)
    }

    /// The pool of this name; reports one that does not exist.
    pub(super) fn named(&self, name: &str, place: &Place) -> Option<PoolId> {
        let names = self.list.iter().map(|pool| pool.name.as_str());
        let names = std::iter::once(PoolId::DEFAULT_NAME).chain(names);
        let index = find("pool", name, names, place)?;
        Some(index.checked_sub(1).map_or(PoolId::DEFAULT, |index| self.ids[index]))
    }
}

/// The pools; `origin`: what they inherit from.
pub(super) fn pools(
    raw: Vec<At<PoolKeys>>,
    origin: Option<&OriginKeys>,
    default: &PoolSlots,
    // Those of adaptations' levels: another pool takes their requests while they are down.
    spared: &[String],
    mut known: Interning<'_, PoolId>,
) -> Pools {
    let mut pools = Pools {
        ids: Vec::new(),
        list: Vec::new(),
        origins: Vec::new(),
        workers: Vec::new(),
        default: default.clone(),
        splits: Splits::default(),
    };
    let mut fallbacks = Vec::new();
    // Without `[origin]`, which is a fault, there is nothing to inherit.
    let Some(origin) = origin else { return pools };
    for At { value: raw, place } in raw {
        let Some(name) = raw.name else { continue };
        let name_place = place.key("name");
        if name == PoolId::DEFAULT_NAME {
            name_place.fault("must not be \"default\", which is the pool that [origin] describes");
        }
        check_unique("pool", &name, pools.list.iter().map(|it| it.name.as_str()), &name_place);
        pools.ids.push(known.id(&name, &name_place));
        let has_fallback = raw.fallback.is_some() || spared.contains(&name);
        let slots = SlotsKeys {
            servers: &raw.servers,
            slots: &raw.slots,
            shared: raw.shared.as_ref(),
            slots_per_server: raw.slots_per_server.as_ref(),
        };
        let PoolSlots { slots, is_per_server: slots_per_server, .. } =
            slots.meant(&origin.slots_keys());
        let Servers { addresses, numbers } = servers(&raw.servers);
        let inherited = origin.transport_keys();
        let transport = TransportKeys {
            tls: raw.tls.as_ref().map_or(inherited.tls, Option::as_ref),
            protocol: raw.protocol.as_ref().or(inherited.protocol),
        };
        if raw.tls.is_some() || raw.protocol.is_some() {
            origin_tls::check(&transport, &raw.servers);
        }
        fallbacks.push((raw.fallback, place.key("fallback")));
        pools.workers.extend(raw.workers.and_then(|raw| workers(raw, &name, &addresses)));
        pools.origins.push(Origin {
            servers: addresses,
            server_slots: numbers,
            slots_per_server,
            tls: transport.tls(),
            protocol: transport.protocol(),
            http2_connections_max: origin.http2_connections_max,
            ping_interval: origin.ping_interval,
            health: raw.health.unwrap_or_else(|| origin.health.clone()),
            failures_max: raw.failures_max.unwrap_or(origin.failures_max),
            retry_after: raw.retry_after.unwrap_or(origin.retry_after),
            restart_max: raw.restart_max.unwrap_or(match has_fallback {
                true => Duration::ZERO,
                false => origin.restart_max,
            }),
            retries: Allowance {
                share: raw.retry_budget.unwrap_or(origin.retry_budget),
                floor: raw.retry_budget_min.unwrap_or(origin.retry_budget_min),
            },
            on_cancel: raw.on_cancel.unwrap_or(origin.on_cancel),
            idle_connections_max: raw.idle_connections_max.unwrap_or(origin.idle_connections_max),
        });
        pools.list.push(PoolSettings { name, slots, slots_per_server, fallback: None });
    }
    for (index, (fallback, place)) in fallbacks.into_iter().enumerate() {
        let fallback = fallback.and_then(|name| Some((pools.named(&name, &place)?, place)));
        let Some((fallback, place)) = fallback else { continue };
        if let Some(way) = circle(&pools, index, fallback) {
            place.fault(format!("leads back to the pool itself: {way}"));
        } else {
            pools.list[index].fallback = Some(fallback);
        }
    }
    pools
}

/// The way by which a fallback leads back to the pool at `index`, if it does. Those of the pools before are sound.
fn circle(pools: &Pools, index: usize, fallback: PoolId) -> Option<String> {
    let place = |id: PoolId| pools.ids.iter().position(|it| *it == id);
    let mut way = vec![pools.list[index].name.as_str()];
    let mut next = Some(fallback);
    while let Some(place) = next.and_then(place) {
        way.push(&pools.list[place].name);
        if place == index {
            return Some(way.join(" → "));
        }
        next = pools.list[place].fallback;
    }
    None
}
