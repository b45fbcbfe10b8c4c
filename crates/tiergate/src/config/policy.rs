//! A policy: everything that one configuration says, checked and in the types that the gateway uses.

use super::access_log::AccessLog;
use super::adaptation::{AdaptationKeys, adaptations, level_pools};
use super::class::{ClassKeys, classes};
use super::denial::Denial;
use super::forwarding::{Buffering, ForwardingKeys, Resolved, Spooling, forwarding};
use super::guarantee;
use super::identity::{GeoKeys, Identity, KEY_TABLES_MAX, KeyTableKeys, TokenKeys, identity};
use super::kernel::{KernelKeys, KernelSettings, kernel};
use super::kind::list;
use super::lane::{self, LaneKeys, LaneSettings, lanes};
use super::limits::{Limits, limits};
use super::link::{self, Link, LinkKeys};
use super::listener::{self, Listener, ListenerKeys, listeners};
use super::lookup::Interning;
use super::mode::{MODE, Mode};
use super::origin::{Origin, OriginKeys, origin};
use super::place::{At, Place};
use super::policer::{Police, PoliceKind, PolicerKeys, Policers};
use super::pool::{PoolKeys, pools};
use super::redaction::Redaction;
use super::refusal::{Refusal, RefusalConnection, RefusalKeys, refusal};
use super::request_id::{RequestIdHeader, RequestIdKeys, request_id};
use super::resource::{ResourceKeys, resources};
use super::reverse_dns::{ReverseDns, reverse_dns};
use super::rule::RuleKeys;
use super::rule_values::{FLOW, HOST};
use super::rules::{Numbered, PolicyRule, References, compile, rules};
use super::scheduling::{Scheduling, SiteKeys, sites};
use super::score::{ScoreKeys, score};
use super::section::{Kind, defaults, section, table};
use super::sensor::{self, Sensor, SensorKeys, sensors};
use super::session::{SessionKeys, session};
use super::shedding::Shedding;
use super::source::Sources;
use super::sources;
use super::timeouts::Timeouts;
use super::traces::{Tracing, TracingKeys, traces};
use super::values::{AddressOrFalse, FILE_TO_READ, TEXT, TRUSTED, whole};
use super::wanted::{Wanted, wanted};
use super::workers::{Workers, workers};
use crate::admin::AdminTokens;
use crate::geo::Geo;
use crate::secrets::NamedFile;
use crate::session::settings::Session;
use crate::tokens::Credentials;
use ipnet::IpNet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tiergate_core::adapt::Adaptation;
use tiergate_core::admit::policer::Settings;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::path::Handling;
use tiergate_core::classify::pattern::HostPattern;
use tiergate_core::classify::score::ScoreTables;
use tiergate_core::classify::{Classifier, Match};
use tiergate_core::control::Slots;
use tiergate_core::fault::Fault;
use tiergate_core::names::{Names, PoolId, RuleId, SiteId};
use tiergate_core::plan::{Plan, Spec};
use tiergate_core::schedule::Site;
use tiergate_wire::http1::Forwarding;

/// Most networks in `trusted`: each request of a trusted peer is compared with each.
const TRUSTED_MAX: usize = 1024;
/// Most names of the admin listener.
const ADMIN_NAMES_MAX: usize = 16;

section! {
    /// A policy of Tiergate: the origin that it protects, and which requests matter most.
    pub(super) struct Root {
        /// Whether the policy is in force, `"enforce"`; or only [observed](#mode-parts-of-a-policy-that-are-observed), `"observe"`: every
        /// request is let through at once.
        mode: Mode = MODE.or("enforce");
        /// [Further files](#several-files) of this policy: names or patterns such as `"conf.d/*.toml"`, relative to this file's directory.
        include: Vec<String> = list(TEXT, sources::LIST_LEN_MAX, "files").plain().or_none("none");
        /// Sockets that clients connect to.
        listener: Vec<At<ListenerKeys>> =
            list(table(), listener::COUNT_MAX, "listeners").or_none("one at `127.0.0.1:8080`");
        /// The servers that requests go to.
        origin: Option<OriginKeys> =
            table().required("write [origin] with servers = [\"host:port\"]");
        /// Further sets of servers, each with its own concurrency limit, for requests whose rule or class names it.
        pool: Vec<At<PoolKeys>> =
            list(table(), Spec::POOLS_MAX, "pools").or_none("none: all requests go to `[origin]`");
        /// What only some requests need beside a slot, each with its own concurrency limit.
        resource: Vec<At<ResourceKeys>> = list(table(), Spec::RESOURCES_MAX, "resources")
            .or_none("none: requests need nothing but a slot");
        /// Answers of lower quality while the server is busy.
        adaptation: Vec<At<AdaptationKeys>> =
            list(table(), Adaptation::COUNT_MAX, "adaptations").or_none("none: every answer is full");
        /// Tiers of service, most important first.
        class: Vec<At<ClassKeys>> =
            list(table(), Spec::CLASSES_MAX, "classes").or_none("one, `default`");
        /// Which request gets the next free slot.
        scheduling: At<Scheduling> = defaults();
        /// Classes that are served as one, such as hosts.
        site: Vec<At<SiteKeys>> =
            list(table(), Spec::SITES_MAX, "sites").or_none("one for all classes");
        /// Which requests belong to which class; the first rule that matches decides.
        rule: Vec<At<RuleKeys>> =
            list(table(), usize::MAX, "rules").or_none("none: the default class takes every request");
        /// Token buckets that rules and classes name.
        policer: Vec<At<PolicerKeys>> =
            list(table(), Settings::COUNT_MAX, "policers").or_none("none");
        /// The policer that every request is subject to: its name, or `{ rate, burst, … }`; beyond it 503.
        /// Why: the slots already protect the origin; use this for a rate that you must not exceed, such as a
        /// contractual one.
        police: Option<At<Police>> = PoliceKind.placed().optional("none");
        /// Class of requests that no rule matches.
        /// Why: requests that no rule matches are taken to be least important; name another class if they are
        /// most of your traffic.
        default_class: Option<String> = TEXT.optional("the last class that is not in the background");
        /// The unit of fair queueing where neither rule nor class sets one: see
        /// [flows](#flows-the-unit-of-fairness).
        /// Why: an IPv4 address is usually one client, and an IPv6 /64 one customer.
        flow: Option<Flow> = FLOW.optional("`\"client\"`");
        /// Priorities of clients and paths, whose sum is a request's score.
        score: Option<ScoreKeys> = table().optional("no score");
        /// How requests of running sessions are recognised.
        session: Option<At<SessionKeys>> =
            table().placed().optional("no request belongs to a session");
        /// What is measured of this machine, and of others.
        sensor: Vec<At<SensorKeys>> =
            list(table(), sensor::COUNT_MAX, "sensors").or_none("none");
        /// The link that answers leave by, for [background classes](#background-classes).
        link: Option<At<LinkKeys>> = table().placed().optional("not known: background answers are sent like all others");
        /// Threads of their own for the connections of some classes.
        lane: Vec<At<LaneKeys>> =
            list(table(), lane::COUNT_MAX, "lanes").or_none("none: all threads serve all connections");
        /// What the kernel refuses before the gateway sees it.
        kernel: Option<At<KernelKeys>> = table().placed().optional("nothing");
        /// Which requests are shed under overload.
        shedding: Option<Shedding> = table().optional("none");
        /// What a refused client gets.
        refusal: At<RefusalKeys> = defaults();
        /// Bounds on sizes and numbers.
        limits: At<Limits> = defaults();
        /// Bounds on time.
        timeouts: At<Timeouts> = defaults();
        /// Where requests are logged.
        access_log: Option<AccessLog> = table().optional("nowhere");
        /// An id for each request.
        request_id: Option<At<RequestIdKeys>> =
            table().placed().optional("none: clients' ids are passed on as they are");
        /// Traces of requests.
        tracing: Option<At<TracingKeys>> =
            table().placed().optional("none: `traceparent` is passed on as it is");
        /// Address of the admin listener (metrics and status); `false`: no admin listener.
        /// Why: loopback, because status and metrics expose paths and client addresses; no common program has
        /// this port.
        admin: Option<SocketAddr> = AddressOrFalse.or("127.0.0.1:8434");
        /// Names that the admin listener answers to, beside addresses and `localhost`.
        /// Why: a web page that an operator visits could make a name of its own resolve to the listener, and read it by that; where
        /// only this machine can connect, other names are refused in any case.
        admin_names: Vec<HostPattern> = list(HOST, ADMIN_NAMES_MAX, "names").plain()
            .or_none("any, where other machines can connect");
        /// File of 1 to 4 tokens, one per line as text, each of at least 32 bytes: who sends one may [change settings while
        /// running](#settings-changed-while-running) on the admin listener.
        admin_token_file: Option<NamedFile> =
            FILE_TO_READ.optional("settings cannot be changed while running");
        /// Addresses and networks of peers whose `X-Forwarded-For`, `Forwarded` and PROXY headers are
        /// trusted.
        /// Why: any client can send these headers, and rules with `client` rely on them.
        trusted: Vec<IpNet> = list(TRUSTED, TRUSTED_MAX, "networks").plain().or_none("none");
        /// Threads that serve requests.
        /// Why: threads never block, so more than one for each processor gain nothing.
        threads: Option<usize> = whole(1..=1024).optional("one for each processor");
        /// How requests and responses are passed on.
        forwarding: At<ForwardingKeys> = defaults();
        /// Names of clients by reverse DNS, for rules with `domain`.
        reverse_dns: At<ReverseDns> = defaults();
        /// Keys that clients present in a header, and their subjects.
        key: Vec<At<KeyTableKeys>> =
            list(table(), KEY_TABLES_MAX, "tables").or_none("none");
        /// Signed tokens (JWT) that clients present, and their subjects.
        token: Option<At<TokenKeys>> = table().placed().optional("none");
        /// Countries and autonomous systems of addresses.
        geo: Option<GeoKeys> = table().optional("both are unknown");
    }
}

/// Everything that one configuration says.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Where clients connect.
    pub listeners: Vec<Listener>,
    /// The servers that requests go to.
    pub origin: Origin,
    /// The servers of the plan's other pools, in its order.
    pub pools: Vec<Origin>,
    /// The processes that serve pools, where the policy names them.
    pub workers: Vec<Workers>,
    /// Classes, slots and all else that the gate goes by.
    pub plan: Plan,
    /// The rules, compiled.
    pub classifier: Classifier,
    /// The rules as they stand in the file, for explanations; a [`Match::rule`] is a place in here.
    ///
    /// [`Match::rule`]: tiergate_core::classify::Match::rule
    pub rules: Vec<PolicyRule>,
    /// The tables that give a score, for explanations; the classifier has them compiled.
    pub score: Option<ScoreTables>,
    /// How requests of running sessions are recognised; `None`: no request belongs to one.
    pub session: Option<Session>,
    /// What is measured of this machine, and of others.
    pub sensors: Vec<Sensor>,
    /// The link that answers leave by.
    pub link: Link,
    /// Threads of their own for the connections of some classes. Fixed at the start.
    pub lanes: Vec<LaneSettings>,
    /// What the kernel refuses before the gateway sees it.
    pub kernel: Option<KernelSettings>,
    /// What is done with the connection of a request that is shed ([`Plan::shedding`]): not `Keep`.
    pub shed: RefusalConnection,
    /// What a refused client gets.
    pub refusal: Refusal,
    /// The file that [`Refusal::page_html`] is read from by [`super::load`].
    pub refusal_page: Option<PathBuf>,
    /// The file's name as given; empty without a file.
    pub file: PathBuf,
    /// Its files as they were read.
    pub sources: Arc<Sources>,
    /// The secrets in its texts, which are not to be shown.
    pub redaction: Redaction,
    /// The whole of the file where parts of it are only observed: this policy is what is in force, without them.
    pub observed: Option<Box<Policy>>,
    /// Whether the whole of it is only observed, so that in force every request is let through.
    pub is_all_observed: bool,
    /// Peers whose `Forwarded`/`X-Forwarded-For` are trusted.
    pub trusted: Vec<IpNet>,
    /// Which path the origin gets.
    pub paths: Handling,
    /// Which forwarding headers the origin gets.
    pub forwarding: Forwarding,
    /// What is kept in memory for slow clients.
    pub buffering: Buffering,
    /// Where long uploads wait until they are complete; `None`: they are streamed.
    pub spooling: Option<Spooling>,
    /// Where metrics and status are served; `None`: nowhere.
    pub admin: Option<SocketAddr>,
    /// The names that the admin listener answers to; none: any, where other machines can connect.
    pub admin_names: Vec<HostPattern>,
    /// The file of those who may change settings on the admin listener, if any.
    pub admin_token_file: Option<NamedFile>,
    /// Its tokens, read by [`super::load`].
    pub admin_tokens: AdminTokens,
    /// Where requests are logged; `None`: nowhere.
    pub access_log: Option<AccessLog>,
    /// The header that carries requests' ids; `None`: they have none of ours.
    pub request_id: Option<RequestIdHeader>,
    /// How requests are traced; `None`: they are not.
    pub tracing: Option<Tracing>,
    /// Bounds on sizes and numbers.
    pub limits: Limits,
    /// Bounds on time.
    pub timeouts: Timeouts,
    /// How clients are identified, beyond their addresses.
    pub identity: Identity,
    /// The secrets of [`Policy::identity`], read by [`super::load`].
    pub credentials: Arc<Credentials>,
    /// The databases of [`Policy::identity`], read by [`super::load`].
    pub geo: Arc<Geo>,
    /// What the operator should know of files, such as secrets that everybody can read.
    pub warnings: Vec<String>,
    /// What of the identity the rules ask for.
    pub wanted: Wanted,
    /// Threads that serve requests, each with its own runtime and listening sockets.
    pub threads: usize,
}

impl Policy {
    /// The rules that refuse requests, and what clients are told then.
    pub fn denials(&self) -> impl Iterator<Item = (RuleId, &Denial)> {
        let rules = self.plan.rule_ids().iter().copied().zip(&self.rules);
        rules.filter_map(|(id, rule)| Some((id, rule.denial.as_deref()?)))
    }

    /// The place of the listener at an address; beyond all places if a reload has taken it away.
    pub fn listener_at(&self, address: SocketAddr) -> u16 {
        let place = self.listeners.iter().position(|listener| listener.address == address);
        place.map_or(u16::MAX, |place| place as u16)
    }

    /// The servers of a pool, unless it is not in the policy.
    pub fn origin_of(&self, pool: PoolId) -> Option<&Origin> {
        let place = self.plan.pool_ids().iter().position(|id| *id == pool)?;
        std::iter::once(&self.origin).chain(&self.pools).nth(place)
    }

    /// How many slots a pool has in all, and how many there are at most for one request: at the server with most, where each has a limit
    /// of its own. `None`: some are adaptive. Names with several addresses count as one server.
    pub fn numbers_of(&self, pool: PoolId) -> Option<(u32, u32)> {
        let (origin, Slots::Fixed(slots)) = (self.origin_of(pool)?, self.plan.pool_slots(pool)?)
        else {
            return None;
        };
        if !origin.slots_per_server {
            return Some((*slots, *slots));
        }
        let of = |server| origin.slots_of(server).unwrap_or(*slots);
        let sum = origin.servers.iter().map(of).fold(0, u32::saturating_add);
        Some((sum, origin.servers.iter().map(of).max()?))
    }

    /// The place of the listener with this name or address; of the first if the text is empty. There is
    /// always at least one.
    ///
    /// # Errors
    /// When there is none.
    pub fn listener_called(&self, asked: &str) -> Result<u16, String> {
        let called = |listener: &Listener| asked.is_empty() || listener.is_called(asked);
        let place = self.listeners.iter().position(called);
        place.map(|place| place as u16).ok_or_else(|| {
            format!("no listener of the policy is called {asked:?} or has that address")
        })
    }

    /// The header in which a trusted peer may say how long the request may wait.
    pub fn deadline_header(&self, found: &Match) -> Option<&str> {
        let rule = self.rules.get(found.deadline_header? as usize)?;
        rule.rule.deadline_header.as_deref()
    }
}

/// What is written, in the types that the gateway uses; `None` after a fault. After a fault each step goes on with the
/// default, so that what follows is checked too. `numbered`: it is a part of what the file says, with rules of these numbers.
pub(super) fn meant(
    mut raw: Root,
    numbered: Option<&Numbered>,
    place: &Place,
    names: &mut Names,
) -> Option<Policy> {
    let site_places: Vec<Place> = raw.site.iter().map(|site| site.place.key("name")).collect();
    let guaranteed =
        raw.site.iter().map(|it| it.value.guarantee.as_ref().map(|it| it.place.clone()));
    let guaranteed: Vec<Option<Place>> = guaranteed.collect();
    let (sites, between_sites) = sites(&raw.scheduling, raw.site);
    let slots = raw.origin.as_ref().map(OriginKeys::slots_keys);
    let slots = slots.map(|slots| slots.meant(&slots)).unwrap_or_default();
    let spared = level_pools(&raw.adaptation);
    let known = Interning::of(&mut names.pools);
    let mut pools = pools(raw.pool, raw.origin.as_ref(), &slots, &spared, known);
    let sensors = sensors(raw.sensor, Some(&pools));
    let mut policers = Policers::named(raw.policer, &mut names.policers, &sensors);
    let resources = resources(raw.resource, &pools, Interning::of(&mut names.resources));
    let known = Interning::of(&mut names.adaptations);
    let paths = raw.forwarding.value.path;
    let adaptations =
        adaptations(raw.adaptation, numbered.is_none(), &sensors, &pools, paths, known);
    let mut interning = Interning::of(&mut names.sites);
    // A site without a name has none of its own, but is a fault anyway.
    let site_places = site_places.iter().chain(std::iter::repeat(place));
    let site_id = |(site, place): (&Site, &Place)| interning.id(&site.name, place);
    let site_ids: Vec<SiteId> = sites.iter().zip(site_places).map(site_id).collect();
    let known = (Interning::of(&mut names.classes), &site_ids[..]);
    let is_unknown = !link::is_known(raw.link.as_ref());
    for At { value: class, place } in raw.class.iter().filter(|_| is_unknown) {
        if class.transmit.is_some() {
            place.fault_at("transmit", "must know what the link carries: write [link] and below it capacity = 100_000_000, for 100 Mbit/s; an estimate will not do");
        }
    }
    let link = Link::of(raw.link);
    let mut classes = classes(
        raw.class,
        &sites,
        between_sites,
        known,
        (&pools, &resources, &adaptations),
        place,
        &mut policers,
    );
    link.mark(&mut classes.list);
    policers.share_out(&classes);
    let site_policer = raw.police.and_then(|police| policers.of_place(police, "site"));
    // What no rule names is not in the background unless the policy says so.
    let foreground = classes.list.iter().filter(|class| !class.background).count();
    let last = classes.ids.get(foreground.saturating_sub(1)).copied().unwrap_or_default();
    let default_class =
        raw.default_class.and_then(|name| classes.named(&name, &place.key("default_class")));
    let listeners = listeners(raw.listener, !raw.trusted.is_empty(), raw.admin);
    let mut references = References {
        classes: &classes,
        listeners: &listeners,
        pools: &pools,
        resources: &resources,
        adaptations: &adaptations,
        policers: &mut policers,
    };
    let (rules, rule_keys) = rules(raw.rule, numbered, &mut references);
    let guaranteed = guarantee::Parts {
        sites: &sites,
        site_ids: &site_ids,
        places: &guaranteed,
        classes: &classes.list,
        class_ids: &classes.ids,
        adaptations: &adaptations,
        rules: &rules,
        is_whole: numbered.is_none(),
    }
    .settle();
    let score = raw.score.map(|raw| score(raw, &classes));
    let (refusal, refusal_page, block) = refusal(raw.refusal);
    // Of a part of a policy the blocks may be gone that the whole has.
    let has_blocks = block.is_some() || numbered.is_some();
    let kernel = raw.kernel.map(|raw| kernel(raw, has_blocks));
    let session = raw.session.map(session);
    let of_origin = raw.origin.as_mut().and_then(|raw| raw.workers.take());
    let origin = raw.origin.map(|raw| origin(raw, &slots));
    let of_origin = of_origin.zip(origin.as_ref());
    let of_origin = of_origin.and_then(|(raw, origin)| workers(raw, "", &origin.servers));
    let workers = of_origin.into_iter().chain(std::mem::take(&mut pools.workers)).collect();
    let limits = limits(raw.limits);
    let Resolved { paths, forwarding, buffering, spooling } = forwarding(raw.forwarding);
    let request_id = raw.request_id.map(request_id);
    let tracing = raw.tracing.map(traces);
    let identity = identity(reverse_dns(raw.reverse_dns), raw.key, raw.token, raw.geo);
    if !place.is_sound() {
        return None;
    }
    let flow = raw.flow.unwrap_or(Flow::CLIENT);
    let default_class = default_class.unwrap_or(last);
    let classifier = compile(&rules, default_class, score.as_ref(), flow, &classes)?;
    // Of a part of a policy the rules may be gone that the whole has.
    let known = numbered.is_none().then_some(&classifier);
    let lanes = lanes(raw.lane, &classes, known);
    if !place.is_sound() {
        return None;
    }
    let rules: Vec<_> = rules.into_iter().map(|(rule, _)| rule).collect();
    let rule_numbers = numbered.into_iter().flatten().map(|(number, _)| *number as u32).collect();
    let spec = Spec {
        classes: classes.list,
        rules: rule_keys,
        rule_numbers,
        slots: slots.slots,
        slots_per_server: slots.is_per_server,
        splits: pools.splits.take(),
        pools: pools.list,
        resources: resources.list,
        adaptations: adaptations.keeping(guaranteed),
        policers: policers.settings,
        site_policer,
        shedding: raw.shedding.as_ref().map(|shedding| shedding.delay),
        block,
        sites,
        between_sites,
        cost: raw.scheduling.value.cost,
        queue_len_max: raw.scheduling.value.queue.unwrap_or(u32::MAX),
        slow_slots_max: limits.slow_slots_max,
    };
    // All that it can say but for the number of rules has been reported above, at its line.
    let reported = |fault: Fault| place.fault_at("rule", fault.to_string());
    let plan = Plan::build(spec, names).map_err(reported).ok()?;
    // One for each processor, because each thread runs without ever blocking; one if that is unknown.
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    Some(Policy {
        listeners,
        origin: origin?,
        pools: pools.origins,
        workers,
        plan,
        classifier,
        wanted: wanted(&rules, score.as_ref()),
        rules,
        score,
        session,
        sensors,
        shed: raw.shedding.map_or(RefusalConnection::Close, |shedding| shedding.close),
        refusal,
        refusal_page,
        file: PathBuf::new(),
        sources: Arc::default(),
        redaction: Redaction::default(),
        observed: None,
        is_all_observed: false,
        trusted: raw.trusted,
        paths,
        forwarding,
        buffering,
        spooling,
        admin: raw.admin,
        admin_names: raw.admin_names,
        admin_token_file: raw.admin_token_file,
        admin_tokens: AdminTokens::default(),
        link,
        lanes,
        kernel,
        access_log: raw.access_log,
        request_id: request_id.flatten(),
        tracing: tracing.flatten(),
        limits,
        timeouts: raw.timeouts.value,
        identity,
        credentials: Arc::default(),
        geo: Arc::default(),
        warnings: Vec::new(),
        threads: raw.threads.unwrap_or_else(processors),
    })
}
