//! A gateway before the server. Several may share it.

use crate::scenario::Gateway;
use crate::trial::{Front, Trial};
use tiergate_core::gate::Gate;
use tiergate_core::plan::Plan;
use tiergate_core::time::Moment;

/// One gateway.
pub(super) struct Door {
    pub(super) gate: Gate<u32>,
    pub(super) of: Gateway,
    /// When it looks around next.
    pub(super) tick_at: u64,
    /// Running may exceed the limit only by what ran when the limit fell.
    pub(super) running_allowed: u32,
    /// Requests without an outcome, by class.
    pub(super) unsettled: Vec<u64>,
}

impl Door {
    /// The gateways of a trial, each with this plan.
    pub(super) fn all(trial: &Trial, front: Front, plan: &Plan) -> Vec<Door> {
        let gate = |of: &Gateway| match trial.law.filter(|_| front == Front::Policy) {
            Some(law) => Gate::with_law(plan.clone(), law.build()),
            None => Gate::new(of.begins(plan)),
        };
        let door = |of: &Gateway| Door {
            gate: gate(of),
            of: of.clone(),
            tick_at: u64::MAX,
            running_allowed: 0,
            unsettled: vec![0; trial.plan.classes.len()],
        };
        match trial.gateways.is_empty() {
            true => vec![door(&Gateway::default())],
            false => trial.gateways.iter().map(door).collect(),
        }
    }

    /// No more run than there are slots, or than ran when the slots became fewer. `narrow`: every request takes one.
    pub(super) fn check_running(&mut self, now: u64, narrow: bool) {
        let (running, slots) = (self.gate.running(), self.gate.slots());
        let most = slots.max(self.running_allowed);
        assert!(!narrow || running <= most, "at {now} ns {running} run with {slots} slots");
        self.running_allowed = running;
    }

    /// What its clock says at a moment of the simulation.
    pub(super) fn moment(&self, now: u64) -> Moment {
        Moment::from_nanos(now + (self.of.clock_s * 1e9) as u64)
    }

    /// The moment of the simulation at which its clock says so.
    pub(super) fn when(&self, moment: Moment) -> u64 {
        match moment {
            Moment::NEVER => u64::MAX,
            moment => moment.nanos().saturating_sub((self.of.clock_s * 1e9) as u64),
        }
    }

    /// Its part of the requests that come now.
    pub(super) fn weight(&self, now: u64) -> f64 {
        let is_there = (self.of.from_s..self.of.to_s).contains(&(now as f64 / 1e9));
        if is_there { self.of.weight } else { 0.0 }
    }
}
