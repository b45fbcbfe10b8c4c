//! A law by looks below and above the limit at moments that gateways share: a candidate for the product.
//!
//! Requests that queue at the origin take longer by the same time, whatever they are. So in some blocks of time the
//! limit is a little lower, or higher, and the times in service of each class are compared with those of the other
//! blocks. By Little's law they grow with the limit beyond the knee, and not below. A cycle of blocks is one
//! observation of where the knee is; a [`Belief`] remembers, and spreads out with time, since origins change. The limit
//! stands a little above the knee.
//!
//! Blocks begin at moments of the clock, which all gateways share, so that those before the same origin look up and down
//! together, and each sees the effect of all.
//!
//! Not evidence: requests that ran while slots were free, fast errors and failures, clients that soon leave. If nearly
//! all requests are lost, slowly, the limit is halved.

mod belief;
mod rise;
mod times;

use crate::control::{Bounds, Cause, Completion, Law, Step};
use crate::outcome::{End, Outcome};
use crate::time::Moment;
use belief::Belief;
use rise::{Answer, Rise, Say, Seen};
use std::collections::VecDeque;
use std::time::Duration;
use times::{ByClass, CLASSES, Point, Usual, VARIES_MIN};

/// What time in service costs: the limit stands where a hundredth more slots are expected to give this part of a hundredth
/// more throughput; and how much more for each unit of doubt (ln of the knee), so that a knee that is sought is not sought
/// far above.
const PRICE: (f64, f64) = (0.25, 0.3);
/// How far looks go below and above the limit, as ln: what shows, and what costs little.
const GAP: (f64, f64) = (0.12, 0.4);
/// Blocks of a cycle: when the knee is known one looks down and one up, while it is sought one each of half as many.
const CYCLE: u64 = 8;
/// In one of so many cycles the look above goes as far as it may: capacity that is lost may come back, and where the limit
/// stands nothing shows it.
const FAR: u64 = 4;
/// After a loss of this (ln) every cycle looks so far; and how much of it is forgotten a cycle.
const LOSS: f64 = 0.4;
const FORGOTTEN: f64 = 0.01;
/// Doubt (standard deviation of ln of the knee) above which it is sought.
const DOUBT: f64 = 0.45;
/// Times in service have changed: by so much (ln), and so many standard deviations.
const CHANGED: (f64, f64) = (0.15, 3.5);
/// Most that the limit moves at once, as ln.
const MOVE_MAX: f64 = 1.2;
/// Least length of a block, in times in service: the mean of each class's, by the share of the slots that it holds, since
/// a limit changes what is in progress no faster than slots come free; and in answers.
const BLOCK: f64 = 1.5;
const BLOCK_ANSWERS: f64 = 4.0;
/// A block this many times longer than it need be is halved: more than two, so that it does not go to and fro.
const SHORTER: f64 = 2.4;
/// The shortest block, and how often it is doubled at most.
const SHORTEST: Duration = Duration::from_millis(25);
const DOUBLINGS: u32 = 20;
/// Blocks after a cycle in which its requests end. With one, the longest requests of the cycle's last block were missing,
/// which seemed to be quicker than the others.
const AFTER: usize = 2;
/// Blocks that are remembered: a cycle, those that its requests end in, and some that requests began in.
const BLOCKS: usize = 12;
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
/// Means are of the latest answers: of all, and of each class.
const HELD_OF: f64 = 256.0;
const HELD_OF_CLASS: f64 = 64.0;
/// Requests lost in a block, and for each kept, at which the limit is far too high.
const LOST: (u32, u32) = (8, 3);
/// From which part of the usual time on a client that leaves, or a failure, tells of the origin.
const LEFT_LATE: f64 = 0.75;
const FAILED_LATE: f64 = 2.0;
/// How long a limit that is hardly known is unused before it comes down, in times in service, and at least, seconds.
const UNUSED: (f64, f64) = (10.0, 1.0);
/// The part of the slots that counts as all of them, while a policy keeps the others free.
const NEARLY: f64 = 0.75;

/// A request is as quick as usual up to so many usual times of its class; and how much further the limit goes, as ln, if
/// such a one began and ended while nothing else did.
const QUICK: f64 = 2.0;
const FURTHER: f64 = 0.4;

/// A part of time in which the limit stands.
#[derive(Clone, Debug)]
struct Block {
    index: u64,
    slots: u32,
    from: Moment,
    /// Slots times seconds before it.
    before: f64,
    /// Of the requests admitted in it.
    times: ByClass,
}

impl Block {
    /// Slots times seconds until a moment in it.
    fn until(&self, at: Moment) -> f64 {
        self.before + f64::from(self.slots) * at.since(self.from).as_secs_f64()
    }
}

/// Means over the latest answers of all classes.
#[derive(Clone, Debug)]
struct Held {
    count: f64,
    /// Seconds in service, and their squares.
    mean: f64,
    square: f64,
    /// By class: mean time in service, and of how many answers.
    of_class: [(f64, f64); CLASSES],
    /// These means, weighted by slots and seconds; and the weights.
    turnover: (f64, f64),
}

impl Held {
    fn add(&mut self, class: usize, held_s: f64) {
        self.count = (self.count + 1.0).min(HELD_OF);
        self.mean += (held_s - self.mean) / self.count;
        self.square += (held_s * held_s - self.square) / self.count;
        let (mean, count) = &mut self.of_class[class % CLASSES];
        *count = (*count + 1.0).min(HELD_OF_CLASS);
        *mean += (held_s - *mean) / *count;
        let kept = 1.0 - 1.0 / self.count;
        self.turnover = (self.turnover.0 * kept + held_s * *mean, self.turnover.1 * kept + held_s);
    }

    /// Squared coefficient of variation.
    fn varies(&self) -> f64 {
        (self.square / (self.mean * self.mean) - 1.0).max(VARIES_MIN)
    }

    /// How fast slots come free: the mean time of those that hold them.
    fn turnover(&self) -> f64 {
        self.turnover.0 / self.turnover.1.max(1e-9)
    }
}

/// Finds how many requests the origin can work on at once.
#[derive(Clone, Debug)]
pub struct SharedLimit {
    bounds: Bounds,
    belief: Belief,
    /// ln of the limit, and how far looks go from it.
    ln_slots: f64,
    gap: f64,
    /// Slots that are too few to matter.
    few: f64,
    /// The limit in force.
    slots: u32,
    /// ln of the highest known limit lately, which is forgotten by [`FORGOTTEN`] a cycle.
    ln_highest: f64,
    /// How often the shortest block is doubled.
    doublings: u32,
    /// The current block, and those before, latest first.
    blocks: VecDeque<Block>,
    usual: Usual,
    /// The last cycle's times, and the mean ln of its limits.
    last: (ByClass, f64),
    held: Held,
    /// How much more blocks differ than chance would make them.
    noise: f64,
    /// Since when no slot has been free.
    full_since: Moment,
    /// When a request ended the last time.
    ended: Moment,
    /// In this block a request ended that had run while no slot was free.
    binds: bool,
    /// Free slots are kept from the requests that wait.
    is_kept: bool,
    /// Requests that were lost, slowly, and that were not: those of earlier blocks count half, and those admitted
    /// before the limit was last halved not at all.
    lost: u32,
    kept: u32,
    halved: Moment,
    /// Most requests in progress at once in the current period, and when it ends.
    peak: u32,
    peak_until: Option<Moment>,
    rise: Rise,
}

impl SharedLimit {
    /// A limit that knows nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        let slots = bounds.clamp(bounds.slots_start);
        let ln_slots = f64::from(bounds.slots_start.max(1)).ln();
        let held = Held {
            count: 0.0,
            mean: 0.0,
            square: 0.0,
            of_class: [(0.0, 0.0); CLASSES],
            turnover: (0.0, 0.0),
        };
        SharedLimit {
            bounds,
            belief: Belief::new(ln_slots),
            ln_slots,
            gap: GAP.1,
            few: 1.0,
            slots,
            ln_highest: f64::NEG_INFINITY,
            doublings: 0,
            blocks: VecDeque::with_capacity(BLOCKS),
            usual: Usual::default(),
            last: (ByClass::default(), 0.0),
            held,
            noise: 1.0,
            full_since: Moment::ZERO,
            ended: Moment::ZERO,
            binds: false,
            is_kept: false,
            lost: 0,
            kept: 0,
            halved: Moment::ZERO,
            peak: 0,
            peak_until: None,
            rise: Rise::default(),
        }
    }

    fn is_sought(&self) -> bool {
        self.belief.doubt() > DOUBT
    }

    fn cycle(&self) -> u64 {
        if self.is_sought() { CYCLE / 2 } else { CYCLE }
    }

    fn block(&self) -> Duration {
        SHORTEST * (1 << self.doublings)
    }

    /// Which block of the common clock a moment is in.
    fn index(&self, now: Moment) -> u64 {
        now.nanos() / self.block().as_nanos() as u64
    }

    /// Requests a second that the limit lets through.
    fn rate(&self) -> f64 {
        self.ln_slots.exp() / self.held.mean.max(1e-6)
    }

    /// The slots of a block that looks neither way.
    fn base(&self) -> f64 {
        self.ln_slots.exp().round().max(self.few).max(2.0)
    }

    fn below(&self) -> f64 {
        let below = (self.ln_slots - self.gap).exp().floor();
        below.max(self.few - 1.0).min(self.base() - 1.0)
    }

    fn above(&self, gap: f64) -> f64 {
        (self.ln_slots + gap).exp().round().max(self.base() + 1.0)
    }

    /// The current block is over; the next begins. O(classes · blocks + places · blocks), once a cycle.
    fn next_block(&mut self, now: Moment) -> Option<Step> {
        let last = self.blocks.get(AFTER - 1);
        if last.is_some_and(|block| block.index.is_multiple_of(self.cycle())) {
            self.conclude();
        }
        self.open(now)
    }

    fn open(&mut self, now: Moment) -> Option<Step> {
        let wanted = (BLOCK * self.held.turnover()).max(BLOCK_ANSWERS / self.rate());
        while self.block().as_secs_f64() < wanted && self.doublings < DOUBLINGS {
            self.doublings += 1;
        }
        while self.doublings > 0 && self.block().as_secs_f64() > SHORTER * wanted {
            self.doublings -= 1;
        }
        // After a silence the origin may be another one.
        let silence = CYCLE as u32 * self.block();
        if self.blocks.front().is_some_and(|block| now.since(block.from) > silence) {
            self.blocks.clear();
        }
        let index = self.index(now);
        let all_along = self.blocks.front().is_some_and(|block| self.full_since <= block.from);
        let binds = std::mem::take(&mut self.binds) || all_along;
        let (slots, looks) = match (index % CYCLE, self.is_sought()) {
            (3, _) | (5, true) if binds => (self.below(), true),
            (7, false) if binds && ((index / CYCLE).is_multiple_of(FAR) || self.has_lost()) => {
                (self.above(GAP.1), true)
            }
            (7, _) | (1, true) if binds => (self.above(self.gap), true),
            _ => (self.base(), false),
        };
        let before = self.blocks.front().map_or(0.0, |block| block.until(now));
        let step = self.enter(slots, if looks { Some(Cause::Probed) } else { None });
        self.blocks.truncate(BLOCKS - 1);
        let times = ByClass::default();
        self.blocks.push_front(Block { index, slots: self.slots, from: now, before, times });
        (self.lost, self.kept) = (self.lost / 2, self.kept / 2);
        step
    }

    /// Seconds that a request of the class may take at an origin that has not changed. More slots than usual, as in looks
    /// above, make it wait at the origin for what those beyond it hold, and that may be the requests of another class.
    fn expected_s(&self, class: usize, usual_s: f64) -> f64 {
        let slots = self.blocks.iter().take(1 + AFTER).map(|block| block.slots).max();
        let more = self.usual.slots_since(class, f64::from(slots.unwrap_or(self.slots))) - 1.0;
        usual_s + more * usual_s.max(self.held.turnover())
    }

    /// Whether the limit was far higher lately.
    fn has_lost(&self) -> bool {
        self.ln_highest - self.ln_slots > LOSS
    }

    /// Another limit is in force; `why`: if not since more, or fewer, give as much.
    fn enter(&mut self, slots: f64, why: Option<Cause>) -> Option<Step> {
        let before = self.slots;
        self.slots = self.bounds.clamp(slots.max(1.0) as u32);
        let step = Step::between(before, self.slots)?;
        Some(Step { cause: why.unwrap_or(step.cause), ..step })
    }

    /// A cycle and the blocks after it are over, so that nearly all requests of the cycle have ended.
    fn conclude(&mut self) {
        let blocks = || self.blocks.iter().skip(AFTER).take(self.cycle() as usize);
        let mut whole = ByClass::default();
        blocks().for_each(|block| whole.merge(&block.times));
        let first = blocks().next_back().map_or(Moment::ZERO, |block| block.from);
        let seconds = self.blocks[AFTER - 1].from.since(first).as_secs_f64();
        let rate = whole.count() / seconds.max(SHORTEST.as_secs_f64());
        let mut points = [Point::default(); CYCLE as usize];
        let mut count = 0;
        for point in blocks().filter_map(|block| block.times.beside(&whole, &self.usual)) {
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

    /// The block that a request is evidence of: it was admitted in it, and took the last slot. Whether slots came free later says
    /// nothing against it: if that counted, those that take long would be missing.
    fn block_of(&self, completion: &Completion<'_>) -> Option<usize> {
        let place = self.blocks.iter().position(|block| completion.admitted >= block.from)?;
        let slots = f64::from(self.blocks[place].slots);
        let all = if self.is_kept { NEARLY * slots } else { slots };
        (f64::from(completion.found) >= all).then_some(place)
    }

    /// Its client left sooner than it could be answered. What the time in its slot would have become is not known, only that it was longer.
    /// Without it, requests that wait for less and have more time left until their clients leave would seem to take longer.
    fn left(&mut self, completion: &Completion<'_>) {
        let Completion { now, class, admitted, .. } = *completion;
        if let Some(place) = self.block_of(completion) {
            self.blocks[place].times.left(class.index(), now.since(admitted).as_secs_f64());
        }
    }

    /// Whether the origin has as much to do as the limit lets it have.
    fn is_full(&self, running: u32) -> bool {
        self.is_kept || running >= self.slots
    }

    /// Where the limit stands at this rate of answers a second, and how far looks go: as far as the noise of a block
    /// and the doubt want.
    fn decide(&mut self, rate: f64) {
        let noise = (self.held.varies() / (rate * self.block().as_secs_f64())).sqrt();
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

    fn place(&mut self, ln_slots: f64, gap: f64) {
        let least = self.few.max(f64::from(self.bounds.slots_min)).ln();
        self.ln_slots = ln_slots.clamp(least, f64::from(self.bounds.slots_max).ln().max(least));
        self.gap = gap;
    }

    /// Nearly all requests are lost: halves the concurrency, from what is in progress. That may be far below the
    /// limit, because the origin still works on requests whose clients have left.
    fn back_off(&mut self, now: Moment, running: u32) -> Option<Step> {
        let risen = if self.rise.is_on() { rise::TIMES } else { 1.0 };
        let ln_slots = (0.5 / risen * f64::from(self.slots.min(running))).max(1.0).ln();
        let before = self.slots;
        (self.belief, self.few) = (Belief::new(ln_slots), 1.0);
        self.rise = Rise::default();
        self.place(ln_slots, GAP.1);
        self.blocks.clear();
        (self.lost, self.kept, self.halved) = (0, 0, now);
        self.open(now);
        Some(Step { cause: Cause::Failures, ..Step::between(before, self.slots)? })
    }

    /// For a while no request ended but one that was let in beyond the limit, and it was as quick as any: what holds the slots
    /// keeps no other from being served. A worker was free for it, so there are at least as many as were in progress.
    fn goes_further(&mut self, now: Moment) -> Option<Step> {
        let before = self.slots;
        self.belief.shift(FURTHER);
        self.place(self.ln_slots + FURTHER, GAP.1);
        self.blocks.clear();
        self.open(now);
        Some(Step { cause: Cause::Probed, ..Step::between(before, self.slots)? })
    }

    /// Throughput has followed the limit on its way up, or has not.
    fn rises(&mut self, now: Moment, seen: &Seen) -> Option<Step> {
        let Seen { slots, more, held, doubt, goes_on, is_enough } = *seen;
        let (ln_slots, times) = (slots.ln(), rise::TIMES.ln());
        let variance = 0.5 * doubt * doubt;
        // By Little's law; no model has it that less is done with more slots.
        let longer = held.ln() - (ln_slots - times) - more.max(0.0);
        self.belief.observe(&[
            Point { ln_slots: ln_slots - times, longer: 0.0, variance },
            Point { ln_slots: held.ln(), longer, variance },
        ]);
        if goes_on {
            return self.enter(slots * rise::TIMES, Some(Cause::Probed));
        }
        let best = self.belief.best(PRICE.0);
        self.place(
            if is_enough && longer < times / 2.0 { best.max(held.ln()) } else { best },
            GAP.1,
        );
        self.blocks.clear();
        (self.usual, self.full_since) = (Usual::default(), now);
        self.last = (ByClass::default(), 0.0);
        let before = self.slots;
        self.open(now);
        Step::between(before, self.slots)
    }

    /// Lowers a limit that is not needed, and hardly known, to what is used: should it be needed again, the way up is
    /// quicker than the way down, which leads through full queues at the origin.
    fn come_down(&mut self, now: Moment) -> Option<Step> {
        let (times, least) = UNUSED;
        let until = now + Duration::from_secs_f64((times * self.held.mean).max(least));
        let is_first = self.peak_until.replace(until).is_none();
        let peak = std::mem::take(&mut self.peak).max(self.bounds.slots_start);
        if is_first || !self.is_sought() || f64::from(peak) >= self.below() {
            return None;
        }
        let (before, ln_slots) = (self.slots, f64::from(peak).ln());
        self.belief.suffices(ln_slots);
        self.place(ln_slots, GAP.1);
        self.open(now);
        Some(Step { cause: Cause::Unused, ..Step::between(before, self.slots)? })
    }
}

impl Law for SharedLimit {
    fn slots(&self) -> u32 {
        self.slots
    }

    /// With nearly all slots in use that is as good as all of them: the effect of the limit on what is in progress is
    /// the same. With fewer it says nothing.
    fn keep(&mut self, kept: bool, running: u32) {
        self.is_kept = kept && f64::from(running) >= NEARLY * f64::from(self.slots);
    }

    /// What was held up meanwhile took longer for no reason of the limit's.
    fn is_away(&mut self, now: Moment) {
        self.full_since = now;
        self.rise = Rise::default();
    }

    /// O(1); O(places · blocks) at the end of a cycle. Never allocates.
    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let Completion { now, class, admitted, outcome, load, .. } = *completion;
        let held_s = now.since(admitted).as_secs_f64();
        let own = u32::from(admitted >= self.halved);
        let silence = admitted.since(std::mem::replace(&mut self.ended, now));
        self.peak = self.peak.max(load.running);
        let usual_s = self.usual.mean(class.index());
        let expected_s = self.expected_s(class.index(), usual_s);
        match outcome.end {
            _ if is_answer(outcome) => self.kept += own,
            End::TimedOut | End::Error if held_s >= FAILED_LATE * usual_s => self.lost += own,
            End::Cancelled => {
                self.left(completion);
                if held_s < LEFT_LATE * usual_s {
                    return None;
                }
                self.lost += own;
            }
            _ => return None,
        }
        if self.lost >= LOST.0 && self.lost > LOST.1 * self.kept {
            return self.back_off(now, load.running);
        }
        if outcome.end == End::Cancelled && !is_answer(outcome) {
            return None;
        }
        self.held.add(class.index(), held_s);
        let running = load.running;
        let is_full = self.is_full(running) && load.waiting > 0;
        let is_quick = is_answer(outcome) && usual_s > 0.0 && held_s < QUICK * usual_s;
        if is_full && is_quick && silence > CYCLE as u32 * self.block() {
            return self.goes_further(now);
        }
        let expected_s = if self.usual.is_known(class.index()) { expected_s } else { 0.0 };
        let say = match outcome.end {
            _ if is_answer(outcome) => {
                self.rise.answered(&Answer { now, admitted, usual_s: expected_s, running, is_full })
            }
            _ => self.rise.lost(),
        };
        match say {
            Say::Nothing => {}
            Say::Stay => return None,
            Say::InVain { slots } => {
                self.place(slots.ln(), GAP.1);
                self.blocks.clear();
                let before = self.slots;
                self.open(now);
                return Step::between(before, self.slots);
            }
            Say::Begins { slots, took_s } => {
                self.belief.changed((took_s / usual_s).ln());
                return self.enter(slots, Some(Cause::Probed));
            }
            Say::Seen(seen) => return self.rises(now, &seen),
        }
        let held_s = self.usual.add(class.index(), held_s, f64::from(self.slots));
        // That nobody waits at the moment does not free a slot: it is taken by the next that comes.
        if !self.is_full(running) {
            self.full_since = now;
        }
        if let Some(place) = self.block_of(completion) {
            let slot_seconds = self.blocks[0].until(now) - self.blocks[place].until(admitted);
            let slots = slot_seconds / now.since(admitted).as_secs_f64().max(1e-9);
            self.binds = true;
            self.blocks[place].times.add(class.index(), held_s, slots.max(1.0).ln());
        }
        if self.blocks.front().is_none_or(|block| block.index != self.index(now)) {
            return self.next_block(now);
        }
        if self.peak_until.is_none_or(|until| now >= until) {
            return self.come_down(now);
        }
        None
    }

    fn set_bounds(&mut self, _now: Moment, bounds: &Bounds) {
        self.bounds = bounds.clone();
        self.slots = bounds.clamp(self.slots);
    }
}

/// Whether the origin did the work it was asked for. An answer whose client left before its end counts: it may have waited for
/// long before it got its slot.
fn is_answer(outcome: &Outcome) -> bool {
    match outcome.end {
        End::Served | End::Upgraded => true,
        End::Cancelled => outcome.first_byte.is_some(),
        End::Error | End::Pushback | End::Failed | End::TimedOut | End::Preempted => false,
    }
}
