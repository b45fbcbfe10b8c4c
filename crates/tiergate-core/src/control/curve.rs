//! The curve of throughput over concurrency, learned from windows of both.
//!
//! Every origin's throughput grows with the number of requests in progress as long as each new one
//! finds something idle, and stops growing, or falls, when none does. In logarithms that is a line of
//! slope 1 up to the knee and of slope 0 or less beyond. By Little's law the slope is also 1 minus
//! the elasticity of the response time. A few windows at different concurrencies tell where the knee
//! lies, whatever the height of the curve, so that no latency baseline is needed that could drift.
//!
//! For each knee on a logarithmic grid the best height is the weighted mean residual; what is left
//! unexplained gives the knee's likelihood. The limit is the concurrency with the least expected
//! loss over all knees: throughput missed below the knee, latency added above it.
//!
//! Source: ours; the curve is the asymptotic bounds of operational analysis (Denning and Buzen,
//! "The Operational Analysis of Queueing Network Models", 1978) with a rounded corner.

/// Distance of neighbours on the grid, in ln: 8 %.
const PITCH: f64 = 0.08;
/// Knees considered, centred on the latest window: a factor of 12 to each side.
const KNEES: usize = 63;
/// Concurrencies remembered. When there are more, the two nearest become one.
const POINTS: usize = 16;
/// A kind of origin: what its curve looks like around and beyond the knee.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Sharpness of the corner, which loses ln 2 / sharpness at the knee.
    sharpness: f64,
    /// How steeply throughput falls beyond the knee.
    fall: f64,
    /// Its prior probability.
    likely: f64,
}

const KINDS: [Kind; 3] = [
    // Waits of varying length around a processor: the corner is round, 8 % are lost at the knee and
    // 2 % a quarter above it.
    Kind { sharpness: 8.0, fall: 0.0, likely: 0.4 },
    // Workers that each serve one request: the corner is sharp.
    Kind { sharpness: 60.0, fall: 0.0, likely: 0.4 },
    // More requests at once make each of them costlier.
    Kind { sharpness: 8.0, fall: 0.7, likely: 0.2 },
];
/// What latency costs: slots are added as long as 1 % more of them give at least 0.25 % throughput.
pub(super) const LATENCY_PRICE: f64 = 0.25;
/// No window is truer than 3 %, however many requests it holds: the curve is only a model.
const MISFIT_VARIANCE: f64 = 0.03 * 0.03;
/// Old windows lose a twelfth of their weight with each full window added, and less with a shorter one,
/// so that many vague windows do not displace a precise one.
const AGING: f64 = 1.0 / 12.0;
/// A curve is new for so many windows; from then on novelty falls as their number grows, to the least.
const NOVEL: f64 = 16.0;
const NOVELTY_MIN: f64 = 0.25;
const SETTLED_VARIANCE: f64 = 1.0 / 240.0 + MISFIT_VARIANCE;
/// A window this many standard deviations off the curve is repeated at the same concurrency.
const SURPRISE_DOUBTED: f64 = 2.0;
/// Windows in a row that are together this far off come from another curve: the origin has changed.
const SURPRISE_CHANGED: f64 = 3.0;
/// How far from the guess, in ln, the knee is likely to be: for an unknown origin, and for one that has
/// changed. Capacity often halves or doubles, and rarely changes tenfold.
const GUESS_WIDTH: f64 = 1.0;
const CHANGED_WIDTH: f64 = 0.5;
/// Weight of the latest window in the scatter; the most that one surprise counts, since it may come from a
/// change; the highest scatter.
const SCATTER_WEIGHT: f64 = 1.0 / 16.0;
const SURPRISE_SQUARE_MAX: f64 = 9.0;
const SCATTER_MAX: f64 = 4.0;
/// Most windows in a row that are repeated.
const SUSPECTS: usize = 3;

/// Throughput at one concurrency.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// ln of the mean number of requests in progress.
    pub(super) ln_slots: f64,
    /// ln of answers a second.
    pub(super) ln_rate: f64,
    /// Variance of `ln_rate`.
    pub(super) variance: f64,
}

/// What the curve says after a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Advice {
    /// ln of the best concurrency.
    pub(super) ln_best: f64,
    /// Standard deviation of ln of the knee.
    pub(super) doubt: f64,
    /// Windows taken in since the last flush or change.
    pub(super) windows: u32,
    /// The origin has just changed: earlier windows no longer hold.
    pub(super) changed: bool,
}

/// Windows, and the likelihood of each knee.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    points: Vec<Point>,
    /// The latest windows, which do not fit; the next one decides.
    suspects: Vec<Point>,
    /// Points of an earlier state of the origin that may come back, and how many windows they are from.
    remembered: Vec<Point>,
    windows_then: u32,
    /// Windows that the estimate is made of.
    windows: u32,
    /// Mean square of how far windows are off, over the variance that they claim. Above 1 where the
    /// service times seen hide how much the services vary.
    scatter: f64,
    /// Prior centre: where the knee is expected before any window.
    centre: f64,
    /// Prior width: how far from there it may be.
    width: f64,
    /// ln of the lowest knee on the grid.
    low: f64,
    weights: [[f64; KINDS.len()]; KNEES],
    heights: [[f64; KINDS.len()]; KNEES],
    shapes: [[f64; SHAPE]; KINDS.len()],
    /// Loss by concurrency over knee, from -`KNEES` to `KNEES` times the pitch.
    losses: [[f64; KINDS.len()]; 2 * KNEES],
}

/// Places of the table of the corner: u from -6 to 6 by half a pitch.
const SHAPE: usize = 301;
const SHAPE_PITCH: f64 = PITCH / 2.0;
const SHAPE_ZERO: f64 = 150.0;

impl Kind {
    /// ln of the share of the highest throughput that a concurrency gives, by its ln over the knee.
    fn ln_share(self, above: f64) -> f64 {
        let rounded = -(-self.sharpness * above).exp().ln_1p() / self.sharpness;
        rounded - self.fall * above.max(0.0)
    }
}

impl Curve {
    /// Nothing is known except a guess of the knee.
    pub(super) fn new(slots: f64) -> Self {
        let shapes = KINDS.map(|kind| {
            std::array::from_fn(|place| kind.ln_share((place as f64 - SHAPE_ZERO) * SHAPE_PITCH))
        });
        let losses = std::array::from_fn(|place| {
            let above = (place as f64 - KNEES as f64) * PITCH;
            KINDS.map(|kind| 1.0 - kind.ln_share(above).exp() + LATENCY_PRICE * above.max(0.0))
        });
        Curve {
            points: Vec::with_capacity(POINTS),
            suspects: Vec::with_capacity(SUSPECTS),
            remembered: Vec::with_capacity(POINTS),
            windows_then: 0,
            windows: 0,
            scatter: 1.0,
            centre: slots.ln(),
            width: GUESS_WIDTH,
            low: 0.0,
            weights: [[0.0; KINDS.len()]; KNEES],
            heights: [[0.0; KINDS.len()]; KNEES],
            shapes,
            losses,
        }
    }

    /// Forgets every window.
    pub(super) fn flush(&mut self, ln_centre: f64) {
        self.points.clear();
        self.suspects.clear();
        self.windows = 0;
        self.centre = ln_centre;
        self.width = GUESS_WIDTH;
    }

    /// Adds a window. `None` if it fits so badly that another at the same concurrency is needed.
    pub(super) fn add(&mut self, point: Point) -> Option<Advice> {
        let scatter = self.scatter.max(1.0);
        let point = self.weighed(point);
        let mut changed = false;
        if self.points.len() >= 2 {
            self.suspects.push(point);
            let count = self.suspects.len();
            let surprise = self.surprise().abs();
            if count == 1 {
                let found = (surprise * surprise).min(SURPRISE_SQUARE_MAX) * scatter;
                self.scatter += (found - self.scatter) * SCATTER_WEIGHT;
                self.scatter = self.scatter.min(SCATTER_MAX);
            }
            if surprise > SURPRISE_CHANGED && count > 1 {
                // The origin has changed: only windows since then count. The old curve's extrapolation to
                // concurrencies that were not tried is dropped, too.
                changed = true;
                self.points.clear();
                self.windows = 0;
                self.width = CHANGED_WIDTH;
                self.centre = self.centre.min(point.ln_slots);
            } else if surprise > SURPRISE_DOUBTED && count < SUSPECTS {
                return None;
            }
        } else {
            self.suspects.push(point);
        }
        self.take_suspects();
        self.fit(point.ln_slots);
        Some(Advice { changed, ..self.advise() })
    }

    /// Remembers what the origin is like.
    pub(super) fn remember(&mut self) {
        self.remembered.clone_from(&self.points);
        self.windows_then = self.windows;
    }

    /// The origin has just changed. If it fits the remembered points, they are the estimate again.
    pub(super) fn recall(&mut self) -> Option<Advice> {
        let ln_slots = self.points.last()?.ln_slots;
        if self.remembered.is_empty() || self.points.len() > SUSPECTS {
            return None;
        }
        self.suspects.clone_from(&self.points);
        self.points.clone_from(&self.remembered);
        self.fit(ln_slots);
        let is_alike = self.surprise().abs() < SURPRISE_DOUBTED;
        if is_alike {
            self.windows = self.windows_then;
        } else {
            self.points.clear();
            self.windows = 0;
        }
        self.take_suspects();
        self.fit(ln_slots);
        is_alike.then(|| Advice { changed: true, ..self.advise() })
    }

    /// Drops the windows that did not fit and were to be repeated: the next is at another concurrency.
    pub(super) fn dismiss(&mut self) {
        self.suspects.clear();
    }

    /// Whether a window shows no more than was to be expected. It is not added.
    pub(super) fn expects(&mut self, point: Point) -> bool {
        if self.points.len() < 2 || !self.suspects.is_empty() {
            return false;
        }
        let point = self.weighed(point);
        self.suspects.push(point);
        let surprise = self.surprise();
        self.suspects.clear();
        surprise < SURPRISE_DOUBTED
    }

    /// A window with its variance corrected for scatter and misfit.
    fn weighed(&self, point: Point) -> Point {
        let variance = point.variance * self.scatter.max(1.0) + MISFIT_VARIANCE;
        Point { variance, ..point }
    }

    /// Multiplies the rates of all windows, because the unit of work has changed.
    pub(super) fn rescale(&mut self, factor: f64) {
        let ln = factor.ln();
        let remembered = &mut self.remembered;
        for point in self.points.iter_mut().chain(&mut self.suspects).chain(remembered) {
            point.ln_rate += ln;
        }
        for height in self.heights.as_flattened_mut() {
            *height += ln;
        }
    }

    fn take_suspects(&mut self) {
        for place in 0..self.suspects.len() {
            self.take(self.suspects[place]);
        }
        self.suspects.clear();
    }

    /// How new the curve is: 1 at first and after each change of the origin, and a quarter for one that has held for long.
    pub(super) fn novelty(&self) -> f64 {
        (NOVEL / f64::from(self.windows.max(1))).clamp(NOVELTY_MIN, 1.0)
    }

    fn take(&mut self, point: Point) {
        let aging = 1.0 + AGING * (SETTLED_VARIANCE / point.variance).min(1.0);
        for old in &mut self.points {
            old.variance *= aging;
        }
        if self.points.len() == POINTS {
            self.merge_nearest();
        }
        self.points.push(point);
        self.windows = self.windows.saturating_add(1);
    }

    /// Merges the two points nearest in concurrency, so that a rare probe far from the limit is kept until
    /// age has made it vague.
    fn merge_nearest(&mut self) {
        let distance = |(one, other): &(usize, usize)| {
            (self.points[*one].ln_slots - self.points[*other].ln_slots).abs()
        };
        let pairs = (0..POINTS).flat_map(|one| (one + 1..POINTS).map(move |other| (one, other)));
        let nearest = pairs.min_by(|a, b| distance(a).total_cmp(&distance(b)));
        let (one, other) = nearest.expect("there are several points");
        let gone = self.points.swap_remove(other);
        let kept = &mut self.points[one];
        let (first, second) = (1.0 / kept.variance, 1.0 / gone.variance);
        let share = first / (first + second);
        kept.ln_slots = kept.ln_slots * share + gone.ln_slots * (1.0 - share);
        kept.ln_rate = kept.ln_rate * share + gone.ln_rate * (1.0 - share);
        kept.variance = (1.0 / (first + second)).max(MISFIT_VARIANCE);
    }

    /// How far the suspects, all at one concurrency, are above what the other windows predict, in
    /// standard deviations.
    fn surprise(&self) -> f64 {
        let (mut precision, mut rate) = (0.0, 0.0);
        for suspect in &self.suspects {
            precision += 1.0 / suspect.variance;
            rate += suspect.ln_rate / suspect.variance;
        }
        let ln_slots = self.suspects[0].ln_slots;
        let (mut mean, mut square) = (0.0, 0.0);
        for (knee, weights) in self.weights.iter().enumerate() {
            for (kind, weight) in weights.iter().enumerate() {
                let predicted = self.heights[knee][kind] + self.ln_share(ln_slots, knee, kind);
                mean += weight * predicted;
                square += weight * predicted * predicted;
            }
        }
        let known: f64 = self.points.iter().map(|point| 1.0 / point.variance).sum();
        let variance = (square - mean * mean).max(0.0) + 1.0 / precision + 1.0 / known;
        (rate / precision - mean) / variance.sqrt()
    }

    /// Computes the posterior of each knee. O(kinds × knees × windows), about 15 µs.
    fn fit(&mut self, ln_slots: f64) {
        self.low = ln_slots - PITCH * (KNEES / 2) as f64;
        let mut best = f64::NEG_INFINITY;
        for knee in 0..KNEES {
            // Heavy tails: a guess yields to the first evidence.
            let distance = (self.low + PITCH * knee as f64 - self.centre) / self.width;
            let prior = -(distance * distance).ln_1p();
            for (kind, Kind { likely, .. }) in KINDS.iter().enumerate() {
                let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
                for point in &self.points {
                    let weight = 1.0 / point.variance;
                    let height = point.ln_rate - self.ln_share(point.ln_slots, knee, kind);
                    sum += weight;
                    first += weight * height;
                    second += weight * height * height;
                }
                let height = first / sum;
                let unexplained = (second - first * height).max(0.0);
                let log = prior + likely.ln() - unexplained / 2.0;
                self.heights[knee][kind] = height;
                self.weights[knee][kind] = log;
                best = best.max(log);
            }
        }
        let weights = self.weights.as_flattened_mut();
        let mut sum = 0.0;
        for weight in weights.iter_mut() {
            *weight = (*weight - best).exp();
            sum += *weight;
        }
        for weight in weights {
            *weight /= sum;
        }
    }

    fn advise(&mut self) -> Advice {
        let (mut mean, mut square) = (0.0, 0.0);
        for (knee, weights) in self.weights.iter().enumerate() {
            let ln_knee = self.low + PITCH * knee as f64;
            let weight: f64 = weights.iter().sum();
            mean += weight * ln_knee;
            square += weight * ln_knee * ln_knee;
        }
        let least = (0..KNEES)
            .map(|choice| (choice, self.loss(choice)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
            .expect("the grid is not empty");
        let ln_best = self.low + PITCH * least.0 as f64;
        // Not the mean: where the windows do not tell one knee from another it would drift from the limit
        // without evidence.
        self.centre = ln_best;
        Advice {
            ln_best,
            doubt: (square - mean * mean).max(0.0).sqrt(),
            windows: self.windows,
            changed: false,
        }
    }

    /// Expected share of the highest throughput that a concurrency misses.
    pub(super) fn missed(&self, ln_slots: f64) -> f64 {
        let mut missed = 0.0;
        for (knee, weights) in self.weights.iter().enumerate() {
            for (kind, weight) in weights.iter().enumerate() {
                missed += weight * (1.0 - self.ln_share(ln_slots, knee, kind).exp());
            }
        }
        missed
    }

    /// Expected loss of a concurrency on the grid.
    fn loss(&self, choice: usize) -> f64 {
        let losses = &self.losses[choice + 1..];
        // The losses stand in order of concurrency over knee, which falls as the knee rises.
        let losses = losses[..KNEES].iter().rev();
        let mut loss = 0.0;
        for (weights, losses) in self.weights.iter().zip(losses) {
            for (weight, each) in weights.iter().zip(losses) {
                loss += weight * each;
            }
        }
        loss
    }

    /// ln of the share of the highest throughput that a concurrency gives if the knee is there.
    fn ln_share(&self, ln_slots: f64, knee: usize, kind: usize) -> f64 {
        let above = ln_slots - (self.low + PITCH * knee as f64);
        let place = (above / SHAPE_PITCH + SHAPE_ZERO).clamp(0.0, (SHAPE - 2) as f64);
        let (whole, part) = (place as usize, place.fract());
        let shape = &self.shapes[kind];
        shape[whole] + (shape[whole + 1] - shape[whole]) * part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(slots: f64, rate: f64) -> Point {
        Point { ln_slots: slots.ln(), ln_rate: rate.ln(), variance: 0.01 }
    }

    #[test]
    fn what_was_never_tried_is_forgotten_with_the_old_curve() {
        let mut curve = Curve::new(10.0);
        for slots in [5.0, 7.0, 10.0, 14.0, 20.0, 20.0] {
            curve.add(point(slots, 25.0 * slots));
        }
        let promised = curve.centre.exp();
        assert!(promised > 30.0, "{promised}: more than 20 give more");
        let mut latest = None;
        while latest.is_none_or(|advice: Advice| advice.windows > 3) {
            latest = curve.add(point(20.0, 60.0));
        }
        let best = latest.expect("the loop ends with one").ln_best.exp();
        assert!(best < promised && best < 30.0, "{best} of the changed origin, {promised} before");
    }

    #[test]
    fn a_curve_is_new_again_when_the_origin_has_changed() {
        let mut curve = learned(16.0);
        assert_eq!(curve.novelty(), 1.0);
        for _ in 0..200 {
            curve.add(point(16.0, 400.0));
        }
        assert_eq!(curve.novelty(), NOVELTY_MIN);
        while curve.windows > SUSPECTS as u32 {
            curve.add(point(16.0, 100.0));
        }
        assert_eq!(curve.novelty(), 1.0);
    }

    /// A curve of an origin with `workers` that each answer 25 requests a second.
    fn learned(workers: f64) -> Curve {
        let mut curve = Curve::new(10.0);
        for slots in [8.0, 12.0, 16.0, 24.0, 16.0, 20.0, 14.0, 18.0] {
            curve.add(point(slots, 25.0 * workers.min(slots)));
        }
        curve
    }

    /// What a remembered curve of sixteen workers says when one of eight has changed so that 16 slots
    /// give `rate`.
    fn recalled(rate: f64) -> Option<Advice> {
        let mut curve = learned(16.0);
        curve.remember();
        for slots in [16.0, 16.0, 10.0, 8.0, 6.0, 8.0, 10.0, 8.0] {
            curve.add(point(slots, 25.0 * slots.min(8.0)));
        }
        for _ in 0..3 {
            if curve.add(point(16.0, rate)).is_some_and(|advice| advice.changed) {
                return curve.recall();
            }
        }
        panic!("{rate} is no surprise");
    }

    #[test]
    fn what_is_like_what_was_is_known_again() {
        let advice = recalled(400.0).expect("the same rate as before");
        let best = advice.ln_best.exp();
        assert!((14.0..20.0).contains(&best) && advice.doubt < 0.25, "{best}, {advice:?}");
        assert_eq!(recalled(900.0), None);
    }
}
