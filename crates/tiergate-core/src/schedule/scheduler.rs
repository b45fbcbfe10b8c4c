//! What a policy is told, and what it is asked.

use super::children::Child;
use crate::classify::score::Score;
use crate::time::Moment;
use std::time::Duration;

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
    /// Requests that wait and may have a slot.
    pub waiting: u32,
    /// Requests that wait for something else first, and are no matter of a policy.
    pub held_up: u32,
    /// Those among all that wait that need something that not all requests need.
    pub apart: u32,
    /// Slots held.
    pub running: u32,
    /// Slots held that are none of the pool's limit, and are no matter of a policy ([`crate::gate`]'s background).
    pub beside: u32,
    /// Who is next; means nothing where nobody waits. Kept only for policies that look at it
    /// ([`Schedule::looks_at_requests`]).
    pub next: Next,
}

impl Load {
    /// All that wait.
    pub fn all_waiting(&self) -> u32 {
        self.waiting + self.held_up
    }

    /// All slots held.
    pub fn all_running(&self) -> u32 {
        self.running + self.beside
    }

    /// Those beside the limit, or those of it, to be changed.
    pub(crate) fn held(&mut self, beside: bool) -> &mut u32 {
        if beside { &mut self.beside } else { &mut self.running }
    }

    /// Those that are held up, or those that are not, to be changed.
    pub(crate) fn part(&mut self, held_up: bool) -> &mut u32 {
        if held_up { &mut self.held_up } else { &mut self.waiting }
    }
}

/// A policy: which child is served next. `slots`, here, is how many slots the children share, which need
/// not be a whole number. `loads` is one per child, in order of importance. What a policy leaves out means
/// nothing to it.
pub trait Scheduler {
    /// Puts a plan's children in force, among requests that hold slots already. What is known of children
    /// that stay is kept. O(children²).
    fn reconfigure(&mut self, _now: Moment, _children: &[Child], _loads: &[Load], _slots: f64) {}

    /// Lets time pass; call before anything in `loads` changes. O(children).
    fn advance(&mut self, _now: Moment, _loads: &[Load], _slots: f64) {}

    /// The child to serve next; `None` if nobody waits, or none that do may have one more slot. Asked
    /// again it says the same. O(children).
    fn pick(&mut self, loads: &[Load], slots: f64) -> Option<usize>;

    /// A request of the child was given so many slots, and will cost about so much. `loads`: without
    /// these slots, and without it among those that wait.
    fn granted(&mut self, _child: usize, _loads: &[Load], _slots: f64, _grant: Grant) {}

    /// These slots are back. `actual`: what the request really cost.
    fn finished(&mut self, _child: usize, _grant: Grant, _actual: f64) {}

    /// How long until `pick` may find somebody that it does not find now, if nothing but time changes;
    /// `None`: time changes nothing. O(children).
    fn next_change(&self, _loads: &[Load], _slots: f64) -> Option<Duration> {
        None
    }
}

/// Slots that were given to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grant {
    /// How many, 1 or more.
    pub slots: u16,
    /// What the request was expected to cost.
    pub estimate: f64,
}
