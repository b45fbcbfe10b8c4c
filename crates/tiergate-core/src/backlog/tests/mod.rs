//! The backlog against a naive one, and what it promises.

mod oracle;
mod promises;
mod random;

use super::*;
use crate::arrival::Arrival;
use crate::class::{Class, ClassId, Codel};
use crate::classify::score::{Points, Score};
use crate::names::{LaneId, Names};
use crate::plan::{Plan, Spec};
use crate::reason::Reason;
use crate::schedule::{Policy, Site};
use crate::time::Moment;
use std::time::Duration;

pub(super) const C: LaneId = LaneId(0);

pub(super) fn at(ms: u64) -> Moment {
    Moment::from_millis(ms)
}

/// Of classes of one site by score, with that ageing.
pub(super) fn disciplines(classes: &[Class], ageing: f64) -> Vec<Discipline> {
    let site = Site { policy: Policy::Score { ageing }, ..Site::named("s") };
    let name = |(place, class): (usize, &Class)| Class { name: place.to_string(), ..class.clone() };
    let classes = classes.iter().enumerate().map(name).collect();
    let spec = Spec { classes, sites: vec![site], ..Spec::protective() };
    let plan = Plan::build(spec, &mut Names::default()).expect("a valid plan");
    plan.classes.iter().map(|class| Discipline::of_plan(&plan, class)).collect()
}

/// Empty, with these classes by id.
pub(super) fn backlog_of(classes: &[Class], ageing: f64) -> Backlog<u32> {
    let mut backlog = Backlog::new();
    for (class, discipline) in (0..).zip(disciplines(classes, ageing)) {
        backlog.reconfigure(LaneId(class), discipline);
    }
    backlog
}

pub(super) fn backlog(class: Class) -> Backlog<u32> {
    backlog_of(&[class], 0.0)
}

pub(super) fn of_flow(flow: u64) -> Arrival {
    Arrival { flow, ..Arrival::of(ClassId(0)) }
}

/// Serves the next of the class at that cost, as the gate does; it ends at once. Its waker.
pub(super) fn serve(
    backlog: &mut Backlog<u32>,
    now: Moment,
    class: LaneId,
    cost: f64,
) -> Option<u32> {
    let (wake, turn) = begin(backlog, now, class, cost)?;
    turn.into_iter().for_each(|turn| backlog.ended(now, turn, cost, cost));
    Some(wake)
}

/// The same, without its end. Its waker, and whom it was charged to.
pub(super) fn begin(
    backlog: &mut Backlog<u32>,
    now: Moment,
    class: LaneId,
    cost: f64,
) -> Option<(u32, Option<FlowTurn>)> {
    let ticket = backlog.first(now, class)?;
    backlog.served(ticket, cost);
    let turn = backlog.waiter(ticket).expect("it waits").turn;
    let granted = Granted {
        at: now,
        found: 1,
        found_there: 0,
        seat: None,
        beside: false,
        lineup: 0,
        place: None,
    };
    let wake = backlog.settle(ticket, State::Granted(granted));
    backlog.remove(ticket);
    Some((wake, turn))
}

/// The next whose wait is over, when those who may be late are.
pub(super) fn expired(backlog: &mut Backlog<u32>, now: Moment) -> Option<Ticket> {
    loop {
        let ticket = backlog.overdue(now)?;
        if !backlog.stays_late(now, ticket) {
            return Some(ticket);
        }
    }
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
