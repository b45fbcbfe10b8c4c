//! How long the quickest tenth of the requests take. A queue at the origin lengthens every request, even the
//! quickest, while a part of the origin that is slow, or more requests for it, leave those of other parts as they are.
//!
//! Source: ours; the quantile is estimated by stochastic approximation (Robbins and Monro, 1951).

/// The part of the requests.
const PART: f64 = 0.1;
/// Most that one request moves the estimate, as a part of it: 500 requests tell of a change twofold, and chance moves it by a tenth where
/// times are exponential. At first a request moves it by so much over the number of requests.
const STEP: f64 = 0.015;
const STEP_FIRST: f64 = 4.0;
/// Requests after which the estimate counts.
const ENOUGH: u32 = 256;
/// How much the shortest time seen grows with each window.
const FADING: f64 = 1.01;

/// What the quickest tenth take, and what they took when the limit was right.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quickest {
    s: f64,
    count: u32,
    usual_s: f64,
}

impl Quickest {
    /// A request was answered after so many seconds at the origin.
    pub(super) fn see(&mut self, held_s: f64) {
        if self.count == 0 {
            self.s = held_s.max(1e-6);
        }
        self.count = self.count.saturating_add(1);
        let step = (STEP_FIRST / f64::from(self.count)).clamp(STEP, 0.25);
        self.s *= 1.0 + step * if held_s < self.s { PART - 1.0 } else { PART };
    }

    /// A window is complete, in which the limit was in force.
    pub(super) fn measured(&mut self) {
        if self.count >= ENOUGH {
            let known = self.usual_s > 0.0;
            self.usual_s = if known { self.s.min(self.usual_s * FADING) } else { self.s };
        }
    }

    /// How many times as long as usual they take.
    pub(super) fn over_usual(&self) -> f64 {
        if self.usual_s > 0.0 { self.s / self.usual_s } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many requests: one of `of` is slow, the others vary around 20 ms, all `times` as long.
    fn serve(quickest: &mut Quickest, requests: u32, of: u32, times: f64) {
        let mut random = fastrand::Rng::with_seed(1);
        for number in 0..requests {
            let held_s = 0.01 + 0.02 * random.f64();
            quickest.see(times * if number % of == 0 { 2.0 } else { held_s });
        }
    }

    #[test]
    fn a_slow_part_leaves_the_quickest_as_they_are_and_a_queue_does_not() {
        let mut quickest = Quickest::default();
        serve(&mut quickest, 3_000, 1_000, 1.0);
        quickest.measured();
        serve(&mut quickest, 3_000, 2, 1.0);
        assert!((0.9..1.3).contains(&quickest.over_usual()), "{quickest:?}");
        serve(&mut quickest, 3_000, 1_000, 3.0);
        assert!((2.5..3.5).contains(&quickest.over_usual()), "{quickest:?}");
        quickest.measured();
        assert!(quickest.over_usual() > 2.5, "not soon usual");
        (0..200).for_each(|_| quickest.measured());
        assert!((quickest.over_usual() - 1.0).abs() < 1e-9, "but in the end");
    }
}
