//! Blocks of time, which begin at moments of the wall clock: gateways whose clocks agree are in the same block of a cycle at
//! the same time, whatever they know of each other.
//!
//! A block lasts 25 ms, or twice, four times, … as long. So a block of one gateway contains whole blocks of another that has
//! shorter ones.

use super::super::law::Completion;
use super::held::Held;
use super::times::ByClass;
use crate::time::Moment;
use std::collections::VecDeque;
use std::time::Duration;

/// Blocks of a cycle: when the knee is known, one probes below and one above; while it is sought, one each of half as many.
pub(super) const CYCLE: u64 = 8;
/// How far probes go below and above the limit, as ln: what shows, and what costs little.
pub(super) const GAP: (f64, f64) = (0.12, 0.4);
/// Blocks after a cycle in which its requests end. With one, the longest requests of the cycle's last block were missing,
/// so that it seemed to be quicker than the others.
pub(super) const AFTER: usize = 2;
/// Least length of a block, in times in service: the mean of each class's, by the share of the slots that it holds, since
/// a limit changes what is in progress no faster than slots come free; and in answers.
const BLOCK: f64 = 2.0;
const BLOCK_ANSWERS: f64 = 4.0;
/// A block this many times longer than it need be is halved: more than two, so that it does not go to and fro. Not much
/// more: gateways whose blocks are of different lengths do not probe together, and of one length they are only where what each
/// measured decides, not what it had before.
const SHORTER: f64 = 2.1;
/// The shortest block, and how often it is doubled at most.
pub(super) const SHORTEST: Duration = Duration::from_millis(25);
const DOUBLINGS: u32 = 20;
/// Blocks that are remembered: a cycle, those that its requests end in, and some that requests began in.
const REMEMBERED: usize = 12;
/// The part of the slots that counts as all of them, while a policy keeps the others free.
pub(super) const NEARLY: f64 = 0.75;
/// What two readings of clocks differ by without either having been set.
const CLOCK_ERROR: Duration = Duration::from_millis(2);

/// A part of time in which the limit stands.
#[derive(Clone, Debug)]
pub(super) struct Block {
    index: u64,
    slots: u32,
    from: Moment,
    /// Slots times seconds before it.
    before: f64,
    /// Of the requests admitted in it.
    pub(super) times: ByClass,
}

impl Block {
    /// Slots times seconds until a moment in it.
    fn until(&self, at: Moment) -> f64 {
        self.before + f64::from(self.slots) * at.since(self.from).as_secs_f64()
    }
}

/// The current block and those before.
#[derive(Clone, Debug)]
pub(super) struct Blocks {
    /// Latest first.
    blocks: VecDeque<Block>,
    /// How often the shortest block is doubled.
    doublings: u32,
    /// By how much the wall clock is ahead of moments.
    ahead: Duration,
}

impl Default for Blocks {
    fn default() -> Self {
        let blocks = VecDeque::with_capacity(REMEMBERED);
        Blocks { blocks, doublings: 0, ahead: Duration::ZERO }
    }
}

impl Blocks {
    /// The wall clock is ahead of moments by so much. Returns whether it was set: then the blocks so far are forgotten, since
    /// other gateways were not in the same ones.
    pub(super) fn set_clock(&mut self, ahead: Duration) -> bool {
        let is_set = ahead.abs_diff(self.ahead) > CLOCK_ERROR;
        if is_set {
            self.ahead = ahead;
            self.blocks.clear();
        }
        is_set
    }

    /// The length of a block.
    pub(super) fn length(&self) -> Duration {
        SHORTEST * (1 << self.doublings)
    }

    /// Which block of the wall clock a moment is in.
    pub(super) fn index(&self, now: Moment) -> u64 {
        (now + self.ahead).nanos() / self.length().as_nanos() as u64
    }

    /// Whether a moment is no longer in the current block, or there is none.
    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.blocks.front().is_none_or(|block| block.index != self.index(now))
    }

    /// Makes blocks as long as requests need to show the effect of a limit that lets so many requests a second through.
    pub(super) fn fit(&mut self, held: &Held, rate: f64) {
        let wanted = (BLOCK * held.turnover()).max(BLOCK_ANSWERS / rate);
        while self.length().as_secs_f64() < wanted && self.doublings < DOUBLINGS {
            self.doublings += 1;
        }
        while self.doublings > 0 && self.length().as_secs_f64() > SHORTER * wanted {
            self.doublings -= 1;
        }
    }

    /// How long nothing must end to be a silence: a cycle.
    pub(super) fn silence(&self) -> Duration {
        CYCLE as u32 * self.length()
    }

    /// Forgets the blocks before a silence: after it the origin may be another one.
    pub(super) fn forget_old(&mut self, now: Moment) {
        if self.blocks.front().is_some_and(|block| now.since(block.from) > self.silence()) {
            self.clear();
        }
    }

    /// Forgets all blocks. Requests that are in service are evidence of none.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
    }

    /// When the current block began.
    pub(super) fn begun(&self) -> Option<Moment> {
        self.blocks.front().map(|block| block.from)
    }

    /// A block of so many slots begins.
    pub(super) fn begin(&mut self, now: Moment, index: u64, slots: u32) {
        let before = self.blocks.front().map_or(0.0, |block| block.until(now));
        self.blocks.truncate(REMEMBERED - 1);
        let times = ByClass::default();
        self.blocks.push_front(Block { index, slots, from: now, before, times });
    }

    /// Whether the block that ends now is the last that requests of a cycle of so many blocks end in.
    pub(super) fn ends_cycle(&self, cycle: u64) -> bool {
        let last = self.blocks.get(AFTER - 1);
        last.is_some_and(|block| block.index.is_multiple_of(cycle))
    }

    /// The blocks of the cycle of so many before those that its requests end in, latest first; and how many seconds it lasted.
    pub(super) fn of_cycle(&self, cycle: u64) -> (impl Iterator<Item = &Block> + Clone, f64) {
        let blocks = self.blocks.iter().skip(AFTER).take(cycle as usize);
        let first = blocks.clone().next_back().map_or(Moment::ZERO, |block| block.from);
        let seconds = self.blocks[AFTER - 1].from.since(first).as_secs_f64();
        (blocks, seconds.max(SHORTEST.as_secs_f64()))
    }

    /// Most slots of the current block and those that requests may have begun in.
    pub(super) fn slots_lately(&self) -> Option<u32> {
        self.blocks.iter().take(1 + AFTER).map(|block| block.slots).max()
    }

    /// The block that a request is evidence of: it was admitted in it, and took the last slot. Whether slots came free later
    /// says nothing against it: if that counted, those that take long would be missing. `is_kept`: free slots are kept from
    /// the requests that wait.
    fn place_of(&self, completion: &Completion<'_>, is_kept: bool) -> Option<usize> {
        let place = self.blocks.iter().position(|block| completion.admitted >= block.from)?;
        let slots = f64::from(self.blocks[place].slots);
        let all = if is_kept { NEARLY * slots } else { slots };
        (f64::from(completion.found) >= all).then_some(place)
    }

    /// Counts a request that was in service for `held_s` seconds in its block; returns whether it is evidence of one.
    pub(super) fn add(&mut self, completion: &Completion<'_>, held_s: f64, is_kept: bool) -> bool {
        let Some(place) = self.place_of(completion, is_kept) else { return false };
        let Completion { now, lane, admitted, .. } = *completion;
        let slot_seconds = self.blocks[0].until(now) - self.blocks[place].until(admitted);
        let slots = slot_seconds / now.since(admitted).as_secs_f64().max(1e-9);
        self.blocks[place].times.add(lane.index(), held_s, slots.max(1.0).ln());
        true
    }

    /// Counts a request whose client left sooner than it could be answered. What the time in its slot would have become is
    /// not known, only that it was longer. Without it, requests that wait for less, and have more time left until their clients
    /// leave, would seem to take longer.
    pub(super) fn add_left(&mut self, completion: &Completion<'_>, is_kept: bool) {
        let Completion { now, lane, admitted, .. } = *completion;
        if let Some(place) = self.place_of(completion, is_kept) {
            self.blocks[place].times.left(lane.index(), now.since(admitted).as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks that fit requests of so many seconds.
    fn of(held_s: f64, ahead: Duration) -> Blocks {
        let (mut blocks, mut held) = (Blocks::default(), Held::default());
        held.add(0, held_s);
        blocks.set_clock(ahead);
        blocks.fit(&held, 1000.0);
        blocks
    }

    #[test]
    fn a_block_is_as_long_as_its_requests_need_and_no_more_than_that() {
        for held_s in [0.0001, 0.01, 0.1, 1.0, 60.0] {
            let length = of(held_s, Duration::ZERO).length();
            let wanted = (2.0 * held_s).max(0.004);
            assert!(length.as_secs_f64() >= wanted, "{held_s} s in service: {length:?}");
            assert!(length.as_secs_f64() <= (2.1 * wanted).max(0.025), "{held_s} s: {length:?}");
        }
    }

    #[test]
    fn gateways_that_started_at_different_times_are_in_the_same_block() {
        let unix = Duration::from_millis(1_795_199_031_042);
        let (one, other) = (of(0.1, unix), of(0.1, unix + Duration::from_secs(77)));
        for ms in (0..60_000).step_by(7) {
            let at = Moment::from_millis(100_000 + ms);
            assert_eq!(one.index(at), other.index(at - Duration::from_secs(77)));
        }
    }

    #[test]
    fn longer_blocks_consist_of_whole_shorter_ones() {
        let unix = Duration::from_millis(1_795_199_031_042);
        let (short, long) = (of(0.1, unix), of(0.5, unix));
        for ms in 0..5_000 {
            let [before, after] = [ms, ms + 1].map(Moment::from_millis);
            if long.index(before) != long.index(after) {
                assert_ne!(short.index(before), short.index(after));
            }
        }
    }

    #[test]
    fn a_clock_that_is_set_begins_new_blocks_and_the_error_of_a_reading_does_not() {
        let second = Duration::from_secs(1);
        let mut blocks = of(0.1, second);
        blocks.begin(Moment::ZERO, 0, 10);
        assert!(!blocks.set_clock(second + Duration::from_millis(1)));
        assert!(blocks.begun().is_some());
        assert!(blocks.set_clock(second / 2));
        assert!(blocks.begun().is_none() && blocks.is_over(Moment::ZERO));
    }
}
