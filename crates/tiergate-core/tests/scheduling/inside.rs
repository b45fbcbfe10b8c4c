//! Which request of a class may be the next: running sessions before all others, then the class's order.

use crate::choice;
use crate::state::{Req, State};
use tiergate_core::class::Order;
use tiergate_core::schedule::Policy;

/// Whether the class's own order may serve the request next. Where flows take turns, the order is that
/// within its flow; the turns are judged over time, by `turns`.
pub(crate) fn check(state: &State, req: &Req) -> Result<(), String> {
    let class = &state.plan.classes[req.class];
    let mut peers: Vec<&Req> = state.waiting_of(std::slice::from_ref(&req.class)).collect();
    if state.is_late(req) {
        // Among the late it no longer matters whose session runs.
        if peers.iter().any(|other| !state.is_late(other)) {
            return Err("it is late and another is not".to_owned());
        }
    } else if !req.session && peers.iter().any(|other| other.session && !state.is_late(other)) {
        // A flow that has most of what is asked for by running sessions leaves turns to others.
        let sessions = || {
            let all = state.waiting.iter().chain(&state.running);
            all.filter(|other| other.session && other.class == req.class)
        };
        let own = |flow| sessions().filter(|other| other.flow == flow).count();
        if !class.fair || sessions().all(|other| own(other.flow) < 2) {
            return Err("a running session waits".to_owned());
        }
        peers.retain(|other| !other.session && !state.is_late(other));
    } else {
        peers.retain(|other| other.session == req.session && !state.is_late(other));
    }
    // By deadline and by score the order says of every two who goes first; else flows take turns.
    if class.fair && matches!(class.order, Order::Fifo | Order::AdaptiveLifo) {
        peers.retain(|other| other.flow == req.flow);
    }
    let wrong = |other: Option<&&Req>| match other {
        Some(other) if other.id != req.id => Err(format!("request {} comes before it", other.id)),
        _ => Ok(()),
    };
    // The first of several minima: who came first, for `waiting` is in order of arrival.
    match class.order {
        // Of the late nothing says whether the first to come goes first, or the first to be late.
        Order::Fifo if state.is_late(req) => {
            wrong(peers.first()).or_else(|_| wrong(peers.iter().min_by_key(|other| other.due)))
        }
        Order::Fifo => wrong(peers.first()),
        Order::AdaptiveLifo => {
            // Overloaded: the longest waiter has waited for a quarter of its patience, until it is less
            // than an eighth.
            let longest = peers.first().expect("itself at least");
            let patience = longest.due.since(longest.arrived);
            let waited = state.now.since(longest.arrived);
            match () {
                () if waited > patience / 4 => wrong(peers.last()),
                () if waited <= patience / 8 => wrong(peers.first()),
                () => wrong(peers.first()).or_else(|_| wrong(peers.last())),
            }
        }
        Order::Deadline => choice::by_deadline(state, peers.iter().copied(), req),
        // By which ageing a plan of before would say.
        Order::Score if state.is_gone(req) => Ok(()),
        Order::Score => choice::by_points(peers.iter().copied(), req, ageing_of(state, req)),
    }
}

/// Points a second for whoever waits: the site's, if it goes by score, or those between sites.
fn ageing_of(state: &State, req: &Req) -> f64 {
    let site = state.plan.classes[req.class].site.index();
    match (state.plan.sites[site].policy, state.plan.between_sites) {
        (Policy::Score { ageing }, _) | (_, Policy::Score { ageing }) => ageing,
        _ => 0.0,
    }
}
