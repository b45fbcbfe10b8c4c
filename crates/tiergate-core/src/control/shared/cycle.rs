//! What a cycle of blocks says of the knee, and where the limit stands after it.

use super::SharedLimit;
use super::belief::{Belief, PRICE};
use super::blocks::{CYCLE, GAP};
use super::times::{ByClass, Point};

/// How much of the highest limit is forgotten in a cycle, as ln.
const FORGOTTEN: f64 = 0.01;
/// Doubt (standard deviation of ln of the knee) above which it is sought.
const DOUBT: f64 = 0.45;
/// Times in service have changed: by so much (ln), and so many standard deviations.
const CHANGED: (f64, f64) = (0.15, 3.5);
/// Most that the limit moves at once, as ln.
const MOVE_MAX: f64 = 1.2;
/// How much a cycle tells, as the square of its range of limits (ln) over its variance, so that what was known before ages by a
/// whole cycle. Where less is learned, less is forgotten.
const TOLD: f64 = 20.0;
/// Least range of the limits of a cycle that says anything, as ln.
const RANGE_MIN: f64 = 0.02;
/// How fast what is known of the noise is replaced, and how much more than chance it is at most.
const NOISE: f64 = 0.1;
const NOISE_MAX: f64 = 20.0;
/// Time at the origin that is too short to matter. Shorter queues would cost more than they save: with few requests in
/// progress neither the gateway nor the origin finds several to work on at once, and each pays for waking up.
const NEGLIGIBLE_S: f64 = 0.001;
/// The same for a few requests: while one is computed another is read or written. A limit of two or three costs a real
/// Apache with CGI up to a tenth. Five, as long as they take no more than 20 ms.
const FEW: (f64, f64) = (5.0, 0.020);

impl SharedLimit {
    /// Whether the knee is not known well.
    pub(super) fn is_sought(&self) -> bool {
        self.belief.doubt() > DOUBT
    }

    /// The number of blocks in a cycle.
    pub(super) fn cycle(&self) -> u64 {
        if self.is_sought() { CYCLE / 2 } else { CYCLE }
    }

    /// A cycle and the blocks after it are over, so that nearly all requests of the cycle have ended.
    /// O(classes · blocks + places · blocks).
    pub(super) fn conclude(&mut self) {
        let (blocks, seconds) = self.blocks.of_cycle(self.cycle());
        let mut whole = ByClass::default();
        blocks.clone().for_each(|block| whole.merge(&block.times));
        let rate = whole.count() / seconds;
        let mut points = [Point::default(); CYCLE as usize];
        let mut count = 0;
        for point in blocks.filter_map(|block| block.times.beside(&whole, &self.usual)) {
            points[count] = point;
            count += 1;
        }
        let points = &mut points[..count];
        let (least, most) = points.iter().fold((f64::MAX, f64::MIN), |(least, most), point| {
            (least.min(point.ln_slots), most.max(point.ln_slots))
        });
        if count < 2 || most - least < RANGE_MIN {
            return;
        }
        if let Some(grown) = self.grown(&whole) {
            self.belief.changed(grown);
        }
        let ln_slots = whole.beside(&whole, &self.usual).map_or(self.ln_slots, |all| all.ln_slots);
        self.last = (whole, ln_slots);
        points.iter_mut().for_each(|point| point.variance *= self.noise);
        let unexplained = self.belief.observe(points) * self.noise;
        self.noise = (self.noise + NOISE * (unexplained - self.noise)).clamp(1.0, NOISE_MAX);
        self.pull();
        self.decide(rate);
        let weight: f64 = points.iter().map(|point| 1.0 / point.variance).sum();
        self.belief.pass((most - least).powi(2) * weight / TOLD);
        if self.has_lost() {
            self.belief.may_be_back(self.ln_highest);
        }
    }

    /// How much times in service have grown since the last cycle (ln), beyond what the change of the limit explains;
    /// `None`: no more than by chance.
    fn grown(&self, whole: &ByClass) -> Option<f64> {
        let now = whole.beside(&self.last.0, &self.usual)?;
        let moved = now.ln_slots - self.last.1;
        let grown = now.longer - now.longer.clamp(moved.min(0.0), moved.max(0.0));
        let sure = CHANGED.0.max(CHANGED.1 * (2.0 * now.variance).sqrt());
        (grown.abs() > sure).then_some(grown)
    }

    /// Where the limit stands at this rate of answers a second, and how far probes go: as far as the noise of a block
    /// and the doubt want.
    fn decide(&mut self, rate: f64) {
        let noise = (self.held.varies() / (rate * self.blocks.length().as_secs_f64())).sqrt();
        let gap = (1.5 * noise).max(0.7 * self.belief.doubt()).clamp(GAP.0, GAP.1);
        let wanted = self.belief.best(PRICE.0 + PRICE.1 * self.belief.doubt());
        let (few, time_s) = FEW;
        self.few = (time_s * rate).min(few).max(NEGLIGIBLE_S * rate).floor().max(1.0);
        self.place(wanted.clamp(self.ln_slots - MOVE_MAX, self.ln_slots + MOVE_MAX), gap);
        self.ln_highest -= FORGOTTEN;
        if !self.is_sought() {
            self.ln_highest = self.ln_highest.max(self.ln_slots);
        }
    }

    /// Puts the limit there (ln), within the bounds; probes go so far.
    pub(super) fn place(&mut self, ln_slots: f64, gap: f64) {
        let least = self.few.max(f64::from(self.bounds.slots_min)).ln();
        self.ln_slots = ln_slots.clamp(least, f64::from(self.bounds.slots_max).ln().max(least));
        self.gap = gap;
    }

    /// Puts the limit there (ln), of which nothing more is known.
    pub(super) fn begin_at(&mut self, ln_slots: f64) {
        (self.belief, self.few) = (Belief::new(ln_slots), 1.0);
        self.place(ln_slots, GAP.1);
    }
}
