//! Scheduling: which class's longest waiter gets the next slot.

pub mod strict;

/// A site's place in the plan's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SiteId(pub u16);

impl SiteId {
    /// The site's index in the plan's list.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A group of classes that is served as one, such as one of several hosts behind one gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct Site {
    /// The name in the policy, in logs and in metrics.
    pub name: String,
    /// Which of its classes is served next.
    pub policy: Policy,
    /// As of a class, among the sites: [`crate::class::Class::minimum`].
    pub minimum: f64,
    /// As of a class, among the sites: [`crate::class::Class::weight`].
    pub weight: f64,
    /// As of a class, among the sites: [`crate::class::Class::share`].
    pub share: f64,
    /// As of a class, among the sites: [`crate::class::Class::reserve`].
    pub reserve: f64,
}

impl Site {
    /// A site with every default.
    pub fn named(name: impl Into<String>) -> Self {
        let policy = Policy::default();
        Site { name: name.into(), policy, minimum: 0.0, weight: 1.0, share: 0.0, reserve: 0.0 }
    }
}

/// Which of several classes, or sites, gets the next slot.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Policy {
    /// The most important that waits; but each is sure of its minimum, which is lent while it is not used.
    #[default]
    Strict,
    /// Slots in proportion to weights, counted in work: start-time fair queueing.
    Weighted,
    /// Each has its share; what one does not use is lent, except its reserve (WebQoS §4.4).
    Shared,
    /// Each has its share and never more (WebQoS §4.4).
    Fixed,
    /// The request of the earliest deadline, whatever its class.
    Deadline,
    /// The request of the highest score, whatever its class; a request gains `ageing` points a second
    /// while it waits (0: it may wait until its deadline).
    Score {
        /// Points a second.
        ageing: f64,
    },
    /// The request that came first, whatever its class. What other policies are compared with.
    Fifo,
}

/// What a request is said to cost the origin, for shares by weight and turns of flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Costing {
    /// Every request costs the same.
    Requests,
    /// The time that it holds its slots: by what requests of its rule took, put right when it is known.
    #[default]
    Seconds,
    /// The bytes of its answer, likewise.
    Bytes,
}

/// One class's part in a scheduling decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: u32,
    /// Slots held.
    pub running: u32,
    /// Share of the slots that the class is sure of, 0.0 to 1.0.
    pub minimum: f64,
}
