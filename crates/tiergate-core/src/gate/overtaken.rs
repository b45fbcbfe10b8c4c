//! Requests that others overtake: their slots are lent, too.
//!
//! A long poll, or a call that waits for something other than this origin, holds a slot for as long as it lasts, and a few of
//! them hold all. A limit on what is in progress is there for what makes the others slower. Of a request that has been at the
//! origin for far longer than is usual, while many that came later were answered in the usual time, that is not so, or not much:
//! its slot goes to the next (`lend`).
//!
//! If those that are left get clearly slower, it was wrong: then no more slots are lent, until fewer are.
//!
//! Where such requests hold all slots, nothing is answered, and nothing is overtaken. After a while without a beginning or
//! an end one slot is lent to see what happens. If the next is answered at once, the others are known to be overtaken. If the
//! origin hangs, few more requests hang with the others.

use crate::collections::{Key, List, Slab};
use crate::control::{Completion, Seat};
use crate::names::LaneId;
use crate::time::Moment;
use std::time::Duration;

/// A request is overtaken that has been at the origin for so long, and for so many times as long as those of its class, needing the same, that came
/// later and were answered; of which there are so many.
const AGE_MIN: Duration = Duration::from_secs(1);
const AGE_OTHERS: f64 = 8.0;
const OTHERS: u32 = 4;
/// So many of the oldest are looked at at each answer.
const OLDEST: usize = 16;
/// What is usual is the time that so many answers take no longer than; polls may be most of them.
const QUANTILE: f64 = 0.25;
/// By how much of its logarithm it moves at an answer; what is calm, that slower, and slower still while slots are lent.
const STEP: f64 = 0.1;
const CALM_STEP: f64 = 0.01;
const CALM_LENT_STEP: f64 = 0.001;
/// How many times the calm time is clearly slower.
const SLOWER: f64 = 1.5;
/// After which part of that time another slot is lent to see what happens, or the first if any came later and was answered; while
/// the slots that were, since anything was answered, are this part of all. Then after all of that time.
const PROBE_EVERY: u32 = 4;
const PROBES_PART: u32 = 2;
/// Most slots that are lent so, as many times all.
const PROBES_MAX: u32 = 4;

/// No answer is usual that takes longer, seconds.
const LONGEST_S: f64 = 3600.0;
/// Requests that there is room for without allocation.
const ROOM: usize = 256;

/// A request in its slot.
#[derive(Debug)]
struct Entry {
    lane: LaneId,
    slots: u16,
    seat: Option<Seat>,
    admitted: Moment,
    /// Answers of requests of its class that were admitted later, and how long these took.
    others: u32,
    others_s: f64,
    lent: Option<Moment>,
}

impl Entry {
    fn is_overtaken(&self, now: Moment) -> bool {
        let age = now.since(self.admitted);
        let others_s = self.others_s / f64::from(self.others);
        self.others >= OTHERS && age >= AGE_MIN && age.as_secs_f64() >= AGE_OTHERS * others_s
    }
}

/// The requests in progress, and what was usual lately.
#[derive(Debug)]
pub(super) struct Overtaken {
    slab: Slab<Entry>,
    /// Those that hold slots, the oldest first.
    order: List,
    usual: Usual,
    /// Last moment at which a request began or ended, or a slot was lent to see what happens; how many were since the last
    /// answer.
    progress: Moment,
    probes: u32,
}

/// How long answers take: ln of seconds, lately, and while it was calm.
#[derive(Debug, Default)]
struct Usual {
    answers: f64,
    lately: f64,
    calm: f64,
}

impl Usual {
    fn add(&mut self, held_s: f64, is_any_lent: bool) {
        let ln_held = held_s.max(1e-6).ln();
        if self.answers == 0.0 {
            (self.lately, self.calm) = (ln_held, ln_held);
        }
        self.answers += 1.0;
        let calm_step =
            if is_any_lent { CALM_LENT_STEP } else { CALM_STEP.max(1.0 / self.answers) };
        for (at, step) in
            [(&mut self.lately, STEP.max(1.0 / self.answers)), (&mut self.calm, calm_step)]
        {
            *at += step * if ln_held > *at { QUANTILE } else { QUANTILE - 1.0 };
        }
    }

    /// What is usual; zero while nothing is known.
    fn time(&self) -> Duration {
        match self.answers {
            0.0 => Duration::ZERO,
            _ => Duration::from_secs_f64(self.lately.exp().min(LONGEST_S)),
        }
    }

    fn is_slower(&self) -> bool {
        self.lately > self.calm + SLOWER.ln()
    }
}

impl Overtaken {
    pub(super) fn new() -> Self {
        Overtaken {
            slab: Slab::with_capacity(ROOM),
            order: List::default(),
            usual: Usual::default(),
            progress: Moment::ZERO,
            probes: 0,
        }
    }

    /// A request gets its slot.
    pub(super) fn begins(
        &mut self,
        now: Moment,
        lane: LaneId,
        slots: u16,
        seat: Option<Seat>,
    ) -> Key {
        let (others, others_s) = (0, 0.0);
        let entry = Entry { lane, slots, seat, admitted: now, others, others_s, lent: None };
        let key = self.slab.insert(entry);
        self.slab.append(&mut self.order, key.index());
        self.progress = self.progress.max(now);
        key
    }

    /// Its slot is lent for another reason.
    pub(super) fn pauses(&mut self, key: Option<Key>) {
        let Some(key) = key else { return };
        if self.slab[key.index()].lent.is_none() {
            self.slab.unlink(&mut self.order, key.index());
            self.slab[key.index()].lent = Some(Moment::ZERO);
        }
    }

    /// Its slot is not lent, however long it takes.
    pub(super) fn keeps(&mut self, index: u32) {
        self.slab.unlink(&mut self.order, index);
        self.slab[index].lent = Some(Moment::ZERO);
    }

    /// It has taken its slot back, or another.
    pub(super) fn goes_on(&mut self, now: Moment, key: Option<Key>, seat: Option<Seat>) {
        let Some(key) = key else { return };
        let entry = &mut self.slab[key.index()];
        (entry.admitted, entry.others, entry.others_s, entry.lent) = (now, 0, 0.0, None);
        entry.seat = seat;
        self.slab.append(&mut self.order, key.index());
    }

    /// Its time at the origin begins at that moment.
    pub(super) fn is_away(&mut self, key: Option<Key>, until: Moment) {
        if let Some(key) = key {
            self.slab[key.index()].admitted = until;
        }
    }

    /// It is over.
    pub(super) fn ends(&mut self, now: Moment, key: Option<Key>) {
        let Some(key) = key else { return };
        if self.slab[key.index()].lent.is_none() {
            self.slab.unlink(&mut self.order, key.index());
        }
        self.slab.remove(key.index());
        self.progress = self.progress.max(now);
    }

    /// Since when its slot is lent because it was overtaken.
    pub(super) fn lent(&self, key: Option<Key>) -> Option<Moment> {
        self.slab[key?.index()].lent.filter(|since| *since > Moment::ZERO)
    }

    /// Those that are in progress hold no slots any more, and none of them has lent one.
    pub(super) fn forget(&mut self) {
        self.order = List::default();
        for (_, entry) in self.slab.iter_mut() {
            entry.lent = Some(Moment::ZERO);
        }
    }

    /// A request was answered that held its slot to the end.
    pub(super) fn answered(
        &mut self,
        completion: &Completion<'_>,
        seat: Option<Seat>,
        is_any_lent: bool,
    ) {
        let Completion { now, lane, admitted, .. } = *completion;
        let held_s = now.since(admitted).as_secs_f64();
        self.probes = 0;
        self.usual.add(held_s, is_any_lent);
        let mut next = self.order.first();
        for _ in 0..OLDEST {
            let Some(index) = next else { break };
            let entry = &mut self.slab[index];
            if entry.admitted >= admitted {
                break;
            }
            // What another server answers says nothing of one that is slow, or hangs.
            if entry.lane == lane && entry.seat == seat {
                entry.others += 1;
                entry.others_s += held_s;
            }
            next = self.slab.next(index);
        }
    }

    fn is_oldest_overtaken_by_any(&self) -> bool {
        self.order.first().is_some_and(|oldest| self.slab[oldest].others > 0)
    }

    /// The first of the oldest that is overtaken.
    pub(super) fn overtaken(&self, now: Moment) -> Option<u32> {
        let mut next = self.order.first().filter(|_| !self.usual.is_slower());
        for _ in 0..OLDEST {
            let index = next?;
            let entry = &self.slab[index];
            if entry.is_overtaken(now) {
                return Some(index);
            }
            next = self.slab.next(index).filter(|_| now.since(entry.admitted) >= AGE_MIN);
        }
        None
    }

    /// The lane of a request, and whose slots it holds.
    pub(super) fn of(&self, index: u32) -> (LaneId, Option<Seat>) {
        let entry = &self.slab[index];
        (entry.lane, entry.seat)
    }

    /// When a request was admitted.
    pub(super) fn admitted(&self, index: u32) -> Moment {
        self.slab[index].admitted
    }

    /// Takes the slots of a request; how many.
    pub(super) fn lend(&mut self, now: Moment, index: u32) -> u16 {
        self.slab.unlink(&mut self.order, index);
        let entry = &mut self.slab[index];
        entry.lent = Some(now.max(Moment::from_nanos(1)));
        entry.slots
    }

    /// The one that has held its slot for longest.
    pub(super) fn oldest(&self) -> Option<u32> {
        self.order.first()
    }

    /// When a slot of so many is to be lent to see what happens, if nothing else does; the servers are away until that moment.
    pub(super) fn probe_due(&self, away_until: Moment, slots: u32) -> Moment {
        if self.probes >= PROBES_MAX * slots || self.oldest().is_none() {
            return Moment::NEVER;
        }
        let age = AGE_MIN.max(self.usual.time().mul_f64(AGE_OTHERS));
        let is_first = self.probes == 0 && !self.is_oldest_overtaken_by_any();
        let is_likely = !is_first && self.probes < slots / PROBES_PART;
        let pause = if is_likely { age / PROBE_EVERY } else { age };
        self.progress.max(away_until) + pause
    }

    /// A slot is lent to see what happens.
    pub(super) fn probes(&mut self, now: Moment) {
        self.progress = now;
        self.probes += 1;
    }
}
