//! Scheduling: which class's next waiter gets the next slot; where there are several sites, which site's,
//! and then which class's of it.
//!
//! A policy ranks *children*: the classes of a site, or the sites. Each policy is one file and keeps one
//! law; [`Schedule`] puts them together. A policy is told what happens and asked who is next:
//!
//! | the gate says | when |
//! |---|---|
//! | [`Scheduler::advance`] | before anything changes |
//! | [`Scheduler::pick`] | a slot may be given: to whom? Asked, nothing is given yet |
//! | [`Scheduler::granted`] | it was given |
//! | [`Scheduler::finished`] | it is back, and what the request really cost |
//! | [`Scheduler::next_change`] | when time alone will make another answer of it |

mod balance;
mod children;
pub mod compare;
pub mod deadline;
pub mod fifo;
pub mod fixed;
mod ranked;
pub mod score;
pub mod shared;
pub mod strict;
pub mod tree;
pub mod weighted;

use crate::classify::score::Score;
pub use crate::names::SiteId;
use crate::time::Moment;
pub use children::Child;
use std::time::Duration;
pub use tree::Schedule;

/// A group of classes that is served as one, such as one of several hosts behind one gateway.
///
/// Shares and minimums of its classes are of its part of the slots: of its own share where capacity is
/// shared or fixed between sites, of its part by weight where that decides, else of all.
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

impl Policy {
    /// Whether it shares slots out by [`Terms::share`].
    pub const fn is_by_share(self) -> bool {
        matches!(self, Policy::Shared | Policy::Fixed)
    }

    /// Whether it compares single requests, whatever their class.
    pub const fn compares(self) -> bool {
        matches!(self, Policy::Deadline | Policy::Score { .. } | Policy::Fifo)
    }
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

/// What the plan says of one child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Part of the slots that it is sure of under [`Policy::Strict`], 0.0 to 1.0.
    pub minimum: f64,
    /// Its part of the work, relative to the others', under [`Policy::Weighted`]. More than 0.
    pub weight: f64,
    /// Its part of the slots under [`Policy::Shared`] and [`Policy::Fixed`], 0.0 to 1.0.
    pub share: f64,
    /// What of its share is never lent under [`Policy::Shared`], 0.0 to `share`.
    pub reserve: f64,
}

impl Terms {
    /// The part of the slots that it is sure of under the policy.
    pub const fn sure(&self, policy: Policy) -> f64 {
        match policy {
            Policy::Strict => self.minimum,
            Policy::Shared | Policy::Fixed => self.share,
            Policy::Weighted | Policy::Deadline | Policy::Score { .. } | Policy::Fifo => 0.0,
        }
    }
}

/// The request that a child would serve next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Next {
    /// Slots that it takes, 1 or more.
    pub slots: u16,
    /// Whether its deadline has passed.
    pub late: bool,
    /// When it came.
    pub arrived: Moment,
    /// Its number among all that came, in their order.
    pub number: u64,
    /// Until when it waits.
    pub deadline: Moment,
    /// How urgent it is.
    pub score: Score,
}

/// One child's part in a scheduling decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: u32,
    /// Slots held.
    pub running: u32,
    /// Who is next; means nothing where nobody waits. Kept only for policies that look at it
    /// ([`Schedule::looks_at_requests`]).
    pub next: Next,
}

/// A policy: which child is served next. `slots`, here, is how many slots the children share, which need
/// not be a whole number. `loads` is one per child, in order of importance.
pub trait Scheduler {
    /// Puts a plan's children in force, among requests that hold slots already. What is known of children
    /// that stay is kept. O(children²).
    fn reconfigure(&mut self, now: Moment, children: &[Child], loads: &[Load], slots: f64);

    /// Lets time pass; call before anything in `loads` changes. O(children).
    fn advance(&mut self, now: Moment, loads: &[Load], slots: f64);

    /// The child to serve next; `None` if nobody waits, or none that do may have one more slot. Asked
    /// again it says the same. O(children).
    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize>;

    /// A request of the child was given so many slots, and will cost about so much. `loads`: without
    /// these slots, and without it among those that wait.
    fn granted(&mut self, child: usize, loads: &[Load], slots: f64, grant: Grant);

    /// These slots are back. `actual`: what the request really cost.
    fn finished(&mut self, child: usize, grant: Grant, actual: f64);

    /// How long until `pick` may find somebody that it does not find now, if nothing but time changes;
    /// `None`: time changes nothing. O(children).
    fn next_change(&self, loads: &[Load], slots: f64) -> Option<Duration>;
}

/// Slots that were given to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant {
    /// How many, 1 or more.
    pub slots: u16,
    /// What the request was expected to cost.
    pub estimate: f64,
}

impl Site {
    /// What the plan says of it among sites.
    pub fn terms(&self) -> Terms {
        let Site { minimum, weight, share, reserve, .. } = *self;
        Terms { minimum, weight, share, reserve }
    }
}
