//! Strict priority with minimum shares: the most important class that has requests waiting is
//! served first, except that a class below its minimum goes before all that are above theirs.
//!
//! A minimum of `x` % of `n` slots is `i + f` slots, `i` whole and a fraction `f`. The whole ones are
//! kept by counting: below `i` the class is owed a slot. The fraction is kept by an account of slot
//! time: while others wait too, the class earns `i + f` slot-seconds a second and pays for what it
//! holds; with a positive balance it is owed one more. So 10 % of a single slot is every tenth
//! service time, and not every slot or none. What a class does not claim is lent, and comes back
//! with the next slot that any request frees: within one service time.
//!
//! Source: WebQoS §4.4 (strict priority; shared capacity's reserve). The fraction is ours.

use super::Load;
use crate::class::ClassId;
use crate::time::Moment;

/// Most slot-seconds that a class may be owed. Covers a single slot's share at service times of many
/// seconds; bounds what a class collects while the origin hangs.
const BALANCE_MAX: f64 = 1.0;
/// Most slot-seconds that a class may owe, so that one endless request does not shut its class out
/// for hours.
const BALANCE_MIN: f64 = -10.0;

/// The state of the policy: each class's balance of slot time.
#[derive(Clone, Debug)]
pub struct StrictPriority {
    balances: Vec<f64>,
    settled: Moment,
}

impl StrictPriority {
    /// A policy for so many classes, with every balance at zero.
    pub fn new(classes: usize) -> Self {
        StrictPriority { balances: vec![0.0; classes], settled: Moment::ZERO }
    }

    /// Brings the balances up to `now`; call before anything in `loads` changes. O(classes).
    pub fn advance(&mut self, now: Moment, loads: &[Load], slots: u32) {
        let elapsed = now.since(self.settled).as_secs_f64();
        self.settled = now;
        let waiting = loads.iter().filter(|load| load.waiting > 0).count();
        for (balance, load) in self.balances.iter_mut().zip(loads) {
            if load.minimum == 0.0 {
                *balance = 0.0;
                continue;
            }
            let others_wait = waiting > usize::from(load.waiting > 0);
            let owed = load.minimum * f64::from(slots);
            // Nobody else wants the slots that it holds: they cost it nothing.
            let held = if others_wait { f64::from(load.running).min(owed.ceil()) } else { 0.0 };
            let highest = match load.waiting {
                // A class that asks for nothing saves nothing up; what it owes, it goes on owing.
                0 => 0.0,
                _ if others_wait => BALANCE_MAX,
                // Alone it waits for no other class, so it earns no more than it has.
                _ => balance.max(0.0),
            };
            *balance = (*balance + (owed - held) * elapsed).clamp(BALANCE_MIN, highest);
        }
    }

    /// The class to serve next, `None` if nobody waits. O(classes).
    pub fn pick(&self, loads: &[Load], slots: u32) -> Option<ClassId> {
        let owed = (0..loads.len())
            .find(|&class| loads[class].waiting > 0 && self.is_owed(class, &loads[class], slots));
        owed.or_else(|| loads.iter().position(|load| load.waiting > 0))
            .map(|class| ClassId(class as u16))
    }

    fn is_owed(&self, class: usize, load: &Load, slots: u32) -> bool {
        let owed = load.minimum * f64::from(slots);
        let running = f64::from(load.running);
        running < owed.floor() || (running < owed.ceil() && self.balances[class] > 0.0)
    }
}
