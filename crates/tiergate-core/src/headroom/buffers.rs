//! The buffers.

use super::allocation::allocation;
use crate::account::ClassAccount;
use crate::class::Class;
use crate::histogram::Histogram;
use crate::named::named;
use crate::plan::Plan;
use crate::reason::Reason;
use crate::schedule::{Policy, Terms};
use std::time::Duration;

/// The largest buffer that is told apart: a hundred times the load.
pub const BUFFER_MAX: f64 = 99.0;
/// Steps of the search for a growth: each halves what is left of 0 to 100.
const STEPS: usize = 30;
/// How much less than what it wants a class may get, relatively, and be served: what steps and sums round away.
const SLACK: f64 = 1e-6;

named! {
    /// What ends first when load grows.
    pub enum FailureBound {
        /// The origin's slots are full of the most important requests.
        Slots = "slots",
        /// The gateway may have no more client connections.
        Connections = "connections",
        /// The process may have no more file descriptors.
        Descriptors = "descriptors",
        /// The processors that the gateway may use have no time left.
        Processors = "processors",
    }
}

/// What a class of a plan asks of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// Requests a second that ask for a slot.
    pub requests_per_second: f64,
    /// Slots that each holds, times the seconds that it holds them.
    pub slot_seconds: f64,
}

impl Demand {
    /// By what was counted in so long a time, of requests that hold so many slots each on average. Requests that a rule or a policer
    /// refuses ask for no slot. How long each holds its slots is by those that ended in that time, or else by all that ever did.
    pub fn between(
        before: &ClassAccount,
        now: &ClassAccount,
        elapsed: Duration,
        slots_each: f64,
    ) -> Self {
        let no_slot = [Reason::Rule, Reason::Policed, Reason::SitePoliced, Reason::Blocked];
        let more = |count: fn(&ClassAccount, usize) -> u64, place| {
            count(now, place).saturating_sub(count(before, place))
        };
        let refused = no_slot.map(|it| more(|it, place| it.refused[place], it.index()));
        let asked = more(|it, _| it.arrived, 0).saturating_sub(refused.iter().sum());
        let (ended, all) = (now.service.since(&before.service), &now.service);
        let mean = |it: &Histogram| (it.count() > 0).then(|| it.sum_seconds() / it.count() as f64);
        let seconds = mean(&ended).or_else(|| mean(all)).unwrap_or_default();
        let requests_per_second = asked as f64 / elapsed.as_secs_f64().max(1e-9);
        Demand { requests_per_second, slot_seconds: seconds * slots_each }
    }

    /// Slots that its requests would hold on average if all were served.
    pub fn slots(&self) -> f64 {
        self.requests_per_second * self.slot_seconds
    }
}

/// How much each class's load, and that of all others with it, may grow before it is shed: by the classes of the plan, in its order.
/// `None`: the class has no requests, or gets only what is idle. From -1 to [`BUFFER_MAX`]. `demands` are by
/// the plan's order, too. O(classes² · steps).
pub fn success_buffers(plan: &Plan, slots: f64, demands: &[Demand]) -> Vec<Option<f64>> {
    let classes = &plan.classes;
    let wanted: Vec<f64> = classes
        .iter()
        .zip(demands)
        .map(|(class, it)| if class.background { 0.0 } else { it.slots() })
        .collect();
    let gets = |growth: f64| {
        let grown: Vec<f64> = wanted.iter().map(|d| d * growth).collect();
        (allocated(plan, &grown, slots), grown)
    };
    let buffer = |place: usize| {
        let is_served = |growth: f64| {
            let (gets, grown) = gets(growth);
            gets[place] >= grown[place] * (1.0 - SLACK)
        };
        if is_served(1.0 + BUFFER_MAX) {
            return BUFFER_MAX;
        }
        let (mut served, mut shed) = (0.0, 1.0 + BUFFER_MAX);
        for _ in 0..STEPS {
            let middle = (served + shed) / 2.0;
            if is_served(middle) { served = middle } else { shed = middle }
        }
        served - 1.0
    };
    (0..wanted.len()).map(|place| (wanted[place] > 0.0).then(|| buffer(place))).collect()
}

/// How much the load of a pool may grow until its most important class with requests is shed; `None`: it has no requests.
pub fn failure_buffer(success: &[Option<f64>]) -> Option<f64> {
    success.iter().copied().flatten().next()
}

/// How much what is in use may grow until it comes to its bound; `None`: nothing is in use, or there is no bound. At most
/// [`BUFFER_MAX`].
pub fn bounded_buffer(used: f64, most: f64) -> Option<f64> {
    (used > 0.0 && most > 0.0).then(|| (most / used - 1.0).min(BUFFER_MAX))
}

/// What each class gets: first its site of the slots, then it of its site's.
fn allocated(plan: &Plan, wanted: &[f64], slots: f64) -> Vec<f64> {
    let of_site = |class: &Class| {
        plan.site_ids().iter().position(|it| *it == class.site).expect("a plan has it")
    };
    let mut site_wants = vec![0.0; plan.sites.len()];
    for (class, wanted) in plan.classes.iter().zip(wanted) {
        site_wants[of_site(class)] += wanted;
    }
    let terms: Vec<Terms> = plan.sites.iter().map(|it| it.terms()).collect();
    let between = if plan.sites.len() == 1 { Policy::Fifo } else { plan.between_sites };
    let site_gets = allocation(between, &terms, &site_wants, slots, slots);
    let weights: f64 = terms.iter().map(|it| it.weight).sum();
    let mut gets = vec![0.0; wanted.len()];
    for (place, site) in plan.sites.iter().enumerate() {
        let own: Vec<usize> =
            (0..wanted.len()).filter(|&it| of_site(&plan.classes[it]) == place).collect();
        let terms: Vec<Terms> = own.iter().map(|&it| plan.classes[it].terms()).collect();
        let wants: Vec<f64> = own.iter().map(|&it| wanted[it]).collect();
        // What its classes' parts are of: see `Site`.
        let whole = match plan.between_sites {
            _ if plan.sites.len() == 1 => slots,
            Policy::Shared | Policy::Fixed => site.share * slots,
            Policy::Weighted => site.weight / weights * slots,
            _ => slots,
        };
        // What the site may have, if all of it is asked for: what others do not want, too.
        let may = if site_gets[place] < site_wants[place] * (1.0 - SLACK) {
            site_gets[place]
        } else {
            slots.max(site_wants[place])
        };
        let parts = allocation(site.policy, &terms, &wants, may, whole);
        own.iter().zip(parts).for_each(|(&it, part)| gets[it] = part);
    }
    gets
}
