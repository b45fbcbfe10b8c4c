//! A law by looks below and above the limit at common moments of the clock; what is believed of the knee is a
//! probability. A candidate, tuned on the seeds of `tiergate-sim --laws --quick`.
//!
//! Requests that queue at the origin take longer by the same time, whatever they are. So at moments that all gateways
//! share (by the clock), the limit is lowered for a block, or raised, and the times in service of each class are
//! compared with those of the other blocks. By Little's law they grow with the limit beyond the knee, and not below. Each
//! cycle of blocks is one observation of where the knee is; a grid of probabilities remembers, and spreads out with
//! time, since origins change.

use std::time::Duration;
use tiergate_core::control::{Bounds, Completion, Law, Step};
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;

const CLASSES: usize = 64;
/// ln of slots on the grid: from, and steps to one.
const GRID_FROM: f64 = -0.7;
const GRID_PER_ONE: f64 = 16.0;
const GRID: usize = 176;
/// How far the limit is above the knee, in gaps.
const ABOVE: f64 = 0.35;
/// How far looks go below and above the limit, as ln.
const GAP: (f64, f64) = (0.12, 0.4);
/// Blocks of a cycle, of which one looks down and one up: known, and not.
const CYCLE: (u64, u64) = (8, 4);
/// Doubt (standard deviation of ln) above which it is not known.
const DOUBT: f64 = 0.25;
/// What a cycle may be wrong by whatever was measured: part of probability.
const WRONG: f64 = 0.003;
/// A block's own error, beyond chance: mixes change, the knee is round.
const ERROR: f64 = 0.03;
/// Part of the belief that is spread out at each cycle, and how far; and where the times in service have changed.
const SPREAD: f64 = 0.01;
const SPREAD_CHANGED: f64 = 0.3;
const SPREAD_FAR: f64 = 0.5;
const SPREAD_NEAR: f64 = 0.015;
/// Times in service have changed: by so much (ln), and so many standard deviations.
const CHANGED: (f64, f64) = (0.15, 3.5);
/// Most that the limit moves at once, as ln.
const MOVE_MAX: f64 = 1.2;
/// Length of a block, in times in service: the mean of each class's, by the share of the slots that it holds, since a
/// limit changes what is in progress no faster than slots come free.
const BLOCK: f64 = 1.7;
/// How fast what is known of the noise is replaced, and how much more than chance it is at most.
const NOISE: f64 = 0.1;
const NOISE_MAX: f64 = 20.0;
/// Answers that a block wants.
const ENOUGH: f64 = 12.0;
/// No answer counts for more than so many of its class.
const CAP: f64 = 6.0;
const VARIES_MIN: f64 = 0.02;

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    n: f64,
    sum: f64,
    square: f64,
    /// ln of the limit while they were in service, summed.
    ln_slots: f64,
}

impl Sum {
    fn add(&mut self, held: f64, ln_slots: f64) {
        self.merge(&Sum { n: 1.0, sum: held, square: held * held, ln_slots });
    }

    fn merge(&mut self, more: &Sum) {
        self.n += more.n;
        self.sum += more.sum;
        self.square += more.square;
        self.ln_slots += more.ln_slots;
    }

    fn fade(&mut self, kept: f64) {
        (self.n, self.sum, self.square) = (self.n * kept, self.sum * kept, self.square * kept);
    }

    /// Squared coefficient of variation.
    fn varies(&self) -> f64 {
        if self.sum == 0.0 {
            1.0
        } else {
            (self.square * self.n / (self.sum * self.sum) - 1.0).max(0.0)
        }
    }
}

type Arm = [Sum; CLASSES];
const NONE: Arm = [Sum { n: 0.0, sum: 0.0, square: 0.0, ln_slots: 0.0 }; CLASSES];

/// What a block tells: ln of the limit that its requests saw, and of their times in service relative to others of
/// their class.
#[derive(Clone, Copy, Debug)]
struct Point {
    ln_slots: f64,
    longer: f64,
    variance: f64,
}

fn point(block: &Arm, whole: &Arm, usual: &Arm) -> Option<Point> {
    let (mut weight, mut longer, mut ln_slots) = (0.0, 0.0, 0.0);
    for ((of, whole), usual) in block.iter().zip(whole).zip(usual) {
        if of.n < 2.0 || whole.n < 2.0 {
            continue;
        }
        let varies = usual.varies().max(if usual.n < 64.0 { 0.5 } else { VARIES_MIN });
        let of_class = of.n / varies;
        longer += ((of.sum / of.n) / (whole.sum / whole.n)).ln() * of_class;
        ln_slots += of.ln_slots / of.n * of_class;
        weight += of_class;
    }
    let variance = 1.0 / weight + ERROR * ERROR;
    let found = Point { ln_slots: ln_slots / weight, longer: longer / weight, variance };
    (weight > 0.0).then_some(found)
}

/// What is believed of the knee.
#[derive(Debug)]
struct Belief(Vec<f64>);

fn ln_of(place: usize) -> f64 {
    GRID_FROM + place as f64 / GRID_PER_ONE
}

impl Belief {
    /// Nothing is known but where to begin.
    fn new(ln: f64) -> Self {
        let mut belief =
            Belief((0..GRID).map(|at| (-(ln_of(at) - ln).abs() / 1.0).exp()).collect());
        belief.normalise();
        belief
    }

    fn normalise(&mut self) {
        let sum: f64 = self.0.iter().sum();
        self.0.iter_mut().for_each(|mass| *mass /= sum);
    }

    /// Below the knee times in service are the same, above it they grow with the limit. Returns the square of what
    /// the best one leaves unexplained, relative to chance.
    fn observe(&mut self, points: &[Point]) -> f64 {
        let mut best = f64::MAX;
        let weight: f64 = points.iter().map(|it| 1.0 / it.variance).sum();
        for (place, mass) in self.0.iter_mut().enumerate() {
            let off = |it: &Point| it.longer - (it.ln_slots - ln_of(place)).max(0.0);
            let mean: f64 = points.iter().map(|it| off(it) / it.variance).sum::<f64>() / weight;
            let square: f64 = points.iter().map(|it| (off(it) - mean).powi(2) / it.variance).sum();
            best = best.min(square);
            *mass *= WRONG + (-square / 2.0).exp();
        }
        self.normalise();
        best / (points.len() as f64 - 1.0)
    }

    /// Time passes.
    fn spread(&mut self, part: f64) {
        let mut far = self.0.clone();
        let mut near = self.0.clone();
        for (list, scale) in [(&mut far, SPREAD_FAR), (&mut near, SPREAD_NEAR)] {
            // Two-sided exponential.
            let keep = (-1.0 / (scale * GRID_PER_ONE)).exp();
            let mut carry = 0.0;
            for mass in list.iter_mut() {
                carry = carry * keep + *mass * (1.0 - keep);
                *mass = carry;
            }
            let mut carry = 0.0;
            for mass in list.iter_mut().rev() {
                carry = carry * keep + *mass * (1.0 - keep);
                *mass = carry;
            }
        }
        for ((mass, far), near) in self.0.iter_mut().zip(far).zip(near) {
            *mass = (1.0 - part) * near + part * far;
        }
        self.normalise();
    }

    /// Times in service have grown by this (ln): the origin can do as much less, or each request is more work, or
    /// anything else.
    fn changed(&mut self, grown: f64) {
        let mut less = Belief(self.0.clone());
        less.shift(-grown);
        for (mass, less) in self.0.iter_mut().zip(less.0) {
            *mass = 0.5 * *mass + 0.5 * less;
        }
        self.spread(SPREAD_CHANGED);
    }

    fn quantile(&self, part: f64) -> f64 {
        let mut sum = 0.0;
        for (place, mass) in self.0.iter().enumerate() {
            if sum + mass >= part {
                return ln_of(place) + ((part - sum) / mass - 0.5) / GRID_PER_ONE;
            }
            sum += mass;
        }
        ln_of(GRID - 1)
    }

    fn doubt(&self) -> f64 {
        (self.quantile(0.84) - self.quantile(0.16)) / 2.0
    }

    fn shift(&mut self, by: f64) {
        let steps = (by * GRID_PER_ONE).round() as isize;
        let old = self.0.clone();
        for (place, mass) in self.0.iter_mut().enumerate() {
            let from = (place as isize - steps).clamp(0, GRID as isize - 1);
            *mass = old[from as usize];
        }
        self.normalise();
    }
}

#[derive(Clone, Copy, Debug)]
struct Block {
    index: u64,
    slots: u32,
    from: Moment,
    /// Slots times seconds before it.
    before: f64,
    sums: Arm,
}

impl Block {
    /// Slots times seconds until a moment in it.
    fn until(&self, at: Moment) -> f64 {
        self.before + f64::from(self.slots) * at.since(self.from).as_secs_f64()
    }
}

#[derive(Debug)]
pub(super) struct Knee {
    bounds: Bounds,
    belief: Belief,
    /// ln of the limit, and how far looks go from it.
    hi: f64,
    gap: f64,
    slots: u32,
    /// The current block, and those before, latest first.
    blocks: Vec<Block>,
    usual: Arm,
    /// The last cycle's, and the mean ln of its limits.
    last: Arm,
    last_ln: f64,
    grid: u32,
    count: f64,
    held_s: f64,
    held_2: f64,
    /// By class: times in service, and of how many answers.
    of_class: [(f64, f64); CLASSES],
    /// The mean of these times, weighted by slots and seconds; and the weights.
    turn: (f64, f64),
    /// How much more blocks differ than chance would make them.
    noise: f64,
    full_since: Moment,
    lost: u32,
    kept: u32,
    peak: u32,
    peak_until: Moment,
}

impl Knee {
    pub(super) fn new(bounds: Bounds) -> Self {
        let hi = f64::from(bounds.slots_start).ln();
        Knee {
            belief: Belief::new(hi),
            hi,
            gap: GAP.1,
            slots: bounds.slots_start,
            bounds,
            blocks: Vec::new(),
            usual: NONE,
            last: NONE,
            last_ln: 0.0,
            grid: 0,
            count: 0.0,
            held_s: 0.0,
            held_2: 0.0,
            of_class: [(0.0, 0.0); CLASSES],
            turn: (0.0, 0.0),
            noise: 1.0,
            full_since: Moment::ZERO,
            lost: 0,
            kept: 0,
            peak: 0,
            peak_until: Moment::ZERO,
        }
    }

    fn searches(&self) -> bool {
        self.belief.doubt() > DOUBT
    }

    /// The slots of a block that looks down (-1), up (1), or neither.
    fn slots_at(&self, way: f64) -> u32 {
        let base = self.hi.exp().round().max(self.few()).max(2.0);
        let slots = match way {
            0.0 => base,
            way if way < 0.0 => {
                (self.hi - self.gap).exp().floor().max(self.few() - 1.0).min(base - 1.0)
            }
            _ => (self.hi + self.gap).exp().round().max(base + 1.0),
        };
        self.bounds.clamp(slots.max(1.0) as u32)
    }

    fn few(&self) -> f64 {
        if self.held_s == 0.0 {
            return 1.0;
        }
        let rate = self.hi.exp() / self.held_s;
        (0.020 * rate).min(5.0).max(0.001 * rate).floor().max(1.0)
    }

    fn block_s(&self) -> f64 {
        0.025 * f64::from(1_u32 << self.grid)
    }

    fn open(&mut self, now: Moment) {
        let rate = self.hi.exp() / self.held_s.max(1e-6);
        let turn = self.turn.0 / self.turn.1.max(1e-9);
        let wanted = (BLOCK * turn).max(ENOUGH / rate);
        while self.block_s() < wanted && self.grid < 20 {
            self.grid += 1;
        }
        while self.grid > 0 && self.block_s() > 2.4 * wanted {
            self.grid -= 1;
        }
        let now_s = now.nanos() as f64 / 1e9;
        let index = (now_s / self.block_s()) as u64;
        // All gateways look up and down at the same moments, those that know the knee at some of them.
        let way = match (index % CYCLE.0, self.searches()) {
            (3, _) | (5, true) => -1.0,
            (7, _) | (1, true) => 1.0,
            _ => 0.0,
        };
        self.slots = self.slots_at(way);
        let before = self.blocks.first().map_or(0.0, |block| block.until(now));
        let (slots, from) = (self.slots, now);
        let block = Block { index, slots, from, before, sums: NONE };
        self.blocks.insert(0, block);
        self.blocks.truncate(12);
    }

    fn cycle(&self) -> u64 {
        if self.searches() { CYCLE.1 } else { CYCLE.0 }
    }

    /// A block is over. If it was the first of a cycle, the requests of the cycle before have ended by now.
    fn close(&mut self) {
        (self.lost, self.kept) = (0, 0);
        let cycle = self.cycle();
        if self.blocks.first().is_none_or(|block| block.index % cycle != 0) {
            return;
        }
        let blocks: Vec<Arm> =
            self.blocks.iter().skip(1).take(cycle as usize).map(|block| block.sums).collect();
        let mut whole = NONE;
        for sums in &blocks {
            whole.iter_mut().zip(sums).for_each(|(sum, more)| sum.merge(more));
        }
        let mut points: Vec<Point> =
            blocks.iter().filter_map(|sums| point(sums, &whole, &self.usual)).collect();
        let reach =
            |of: fn(f64, f64) -> f64, from: f64| points.iter().map(|it| it.ln_slots).fold(from, of);
        let range = reach(f64::max, f64::MIN) - reach(f64::min, f64::MAX);
        if points.len() < 2 || range < 0.02 {
            return;
        }
        let grown = point(&whole, &self.last, &self.usual).and_then(|now| {
            let moved = now.ln_slots - self.last_ln;
            let grown = now.longer - now.longer.clamp(moved.min(0.0), moved.max(0.0));
            let sure = CHANGED.0.max(CHANGED.1 * (2.0 * now.variance).sqrt());
            (grown.abs() > sure).then_some(grown)
        });
        let all: Point = point(&whole, &whole, &self.usual).expect("there are points");
        (self.last, self.last_ln) = (whole, all.ln_slots);
        if let Some(grown) = grown {
            self.belief.changed(grown);
        }
        for it in &mut points {
            it.variance *= self.noise;
        }
        let found = self.belief.observe(&points) * self.noise;
        self.noise = (self.noise + NOISE * (found - self.noise)).clamp(1.0, NOISE_MAX);
        self.decide();
        self.belief.spread(SPREAD);
    }

    fn decide(&mut self) {
        let doubt = self.belief.doubt();
        let rate = self.hi.exp() / self.held_s.max(1e-6);
        let varies = (self.held_2 / (self.held_s * self.held_s) - 1.0).max(VARIES_MIN);
        let noise = (varies / (rate * self.block_s())).sqrt();
        let gap = (1.5 * noise).max(0.7 * doubt).clamp(GAP.0, GAP.1);
        let hi = self.belief.quantile(0.5) + ABOVE * gap;
        self.place(hi.clamp(self.hi - MOVE_MAX, self.hi + MOVE_MAX), gap);
    }

    fn place(&mut self, hi: f64, gap: f64) {
        let least = self.few().max(f64::from(self.bounds.slots_min)).max(1.0).ln();
        self.hi = hi.clamp(least, f64::from(self.bounds.slots_max).ln());
        self.gap = gap;
    }

    fn restart(&mut self, now: Moment, slots: f64) {
        self.belief = Belief::new(slots.max(1.0).ln());
        self.place(slots.max(1.0).ln(), GAP.1);
        self.blocks.clear();
        (self.lost, self.kept) = (0, 0);
        self.open(now);
    }
}

impl Law for Knee {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let Completion { now, class, admitted, outcome, load, .. } = *completion;
        let before = self.slots;
        let held = now.since(admitted).as_secs_f64();
        let since = self.blocks.first().map_or(Moment::ZERO, |block| block.from);
        match outcome.end {
            End::Served | End::Upgraded => self.kept += u32::from(admitted >= since),
            End::Cancelled | End::Failed | End::Error if held >= self.held_s => {
                self.lost += u32::from(admitted >= since);
                if self.lost >= 8 && self.lost > 3 * self.kept {
                    self.restart(now, 0.5 * f64::from(self.slots.min(load.running)));
                    return Step::between(before, self.slots);
                }
            }
            _ => return None,
        }
        self.count = (self.count + 1.0).min(256.0);
        self.held_s += (held - self.held_s) / self.count;
        self.held_2 += (held * held - self.held_2) / self.count;
        self.peak = self.peak.max(load.running);
        let class = class.index() % CLASSES;
        let (mean, of) = &mut self.of_class[class];
        *of = (*of + 1.0).min(64.0);
        *mean += (held - *mean) / *of;
        let kept = 1.0 - 1.0 / self.count;
        self.turn = (self.turn.0 * kept + held * *mean, self.turn.1 * kept + held);
        let usual = &mut self.usual[class];
        usual.fade(1.0 - 1.0 / 512.0);
        let held = if usual.n > 64.0 { held.min(CAP * usual.sum / usual.n) } else { held };
        usual.add(held, 0.0);
        if load.running < self.slots || load.waiting == 0 {
            self.full_since = now;
        } else if admitted >= self.full_since
            && let Some(place) = self.blocks.iter().position(|it| admitted >= it.from)
        {
            let slot_seconds = self.blocks[0].until(now) - self.blocks[place].until(admitted);
            let mean = slot_seconds / now.since(admitted).as_secs_f64().max(1e-9);
            self.blocks[place].sums[class].add(held, mean.max(1.0).ln());
        }
        let index = (now.nanos() as f64 / 1e9 / self.block_s()) as u64;
        if self.blocks.first().is_none_or(|block| block.index != index) {
            self.close();
            self.open(now);
        }
        if now >= self.peak_until {
            let first = self.peak_until == Moment::ZERO;
            self.peak_until = now + Duration::from_secs_f64((10.0 * self.held_s).max(1.0));
            let peak = std::mem::take(&mut self.peak).max(self.bounds.slots_start);
            if self.searches() && !first && peak < self.slots_at(-1.0) {
                let by = f64::from(peak).ln() - self.hi;
                self.belief.shift(by);
                self.place(f64::from(peak).ln(), GAP.1);
                self.open(now);
            }
        }
        Step::between(before, self.slots)
    }

    fn set_bounds(&mut self, _now: Moment, bounds: &Bounds) {
        self.bounds = bounds.clone();
        self.slots = bounds.clamp(self.slots);
    }
}
