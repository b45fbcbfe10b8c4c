//! Classes: tiers of service, ordered by importance.

use crate::admit::trigger::Trigger;
use crate::control::ServiceTarget;
pub use crate::names::ClassId;
use crate::names::{AdaptationId, PolicerId, ResourceId, Route, SiteId};
use crate::schedule::Terms;
use crate::transmit::Share;
use std::time::Duration;

/// In which order the requests of one class get slots. Those of running sessions come first whatever
/// the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    #[default]
    Fifo,
    /// First come, first served at rest; last come, first served while the class is overloaded, when
    /// whoever waited long is about to leave anyway. Source: Facebook, "Fail at Scale" (2015).
    AdaptiveLifo,
    /// The earliest deadline first.
    Deadline,
    /// The highest score first, and older before newer (DiffServer §3).
    Score,
}

/// Who leaves a class's backlog that is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The request that comes.
    #[default]
    RefuseNew,
    /// The request that has waited longest.
    DropOldest,
    /// The request of the lowest score, then the one that came last.
    DropLeast,
}

/// What becomes of a request whose deadline passes while it waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Late {
    /// It is refused.
    #[default]
    Refuse,
    /// It is served after all that are not late, until it has waited twice its deadline.
    Last,
}

/// The delay that CoDel lets stand in a class's backlog, and for how long.
///
/// Source: Nichols and Jacobson, "Controlling Queue Delay" (2012); RFC 8289.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codel {
    /// Delay of the backlog that may stand.
    pub target: Duration,
    /// How long a longer delay is borne before requests are dropped.
    pub interval: Duration,
}

/// What a policy says of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// How long after its arrival a request may still be started. Longest time in the backlog.
    pub deadline: Duration,
    /// Whether requests are also bounded by how long its clients are seen to wait.
    pub patience: bool,
    /// Share of the slots, 0.0 to 1.0, that this class is sure of while it has requests waiting.
    /// What it does not use is lent to the others.
    pub minimum: f64,
    /// How many requests may wait at once, in each pool.
    pub queue_len_max: u32,
    /// The policer that all of its requests come under.
    pub policer: Option<PolicerId>,
    /// Backlogs at which its requests are refused.
    pub refuse_at: Vec<Trigger>,
    /// Its part of the work, relative to the others', where slots are shared by weight. More than 0.
    pub weight: f64,
    /// Its share of the slots, 0.0 to 1.0, where capacity is shared or fixed.
    pub share: f64,
    /// The part of the slots, 0.0 to `share`, that is kept free for it and never lent, where capacity
    /// is shared.
    pub reserve: f64,
    /// The site that it belongs to.
    pub site: SiteId,
    /// Where its requests go, unless their rule says otherwise.
    pub pool: Route,
    /// What its requests need beside a slot, unless their rule says otherwise.
    pub resource: Option<ResourceId>,
    /// What decides the quality of its answers, unless their rule says otherwise.
    pub adaptation: Option<AdaptationId>,
    /// In which order its requests get slots.
    pub order: Order,
    /// Whether its flows are served in turn, so that one which sends much only makes itself wait.
    pub fair: bool,
    /// The delay that may stand in its backlog; `None`: only deadlines bound it.
    pub codel: Option<Codel>,
    /// Who leaves when its backlog is full.
    pub when_full: WhenFull,
    /// What becomes of its requests whose deadline passes.
    pub late: Late,
    /// How many bytes of requests (heads and bodies that were read) may wait at once, in each pool.
    pub queue_bytes_max: u64,
    /// Whether a request of it that is in service may be preempted by one of a class above; only what
    /// is safe to repeat ever is.
    pub preemptible: bool,
    /// How long the origin may take with its requests: bounds the limit of each pool where that is adaptive. `None`: as long
    /// as it takes.
    pub service_target: Option<ServiceTarget>,
    /// Whether its requests use only what is idle: see [`crate::gate`]'s background.
    pub background: bool,
    /// Its part of the link that answers leave by. `None`: nothing is said; see [`Share::REST`].
    pub transmit: Option<Share>,
    /// The code point that the packets of its answers bear, 0 to 63; `None`: what the system gives them.
    pub dscp: Option<u8>,
    /// The priority of the sockets that carry its messages, 0 to [`Label::PRIORITY_MAX`](crate::mark::Label::PRIORITY_MAX); `None`: the
    /// system's, 0.
    pub socket_priority: Option<u8>,
    /// How many long-lived streams of it (upgraded connections, streams of events) may be open without a
    /// slot. What becomes a stream beyond keeps its slot, so that it is bounded by the slots.
    pub streams_max: u32,
}

impl Class {
    /// Longest time in the backlog where the policy names none. Long enough to ride out a burst,
    /// shorter than the patience of people and of most client time-outs.
    pub const DEADLINE_DEFAULT: Duration = Duration::from_secs(2);
    /// The same of a background class: it may wait until night, as long as its clients do.
    pub const DEADLINE_BACKGROUND: Duration = Duration::from_secs(600);
    /// Bound on the backlog where the policy names none. More than
    /// the connections of most gateways; the deadline bounds the wait long before.
    pub const QUEUE_LEN_MAX_DEFAULT: u32 = 10_000;

    /// Bound on the bytes that wait where the policy names none.
    pub const QUEUE_BYTES_MAX_DEFAULT: u64 = 256 << 20;

    /// Bound on the streams where the policy names none: as many as requests may wait, since each costs
    /// a connection to the origin and two buffers, no more than a waiting request does.
    pub const STREAMS_MAX_DEFAULT: u32 = 10_000;

    /// A class with every default, of the site that was named first.
    pub fn named(name: impl Into<String>) -> Self {
        Class {
            name: name.into(),
            deadline: Self::DEADLINE_DEFAULT,
            patience: true,
            minimum: 0.0,
            queue_len_max: Self::QUEUE_LEN_MAX_DEFAULT,
            policer: None,
            refuse_at: Vec::new(),
            weight: 1.0,
            share: 0.0,
            reserve: 0.0,
            site: SiteId(0),
            pool: Route::default(),
            resource: None,
            adaptation: None,
            order: Order::Fifo,
            fair: true,
            codel: None,
            when_full: WhenFull::RefuseNew,
            late: Late::Refuse,
            queue_bytes_max: Self::QUEUE_BYTES_MAX_DEFAULT,
            preemptible: false,
            service_target: None,
            background: false,
            transmit: None,
            dscp: None,
            socket_priority: None,
            streams_max: Self::STREAMS_MAX_DEFAULT,
        }
    }

    /// What the plan says of it among the classes of its site.
    pub fn terms(&self) -> Terms {
        let Class { minimum, weight, share, reserve, .. } = *self;
        Terms { minimum, weight, share, reserve }
    }
}
