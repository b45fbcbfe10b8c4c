//! What all connections of the process share.

use crate::admin::CertificateStatus;
use crate::config::meant::Policy;
use crate::connections::{Connections, Report};
use crate::door::Door;
use crate::kernel::Clients;
use crate::lanes::Lanes;
use crate::link::{FollowedInterface, Link};
use crate::observe::access_log::Log;
use crate::observe::counters::{Counters, ThreadCounters};
use crate::observe::refusals;
use crate::observed::ObservedPolicy;
use crate::origin::pools::{OriginFault, Pools};
use crate::respond::Refusals;
use crate::reverse_dns::ReverseDns;
use crate::seldom::Seldom;
use crate::sensors::Sensors;
use crate::session::SessionTable;
use crate::stored::{Store, StoreBounds};
use crate::tls;
use crate::trace::Tracer;
use crate::workers::Board;
use arc_swap::{ArcSwap, ArcSwapOption};
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use tiergate_core::admit::connections::{Bounds, Level};
use tiergate_core::classify::flow::FlowKey;
use tiergate_core::gate::Gate;
use tiergate_core::mark::{Label, Mark};
use tiergate_core::names::{ClassId, PoolId};
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;
use tiergate_core::transmit::{Capacity, Sender};
use tiergate_wire::http1::TrailerNames;
use tokio::sync::watch;

/// A configuration in force, with what is derived from it once.
#[derive(Debug)]
pub struct Config {
    /// What the policy says.
    pub policy: Policy,
    /// Counts configurations, from 1.
    pub generation: u32,
    /// The servers of every pool, with what earlier configurations learnt about them.
    pub pools: Arc<Pools>,
    /// Names of clients, with what is known already; `None`: no rule asks for them.
    pub reverse_dns: Option<Arc<ReverseDns>>,
    /// What is measured of this machine, and how the sensors are.
    pub sensors: Arc<Sensors>,
    /// Copies of answers; `None`: no rule asks for them.
    pub store: Option<Arc<Store>>,
    /// Names that no trailer of a request may have.
    pub trailers_left_out: TrailerNames,
    /// Where the spans of sampled requests go, if requests are traced.
    pub tracer: Option<Arc<Tracer>>,
    /// Every refusal, ready to be sent.
    pub refusals: Refusals,
    /// How important the requests of each class are to keep their connection for, by id.
    levels: Vec<Level>,
    /// How many client connections there may be.
    pub bounds: Bounds,
    /// What the answers of each class are marked with, by id; empty: no class has a mark.
    marks: Vec<Mark>,
    /// When the certificates of its listeners expire.
    pub certificates: Vec<CertificateStatus>,
    /// When all certificates that it names are valid.
    pub dates: tls::Dates,
    /// The interface that says what the link carries, if the policy names one.
    pub link_interface: Option<Arc<FollowedInterface>>,
}

impl Config {
    /// Derives the rest.
    ///
    /// # Errors
    /// If it names more servers than ids are left, or a file that TLS to them needs cannot be used ([`Pools::new`]).
    pub fn new(
        mut policy: Policy,
        generation: u32,
        former: Option<&Config>,
        counters: &Counters,
    ) -> Result<Self, OriginFault> {
        policy.classifier.set_flow_key(flow_key());
        let pools = Pools::new(&policy, former.map(|former| &former.pools), counters)?;
        let settings = &policy.identity.names;
        let known = former.and_then(|former| former.reverse_dns.as_ref());
        let reverse_dns = policy.wanted.names.then(|| match known {
            Some(known) if known.settings == *settings => known.clone(),
            _ => Arc::new(ReverseDns::new(settings.clone(), counters.reverse_dns.clone())),
        });
        // Those that a reload leaves as they are go on without a break.
        let sensors = match former.map(|former| &former.sensors) {
            Some(known) if known.settings() == policy.sensors => known.clone(),
            _ => Arc::new(Sensors::new(policy.sensors.clone())),
        };
        let limits = &policy.limits;
        let bounds = StoreBounds { bytes_max: limits.stored_max, body_max: limits.stored_body_max };
        let known = former.and_then(|former| former.store.as_ref());
        let store = policy.wanted.copies.then(|| match known {
            Some(known) if known.bounds == bounds => known.clone(),
            _ => Arc::new(Store::new(bounds, counters.store.clone())),
        });
        let known = former.and_then(|former| former.tracer.as_ref());
        let tracer = policy.tracing.clone().and_then(|settings| match known {
            Some(known) if known.settings == settings => Some(known.clone()),
            _ => Tracer::start(settings, counters.traces.clone())
                .map(Arc::new)
                .inspect_err(|error| tracing::error!(%error, "no spans are sent: no thread for it"))
                .ok(),
        });
        let refusals = Refusals::new(&policy.refusal, policy.denials());
        let trailers_left_out = policy.trailers_left_out();
        let levels = policy.plan.levels();
        let marks = policy.plan.marks();
        let certificates = tls::expiries(policy.listeners.iter().filter_map(|it| it.tls.as_ref()));
        let dates = tls::Dates::of(&policy);
        let link_interface =
            policy.link.interface.as_ref().and_then(|it| {
                Some(Arc::new(FollowedInterface::new(it.name.clone(), it.capacity?)))
            });
        let last = levels.iter().max().copied().unwrap_or_default();
        let bounds = Bounds { max: policy.limits.connections_max, levels: last + 1 };
        Ok(Config {
            policy,
            generation,
            pools,
            reverse_dns,
            sensors,
            store,
            trailers_left_out,
            tracer,
            refusals,
            levels,
            bounds,
            marks,
            certificates,
            dates,
            link_interface,
        })
    }

    /// What the answers of a class are marked with; `None`: no class's answers are marked.
    pub fn mark_of(&self, class: ClassId) -> Option<Mark> {
        let mark = || self.marks.get(class.index()).copied().unwrap_or(Mark::NONE);
        (!self.marks.is_empty()).then(mark)
    }

    /// What the packets of a class's requests bear on their way to the origin.
    pub fn origin_label(&self, class: ClassId) -> Label {
        match self.policy.link.marks {
            true => self.mark_of(class).map_or(Label::default(), |mark| mark.label),
            false => Label::default(),
        }
    }

    /// What the link carries and what classes are to have of it, if the policy has that and any class waits for its turn.
    fn link(&self) -> Option<(Capacity, Vec<Sender>)> {
        let plan = &self.policy.plan;
        let ids = plan.class_ids().iter().zip(&plan.classes);
        let senders: Vec<Sender> = ids.map(|(id, class)| Sender::of(*id, class)).collect();
        let waits = |it: &Sender| it.is_background || it.share.is_some();
        Some((self.policy.link.carries()?, senders))
            .filter(|(_, senders)| senders.iter().any(waits))
    }

    /// The level of a class among its site's; of one that is gone from the policy the last.
    pub fn level_of(&self, class: ClassId) -> Level {
        self.levels.get(class.index()).copied().unwrap_or(self.bounds.last())
    }
}

/// The secret that flows are hashed with: one for the process, so that a reload keeps flows what they
/// are.
pub(crate) fn flow_key() -> FlowKey {
    static KEY: OnceLock<FlowKey> = OnceLock::new();
    // The standard library seeds its hash tables from the system's randomness.
    let random = || RandomState::new().hash_one(0u8);
    *KEY.get_or_init(|| FlowKey([random(), random()]))
}

/// Tells the gate which servers have numbers of slots of their own: before a plan, so that both are in force at one moment.
fn tell_numbers<T>(gate: &mut Gate<T>, pools: &Pools) {
    pools.with_ids().for_each(|(pool, it)| gate.set_server_slots(pool, &it.numbers()));
}

/// Tells the gate which servers the pools have, and which may get requests.
fn tell_servers<T>(gate: &mut Gate<T>, now: Moment, pools: &Pools) {
    tell_numbers(gate, pools);
    for (pool, origin) in pools.with_ids() {
        gate.set_servers(now, pool, origin.ids());
        if origin.settings.slots_per_server {
            gate.set_access(now, pool, &origin.access());
        }
    }
}

/// Refusals that the admin listener can show.
const REFUSALS_KEPT: usize = 256;

/// What all connections of the process share.
#[derive(Debug)]
pub struct Shared {
    /// The gate.
    pub door: Door,
    /// The configuration in force.
    pub config: ArcSwap<Config>,
    /// The policy that is observed beside it, if there is one.
    pub observed: ArcSwapOption<ObservedPolicy>,
    /// Client connections that are open, from the moment they are accepted.
    pub connections: Arc<Connections>,
    /// Listening sockets from which connections are still taken.
    pub listening: AtomicUsize,
    /// Upgraded connections that are open.
    pub tunnels: AtomicUsize,
    /// What the gateway itself counts.
    pub counters: Arc<Counters>,
    /// The link that answers leave by.
    pub link: Link,
    /// Threads for the connections of some classes; unset: a connection is served where it is accepted.
    pub lanes: OnceLock<Lanes>,
    /// What the kernel's part of the gate is told of clients, and what it does.
    pub kernel: Clients,
    /// The sessions that run.
    pub sessions: Arc<SessionTable>,
    /// What the workers are doing.
    pub workers: Arc<Board>,
    /// The last requests that were refused.
    pub refusals: Arc<refusals::Refusals>,
    /// The access log, if there is one.
    pub log: ArcSwapOption<Log>,
    /// What the log says while connections are at their bound.
    pub connections_report: Report,
    /// Keeps the log short while connections cannot be accepted.
    pub complaint: Seldom,
    /// Says once that answers cannot be marked.
    pub mark_complaint: Seldom,
    /// Keeps the log short while bodies cannot be spooled.
    pub spool_complaint: Seldom,
    draining: AtomicBool,
    /// Whether it will soon.
    leaving: AtomicBool,
    /// Whether a successor serves.
    succeeded: watch::Sender<bool>,
    drained: watch::Sender<bool>,
    stop: watch::Sender<bool>,
}

thread_local! {
    /// Which of the serving threads this is.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// Says which of the serving threads this is; once, at its start.
pub fn set_thread(index: usize) {
    THREAD.set(index);
}

impl Shared {
    /// The state of a process that starts with this configuration.
    pub fn new(config: Config, counters: Arc<Counters>) -> Self {
        counters.connections_max.store(config.bounds.max, Ordering::Relaxed);
        counters.store.follow(config.store.as_ref());
        let link = Link::default();
        link.set(crate::clock::now(), config.link(), config.link_interface.clone());
        let door = Door::new(config.policy.plan.clone(), crate::clock::now);
        tell_servers(&mut door.gate(), crate::clock::now(), &config.pools);
        Shared {
            door,
            link,
            lanes: OnceLock::new(),
            kernel: Clients::default(),
            sessions: Arc::new(SessionTable::new(config.policy.session.as_ref())),
            connections: Arc::new(Connections::new(counters.connections.clone())),
            counters,
            workers: Arc::default(),
            refusals: Arc::new(refusals::Refusals::with_capacity(REFUSALS_KEPT)),
            log: ArcSwapOption::empty(),
            listening: AtomicUsize::new(0),
            tunnels: AtomicUsize::new(0),
            config: ArcSwap::from_pointee(config),
            observed: ArcSwapOption::empty(),
            connections_report: Report::default(),
            complaint: Seldom::default(),
            mark_complaint: Seldom::default(),
            spool_complaint: Seldom::default(),
            draining: AtomicBool::new(false),
            leaving: AtomicBool::new(false),
            succeeded: watch::Sender::new(false),
            drained: watch::Sender::new(false),
            stop: watch::Sender::new(false),
        }
    }

    /// Puts a configuration in force, whole: the gate first, so that no request is classified by a
    /// plan that the gate does not know.
    pub fn reconfigure(&self, config: Config) {
        self.sessions.reconfigure(config.policy.session.as_ref());
        let mut gate = self.door.gate();
        let now = crate::clock::now();
        tell_numbers(&mut gate, &config.pools);
        gate.reconfigure(now, config.policy.plan.clone());
        config.pools.moved_from(&self.config.load().pools).for_each(|pool| gate.moved(now, pool));
        tell_servers(&mut gate, now, &config.pools);
        self.counters.connections_max.store(config.bounds.max, Ordering::Relaxed);
        self.counters.store.follow(config.store.as_ref());
        self.link.set(crate::clock::now(), config.link(), config.link_interface.clone());
        self.config.store(Arc::new(config));
        self.door.wake(gate);
    }

    /// Names of servers stand for others now, in these pools; in which none has stayed, as is said of each.
    pub fn servers_changed(&self, changed: &[(PoolId, bool)]) {
        let now = crate::clock::now();
        let mut gate = self.door.gate();
        for (pool, _) in changed.iter().filter(|(_, is_moved)| *is_moved) {
            gate.moved(now, *pool);
        }
        tell_servers(&mut gate, now, &self.config.load().pools);
        self.door.wake(gate);
    }

    /// How many slots a pool of another plan would have in force: those of the pool of its name, or else of the default pool.
    pub fn slots_for(&self, plan: &Plan, pool: PoolId) -> u32 {
        let config = self.config.load();
        let (enforced, name) = (&config.policy.plan, plan.pool_name(pool));
        let mut ids = enforced.pool_ids().iter();
        let same = ids.find(|id| enforced.pool_name(**id) == name);
        self.door.slots(same.copied().unwrap_or(PoolId::DEFAULT))
    }

    /// What this thread counts.
    pub fn tally(&self) -> &ThreadCounters {
        self.counters.thread(THREAD.get())
    }

    /// Whether a client may still be served: a connection is open, or one may yet be accepted.
    ///
    /// In this order: a socket counts as listening until what it has accepted is counted.
    pub fn is_busy(&self) -> bool {
        self.listening.load(Ordering::Acquire) > 0 || self.connections.open() > 0
    }

    /// Whether the process still serves, and will soon take no new connections any more.
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// It will soon.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// A successor serves in the place of this process.
    pub fn succeed(&self) {
        self.succeeded.send_replace(true);
    }

    /// Whether one does.
    pub fn has_succeeded(&self) -> bool {
        *self.succeeded.borrow()
    }

    /// Returns when one does.
    pub async fn succeeded(&self) {
        let mut succeeded = self.succeeded.subscribe();
        // The sender lives as long as `self`.
        let _ = succeeded.wait_for(|&it| it).await;
    }

    /// Whether the process is on its way out.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes no new connections, and closes each open one after the request that it is busy with.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.drained.send_replace(true);
    }

    /// Ends every thread.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Returns when every thread is to end.
    pub async fn stopped(&self) {
        let mut stop = self.stop.subscribe();
        // The sender lives as long as `self`.
        let _ = stop.wait_for(|&stop| stop).await;
    }

    /// Returns when the drain begins.
    pub async fn draining(&self) {
        let mut drained = self.drained.subscribe();
        // The sender lives as long as `self`.
        let _ = drained.wait_for(|&draining| draining).await;
    }
}

/// The door, held by a task of its own.
#[derive(Debug)]
pub struct OwnedDoor(pub Arc<Shared>);

impl Deref for OwnedDoor {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.0.door
    }
}

/// A listening socket, counted while it lives, whichever task it is handed to.
#[derive(Debug)]
pub struct Present {
    /// The process that it belongs to.
    pub shared: Arc<Shared>,
}

impl Present {
    /// One more listening socket.
    pub fn listener(shared: &Arc<Shared>) -> Self {
        shared.listening.fetch_add(1, Ordering::Relaxed);
        Present { shared: shared.clone() }
    }
}

impl Drop for Present {
    fn drop(&mut self) {
        self.shared.listening.fetch_sub(1, Ordering::Release);
    }
}

/// Counts something while it lives.
#[derive(Debug)]
pub struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    /// One more, unless there are `max` already.
    pub fn below(count: &'a AtomicUsize, max: usize) -> Option<Self> {
        if count.fetch_add(1, Ordering::Relaxed) < max {
            return Some(Counted(count));
        }
        count.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
