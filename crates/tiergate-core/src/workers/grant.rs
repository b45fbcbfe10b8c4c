//! Whether what all pools reserve of the processors fits into what the kernel gives.

use super::shares::Reservation;

/// What the kernel gives to reservations (SCHED_DEADLINE), on all processors together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Processors.
    pub processors: u32,
    /// The part of each that real-time scheduling may take, 0 to 1: `sched_rt_runtime_us` of `sched_rt_period_us`.
    pub realtime: f64,
    /// The part of each that the kernel reserves for ordinary processes in the same budget (its fair server).
    pub ordinary: f64,
}

impl Capacity {
    /// All of it, in processors.
    pub fn total(&self) -> f64 {
        f64::from(self.processors) * (self.realtime - self.ordinary).max(0.0)
    }
}

/// What a pool asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// How many workers, each with the reservation.
    pub workers: u32,
    /// The reservation of each.
    pub reservation: Reservation,
}

impl Wanted {
    /// Of all its workers, in processors.
    pub fn sum(&self) -> f64 {
        f64::from(self.workers) * self.reservation.part()
    }
}

/// A pool whose reservations do not fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Refused {
    /// Which of those that were asked about.
    pub place: usize,
    /// What those before it have left, in processors.
    pub left: f64,
    /// How many workers with this reservation would fit.
    pub workers_max: u32,
    /// How large a part of a processor each of as many workers could have.
    pub part_max: f64,
}

/// Slices and periods are whole nanoseconds, their quotients are not.
const ROUNDING: f64 = 1e-9;

/// Which pools' reservations cannot be granted. They are granted in their order, those that do not fit as a whole not at all:
/// half a pool with a reservation would serve its requests by chance.
pub fn refused(capacity: Capacity, wanted: &[Wanted]) -> Vec<Refused> {
    let mut left = capacity.total();
    let mut refused = Vec::new();
    for (place, wanted) in wanted.iter().enumerate() {
        if wanted.sum() <= left + ROUNDING {
            left = (left - wanted.sum()).max(0.0);
            continue;
        }
        let workers_max = ((left + ROUNDING) / wanted.reservation.part()).floor() as u32;
        let part_max = (left / f64::from(wanted.workers.max(1))).min(1.0);
        refused.push(Refused { place, left, workers_max, part_max });
    }
    refused
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    fn wanted(workers: u32, slice_ms: u64, period_ms: u64) -> Wanted {
        let [slice, period] = [slice_ms, period_ms].map(Duration::from_millis);
        Wanted { workers, reservation: Reservation { slice, period, extra: false } }
    }

    /// Linux 6.18 on two processors grants 0.90 + 0.90 and refuses 0.90 + 0.94: measured.
    const TWO: Capacity = Capacity { processors: 2, realtime: 0.95, ordinary: 0.05 };

    #[test]
    fn what_fits_is_granted_and_of_the_rest_it_is_known_what_would() {
        assert_eq!(refused(TWO, &[wanted(2, 90, 100)]), []);
        assert_eq!(refused(TWO, &[wanted(1, 90, 100), wanted(1, 9, 10)]), []);
        let found = refused(TWO, &[wanted(1, 90, 100), wanted(4, 30, 100), wanted(1, 90, 100)]);
        let [one] = found[..] else { panic!("{found:?}") };
        assert_eq!((one.place, one.workers_max), (1, 3));
        assert!((one.left - 0.9).abs() < 1e-9 && (one.part_max - 0.225).abs() < 1e-9, "{one:?}");
        let none = Capacity { realtime: 0.0, ..TWO };
        assert_eq!(refused(none, &[wanted(1, 1, 1000)])[0].workers_max, 0);
    }

    proptest! {
        /// What is granted fits; what is refused does not, with one worker more than could be or with a larger part of each.
        #[test]
        fn grants_fit_and_refusals_do_not(
            processors in 1u32..16,
            percent in 0u32..=100,
            asked in prop::collection::vec((1u32..20, 1u64..1000), 0..10),
        ) {
            let capacity = Capacity { processors, realtime: f64::from(percent) / 100.0, ordinary: 0.05 };
            let wanted: Vec<Wanted> = asked.into_iter().map(|(workers, slice)| wanted(workers, slice, 1000)).collect();
            let refused = refused(capacity, &wanted);
            let mut granted = 0.0;
            for (place, wanted) in wanted.iter().enumerate() {
                match refused.iter().find(|it| it.place == place) {
                    None => granted += wanted.sum(),
                    Some(it) => {
                        prop_assert!((it.left - (capacity.total() - granted)).abs() < 1e-6);
                        prop_assert!(wanted.sum() > it.left);
                        let part = wanted.reservation.part();
                        prop_assert!(it.workers_max < wanted.workers);
                        prop_assert!(f64::from(it.workers_max) * part <= it.left + 1e-6);
                        prop_assert!(f64::from(it.workers_max + 1) * part > it.left - 1e-6);
                        prop_assert!(f64::from(wanted.workers) * it.part_max <= it.left + 1e-6);
                    }
                }
            }
            prop_assert!(granted <= capacity.total() + 1e-6);
        }
    }
}
