//! Whether more of the background in progress get more done.
//!
//! Where they wait for each other, at a database or in a server's queue, more of them are not served sooner, and foreground requests that need the same wait behind all of them. Where few of these come,
//! that is not learned for minutes from what they feel. The background's own requests are many, and tell it at once. Now and then its turn is with half of what it may have. How much longer its requests take with
//! more in progress, in ln of the one by that of the other, is 0 where all are served at once, and 1 where all wait for the same.
//!
//! Only what the law lets in is compared, not what is in progress: where the bound is not what keeps that down, there are more because they take longer, not the other way round.
//!
//! Source: ours; by Little's law, it is one minus the elasticity of throughput.

use super::effect::Taken;
use std::time::Duration;

/// More are not worth it where requests take longer by more than this part of the increase: twice as many, and less than 1.4 times as much done.
const WORTH: f64 = 0.5;
/// A turn with half as many is due where they seem to take longer by this part of it, or the turns that are known were of numbers with less than this variance, in ln.
const SEEMS: f64 = 0.25;
const VARIED: f64 = 0.03;
/// As far as that is sure, in standard errors.
const SURELY: f64 = 2.5;
/// What is known with a larger standard error does not even seem so: where few come, chance would keep the bound from growing for ever.
const ROUGHLY: f64 = 0.15;
/// What one turn leaves of what was known, and one with which the bound came down: that says little of fewer.
const MEMORY: f64 = 0.93;
const MEMORY_FEWER: f64 = 0.4;
/// It takes so many turns to know how much they vary; after so many without an answer, none is with half as many.
const TURNS_MIN: f64 = 5.0;
const SILENT: u32 = 20;
/// A turn of more requests says no more than one of so many: what moves a whole turn moves all of them.
const REQUESTS_MAX: u32 = 30;
/// A request that takes more than so many times the mean counts as one of that: one client's requests are not to be heard above all others.
const LONGEST: f64 = 8.0;
/// What is left of the most that are worth it where more are not, one at least; and how fast it grows again, a pair of turns.
const FEWER: f64 = 0.7;
const MORE: f64 = 1.03;
/// So many and more are compared with half of them.
const SEVERAL: f64 = 2.0;
/// Where the bound is not in use, half is that of what was in progress, until that is so many times more or less.
const ABOUT: f64 = 1.5;

/// What is known of it: weighted sums of a regression over turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worth {
    turns: f64,
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
    /// The most that are worth it.
    most: f64,
    /// What was in progress, where that was fewer than the bound.
    in_use: f64,
    /// What requests took on average in the last turn, in seconds.
    usual: f64,
    /// Turns since anything was answered.
    silent: u32,
}

impl Worth {
    pub(super) const UNKNOWN: Worth = Worth {
        turns: 0.0,
        weight: 0.0,
        x: 0.0,
        y: 0.0,
        xx: 0.0,
        xy: 0.0,
        yy: 0.0,
        most: f64::INFINITY,
        in_use: f64::INFINITY,
        usual: f64::INFINITY,
        silent: 0,
    };

    /// The most that are worth it.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Of a bound, the number that is compared with half of it.
    pub(super) fn whole(&self, bound: f64) -> f64 {
        self.in_use.min(bound)
    }

    /// Whether a turn with half of the bound would say more than is known.
    pub(super) fn wants_half(&self, bound: f64) -> bool {
        let seems = self.slope().is_none_or(|(slope, _)| slope > SEEMS);
        let is_open = seems || self.varied() < VARIED * self.weight;
        is_open && self.whole(bound) >= SEVERAL && self.silent < SILENT
    }

    /// Whether more seem not to be worth it, though that is not sure.
    pub(super) fn seems_in_vain(&self) -> bool {
        self.slope().is_some_and(|(slope, error)| slope > WORTH && error < ROUGHLY)
    }

    /// As what a request counts that took so long, in seconds.
    pub(super) fn time(&self, took: Duration) -> f64 {
        took.as_secs_f64().min(LONGEST * self.usual)
    }

    /// Whether a turn with so many could say something, in which so many were in progress; whether the bound was what kept them down.
    pub(super) fn is_told_by(&self, number: f64, present: f64, is_used: bool) -> bool {
        is_used || number <= ABOUT * present && self.in_use.is_finite()
    }

    /// In a turn with all that may be, so many were in progress; whether the bound was what kept them down.
    pub(super) fn found(&mut self, present: f64, is_used: bool) {
        if is_used {
            self.in_use = f64::INFINITY;
        } else if !(self.in_use / ABOUT..=self.in_use * ABOUT).contains(&present) {
            self.in_use = present;
            self.forget(0.0);
        }
    }

    /// Nobody of the foreground was there for a while.
    pub(super) fn begins_anew(&mut self) {
        self.most *= MORE;
        self.forget(MEMORY_FEWER);
    }

    /// In a turn with so many as could be, those that began in it took so long, as by [`Worth::time`].
    pub(super) fn learn(&mut self, number: f64, took: Taken) {
        self.most *= MORE;
        self.silent = if took.requests > 0 { 0 } else { self.silent.saturating_add(1) };
        if took.requests == 0 || number <= 0.0 {
            return;
        }
        self.forget(MEMORY);
        self.usual = took.mean();
        let weight = f64::from(took.requests.min(REQUESTS_MAX));
        let (x, y) = (number.ln(), took.mean().ln());
        self.turns += 1.0;
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
        self.yy += weight * y * y;
        if self.slope().is_some_and(|(slope, error)| slope - SURELY * error > WORTH) {
            let mean = (self.x / self.weight).exp();
            self.most = self.most.min((FEWER * mean.max(number)).max(1.0));
            self.forget(MEMORY_FEWER);
        }
    }

    /// Sum of squares by which the numbers differed, in ln.
    fn varied(&self) -> f64 {
        self.xx - self.x * self.x / self.weight
    }

    /// By how much longer they take for each part by which there are more, and the standard error.
    fn slope(&self) -> Option<(f64, f64)> {
        let xx = self.varied();
        if self.turns < TURNS_MIN || xx <= 1e-6 * self.weight {
            return None;
        }
        let slope = (self.xy - self.x * self.y / self.weight) / xx;
        let rest = self.yy - self.y * self.y / self.weight - slope * slope * xx;
        Some((slope, (rest.max(0.0) / (self.turns - 2.0) / xx).sqrt()))
    }

    fn forget(&mut self, left: f64) {
        let all = [&mut self.turns, &mut self.weight, &mut self.x, &mut self.y];
        all.into_iter().for_each(|sum| *sum *= left);
        [&mut self.xx, &mut self.xy, &mut self.yy].into_iter().for_each(|sum| *sum *= left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many turns with as many in progress as may be, or with half of that, in which each of twenty requests takes as long as the function of how many there are and the number of the turn says, and
    /// chance.
    fn learned(turns: u32, seconds: impl Fn(f64, u32) -> f64) -> (f64, Worth) {
        let mut random = fastrand::Rng::with_seed(9);
        let mut worth = Worth::UNKNOWN;
        let mut most = 16.0_f64;
        for turn in 0..turns {
            let present = if random.u32(0..4) == 0 { most / 2.0 } else { most };
            let mut took = Taken::NOTHING;
            for _ in 0..20 {
                let seconds = seconds(present, turn) * -random.f64().max(1e-9).ln();
                took.note(worth.time(Duration::from_secs_f64(seconds)));
            }
            worth.found(most, true);
            worth.learn(present, took);
            most = (1.2 * most).min(16.0).min(worth.most());
        }
        (most, worth)
    }

    #[test]
    fn more_are_worth_it_where_all_are_served_at_once() {
        let (most, worth) = learned(1000, |_, _| 0.02);
        assert!(most > 12.0, "{worth:?}");
    }

    #[test]
    fn what_waits_for_one_of_four_places_is_not_worth_it() {
        let places = |present: f64| 0.02 * (present / 4.0).max(1.0);
        let (most, worth) = learned(60, |present, _| places(present));
        assert!((3.0..9.0).contains(&most), "{most} {worth:?}");
        // More places: more are.
        let (most, worth) =
            learned(300, |present, turn| if turn < 60 { places(present) } else { 0.02 });
        assert!(most > 12.0, "{most} {worth:?}");
    }

    #[test]
    fn other_requests_are_no_sign_of_anything() {
        // For fifty turns they take 20 ms, for the next fifty a hundred times as long.
        let (most, worth) = learned(1000, |_, turn| if turn / 50 % 2 == 0 { 0.02 } else { 2.0 });
        assert!(most > 8.0, "{most} {worth:?}");
    }
}
