//! Bounded unfairness: in any interval in which two have requests waiting all the time, the work that
//! each gets for its weight differs by no more than a bound.
//!
//! Source: Goyal, Vin and Cheng, "Start-time Fair Queueing" (1996), theorem 1:
//! `|W_f/r_f - W_m/r_m| <= l_f/r_f + l_m/r_m` with `l` the largest request; Jin, Chase and Kaur,
//! "Interposed Proportional Sharing for a Storage Service Utility" (2004), theorem 1, for `D` in service
//! at once: `D + 1` times that.

/// One of those who share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sharer {
    pub(crate) weight: f64,
    /// The most that one of its requests costs.
    pub(crate) largest: f64,
    pub(crate) waits: bool,
}

/// What each got, and how far any two drew apart while both waited.
#[derive(Clone, Debug)]
pub(crate) struct Turns {
    sharers: Vec<Sharer>,
    /// Work for its weight, since ever.
    work: Vec<f64>,
    /// For two of them, the least and the most of the difference since both wait.
    apart: Vec<Option<(f64, f64)>>,
    /// How many times theorem 1 of SFQ is allowed.
    times: f64,
}

impl Turns {
    /// Nobody waits yet. `times`: 1 where costs are known at the start of a request, `D + 1` otherwise.
    pub(crate) fn new(sharers: Vec<Sharer>, times: f64) -> Self {
        let count = sharers.len();
        Turns { sharers, work: vec![0.0; count], apart: vec![None; count * count], times }
    }

    /// Whether one has requests waiting has changed, or may have.
    pub(crate) fn waits(&mut self, one: usize, waits: bool) {
        self.sharers[one].waits = waits;
        for other in 0..self.sharers.len() {
            let place = self.place(one, other);
            let both = waits && self.sharers[other].waits;
            let apart = self.difference(place);
            let seen = &mut self.apart[place];
            *seen = if both { seen.or(Some((apart, apart))) } else { None };
        }
    }

    /// A request of that cost was started. Call before [`Turns::waits`] says that it was the last.
    pub(crate) fn served(&mut self, one: usize, cost: f64) {
        assert!(cost <= self.sharers[one].largest * (1.0 + 1e-9), "the test's own bound is wrong");
        self.work[one] += cost / self.sharers[one].weight;
        for other in 0..self.sharers.len() {
            let place = self.place(one, other);
            let apart = self.difference(place);
            let Some((least, most)) = &mut self.apart[place] else {
                continue;
            };
            (*least, *most) = (least.min(apart), most.max(apart));
            let (found, bound) = (*most - *least, self.bound(one, other));
            assert!(
                found <= bound * (1.0 + 1e-9),
                "{one} and {other} are {found} apart, at most {bound} is right: {:?}",
                self.sharers
            );
        }
    }

    fn bound(&self, one: usize, other: usize) -> f64 {
        let largest = |sharer: &Sharer| sharer.largest / sharer.weight;
        self.times * (largest(&self.sharers[one]) + largest(&self.sharers[other]))
    }

    fn place(&self, one: usize, other: usize) -> usize {
        one.min(other) * self.sharers.len() + one.max(other)
    }

    fn difference(&self, place: usize) -> f64 {
        let count = self.sharers.len();
        self.work[place / count] - self.work[place % count]
    }
}

#[test]
fn the_bound_is_found_to_be_broken_and_kept() {
    let sharer = Sharer { weight: 1.0, largest: 1.0, waits: false };
    let begin = || {
        let mut turns = Turns::new(vec![sharer, Sharer { weight: 2.0, ..sharer }], 1.0);
        turns.waits(0, true);
        turns.waits(1, true);
        turns
    };
    let mut turns = begin();
    for _ in 0..20 {
        for one in [1, 0, 1] {
            turns.served(one, 1.0);
        }
    }
    let unfair = std::panic::catch_unwind(move || {
        let mut turns = begin();
        turns.served(0, 1.0);
        turns.served(0, 1.0);
    });
    assert!(unfair.is_err());
    // Who does not wait has no claim to anything.
    let mut turns = begin();
    turns.served(0, 1.0);
    turns.waits(1, false);
    turns.served(0, 1.0);
    turns.waits(1, true);
    turns.served(0, 1.0);
}
