//! What a request of each level costs, learned while serving: U = Σ a_l R_l + b W + u by recursive least squares, where R_l is the rate
//! of answers at level l (0: of refusals), W that of bytes, and u what is used by others.
//!
//! Forgetting: costs are expected to drift by a hundredth of themselves in a period, and to change as a whole where readings are not what they
//! should be for several periods. Exponential forgetting would wind up what is not known while the load is constant, and directional
//! forgetting takes several times as long to follow where five costs are to be told apart. Here, what a constant load does not tell
//! becomes less sure, slowly and up to a bound, and the costs do not wander.
//!
//! Source: Abdelzaher 4.3, equations 1 and 2; the estimator with drifting parameters: Ljung and Söderström, Theory and Practice of Recursive
//! Identification (1983), 2.6.

use super::settings::Adaptation;
use super::traffic::Rates;

/// Refusals, levels, bytes, and what others use.
const SIZE: usize = Adaptation::LEVELS_MAX + 3;
const BYTES: usize = SIZE - 2;
const OTHERS: usize = SIZE - 1;

/// What is kept of the periods before in what is compared.
const SMOOTHING: f64 = 0.6;
/// By what part of itself a cost drifts in a period.
const DRIFT: f64 = 0.01;
/// The variance at first, and at most: nothing is known. Costs are shares of the server for a request a second: below 10.
const UNKNOWN: f64 = 1e2;
/// Costs have changed where errors are so many times as large as expected, squared, for some periods: what of that is kept from one to the next, the
/// most that one period says of it, and how many periods the next change is not looked for.
const CHANGED: f64 = 3.0;
const SURPRISE_KEPT: f64 = 0.7;
const SURPRISE_MAX: f64 = 16.0;
const LEARNING: u32 = 10;
/// A cost that seems to be nothing may have become such a part of all that is used.
const NEW_PART: f64 = 0.2;
/// Unless there were fewer of it a second: nothing is to be seen of those.
const COUNT_MIN: f64 = 0.01;
/// What is kept of the estimate of the readings' noise, and its least variance: sensors are good to a tenth of a per cent.
const NOISE_KEPT: f64 = 0.97;
const NOISE_MIN: f64 = 1e-6;
/// Bytes are counted in units of so many, so that their numbers are like those of requests.
const BYTES_UNIT: f64 = 16_384.0;
/// The variance at first: a reading may be off by 5 %.
const NOISE_FIRST: f64 = 2.5e-3;

type Vector = [f64; SIZE];

/// The estimator of one adaptation.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    costs: Vector,
    covariance: [Vector; SIZE],
    noise: f64,
    /// What was seen, smoothed, and what was used.
    seen: Vector,
    used: f64,
    is_new: bool,
    /// How much larger errors are than expected, squared: about 1.
    surprise: f64,
    /// Periods since the last change.
    settled: u32,
}

/// A number that was estimated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
}

impl Estimate {
    /// Whether more is known of it than its order of magnitude.
    pub fn is_known(&self) -> bool {
        self.value > 0.0 && self.error < self.value / 4.0
    }
}

impl Model {
    pub(crate) fn new() -> Self {
        let covariance = std::array::from_fn(|row| {
            std::array::from_fn(|column| if row == column { UNKNOWN } else { 0.0 })
        });
        Model {
            costs: [0.0; SIZE],
            covariance,
            noise: NOISE_FIRST,
            seen: [0.0; SIZE],
            used: 0.0,
            is_new: true,
            surprise: 1.0,
            settled: 0,
        }
    }

    /// Takes a period in: what was answered in it, and which share of the server was used.
    pub(crate) fn learn(&mut self, rates: &Rates, used: f64) {
        let (seen, used) = self.smoothed(seen(rates), used);
        for (place, cost) in self.costs.into_iter().enumerate() {
            self.doubt(place, DRIFT * cost);
        }
        let error = used - dot(&seen, &self.costs);
        let mut weighted = self.times(&seen);
        let mut known = dot(&seen, &weighted).max(0.0);
        let surprise = (error * error / (self.noise + known)).min(SURPRISE_MAX);
        self.surprise = self.surprise * SURPRISE_KEPT + surprise * (1.0 - SURPRISE_KEPT);
        self.settled = self.settled.saturating_add(1);
        if self.surprise > CHANGED && self.settled > LEARNING {
            (self.surprise, self.settled) = (1.0, 0);
            for (place, count) in seen.into_iter().enumerate() {
                let part = if count > COUNT_MIN { NEW_PART * used / count } else { 0.0 };
                self.doubt(place, self.costs[place].abs().max(part));
            }
            weighted = self.times(&seen);
            known = dot(&seen, &weighted).max(0.0);
        }
        let noise = (error * error - known).clamp(0.0, 100.0 * self.noise);
        let variance = self.noise + known;
        self.noise = (self.noise * NOISE_KEPT + noise * (1.0 - NOISE_KEPT)).max(NOISE_MIN);
        for (cost, weighted) in self.costs.iter_mut().zip(&weighted) {
            *cost += weighted * error / variance;
        }
        for (row, left) in self.covariance.iter_mut().zip(&weighted) {
            for (value, right) in row.iter_mut().zip(&weighted) {
                *value -= left * right / variance;
            }
        }
    }

    /// Both of the last periods: readings are of other moments than counts, by a period where a sensor is late, and what changes within a
    /// few periods would be put down to the wrong cause.
    fn smoothed(&mut self, seen: Vector, used: f64) -> (Vector, f64) {
        let kept = if self.is_new { 0.0 } else { SMOOTHING };
        self.is_new = false;
        for (smooth, new) in self.seen.iter_mut().zip(&seen) {
            *smooth = *smooth * kept + new * (1.0 - kept);
        }
        self.used = self.used * kept + used * (1.0 - kept);
        (self.seen, self.used)
    }

    /// A cost may be off by so much more.
    fn doubt(&mut self, place: usize, by: f64) {
        let value = &mut self.covariance[place][place];
        *value = (*value + by * by).min(UNKNOWN);
    }

    /// By how much the use of the server changes with such a change of what is answered.
    pub(crate) fn change(&self, rates: &Rates) -> Estimate {
        self.estimate(&seen_without_others(rates))
    }

    /// By how much more of the server one request a second takes that gets the next higher level, apart from its bytes.
    pub(crate) fn step(&self, level: u8) -> Estimate {
        let mut one = [0.0; SIZE];
        one[usize::from(level)] = -1.0;
        one[usize::from(level) + 1] = 1.0;
        self.estimate(&one)
    }

    /// Share of the server that one request a second takes, apart from its bytes; at level 0: one refusal.
    pub(crate) fn request(&self, level: u8) -> Estimate {
        let mut one = [0.0; SIZE];
        one[usize::from(level)] = 1.0;
        self.estimate(&one)
    }

    /// Share of the server that a MiB a second takes.
    pub(crate) fn mebibyte(&self) -> Estimate {
        let mut one = [0.0; SIZE];
        one[BYTES] = f64::from(1 << 20) / BYTES_UNIT;
        self.estimate(&one)
    }

    fn estimate(&self, of: &Vector) -> Estimate {
        let variance = dot(of, &self.times(of)).max(0.0);
        Estimate { value: dot(of, &self.costs), error: variance.sqrt() }
    }

    fn times(&self, by: &Vector) -> Vector {
        std::array::from_fn(|row| dot(&self.covariance[row], by))
    }
}

fn seen(rates: &Rates) -> Vector {
    let mut seen = seen_without_others(rates);
    seen[OTHERS] = 1.0;
    seen
}

fn seen_without_others(rates: &Rates) -> Vector {
    let mut seen = [0.0; SIZE];
    seen[..=Adaptation::LEVELS_MAX].copy_from_slice(&rates.by_level);
    seen[BYTES] = rates.bytes / BYTES_UNIT;
    seen
}

fn dot(one: &Vector, other: &Vector) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random and are the same in every run: 0 to 1.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        }

        fn around(&mut self, width: f64) -> f64 {
            (self.next() - 0.5) * 2.0 * width
        }
    }

    /// A server of known cost: so much for a request of level 1 and 2, a refusal, 16 KiB, and others.
    #[derive(Clone, Copy)]
    struct Server {
        low: f64,
        full: f64,
        refusal: f64,
        bytes: f64,
        others: f64,
    }

    const APACHE: Server =
        Server { low: 0.83e-3, full: 4e-3, refusal: 0.2e-3, bytes: 0.56e-3, others: 0.05 };

    impl Server {
        fn used(&self, rates: &Rates) -> f64 {
            let [refused, low, full, ..] = rates.by_level;
            self.refusal * refused
                + self.low * low
                + self.full * full
                + self.bytes * rates.bytes / BYTES_UNIT
                + self.others
        }
    }

    /// Periods of a load that varies as that of a site does, while a controller moves between levels.
    fn serve(model: &mut Model, server: Server, periods: usize, numbers: &mut Numbers) {
        for period in 0..periods {
            let rate = 100.0 + 40.0 * (period as f64 / 20.0).sin() + numbers.around(10.0);
            let full =
                (0.5 + 0.4 * (period as f64 / 7.0).sin() + numbers.around(0.05)).clamp(0.0, 1.0);
            let refused = (0.1 + numbers.around(0.1)) * rate;
            let served = rate - refused;
            let mut rates = Rates::default();
            rates.by_level[0] = refused;
            rates.by_level[1] = served * (1.0 - full);
            rates.by_level[2] = served * full;
            rates.bytes = served * (4096.0 + 20_000.0 * numbers.next());
            model.learn(&rates, server.used(&rates) + numbers.around(0.005));
        }
    }

    fn is_within(estimate: Estimate, truth: f64, part: f64) -> bool {
        (estimate.value - truth).abs() < truth * part
    }

    /// What matters of them: the costs of both levels, and what all this takes.
    fn is_right(model: &Model, server: Server, part: f64) -> bool {
        let mut step = Rates::default();
        (step.by_level[1], step.by_level[2]) = (-50.0, 50.0);
        is_within(model.change(&step), 50.0 * (server.full - server.low), part)
            && is_within(model.request(2), server.full, part)
    }

    #[test]
    fn the_costs_of_a_server_are_found_and_their_change_is_followed() {
        let (mut model, mut numbers) = (Model::new(), Numbers(7));
        serve(&mut model, APACHE, 60, &mut numbers);
        assert!(is_right(&model, APACHE, 0.05), "{:?}", model.request(2));
        assert!(is_within(model.mebibyte(), 64.0 * APACHE.bytes, 0.2), "{:?}", model.mebibyte());
        let slower = Server { full: 6e-3, low: 1.5e-3, ..APACHE };
        serve(&mut model, slower, 30, &mut numbers);
        assert!(is_right(&model, slower, 0.05), "{:?}", model.request(2));
        assert!(model.request(2).is_known());
    }

    #[test]
    fn a_day_of_constant_load_neither_moves_the_costs_nor_the_covariance() {
        let (mut model, mut numbers) = (Model::new(), Numbers(3));
        serve(&mut model, APACHE, 120, &mut numbers);
        let mut rates = Rates::default();
        (rates.by_level[1], rates.by_level[2], rates.bytes) = (20.0, 80.0, 1e6);
        let before = model.request(2).value;
        for _ in 0..86_400 {
            model.learn(&rates, APACHE.used(&rates) + numbers.around(0.005));
        }
        let after = model.request(2).value;
        assert!((after / before - 1.0).abs() < 0.3, "{before} became {after}");
        let largest = (0..SIZE).map(|place| model.covariance[place][place]).fold(0.0, f64::max);
        assert!(largest <= UNKNOWN, "{largest}");
        // It still follows.
        let slower = Server { full: 6e-3, ..APACHE };
        serve(&mut model, slower, 40, &mut numbers);
        assert!(is_right(&model, slower, 0.05), "{:?}", model.request(2));
    }

    #[test]
    fn what_was_never_told_apart_is_not_known() {
        let mut model = Model::new();
        assert!(!model.request(1).is_known());
        let mut numbers = Numbers(5);
        for _ in 0..1000 {
            let mut rates = Rates::default();
            (rates.by_level[1], rates.by_level[2]) = (30.0, 70.0);
            model.learn(&rates, APACHE.used(&rates) + numbers.around(0.005));
        }
        assert!(!model.request(1).is_known() && !model.request(2).is_known(), "one of both");
        let idle = Rates::default();
        for _ in 0..1000 {
            model.learn(&idle, APACHE.others + numbers.around(0.005));
        }
        assert!(!model.mebibyte().is_known());
    }
}
