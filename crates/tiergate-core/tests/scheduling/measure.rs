//! What only shows over time: shares that come back within a service time, turns by weight.

use crate::choice::{Member, classes, sites, whole};
use crate::script::Watch;
use crate::state::{Req, State};
use crate::turns::{Sharer, Turns};
use std::time::Duration;
use tiergate_core::schedule::Policy;
use tiergate_core::time::Moment;

/// Members of a plan and what each is sure of.
pub(crate) type Sure = fn(&State) -> Vec<(Member, f64)>;

/// Whoever has less than the whole slots that it is sure of, and requests that wait, has them within the
/// longest service time: no later do all who run at this moment give their slots back.
pub(crate) struct WithinOneService {
    pub(crate) sure: Sure,
    pub(crate) longest: Duration,
    /// Since when each member has lacked some.
    pub(crate) since: Vec<Option<Moment>>,
}

impl WithinOneService {
    pub(crate) fn new(sure: Sure, longest: Duration) -> Self {
        WithinOneService { sure, longest, since: Vec::new() }
    }
}

impl Watch for WithinOneService {
    fn reloaded(&mut self, _state: &State) {
        self.since.clear();
    }

    fn settled(&mut self, state: &State) {
        let members = (self.sure)(state);
        self.since.resize(members.len(), None);
        for (since, (member, share)) in self.since.iter_mut().zip(&members) {
            let waits = state.waiting_of(&member.classes).next().is_some();
            let lacks =
                waits && state.held(&member.classes) < whole(*share, f64::from(state.slots()));
            *since = if lacks { since.or(Some(state.now)) } else { None };
            let lacked = since.map_or(Duration::ZERO, |since| state.now.since(since));
            assert!(lacked <= self.longest, "{member:?} has lacked slots for {lacked:?}");
        }
    }
}

/// The classes of the first site and their minimums.
pub(crate) fn minimums(state: &State) -> Vec<(Member, f64)> {
    let members = classes(&state.plan, &sites(state)[0].classes);
    members.into_iter().map(|member| (member.clone(), member.minimum)).collect()
}

/// The classes of the first site and their shares.
pub(crate) fn shares(state: &State) -> Vec<(Member, f64)> {
    let members = classes(&state.plan, &sites(state)[0].classes);
    members.into_iter().map(|member| (member.clone(), member.share)).collect()
}

/// The sites and what each is sure of.
pub(crate) fn of_sites(state: &State) -> Vec<(Member, f64)> {
    let sure = |member: &Member| match state.plan.between_sites {
        _ if state.plan.sites.len() == 1 => 0.0,
        Policy::Strict => member.minimum,
        Policy::Shared | Policy::Fixed => member.share,
        _ => 0.0,
    };
    sites(state).into_iter().map(|member| (member.clone(), sure(&member))).collect()
}

/// Whether a request is one's own.
pub(crate) type Owns = Box<dyn Fn(&State, &Req) -> bool>;

/// Who shares: of each its weight and the requests that are its own.
pub(crate) struct Taking {
    pub(crate) weight: f64,
    pub(crate) owns: Owns,
}

/// Turns by weight between any groups of requests.
pub(crate) struct ByWeight {
    /// Who shares, by a plan.
    pub(crate) takers: fn(&State) -> Vec<Taking>,
    pub(crate) cost: fn(&State, &Req) -> f64,
    /// Most that a request costs.
    pub(crate) largest: f64,
    /// How many times the bound of one at a time, given the slots.
    pub(crate) times: fn(u32) -> f64,
    seen: Option<(Vec<Taking>, Turns)>,
}

impl ByWeight {
    pub(crate) fn new(
        takers: fn(&State) -> Vec<Taking>,
        cost: fn(&State, &Req) -> f64,
        largest: f64,
        times: fn(u32) -> f64,
    ) -> Self {
        ByWeight { takers, cost, largest, times, seen: None }
    }

    fn look(&mut self, state: &State) {
        let (takers, turns) = self.seen.get_or_insert_with(|| {
            let takers = (self.takers)(state);
            let sharer =
                |it: &Taking| Sharer { weight: it.weight, largest: self.largest, waits: false };
            let turns =
                Turns::new(takers.iter().map(sharer).collect(), (self.times)(state.slots()));
            (takers, turns)
        });
        for (place, taker) in takers.iter().enumerate() {
            let waits = |req: &Req| (taker.owns)(state, req);
            turns.waits(place, state.waiting.iter().any(waits));
        }
    }
}

impl Watch for ByWeight {
    fn started(&mut self, state: &State, req: &Req) {
        if self.seen.is_none() {
            self.look(state);
        }
        let (takers, turns) = self.seen.as_mut().expect("just looked");
        if let Some(place) = takers.iter().position(|it| (it.owns)(state, req)) {
            turns.served(place, (self.cost)(state, req));
        }
        self.look(state);
    }

    fn ended(&mut self, state: &State, _req: &Req, in_service: bool) {
        if !in_service {
            self.look(state);
        }
    }

    fn reloaded(&mut self, _state: &State) {
        self.seen = None;
    }

    fn settled(&mut self, state: &State) {
        self.look(state);
    }
}
