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
/// Windows remembered. Bounds the memory and the time it takes to forget a former origin.
const POINTS: usize = 24;
/// Sharpness of the corner: 8 loses 8 % at the knee and 2 % a quarter above it, between the sharp
/// corner of constant and the round one of exponential service times.
const SHARPNESS: f64 = 8.0;
/// How steeply throughput may fall beyond the knee (thrash), and how likely that is beforehand.
const FALLS: [(f64, f64); 2] = [(0.0, 0.8), (0.7, 0.2)];
/// What latency costs: slots are added as long as 1 % more of them give at least 0.18 % throughput.
const LATENCY_PRICE: f64 = 0.18;
/// No window is truer than 3 %, however many requests it holds: the curve is only a model.
const MISFIT_VARIANCE: f64 = 0.03 * 0.03;
/// A window's variance grows by this each time another is added: after 10 it is 6 % vaguer.
const AGING_VARIANCE: f64 = 4e-5;
/// A window more than so many standard deviations off the curve is from another curve.
const SURPRISE: f64 = 3.0;

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
}

/// Windows, and the likelihood of each knee.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    points: Vec<Point>,
    /// The latest window did not fit; the next one decides which of them is right.
    suspect: Option<Point>,
    /// Where the knee is thought to be before any window, and how it goes on after a flush.
    centre: f64,
    /// ln of the lowest knee on the grid.
    low: f64,
    weights: [[f64; FALLS.len()]; KNEES],
    heights: [[f64; FALLS.len()]; KNEES],
    shape: [f64; SHAPE],
}

/// Places of the table of the corner: u from -6 to 6 by half a pitch.
const SHAPE: usize = 301;
const SHAPE_PITCH: f64 = PITCH / 2.0;
const SHAPE_ZERO: f64 = 150.0;

impl Curve {
    /// Nothing is known except a guess of the knee.
    pub(super) fn new(slots: f64) -> Self {
        let mut shape = [0.0; SHAPE];
        for (place, value) in shape.iter_mut().enumerate() {
            let u = (place as f64 - SHAPE_ZERO) * SHAPE_PITCH;
            *value = -(-SHARPNESS * u).exp().ln_1p() / SHARPNESS;
        }
        Curve {
            points: Vec::with_capacity(POINTS),
            suspect: None,
            centre: slots.ln(),
            low: 0.0,
            weights: [[0.0; FALLS.len()]; KNEES],
            heights: [[0.0; FALLS.len()]; KNEES],
            shape,
        }
    }

    /// Forgets every window.
    pub(super) fn flush(&mut self, ln_centre: f64) {
        self.points.clear();
        self.suspect = None;
        self.centre = ln_centre;
    }

    /// Adds a window. `None` if it fits so badly that another at the same concurrency is needed.
    pub(super) fn add(&mut self, point: Point) -> Option<Advice> {
        let point = Point {
            variance: point.variance + MISFIT_VARIANCE,
            ..point
        };
        let fits = self.points.len() < 2 || self.surprise(&point) < SURPRISE;
        match (fits, self.suspect.take()) {
            (true, _) => {}
            (false, None) => {
                self.suspect = Some(point);
                return None;
            }
            (false, Some(suspect)) => {
                // Twice in a row: the origin has changed.
                self.points.clear();
                self.points.push(suspect);
            }
        }
        for old in &mut self.points {
            old.variance += AGING_VARIANCE;
        }
        if self.points.len() == POINTS {
            self.points.remove(0);
        }
        self.points.push(point);
        self.fit(point.ln_slots);
        Some(self.advise())
    }

    /// Distance of a window from what the others predict, in standard deviations.
    fn surprise(&self, point: &Point) -> f64 {
        let (mut mean, mut square) = (0.0, 0.0);
        for (knee, weights) in self.weights.iter().enumerate() {
            for (fall, weight) in weights.iter().enumerate() {
                let predicted =
                    self.heights[knee][fall] + self.ln_share(point.ln_slots, knee, fall);
                mean += weight * predicted;
                square += weight * predicted * predicted;
            }
        }
        let precision: f64 = self.points.iter().map(|point| 1.0 / point.variance).sum();
        let variance = (square - mean * mean).max(0.0) + point.variance + 1.0 / precision;
        (point.ln_rate - mean).abs() / variance.sqrt()
    }

    /// Gives each knee its likelihood. O(knees × windows), about 10 µs.
    fn fit(&mut self, ln_slots: f64) {
        self.low = ln_slots - PITCH * (KNEES / 2) as f64;
        let mut best = f64::NEG_INFINITY;
        for knee in 0..KNEES {
            // Heavy tails: a guess yields to the first evidence.
            let distance = self.low + PITCH * knee as f64 - self.centre;
            let prior = -(distance * distance).ln_1p();
            for (fall, (_, likely)) in FALLS.iter().enumerate() {
                let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
                for point in &self.points {
                    let weight = 1.0 / point.variance;
                    let height = point.ln_rate - self.ln_share(point.ln_slots, knee, fall);
                    sum += weight;
                    first += weight * height;
                    second += weight * height * height;
                }
                let height = first / sum;
                let unexplained = (second - first * height).max(0.0);
                let log = prior + likely.ln() - unexplained / 2.0;
                self.heights[knee][fall] = height;
                self.weights[knee][fall] = log;
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
        self.centre = mean;
        let least = (0..KNEES)
            .map(|choice| (choice, self.loss(choice)))
            .min_by(|one, other| one.1.total_cmp(&other.1))
            .expect("the grid is not empty");
        Advice {
            ln_best: self.low + PITCH * least.0 as f64,
            doubt: (square - mean * mean).max(0.0).sqrt(),
        }
    }

    /// Expected loss of a concurrency on the grid.
    fn loss(&self, choice: usize) -> f64 {
        let mut loss = 0.0;
        for (knee, weights) in self.weights.iter().enumerate() {
            let above = choice as f64 - knee as f64;
            let latency = LATENCY_PRICE * (above * PITCH).max(0.0);
            let rounded = self.shape[(SHAPE_ZERO + above * 2.0) as usize];
            for (weight, (fall, _)) in weights.iter().zip(FALLS) {
                let share = (rounded - fall * (above * PITCH).max(0.0)).exp();
                loss += weight * (1.0 - share + latency);
            }
        }
        loss
    }

    /// ln of the share of the highest throughput that a concurrency gives if the knee is there.
    fn ln_share(&self, ln_slots: f64, knee: usize, fall: usize) -> f64 {
        let above = ln_slots - (self.low + PITCH * knee as f64);
        let place = (above / SHAPE_PITCH + SHAPE_ZERO).clamp(0.0, (SHAPE - 2) as f64);
        let (whole, part) = (place as usize, place.fract());
        let rounded = self.shape[whole] + (self.shape[whole + 1] - self.shape[whole]) * part;
        rounded - FALLS[fall].0 * above.max(0.0)
    }
}
