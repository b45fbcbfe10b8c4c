//! A waiting request, and the ticket that names it.

use super::class_queue::queue_of;
use super::flows::FlowTurn;
use crate::adapt::Adapted;
use crate::classify::score::Score;
use crate::collections::Key;
use crate::control::Seat;
use crate::names::{ClassId, LaneId, RuleId};
use crate::reason::Reason;
use crate::time::Moment;

/// Names one waiting request. Stale tickets are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket(pub(super) Key);

/// What has become of a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    /// Holds a slot since the moment given; its owner does not know yet.
    Granted(Granted),
    /// Was refused; its owner does not know yet.
    Refused(Reason),
    /// Gets a copy instead of a refusal for this reason, if it is still there; its owner does not know yet, and it is not counted.
    Stored(Reason),
}

/// A slot that was granted to a waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) at: Moment,
    /// Slots in use then, its own included.
    pub(crate) found: u32,
    /// The same, of the resource that it needs.
    pub(crate) found_there: u32,
    /// Whose slots they are, where each server has its own.
    pub(crate) seat: Option<Seat>,
    /// They are none of the limit's.
    pub(crate) beside: bool,
    /// Of the pool's line-ups, the one in force then.
    pub(crate) lineup: u32,
    /// What the request is named by among those in progress, where the limit is adaptive.
    pub(crate) place: Option<Key>,
}

/// A waiting request, or one whose owner does not know yet that it waits no more.
#[derive(Debug)]
pub(crate) struct Waiter<T> {
    pub(crate) state: State,
    pub(crate) class: ClassId,
    /// In which it waits.
    pub(crate) lane: LaneId,
    /// Whether its session runs already.
    pub(crate) running: bool,
    /// Whether its deadline has passed, and it waits on.
    pub(crate) late: bool,
    /// Whether it had a slot before, which was lent, and so was counted.
    pub(crate) again: bool,
    /// Until when a copy is at hand that is served instead of a refusal.
    pub(crate) copy: Option<Moment>,
    /// The level of its answer.
    pub(crate) adapted: Option<Adapted>,
    /// The rule that decided its class.
    pub(crate) rule: Option<RuleId>,
    /// How many slots it takes, 1 or more.
    pub(crate) slots: u16,
    /// Whose it is.
    pub(crate) flow: u64,
    pub(crate) arrived: Moment,
    /// When its wait ends, one way or another.
    pub(crate) deadline: Moment,
    pub(crate) score: Score,
    /// What its service was expected to cost when it was charged, and the flow that it was charged to.
    pub(crate) estimate: f64,
    pub(crate) turn: Option<FlowTurn>,
    pub(super) bytes: u32,
    /// Grows from one that began to wait to the next. One that is late begins anew.
    pub(super) sequence: u64,
    /// The number of its flow's account.
    pub(super) account: u32,
    pub(super) wake: Option<T>,
}

impl<T> Waiter<T> {
    /// The queue that it waits in.
    pub(super) fn queue(&self) -> u32 {
        queue_of(self.lane, self.running, self.late)
    }
}
