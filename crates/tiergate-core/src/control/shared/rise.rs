//! A way up that is quicker than by looks: requests suddenly take far longer, and all slots are held.
//!
//! That is so where the origin can do less at once, and where it waits for something that has become slow and could wait
//! for more of it at once. Neither times in service nor throughput tell one from the other before the limit is moved. So it
//! is trebled, and again, for as long as throughput follows.
//!
//! Throughput is no evidence otherwise: before an origin that others share it follows the limit because they lose what
//! is won. Times that jump are seen by all of them, so that all go up together.

use crate::time::Moment;

/// Far longer: so many times the usual time of its class, and of that times how many more slots there are than usual. And
/// so many requests, of which this part took far longer; and by Little's law so do those that have not ended: many that one
/// pause held up end together.
const FAR_LONGER: f64 = 3.0;
const SEEN: u32 = 12;
const SEEN_PART: f64 = 0.5;
/// The longest part of that time in which none ended: otherwise it was a pause.
const GAP_MAX: f64 = 0.5;
/// By what the limit is multiplied, and by what throughput is at least, so that it is again.
pub(super) const TIMES: f64 = 3.0;
const FOLLOWS: f64 = 1.6;
/// How much likelier than not, as ln, it must be that throughput follows, and that it does not: a sequential test of
/// two hypotheses (Wald 1945). To go too far costs a moment, to end too early all that could be won.
const UP: f64 = 1.5;
const DOWN: f64 = 4.0;
/// Answers that are counted at least, and after which the likelier one is believed; and in which part of the time that
/// requests take.
const ANSWERS: (f64, f64) = (4.0, 48.0);
const WINDOW: f64 = 0.25;
/// Requests that take less than before by this (ln): what made them take so long is over.
const GONE: f64 = 0.3;
/// Times in service that vary more are not waited for.
const VARIES_MAX: f64 = 6.0;

/// What the end of a request means for the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Say {
    /// Nothing: it is not on its way up.
    Nothing,
    /// It does not change for now.
    Stay,
    /// The way up begins, with so many slots. Requests took so many seconds before.
    Begins { slots: f64, took_s: f64 },
    /// Requests are lost, so that it ends. There were so many slots before.
    InVain { slots: f64 },
    /// How throughput has followed.
    Seen(Seen),
}

/// With so many slots throughput was this much (ln) more than with a [`TIMES`]th of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seen {
    pub(super) slots: f64,
    pub(super) more: f64,
    /// The standard deviation of that.
    pub(super) doubt: f64,
    /// Slots that were held.
    pub(super) held: f64,
    /// The limit is multiplied again.
    pub(super) goes_on: bool,
    /// Slots were free: so many are enough.
    pub(super) is_enough: bool,
}

/// Throughput, by answers that were counted for so many seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    answers: f64,
    seconds: f64,
    /// Times in service, seconds, and their squares, summed.
    took_s: f64,
    squares: f64,
}

impl Rate {
    fn add(&mut self, took_s: f64) {
        self.answers += 1.0;
        self.took_s += took_s;
        self.squares += took_s * took_s;
    }

    /// How much more the number of answers varies than by chance: by their squared coefficient of variation.
    fn varies(&self) -> f64 {
        let varies = self.squares * self.answers / (self.took_s * self.took_s).max(1e-12) - 1.0;
        varies.clamp(1.0, VARIES_MAX)
    }

    fn per_second(&self) -> f64 {
        self.answers / self.seconds.max(1e-6)
    }

    /// How much more it is than another, as ln, and the standard deviation of that.
    fn over(&self, other: &Rate) -> (f64, f64) {
        let ratio = self.per_second() / other.per_second();
        let variance = |rate: &Rate| rate.varies() / rate.answers;
        (ratio.ln(), (variance(self) + variance(other)).sqrt())
    }
}

/// Whether requests take far longer, and the way up if they do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Rise {
    #[default]
    Usual,
    /// At that moment one took far longer.
    Suspected {
        since: Moment,
        /// Whether such requests were seen before: what made suspicious is longer than what follows on average.
        again: bool,
        /// When one ended the last time, and the longest time in which none did.
        last: Moment,
        gap_s: f64,
        /// Those that have ended since, how many of them took far longer, and these summed: slots that were held, and usual times.
        all: Rate,
        longer: u32,
        held: f64,
        usual: f64,
    },
    /// At that moment the limit was multiplied.
    Rising {
        since: Moment,
        slots: f64,
        before: Rate,
        /// Since it can show.
        after: Rate,
        /// Slots that were held with them, summed.
        held: f64,
        /// Whether slots were free.
        was_free: bool,
    },
}

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) now: Moment,
    pub(super) admitted: Moment,
    /// Seconds in service that are usual in its class; 0: not known.
    pub(super) usual_s: f64,
    /// Slots that were held with it.
    pub(super) running: u32,
    /// Whether these were all, and others wait.
    pub(super) is_full: bool,
}

impl Rise {
    /// Whether the limit is on its way up.
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Rise::Rising { .. })
    }

    /// A request took so long that it was lost. With more at once they would take longer still, unless it is known by
    /// now that they do not.
    pub(super) fn lost(&mut self) -> Say {
        match std::mem::take(self) {
            Rise::Rising { slots, .. } => Say::InVain { slots: slots / TIMES },
            Rise::Usual | Rise::Suspected { .. } => Say::Nothing,
        }
    }

    /// A request was answered. O(1).
    pub(super) fn answered(&mut self, answer: &Answer) -> Say {
        let Answer { now, admitted, usual_s, running, is_full } = *answer;
        let took_s = now.since(admitted).as_secs_f64();
        let is_longer = usual_s > 0.0 && took_s > FAR_LONGER * usual_s;
        match self {
            Rise::Usual => {
                if is_longer && is_full {
                    *self = Rise::suspected(now, false);
                }
                Say::Nothing
            }
            Rise::Suspected { since, again, last, gap_s, longer, all, held, usual } => {
                if !is_full {
                    *self = Rise::Usual;
                    return Say::Nothing;
                }
                *gap_s = gap_s.max(seconds(std::mem::replace(last, now), now));
                all.add(took_s);
                *longer += u32::from(is_longer);
                *held += f64::from(running);
                *usual += usual_s;
                if all.answers < all.varies() * f64::from(SEEN) {
                    return Say::Nothing;
                }
                let answers = all.answers;
                let before = Rate { seconds: seconds(*since, now), ..*all };
                if *gap_s > GAP_MAX * before.seconds {
                    *self = Rise::suspected(now, false);
                    return Say::Nothing;
                }
                let is_slow = *held / answers > FAR_LONGER * *usual / answers * before.per_second();
                if !is_slow || f64::from(*longer) < SEEN_PART * answers {
                    *self = Rise::Usual;
                    return Say::Nothing;
                }
                if !*again {
                    *self = Rise::suspected(now, true);
                    return Say::Nothing;
                }
                let slots = TIMES * *held / answers;
                let took_s = slots / TIMES / before.per_second();
                *self = Rise::rising(now, slots, before);
                Say::Begins { slots, took_s }
            }
            Rise::Rising { since, slots, before, after, held, was_free } => {
                *was_free |= !is_full;
                // By Little's law, how long requests took: that long does a change need to show.
                let took_s = *slots / TIMES / before.per_second();
                let shown_s = seconds(*since, now) - took_s;
                if shown_s < 0.0 {
                    return Say::Stay;
                }
                after.add(took_s);
                *held += f64::from(running);
                after.seconds = shown_s;
                let (more, doubt) = after.over(before);
                let off = more - FOLLOWS.ln();
                let says = TIMES.ln() * off / (doubt * doubt);
                let is_sure =
                    says >= UP || says <= -DOWN || after.answers >= after.varies() * ANSWERS.1;
                if !is_sure || after.answers < ANSWERS.0 || shown_s < WINDOW * took_s {
                    return Say::Stay;
                }
                let (slots, after, held) = (*slots, *after, *held / after.answers);
                // By Little's law.
                let longer = (TIMES * held / slots).ln() - more;
                if longer < -GONE.max(1.5 * doubt) {
                    *self = Rise::Usual;
                    return Say::InVain { slots: slots / TIMES };
                }
                let is_enough = *was_free && !is_full;
                let goes_on = off > 0.0 && !is_enough;
                *self = if goes_on { Rise::rising(now, TIMES * slots, after) } else { Rise::Usual };
                Say::Seen(Seen { slots, more, held, doubt, goes_on, is_enough })
            }
        }
    }

    fn suspected(since: Moment, again: bool) -> Self {
        let (last, all) = (since, Rate::default());
        Rise::Suspected { since, again, last, gap_s: 0.0, all, longer: 0, held: 0.0, usual: 0.0 }
    }

    fn rising(since: Moment, slots: f64, before: Rate) -> Self {
        Rise::Rising { since, slots, before, after: Rate::default(), held: 0.0, was_free: false }
    }
}

fn seconds(from: Moment, to: Moment) -> f64 {
    to.since(from).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Requests that are answered one after another, each after the same time: `slots` of them at once, at most
    /// as many as there are workers at a time. Returns the limit at the end.
    fn serve(rise: &mut Rise, begin_s: f64, seconds: f64, workers: f64, took_s: f64) -> f64 {
        let (mut slots, mut now) = (10.0_f64, begin_s);
        while now < begin_s + seconds {
            let rate = slots.min(workers) / took_s;
            now += 1.0 / rate;
            let at = |second: f64| Moment::ZERO + Duration::from_secs_f64(second);
            let (now, admitted) = (at(now), at((now - slots / rate).max(0.0)));
            let answer =
                Answer { now, admitted, usual_s: 0.05, running: slots as u32, is_full: true };
            match rise.answered(&answer) {
                Say::Begins { slots: more, .. } => slots = more,
                Say::Seen(seen) if seen.goes_on => slots = TIMES * seen.slots,
                Say::Seen(seen) => return seen.slots / TIMES,
                Say::Stay | Say::Nothing | Say::InVain { .. } => {}
            }
        }
        slots
    }

    #[test]
    fn usual_times_are_no_reason() {
        let mut rise = Rise::default();
        assert_eq!(serve(&mut rise, 1.0, 10.0, 1e9, 0.05), 10.0);
        assert!(!rise.is_on());
    }

    #[test]
    fn it_goes_up_for_as_long_as_throughput_follows() {
        let found = serve(&mut Rise::default(), 5.0, 60.0, 100.0, 1.0);
        assert!((80.0..=100.0).contains(&found), "{found}");
    }

    #[test]
    fn it_ends_where_throughput_does_not_follow() {
        let found = serve(&mut Rise::default(), 5.0, 60.0, 5.0, 1.0);
        assert!((9.0..=11.0).contains(&found), "{found}");
    }

    #[test]
    fn requests_that_become_shorter_meanwhile_end_it() {
        let mut rise = Rise::default();
        serve(&mut rise, 5.0, 4.0, 1e9, 1.0);
        assert!(rise.is_on());
        serve(&mut rise, 9.0, 1.0, 1e9, 0.05);
        assert!(!rise.is_on(), "{rise:?}");
    }

    #[test]
    fn requests_that_one_pause_held_up_are_no_reason() {
        let mut rise = Rise::default();
        let at = |ms: u64| Moment::ZERO + Duration::from_millis(ms);
        let mut answer = |now, admitted| {
            let (now, admitted) = (at(now), at(admitted));
            rise.answered(&Answer { now, admitted, usual_s: 0.05, running: 10, is_full: true })
        };
        for round in 0..10 {
            (0..32).for_each(|_| {
                assert_eq!(answer(1000 + round * 600, 500 + round * 600), Say::Nothing)
            });
            (0..32).for_each(|_| {
                assert_eq!(answer(1060 + round * 600, 1000 + round * 600), Say::Nothing)
            });
        }
    }
}
