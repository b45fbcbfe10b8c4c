//! What is done where the foreground's requests suddenly take far longer.
//!
//! That it is because of the background is the safe thing to think, and wrong where the origin stops by itself now and then, as to clean up its memory. How often it happens with the
//! background and without tells. Where it is because of it, fewer may be in progress for a while: what came of a turn that was over at once is too little
//! to be learned by contrast.

/// The bound is this part of what requests found in progress, at most, where that is because of the background.
const ALARMED: f64 = 0.5;
/// And for a while no more than this part of it, which grows so much a second, in ln: at first; then, where about as many have raised the alarm before, so much; then half
/// as much each time, so much at least. They are as many as before within a factor of this.
const CAPPED: f64 = 0.6;
const GROWS: [f64; 3] = [0.02, 0.003, 0.0004];
const AS_MANY: f64 = 1.6;
/// After so many seconds it grows e times as fast.
const FORGETS_S: f64 = 3600.0;
/// Alarms of fewer standard deviations do not count, and nothing is remembered of those of fewer than this: requests that vary much raise one by chance now and then.
const COUNTS: f64 = 3.5;
const CERTAIN: f64 = 8.0;
/// Where it is because of the background for less than this part, nothing is done.
const SURELY: f64 = 0.5;
/// Nothing is known of that, and it is taken to be because of it, but not remembered, where there were no turns without it for as long as this part of those with it.
const HEARD: f64 = 0.05;
/// What each alarm leaves of what is known of those before it.
const MEMORY: f64 = 0.95;

/// Alarms, and the time of turns in which they might have been raised.
#[derive(Clone, Copy, Debug)]
struct Heard {
    alarms: f64,
    seconds: f64,
}

impl Heard {
    /// Alarms a second.
    fn rate(self) -> f64 {
        if self.alarms > 0.0 { self.alarms / self.seconds.max(1e-3) } else { 0.0 }
    }
}

/// Alarms in turns with the background and without.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alarms {
    with: Heard,
    without: Heard,
    /// How many were in progress at the last alarm that is remembered, how many may be since, and how fast that grows.
    alarmed_at: f64,
    cap: f64,
    grows: f64,
}

impl Alarms {
    pub(super) const NONE: Alarms = Alarms {
        with: Heard { alarms: 0.0, seconds: 0.0 },
        without: Heard { alarms: 0.0, seconds: 0.0 },
        alarmed_at: f64::INFINITY,
        cap: f64::INFINITY,
        grows: GROWS[0],
    };

    /// The most that may be in progress.
    pub(super) fn most(&self) -> f64 {
        self.cap
    }

    /// A turn of so many seconds is over; whether it says how often alarms are raised.
    pub(super) fn passes(&mut self, is_with: bool, seconds: f64, counts: bool) {
        if counts {
            self.of(is_with).seconds += seconds;
        }
        self.cap *= (self.grows * seconds).exp();
        if self.cap > self.alarmed_at {
            self.cap = f64::INFINITY;
        }
        self.grows = (self.grows * (seconds / FORGETS_S).exp()).min(GROWS[0]);
    }

    /// An alarm is raised: requests of a turn take longer by so many standard deviations.
    pub(super) fn count(&mut self, is_with: bool, deviations: f64) {
        if deviations < COUNTS {
            return;
        }
        for heard in [&mut self.with, &mut self.without] {
            heard.alarms *= MEMORY;
            heard.seconds *= MEMORY;
        }
        self.of(is_with).alarms += 1.0;
        if self.part().is_some_and(|part| part < SURELY) {
            (self.cap, self.alarmed_at, self.grows) = (f64::INFINITY, f64::INFINITY, GROWS[0]);
        }
    }

    /// After an alarm with so many of the background in progress, how many may be from now on. `None`: it is not because of it.
    pub(super) fn answer(&mut self, found: f64, deviations: f64) -> Option<f64> {
        let Some(part) = self.part() else { return Some(ALARMED * found) };
        if part < SURELY {
            return None;
        }
        let far_more = found > AS_MANY * self.alarmed_at;
        if deviations > CERTAIN && !far_more {
            let is_again = found > self.alarmed_at / AS_MANY;
            let slower = (self.grows / 2.0).clamp(GROWS[2], GROWS[1]);
            self.grows = if is_again { slower } else { GROWS[0] };
            self.alarmed_at = found;
            self.cap = CAPPED.powf(part) * found;
        }
        Some(ALARMED.powf(part) * found)
    }

    /// The part of the alarms with the background that is because of it, if that is known.
    fn part(&self) -> Option<f64> {
        let is_known = self.without.seconds > HEARD * self.with.seconds;
        is_known.then(|| 1.0 - (self.without.rate() / self.with.rate().max(1e-9)).min(1.0))
    }

    fn of(&mut self, is_with: bool) -> &mut Heard {
        if is_with { &mut self.with } else { &mut self.without }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: f64 = 20.0;

    /// A quarter of an hour of turns, with the background for three quarters of the time, with one alarm in so many of the one and of the other.
    fn after_turns((with, without): (u32, u32), found: f64) -> Alarms {
        let mut alarms = Alarms::NONE;
        for turn in 1..=180 {
            for (is_with, one_in, seconds) in [(true, with, 3.75), (false, without, 1.25)] {
                alarms.passes(is_with, seconds, true);
                if turn % one_in == 0 {
                    alarms.count(is_with, FAR);
                    if is_with {
                        alarms.answer(found, FAR);
                    }
                }
            }
        }
        alarms
    }

    #[test]
    fn where_all_are_with_the_background_fewer_may_be_for_a_while() {
        let mut alarms = after_turns((20, u32::MAX), 8.0);
        assert_eq!(alarms.answer(8.0, FAR), Some(ALARMED * 8.0));
        assert!(alarms.most() < 0.7 * 8.0, "{alarms:?}");
        alarms.passes(true, 30.0, true);
        assert!(alarms.most() < 0.8 * 8.0, "it has happened often: {alarms:?}");
        alarms.passes(true, 3600.0, true);
        assert_eq!(alarms.most(), f64::INFINITY);
    }

    #[test]
    fn one_alone_is_not_long_remembered() {
        let mut alarms = Alarms::NONE;
        alarms.passes(true, 60.0, true);
        alarms.passes(false, 20.0, true);
        alarms.count(true, FAR);
        assert_eq!(alarms.answer(8.0, FAR), Some(ALARMED * 8.0));
        assert!(alarms.most() < 8.0);
        alarms.passes(true, 30.0, true);
        assert_eq!(alarms.most(), f64::INFINITY);
    }

    #[test]
    fn where_they_come_without_it_as_often_nothing_is_done() {
        // In three quarters of the time, three times as many.
        let mut alarms = after_turns((20, 60), 8.0);
        assert_eq!(alarms.answer(8.0, FAR), None, "{alarms:?}");
        assert_eq!(alarms.most(), f64::INFINITY);
    }

    #[test]
    fn nothing_is_remembered_of_what_may_be_chance() {
        let mut alarms = Alarms::NONE;
        alarms.passes(true, 60.0, true);
        alarms.passes(false, 20.0, true);
        alarms.count(true, FAR);
        alarms.answer(8.0, 4.0);
        assert_eq!(alarms.most(), f64::INFINITY);
    }

    #[test]
    fn where_nothing_was_heard_without_it_nothing_is_remembered() {
        let mut alarms = Alarms::NONE;
        alarms.passes(true, 60.0, true);
        alarms.count(true, FAR);
        assert_eq!(alarms.answer(8.0, FAR), Some(ALARMED * 8.0));
        assert_eq!(alarms.most(), f64::INFINITY);
    }

    #[test]
    fn far_more_say_nothing_of_fewer() {
        let mut alarms = after_turns((20, u32::MAX), 8.0);
        let most = alarms.most();
        alarms.count(true, FAR);
        assert_eq!(alarms.answer(30.0, FAR), Some(15.0));
        assert_eq!(alarms.most(), most);
    }
}
