//! Policies that compare requests, whatever child they belong to: each child offers the request that it
//! would serve next, and the best of these is served. They keep no state: a request's key never changes
//! while it waits.

use super::{Load, Next, Scheduler};

/// How requests are compared.
#[derive(Clone, Copy, Debug)]
pub(super) enum Compare {
    /// The earliest deadline goes first: [`by_deadline`].
    Deadline,
    /// The highest score goes first; requests gain points while they wait: [`by_score`].
    Score {
        /// Points a second; 0 or more.
        ageing: f64,
    },
    /// What came first goes first: [`by_arrival`].
    Fifo,
}

impl Scheduler for Compare {
    fn pick(&mut self, loads: &[Load], _slots: f64) -> Option<usize> {
        match *self {
            Compare::Deadline => best(loads, by_deadline),
            Compare::Score { ageing } => best(loads, |one, other| by_score(one, other, ageing)),
            Compare::Fifo => best(loads, by_arrival),
        }
    }
}

/// The child whose next request goes before all others'; the more important of equals.
fn best(loads: &[Load], goes_before: impl Fn(&Next, &Next) -> bool) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (child, load) in loads.iter().enumerate().filter(|(_, load)| load.waiting > 0) {
        if best.is_none_or(|best| goes_before(&load.next, &loads[best].next)) {
            best = Some(child);
        }
    }
    best
}

/// Earliest deadline first, whatever child the request belongs to; those that are late already go after
/// all others.
///
/// On one slot it meets every deadline whenever any order could that does not break requests off and
/// knows no more of the future (Jackson 1955; Dertouzos 1974), provided that inside a class the order is
/// by deadline too ([`crate::class::Order::Deadline`]).
///
/// Source: WebQoS §4.4 ("schedules based on the deadline for completion of each request").
fn by_deadline(one: &Next, other: &Next) -> bool {
    let key = |next: &Next| (next.late, next.deadline, next.arrived, next.number);
    key(one) < key(other)
}

/// Score: DiffServer's sorted queue, over all classes; and a request gains points while it waits.
///
/// All requests age at the same speed, so that of two that wait the same one always goes first: the key
/// `score − ageing × arrival` never changes, and nothing is sorted again.
///
/// Bound on the wait, with ageing of `a` points a second: a request is passed only by those of a higher
/// score by `d` that come less than `d / a` seconds after it. With scores from `s` to `S` no
/// request is passed by anybody who comes more than `(S − s) / a` seconds after it; then all that wait
/// before it are served, and it is next. Without ageing only its deadline ends its wait.
///
/// Source: DiffServer §3.3 (the sorted queue, first come first served among equals). Ageing: ours.
fn by_score(one: &Next, other: &Next, ageing: f64) -> bool {
    // Points that it would have had if it had come at the clock's origin.
    let key = |next: &Next| next.score.millionths() as f64 / 1e6 - ageing * next.arrived.seconds();
    let (first, second) = (key(one), key(other));
    first > second || first == second && by_arrival(one, other)
}

/// First in, first out: the request that came first, whatever child it belongs to. What the other policies
/// are compared with.
fn by_arrival(one: &Next, other: &Next) -> bool {
    (one.arrived, one.number) < (other.arrived, other.number)
}
