//! A law by probes below and above the limit at moments that gateways share: for servers that get requests from other
//! gateways, too.
//!
//! Requests that queue at the origin take longer by the same time, whatever they are. So in some blocks of time the
//! limit is a little lower, or higher, and the times in service of each class are compared with those of the other
//! blocks. By Little's law they grow with the limit beyond the knee, and not below. A cycle of blocks is one
//! observation of where the knee is; a [`Belief`] remembers, and spreads out with time, since origins change. The limit
//! stands a little above the knee.
//!
//! Blocks begin at moments of the wall clock ([`Law::set_clock`]), so that gateways before the same origin probe below and
//! above together, and each sees the effect of all. Where clocks differ by more than a part of a block, what one gateway
//! lets in less the others let in more, and none sees an effect: `docs/adr/0025` says what it comes to.
//!
//! Not evidence: requests that ran while slots were free, fast errors and failures, clients that soon leave. If nearly
//! all requests are lost, slowly, the limit is halved.
//!
//! | file | what it does |
//! |---|---|
//! | `blocks` | blocks of the wall clock, and the requests of each |
//! | `probe` | how many slots a block has |
//! | `cycle` | what a cycle of blocks says of the knee, and where the limit stands |
//! | `belief`, `times` | a probability for each knee; times in service by class |
//! | `fair` | gateways have about as many slots as each other |
//! | `rise` | a quicker way up where requests suddenly take far longer |
//! | `losses` | requests that are lost, slowly |
//! | `held` | means of the times in service |
//! | here | the law: what happens when a request ends |

mod belief;
mod blocks;
mod cycle;
mod fair;
mod held;
mod losses;
mod probe;
mod rise;
mod times;

use super::law::{Bounds, Cause, Completion, Law, Step};
use crate::time::Moment;
use belief::{Belief, PRICE};
use blocks::{Blocks, GAP, NEARLY};
use held::Held;
use losses::{Ended, Losses};
use rise::{Answer, Rise, Say, Seen};
use std::time::Duration;
use times::{ByClass, Point, Usual};

/// How long a limit that is hardly known is unused before it comes down, in times in service, and at least, seconds.
const UNUSED: (f64, f64) = (10.0, 1.0);
/// A request is as quick as usual up to so many usual times of its class; and how much further the limit goes, as ln, if
/// such a one began and ended while nothing else did.
const QUICK: f64 = 2.0;
const FURTHER: f64 = 0.4;

/// Finds how many requests the origin can work on at once, together with other gateways that do the same.
///
/// About 35 KB. The end of a request costs some 100 ns, the end of a cycle, at most ten times a second, 60 to 200 µs; nothing is
/// allocated after the start.
#[derive(Clone, Debug)]
pub struct SharedLimit {
    bounds: Bounds,
    belief: Belief,
    /// ln of the limit, and how far probes go from it.
    ln_slots: f64,
    gap: f64,
    /// Slots that are too few to matter.
    few: f64,
    /// The limit in force.
    slots: u32,
    /// ln of the highest known limit lately, which is forgotten a little in each cycle.
    ln_highest: f64,
    blocks: Blocks,
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
    losses: Losses,
    /// In the current period: most requests in progress at once, how many requests took the last slot and how many there were in
    /// all, and when it ends.
    peak: u32,
    took_last: (u32, u32),
    peak_until: Option<Moment>,
    rise: Rise,
}

impl SharedLimit {
    /// A limit that knows nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        let slots = bounds.clamp(bounds.slots_start);
        let ln_slots = f64::from(bounds.slots_start.max(1)).ln();
        SharedLimit {
            bounds,
            belief: Belief::new(ln_slots),
            ln_slots,
            gap: GAP.1,
            few: 1.0,
            slots,
            ln_highest: f64::NEG_INFINITY,
            blocks: Blocks::default(),
            usual: Usual::default(),
            last: (ByClass::default(), 0.0),
            held: Held::default(),
            noise: 1.0,
            full_since: Moment::ZERO,
            ended: Moment::ZERO,
            binds: false,
            is_kept: false,
            losses: Losses::default(),
            peak: 0,
            took_last: (0, 0),
            peak_until: None,
            rise: Rise::default(),
        }
    }

    /// The current block is over; the next begins.
    fn next_block(&mut self, now: Moment) -> Option<Step> {
        if self.blocks.ends_cycle(self.cycle()) {
            self.conclude();
        }
        self.open(now)
    }

    /// Seconds that a request of the class may take at an origin that has not changed. More slots than usual, as in probes
    /// above, make it wait at the origin for what those beyond it hold, and that may be the requests of another class.
    fn expected_s(&self, class: usize, usual_s: f64) -> f64 {
        let slots = self.blocks.slots_lately().unwrap_or(self.slots);
        let more = self.usual.slots_since(class, f64::from(slots)) - 1.0;
        usual_s + more * usual_s.max(self.held.turnover())
    }

    /// Another limit is in force; `why`: if not since more, or fewer, give as much.
    fn enter(&mut self, slots: f64, why: Option<Cause>) -> Option<Step> {
        let before = self.slots;
        self.slots = self.bounds.clamp(slots.max(1.0) as u32);
        let step = Step::between(before, self.slots)?;
        Some(Step { cause: why.unwrap_or(step.cause), ..step })
    }

    /// Forgets the blocks so far and begins one under the limit as it is now.
    fn restart(&mut self, now: Moment) -> Option<Step> {
        let before = self.slots;
        self.blocks.clear();
        self.open(now);
        Step::between(before, self.slots)
    }

    /// Whether the origin has as much to do as the limit lets it have.
    fn is_full(&self, running: u32) -> bool {
        self.is_kept || running >= self.slots
    }

    /// Nearly all requests are lost: halves the concurrency, from what is in progress. That may be far below the
    /// limit, because the origin still works on requests whose clients have left.
    fn back_off(&mut self, now: Moment, running: u32) -> Option<Step> {
        let risen = if self.rise.is_on() { rise::TIMES } else { 1.0 };
        let ln_slots = (0.5 / risen * f64::from(self.slots.min(running))).max(1.0).ln();
        self.begin_at(ln_slots);
        self.rise = Rise::default();
        self.losses.halved(now);
        let step = self.restart(now)?;
        Some(Step { cause: Cause::Failures, ..step })
    }

    /// For a while no request ended but one that was let in beyond the limit, and it was as quick as any: what holds the slots
    /// keeps no other from being served. A worker was free for it, so there are at least as many as were in progress.
    fn goes_further(&mut self, now: Moment) -> Option<Step> {
        self.belief.shift(FURTHER);
        self.place(self.ln_slots + FURTHER, GAP.1);
        let step = self.restart(now)?;
        Some(Step { cause: Cause::Probed, ..step })
    }

    /// What the end of a request says of the way up.
    fn follow(&mut self, now: Moment, say: Say, usual_s: f64) -> Option<Step> {
        match say {
            Say::Nothing | Say::Stay => None,
            Say::InVain { slots } => {
                self.place(slots.ln(), GAP.1);
                self.restart(now)
            }
            Say::Begins { slots, took_s } => {
                self.belief.changed((took_s / usual_s).ln());
                self.enter(slots, Some(Cause::Probed))
            }
            Say::Seen(seen) => self.rises(now, &seen),
        }
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
        (self.usual, self.full_since) = (Usual::default(), now);
        self.last = (ByClass::default(), 0.0);
        self.restart(now)
    }

    /// Lowers a limit that is not needed. One that is hardly known, to what is used: should it be needed again, the way up is
    /// quicker than the way down, which leads through full queues at the origin. One that is known stays for when it is needed,
    /// unless nearly all of it is used ([`SharedLimit::sink`]).
    fn come_down(&mut self, now: Moment) -> Option<Step> {
        let (times, least) = UNUSED;
        let until = now + Duration::from_secs_f64((times * self.held.mean()).max(least));
        let is_first = self.peak_until.replace(until).is_none();
        let most = std::mem::take(&mut self.peak);
        let took_last = std::mem::take(&mut self.took_last);
        if !is_first {
            self.sink(f64::from(most), took_last);
        }
        let peak = f64::from(most.max(self.bounds.slots_start));
        let (before, ln_slots) = (self.slots, peak.ln());
        let is_far_less = peak < self.below();
        if is_first || !is_far_less || !self.is_sought() {
            return None;
        }
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
        let Completion { now, lane, admitted, outcome, load, .. } = *completion;
        let held_s = now.since(admitted).as_secs_f64();
        let silence = admitted.since(std::mem::replace(&mut self.ended, now));
        self.peak = self.peak.max(load.running);
        let usual_s = self.usual.mean(lane.index());
        let expected_s = self.expected_s(lane.index(), usual_s);
        let ended = Ended::of(outcome, held_s, usual_s);
        if matches!(ended, Ended::LeftEarly | Ended::LeftLate) {
            self.blocks.add_left(completion, self.is_kept);
        }
        if matches!(ended, Ended::LeftEarly | Ended::Nothing) {
            return None;
        }
        self.losses.add(completion, ended);
        if self.losses.are_nearly_all() {
            return self.back_off(now, load.running);
        }
        if ended == Ended::LeftLate {
            return None;
        }
        self.held.add(lane.index(), held_s);
        let (running, is_answer) = (load.running, ended == Ended::Answered);
        let is_full = self.is_full(running) && load.waiting > 0;
        let is_quick = is_answer && usual_s > 0.0 && held_s < QUICK * usual_s;
        if is_full && is_quick && silence > self.blocks.silence() {
            return self.goes_further(now);
        }
        let expected_s = if self.usual.is_known(lane.index()) { expected_s } else { 0.0 };
        let say = match is_answer {
            true => {
                self.rise.answered(&Answer { now, admitted, usual_s: expected_s, running, is_full })
            }
            false => self.rise.lost(),
        };
        if say != Say::Nothing {
            return self.follow(now, say, usual_s);
        }
        let held_s = self.usual.add(lane.index(), held_s, f64::from(self.slots));
        // That nobody waits at the moment does not free a slot: it is taken by the next that comes.
        if !self.is_full(running) {
            self.full_since = now;
        }
        let took_last = self.blocks.add(completion, held_s, self.is_kept);
        self.binds |= took_last;
        self.took_last = (self.took_last.0 + u32::from(took_last), self.took_last.1 + 1);
        if self.blocks.is_over(now) {
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

    /// Evidence from before a clock was set is dropped; what is believed stays.
    fn set_clock(&mut self, ahead: Duration) {
        self.blocks.set_clock(ahead);
    }
}
