//! How long the clients of a class wait for an answer, learned from those that leave.
//!
//! A policy's deadline is a guess. Where clients leave earlier, a queue that is served in order of arrival
//! serves those who are about to leave: each answer is late by a little, and all work is for nobody. So the
//! gate notes after how long clients leave, and requests are refused, and expire, early enough to be answered
//! before ([`Patience::deadline`]), but never later than the policy says.
//!
//! Only those count as having left that were waiting for a slot. Who leaves while being served says how slow that
//! request is, not how long the queue may be: of a page that takes a second, a client that leaves it after 150 ms
//! would otherwise be the only one that was ever seen to wait for so long. And what is known is soon forgotten
//! when requests find free slots: without a queue, to refuse early is of no use to anybody.
//!
//! Nor do those count that leave at one moment: when a load test ends or a proxy in front restarts, all leave, after
//! whatever time they have waited. Patience shows itself for as long as an overload lasts, so in each period only
//! so many count as having left as the period before lets expect.
//!
//! Those who are answered or refused would have waited for an unknown time more. They are censored
//! observations: the share of clients still there after a time is the product, over all shorter times, of the
//! share of those then still waiting that did not leave (Kaplan and Meier, 1958). A class in which some leave
//! at once whatever happens (a search box that asks at each key) must not be refused whole for their sake: the
//! time is the longest at which nearly as many are still there as at any useful time.
//!
//! And a few addresses that leave again and again must not speak for all. The share is taken by groups of flows, and
//! the most impatient quarter of the groups is left out ([`super::groups`]).

use super::groups::{group, left_out};
use crate::outcome::Outcome;
use crate::time::Moment;
use std::time::Duration;

/// Times are told apart by an eighth: so many steps for each doubling.
const STEPS: f64 = 6.0;
/// Shortest and longest time that are told apart.
const SHORTEST: Duration = Duration::from_millis(10);
const BINS: usize = 72;
/// Clients that leave without whom nothing is known.
const LEFT_MIN: f32 = 16.0;
/// Clients that stay and are added at each time, so that few who leave prove little.
const STAYERS: f32 = 16.0;
/// How many of those who are there at the best time must be there at the time chosen.
const STILL_THERE: f32 = 0.97;
/// Groups of flows.
const GROUPS: usize = 64;
/// All is forgotten when of those who left no more than this counts.
const FORGOTTEN: f32 = 0.1;
/// Observations with which a group is one of them.
const SEEN: f32 = 0.02;
/// In a period at most so many times as many count as having left as counted in the one before, and these.
const PERIOD: Duration = Duration::from_millis(250);
const GROWTH: u32 = 2;
const LEFT_AT_ONCE: u32 = 2;
/// Observations count half after this time, and after so many others.
const HALF_LIFE: Duration = Duration::from_secs(30);
const OBSERVATIONS: f32 = 4096.0;
/// The same while requests find free slots.
const HALF_LIFE_IDLE: Duration = Duration::from_secs(1);
/// How often the deadline is computed anew.
const INTERVAL: Duration = Duration::from_millis(100);
/// Part of the difference to the latest answer by which the mean time of an answer moves.
const WEIGHT: f64 = 1.0 / 32.0;
/// Shortest deadline, and shortest in times of an answer: a queue that is shorter would leave slots idle.
const DEADLINE_MIN: Duration = Duration::from_millis(10);
const ANSWERS_MIN: f64 = 0.25;

/// Clients of some flows that left, and all others, by how long they had waited.
#[derive(Clone, Copy, Debug)]
struct Group {
    left: [f32; BINS],
    stayed: [f32; BINS],
}

impl Group {
    fn fade(&mut self, kept: f32) {
        self.left.iter_mut().chain(&mut self.stayed).for_each(|count| *count *= kept);
    }

    fn observations(&self) -> f32 {
        self.left.iter().chain(&self.stayed).sum()
    }

    /// Which part of the clients are still there when the times of each bin begin; so many `stayers` are added at each.
    fn there(&self, stayers: f32) -> [f32; BINS + 1] {
        let mut waiting = self.observations();
        let mut there = [1.0; BINS + 1];
        for bin in 0..BINS {
            let gone = self.left[bin] / (waiting + stayers);
            there[bin + 1] = there[bin] * (1.0 - gone);
            waiting = (waiting - self.left[bin] - self.stayed[bin]).max(0.0);
        }
        there
    }
}

/// What is known of the clients of one class.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    /// `None`: nobody left lately.
    groups: Option<Box<[Group; GROUPS]>>,
    /// In all groups: observations, and those that left.
    observations: f32,
    leavers: f32,
    /// Since when a period goes on, and how many count as having left in it and in the one before.
    period: Moment,
    leaving: [u32; 2],
    /// When the counts last faded, and whether a request has found a free slot since.
    faded: Moment,
    idle: bool,
    /// The time after which clients leave; `None`: not known.
    known: Option<Duration>,
    /// Mean time from the slot to the first byte of an answer, seconds, and its mean deviation.
    answer_s: f64,
    deviation_s: f64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            groups: None,
            observations: 0.0,
            leavers: 0.0,
            period: Moment::ZERO,
            leaving: [0; 2],
            faded: Moment::ZERO,
            idle: false,
            known: None,
            answer_s: 0.0,
            deviation_s: 0.0,
        }
    }
}

/// The bin of a time: the one whose times begin with it or shortly before.
fn bin(time: Duration) -> usize {
    let doublings = (time.as_secs_f64() / SHORTEST.as_secs_f64()).log2();
    ((doublings * STEPS).max(0.0) as usize).min(BINS - 1)
}

/// When the times of a bin begin.
fn begin(bin: usize) -> Duration {
    SHORTEST.mul_f64((bin as f64 / STEPS).exp2())
}

impl Patience {
    /// A request that waited for `waited` gave its slot back after `held`.
    pub(crate) fn finished(
        &mut self,
        now: Moment,
        flow: u64,
        waited: Duration,
        held: Duration,
        outcome: &Outcome,
    ) {
        let Outcome { first_byte, left, .. } = *outcome;
        if let Some(first_byte) = first_byte {
            self.answered(first_byte);
        }
        let answered = first_byte.unwrap_or(held);
        self.stayed(now, flow, waited + left.map_or(answered, |left| left.min(answered)));
    }

    /// A request found a free slot.
    pub(crate) fn idle(&mut self) {
        self.idle = true;
    }

    /// A client of a flow left after it had waited for a slot for `time`. O(1).
    pub(crate) fn left(&mut self, now: Moment, flow: u64, time: Duration) {
        let passed = now.since(self.period);
        if passed >= PERIOD {
            let before = if passed < 2 * PERIOD { self.leaving[0] } else { 0 };
            (self.period, self.leaving) = (now, [0, before]);
        }
        let [leaving, before] = &mut self.leaving;
        if *leaving < GROWTH * *before + LEFT_AT_ONCE {
            *leaving += 1;
            self.leavers += 1.0;
            let none = Group { left: [0.0; BINS], stayed: [0.0; BINS] };
            let groups = self.groups.get_or_insert_with(|| Box::new([none; GROUPS]));
            groups[group(flow, GROUPS)].left[bin(time)] += 1.0;
            self.observed(now);
        }
    }

    /// A client was answered or refused after `time`, and was there until then; or left while it was served. O(1).
    pub(crate) fn stayed(&mut self, now: Moment, flow: u64, time: Duration) {
        if let Some(groups) = &mut self.groups {
            groups[group(flow, GROUPS)].stayed[bin(time)] += 1.0;
            self.observed(now);
        }
    }

    /// The first byte of an answer came this long after the slot was granted.
    fn answered(&mut self, took: Duration) {
        let took_s = took.as_secs_f64();
        if self.answer_s == 0.0 {
            self.answer_s = took_s;
        }
        let off = took_s - self.answer_s;
        self.answer_s += off * WEIGHT;
        self.deviation_s += (off.abs() - self.deviation_s) * WEIGHT;
    }

    /// How long a request may wait for its slot to be answered while its client is there; at most
    /// `policys`. O(1).
    pub(crate) fn deadline(&self, policys: Duration) -> Duration {
        let Some(known) = self.known else { return policys };
        let answer = Duration::from_secs_f64(self.answer_s + self.deviation_s);
        let least = DEADLINE_MIN.max(Duration::from_secs_f64(self.answer_s * ANSWERS_MIN));
        known.saturating_sub(answer).max(least).min(policys)
    }

    /// How long an answer usually takes from its slot on.
    pub(crate) fn answer(&self) -> Duration {
        Duration::from_secs_f64(self.answer_s)
    }

    /// The time after which clients leave; `None`: not known.
    pub(crate) fn known(&self) -> Option<Duration> {
        self.known
    }

    /// O(1); O(groups · bins) ten times a second.
    fn observed(&mut self, now: Moment) {
        self.observations += 1.0;
        let passed = now.since(self.faded);
        if passed < INTERVAL {
            return;
        }
        let half = if std::mem::take(&mut self.idle) { HALF_LIFE_IDLE } else { HALF_LIFE };
        let old = 0.5_f64.powf(passed.as_secs_f64() / half.as_secs_f64()) as f32;
        let kept = old.min(OBSERVATIONS / self.observations.max(OBSERVATIONS));
        self.faded = now;
        self.observations *= kept;
        self.leavers *= kept;
        if self.leavers < FORGOTTEN {
            (self.groups, self.observations, self.leavers) = (None, 0.0, 0.0);
        }
        if let Some(groups) = &mut self.groups {
            groups.iter_mut().for_each(|group| group.fade(kept));
        }
        self.known = self.estimate();
    }

    fn estimate(&self) -> Option<Duration> {
        if self.leavers < LEFT_MIN {
            return None;
        }
        let seen =
            || self.groups.iter().flat_map(|it| it.iter()).filter(|it| it.observations() >= SEEN);
        let groups = seen().count().max(1);
        let mut there = [[1.0; BINS + 1]; GROUPS];
        for (there, group) in there.iter_mut().zip(seen()) {
            *there = group.there(STAYERS / groups as f32);
        }
        let there = &there[..groups];
        let left_out = left_out(groups);
        let mean = |bin: usize| {
            let mut of: [f32; GROUPS] = [1.0; GROUPS];
            of.iter_mut().zip(there).for_each(|(of, there)| *of = there[bin]);
            let of = &mut of[..groups];
            of.select_nth_unstable_by(left_out, f32::total_cmp);
            of[left_out..].iter().sum::<f32>() / (groups - left_out) as f32
        };
        // A time is of use only if an answer can be had within it.
        let first = bin(Duration::from_secs_f64(self.answer_s)).min(BINS - 1) + 1;
        let best = mean(first);
        let last = (first..=BINS).rev().find(|&bin| mean(bin) >= STILL_THERE * best)?;
        (last < BINS).then(|| begin(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::End;

    const POLICYS: Duration = Duration::from_secs(2);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// So many clients with this patience, each to be answered after a time that grows from 0 to `longest`.
    fn serve(patience: &mut Patience, clients: u64, waits: impl Fn(u64) -> Duration, longest: u64) {
        for client in 0..clients {
            let now = Moment::from_millis(client * 5);
            let answered = ms(client * 7919 % longest);
            match waits(client) {
                waits if waits < answered => patience.left(now, client, waits),
                _ => patience.stayed(now, client, answered),
            }
            patience.answered(ms(50));
        }
    }

    #[test]
    fn without_clients_that_leave_the_policys_word_holds() {
        let mut patience = Patience::default();
        serve(&mut patience, 5000, |_| ms(60_000), 3000);
        assert_eq!(patience.deadline(POLICYS), POLICYS);
        assert_eq!(patience.known(), None);
    }

    #[test]
    fn clients_that_leave_after_a_second_are_answered_before() {
        let mut patience = Patience::default();
        serve(&mut patience, 1000, |_| ms(1000), 2000);
        let deadline = patience.deadline(POLICYS);
        assert!((ms(750)..=ms(960)).contains(&deadline), "{deadline:?}");
        // The policy may say less.
        assert_eq!(patience.deadline(ms(300)), ms(300));
    }

    #[test]
    fn of_different_clients_the_most_impatient_count_where_they_are_many() {
        let mut patience = Patience::default();
        serve(&mut patience, 3000, |client| ms([300, 1000, 3000][client as usize % 3]), 2000);
        let deadline = patience.deadline(POLICYS);
        assert!((ms(180)..=ms(260)).contains(&deadline), "{deadline:?}");
    }

    #[test]
    fn requests_that_end_early_for_another_reason_say_nothing_of_patience() {
        let mut patience = Patience::default();
        for step in 0..200 {
            let (now, outcome) = (Moment::from_millis(step * 10), End::Cancelled);
            patience.finished(now, step, ms(300), ms(5), &Outcome::without_answer(outcome));
        }
        assert_eq!(
            patience.known(),
            None,
            "a body that was malformed, a gateway without descriptors"
        );
        for step in 200..400 {
            let left = Outcome { left: Some(ms(5)), ..Outcome::without_answer(End::Cancelled) };
            patience.finished(Moment::from_millis(step * 10), step, ms(300), ms(5), &left);
        }
        assert_eq!(patience.known(), None, "left while they were served");
        (400..600).for_each(|step| patience.left(Moment::from_millis(step * 10), step, ms(300)));
        assert!(patience.known().is_some());
    }

    #[test]
    fn what_is_known_is_soon_forgotten_when_requests_find_free_slots() {
        let mut patience = Patience::default();
        serve(&mut patience, 1000, |_| ms(300), 2000);
        assert!(patience.known().is_some());
        for step in 0..100 {
            patience.idle();
            patience.stayed(Moment::from_millis(5_000 + step * 100), step, ms(50));
        }
        assert_eq!(patience.deadline(POLICYS), POLICYS, "after ten seconds");
        // Even if hardly any come.
        let mut patience = Patience::default();
        serve(&mut patience, 1000, |_| ms(300), 2000);
        patience.idle();
        patience.stayed(Moment::from_millis(15_000), 0, ms(50));
        assert_eq!(patience.deadline(POLICYS), POLICYS);
    }

    #[test]
    fn those_who_leave_at_once_whatever_happens_do_not_count() {
        let mut patience = Patience::default();
        let waits = |client: u64| if client.is_multiple_of(3) { ms(20) } else { ms(1000) };
        serve(&mut patience, 3000, waits, 2000);
        let deadline = patience.deadline(POLICYS);
        assert!((ms(750)..=ms(960)).contains(&deadline), "{deadline:?}");
    }

    #[test]
    fn a_few_flows_that_leave_again_and_again_do_not_speak_for_all() {
        let mut patience = Patience::default();
        for step in 0..20_000 {
            let now = Moment::from_millis(step * 2);
            match step % 4 {
                0 => patience.left(now, step % 3, ms(100)),
                _ => patience.stayed(now, 1_000 + step, ms(step * 7919 % 1_000)),
            }
        }
        assert_eq!(patience.known(), None);
        // The same from everywhere.
        for step in 20_000..40_000 {
            let now = Moment::from_millis(step * 2);
            match step % 4 {
                0 => patience.left(now, step, ms(100)),
                _ => patience.stayed(now, 1_000 + step, ms(step * 7919 % 1_000)),
            }
        }
        assert!(patience.known().is_some_and(|known| known <= ms(100)));
    }

    #[test]
    fn a_few_who_leave_prove_nothing() {
        let mut patience = Patience::default();
        serve(
            &mut patience,
            5000,
            |client| if client % 50 == 0 { ms(500) } else { ms(60_000) },
            1000,
        );
        assert_eq!(patience.deadline(POLICYS), POLICYS);
        // Nor the first ones.
        let mut patience = Patience::default();
        (0..10).for_each(|step| patience.left(Moment::from_millis(step * 1000), step, ms(500)));
        assert_eq!(patience.deadline(POLICYS), POLICYS);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut patience = Patience::default();
        serve(&mut patience, 1000, |_| ms(300), 2000);
        assert!(patience.deadline(POLICYS) < ms(300));
        for step in 0..3000 {
            patience.stayed(Moment::from_millis(5_000 + step * 100), step, ms(1_000));
        }
        assert_eq!(patience.deadline(POLICYS), POLICYS);
    }

    #[test]
    fn an_answer_that_takes_longer_than_clients_wait_leaves_a_short_queue() {
        let mut patience = Patience::default();
        serve(&mut patience, 1000, |_| ms(300), 2000);
        (0..500).for_each(|_| patience.answered(ms(400)));
        let deadline = patience.deadline(POLICYS);
        assert!((ms(90)..=ms(110)).contains(&deadline), "{deadline:?}");
    }

    #[test]
    fn bins_begin_where_they_should() {
        for number in 0..BINS {
            assert_eq!(bin(begin(number) + Duration::from_nanos(100)), number);
        }
        assert_eq!(bin(Duration::ZERO), 0);
        assert_eq!(bin(Duration::from_secs(3600)), BINS - 1);
        assert!(begin(BINS - 1) > Duration::from_secs(30));
    }
}
