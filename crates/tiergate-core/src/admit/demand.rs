//! Demand: how much each flow asked for lately, beside how much others do.
//!
//! A request counts as much as those of its flow cost lately, beside what is usual: one of a flow that holds a slot for
//! twenty times as long counts twenty times. Demand fades by a twentieth ten times a second: half of what is known is of
//! the last 1.4 s; what requests cost is remembered ten times as long, since a flow that is refused shows no more of it.
//!
//! Of all that was asked for, a part passes. Each flow's due is the same, such that what flows ask for up to it makes up that
//! part: those that ask for less have nothing to give up for others (max-min fairness).
//!
//! Source: Bertsekas & Gallager, Data Networks (1992), §6.5.2.

use super::sketch::Sketch;

/// Parts that are kept at each step: of demand, and of costs.
const KEPT: f32 = 0.95;
const KEPT_COSTS: f32 = 0.995;
/// What has faded to less is forgotten.
const FORGOTTEN: f32 = 1e-6;
/// What requests of a flow cost is known while at least so many are remembered.
const KNOWN: f32 = 0.25;
/// Bisections that find the due, to a thousandth of the largest demand.
const STEPS: usize = 20;

/// What flows asked for lately. 48 KiB.
#[derive(Clone, Debug)]
pub(crate) struct Demand {
    /// In requests of usual cost.
    asked: Sketch,
    /// What requests cost that have ended, in seconds that they held a slot, and how many did.
    costs: Sketch,
    ended: Sketch,
    all_costs: f32,
    all_ended: f32,
    /// What a request of a flow costs of which nothing is known, as a part of what is usual: as of the other flows, each of
    /// which counts alike.
    of_unknown: f32,
    /// What each flow may ask for, as it was found out last.
    due: f32,
}

impl Demand {
    /// Nothing was asked for yet.
    pub(crate) fn new() -> Self {
        Demand {
            asked: Sketch::new(),
            costs: Sketch::new(),
            ended: Sketch::new(),
            all_costs: 0.0,
            all_ended: 0.0,
            of_unknown: 1.0,
            due: f32::INFINITY,
        }
    }

    /// A request of the flow has come. `flow`: even over all values. O(1).
    pub(crate) fn came(&mut self, flow: u64) {
        self.asked.add(flow, self.cost(flow));
    }

    /// A request of the flow has ended, and held a slot for so many seconds, or several. O(1).
    pub(crate) fn ended(&mut self, flow: u64, seconds: f32) {
        self.costs.add(flow, seconds);
        self.ended.add(flow, 1.0);
        self.all_costs += seconds;
        self.all_ended += 1.0;
    }

    /// What a request of the flow costs, as a part of what is usual; 1 while that is not known. O(1).
    fn cost(&self, flow: u64) -> f32 {
        let costs = self.costs.count(flow) / self.usual();
        if costs.is_finite() {
            (costs + self.of_unknown) / (self.ended.count(flow) + 1.0)
        } else {
            1.0
        }
    }

    /// What a request costs, in seconds; 0 if that is not known.
    fn usual(&self) -> f32 {
        if self.all_ended > 0.0 { self.all_costs / self.all_ended } else { 0.0 }
    }

    /// Finds what requests of flows cost of which nothing is known. O(counters).
    fn look_at_costs(&mut self) {
        let (costs, ended) = (self.costs.counts().iter(), self.ended.counts().iter());
        let known = costs.zip(ended).filter(|(_, ended)| **ended >= KNOWN);
        let (sum, flows) = known
            .fold((0.0, 0.0), |(sum, flows), (costs, ended)| (sum + costs / ended, flows + 1.0));
        let of_unknown = sum / flows / self.usual();
        self.of_unknown = if of_unknown.is_finite() { of_unknown } else { 1.0 };
    }

    /// How many requests of usual cost the flow asked for lately, or a few more. O(1).
    pub(crate) fn count(&self, flow: u64) -> f32 {
        self.asked.count(flow)
    }

    /// Whether the flow asks for no more than this part of its due, with one more that comes now: a flow that is new is
    /// not within it where all are. O(1).
    pub(crate) fn is_within(&self, flow: u64, part: f32) -> bool {
        self.count(flow) + self.cost(flow) <= part * self.due
    }

    /// Finds each flow's due where this part of all that was asked for lately passes, 0.0 to 1.0. O(counters).
    pub(crate) fn passes(&mut self, part: f64) {
        let row = self.asked.counts();
        let sent: f32 = row.iter().sum();
        let aim = part as f32 * sent;
        let (mut low, mut high) = (0.0, row.iter().copied().fold(0.0, f32::max));
        if aim >= sent {
            self.due = f32::INFINITY;
            return;
        }
        for _ in 0..STEPS {
            let middle = 0.5 * (low + high);
            let passes: f32 = row.iter().map(|count| count.min(middle)).sum();
            if passes < aim { low = middle } else { high = middle }
        }
        self.due = high;
    }

    /// A tenth of a second has passed. O(counters).
    pub(crate) fn fade(&mut self) {
        self.asked.fade(KEPT, FORGOTTEN);
        self.costs.fade(KEPT_COSTS, FORGOTTEN);
        self.ended.fade(KEPT_COSTS, FORGOTTEN);
        self.all_costs *= KEPT_COSTS;
        self.all_ended *= KEPT_COSTS;
        self.look_at_costs();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashed(flow: u64) -> u64 {
        flow.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(23).wrapping_mul(0xD6E8_FEB8_6659_FD93)
    }

    #[test]
    fn each_flow_may_send_as_much_as_each_other_and_who_sends_less_leaves_the_rest_to_them() {
        let mut demand = Demand::new();
        for _ in 0..20 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            (100..106).for_each(|flow| (0..50).for_each(|_| demand.came(hashed(flow))));
            demand.fade();
        }
        let within = |demand: &Demand, flows: std::ops::Range<u64>| {
            flows.filter(|flow| demand.is_within(hashed(*flow), 1.0)).count()
        };
        // 340 come at a time, 40 of them of the small flows. Of 100 that pass, each of the six has ten; of 23, as the
        // small ones, each half of one.
        demand.passes(100.0 / 340.0);
        assert_eq!((within(&demand, 0..40), within(&demand, 100..106)), (40, 0));
        demand.passes(23.0 / 340.0);
        assert_eq!((within(&demand, 0..40), within(&demand, 100..106)), (0, 0));
        assert!(demand.is_within(hashed(7_777), 1.0), "it never sent any");
        demand.passes(1.0);
        assert_eq!(within(&demand, 100..106), 6, "nothing is too much");
        for _ in 0..100 {
            (0..40).for_each(|flow| demand.came(hashed(flow)));
            demand.fade();
        }
        demand.passes(0.9);
        assert_eq!(within(&demand, 100..106), 6, "they have stopped");
    }

    #[test]
    fn alone_or_alike_none_is_within_its_due_where_any_is_too_much() {
        for flows in [1, 1000] {
            let mut demand = Demand::new();
            for _ in 0..50 {
                (0..flows).for_each(|flow| demand.came(hashed(flow)));
                demand.fade();
            }
            demand.passes(0.6);
            let within = (0..flows).filter(|flow| demand.is_within(hashed(*flow), 1.0)).count();
            assert_eq!(within, 0);
        }
    }

    #[test]
    fn a_request_counts_as_much_as_those_of_its_flow_cost() {
        let mut demand = Demand::new();
        for _ in 0..50 {
            // Twenty flows that send ten times as many as three whose requests cost a hundred times as much: half of all.
            (0..20).for_each(|flow| (0..10).for_each(|_| demand.came(hashed(flow))));
            (100..103).for_each(|flow| demand.came(hashed(flow)));
            (0..20).for_each(|flow| demand.ended(hashed(flow), 0.01));
            (100..103).for_each(|flow| demand.ended(hashed(flow), 1.0));
            demand.fade();
        }
        demand.passes(0.8);
        let within = |flow| demand.is_within(hashed(flow), 0.5);
        assert!((10.0..40.0).contains(&demand.count(hashed(7))), "{}", demand.count(hashed(7)));
        assert_eq!((0..20).filter(|flow| within(*flow)).count(), 20);
        assert_eq!((100..103).filter(|flow| within(*flow)).count(), 0);
        assert!(within(7_777), "it never sent any");
    }
}
