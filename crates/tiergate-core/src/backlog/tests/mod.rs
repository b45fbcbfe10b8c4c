//! The backlog against a naive one, and what it promises.

mod oracle;
mod promises;
mod random;

use super::*;
use crate::arrival::Arrival;
use crate::class::{Class, ClassId, Codel};
use crate::classify::score::{Points, Score};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::schedule::{Policy, Site};
use crate::time::Moment;
use std::time::Duration;

pub(super) const C: ClassId = ClassId(0);

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// Of classes of one site by score, with that ageing.
pub(super) fn disciplines(classes: Vec<Class>, ageing: f64) -> Vec<Discipline> {
    let site = Site { policy: Policy::Score { ageing }, ..Site::named("s") };
    Discipline::of_plan(&Plan { classes, sites: vec![site], ..Plan::protective() })
}

pub(super) fn backlog(class: Class) -> Backlog<u32> {
    Backlog::new(disciplines(vec![class], 0.0))
}

pub(super) fn of_flow(flow: u64) -> Arrival {
    Arrival { flow, ..Arrival::of(C) }
}

/// Serves the next of the class at that cost, as the gate does. Its waker, and whom it was charged to.
pub(super) fn serve(
    backlog: &mut Backlog<u32>,
    now: Moment,
    class: ClassId,
    cost: f64,
) -> Option<(u32, Option<FlowTurn>)> {
    let ticket = backlog.first(now, class)?;
    backlog.served(ticket, cost);
    let turn = backlog.waiter(ticket).expect("it waits").turn;
    let wake = backlog.settle(ticket, State::Granted(now));
    backlog.remove(ticket);
    Some((wake, turn))
}

/// Refuses a waiter, as the gate does.
pub(super) fn refuse(backlog: &mut Backlog<u32>, ticket: Ticket) -> u32 {
    let wake = backlog.settle(ticket, State::Refused(Reason::QueueFull));
    backlog.remove(ticket);
    wake
}

pub(super) fn score(points: u32) -> Score {
    Score::of(Points::from_thousandths(points * 1000).expect("small"))
}
