//! Adaptive inbound control: a policer's rate follows what a sensor says of the resource that its
//! requests use.
//!
//! A share of a resource in use (processors, disk, link) answers to the rate at once: a proportional
//! law. A queue grows with what was let in too much before: what leaves it is reckoned from that, and so much is let in, less what the
//! queue is too long by. Both are asked once in a [`PERIOD`].
//!
//! * The rate rises beyond what is served only if it was asked for: otherwise it would be without bound after a quiet night. A queue that
//!   changed says so, too.
//! * It falls from the most that was used lately, not from a rate that nobody came near.
//! * Without a reading it stays.
//! * Where all of a resource is in use, it falls by a tenth, a fifth, then by a quarter each time: in proportion, what waits would grow for half a minute.
//!   Nearer the reference, by at least the like part of a tenth, where it has been there for two periods.
//! * Where it is above its reference and too many wait, and they do not become fewer, it falls by half: what is let in is more than can be
//!   done, though the reading does not say all, as of a server that may use a part of the machine. Where they become fewer, and are more than twice as many as
//!   should be, it stays: what waits is being served.
//! * A queue that becomes shorter is not emptied: shortly before it is at its reference, its rate rises to what is served, also where nothing else lets it rise.
//! * Where it is above its reference and a queue's law turns requests away though few wait, it falls by a quarter: what uses the resource
//!   gives way to what is turned away for no better reason than that it came first.
//!
//! The paper's proportional gain is in requests a second for each per cent of the processor, found by trial on its machine; twice
//! as fast a machine is controlled half as well by it. Here it is relative to the rate: if all that is in use were in use by
//! these requests, half of the way to the reference is gone in each period. So the loop's gain is at most a half, whatever the
//! requests cost, but far above the reference, where it falls by parts of the rate: it does not oscillate with readings that are a period late, nor if a request costs more meanwhile.
//! The paper's law for queues is proportional and derivative, with gains in requests a second for each request that waits: in front of a server
//! that serves 5,000 a second instead of 500 it swings between all and a third (`two_resources_that_are_short_at_once_are_used_as_by_the_best_fixed_rates`).
//! What is served is known without a gain.
//!
//! Source: Voigt D (Voigt and Gunningberg 2002), 2.3, equations 1 and 2, and the conditions on rising.

use super::bucket::{PARTS, Rate};
use std::time::Duration;

/// How often rates are changed.
pub const PERIOD: Duration = Duration::from_secs(1);
/// What part of the way to the reference a rate goes in a period.
const SHARE_GAIN: f64 = 0.5;
/// A resource is all in use where a reading is so far from the reference to all; by what factor the rate falls then. How much too
/// much is let in is not to be seen from that.
const ALL_IN_USE: f64 = 0.8;
const FALL_ALL_IN_USE: f64 = 0.75;
/// By what factor in the first and in the second period of that: the reading may be a period late, and the first fall not in it yet.
const FALL_FIRST: [f64; 2] = [0.9, 0.8];
/// From this part of the way from the reference to all on it falls by at least the like part of the first, if the reading before was there, too:
/// nearer, and once, it may be noise.
const TOWARDS_ALL: f64 = 0.4;
/// By what factor it falls where too many wait besides.
const FALL_BACKED_UP: f64 = 0.5;
/// In so many seconds a queue that is too long comes down to its reference, if nothing changes.
const DRAIN_S: f64 = 4.0;
/// And in so many periods at least, of a queue that is measured seldom: else the law would swing.
const DRAIN_PERIODS: f64 = 2.0;
/// In so many periods a queue that becomes shorter is not to be at its reference yet: the rate may rise to what is served.
const NEARLY_PERIODS: f64 = 2.0;
/// What remains of what was known of the rate at which a queue is served after a period.
const SERVED_KEPT: f64 = 0.6;
/// A queue that is much too long lets its rate fall to no less than this part of what is served: nobody is shut out for the sake of those that wait.
const SERVED_LEAST: f64 = 0.5;
/// By what part a rate rises at least in a period where the queue is not even half of what it may be and does not grow, and falls where
/// it is twice as long and does not shrink: a queue that has a bound ceases to grow.
const QUEUE_STEP: f64 = 0.1;
/// By what part it rises where more was too much lately, and beyond what part of that this is forgotten.
const NEAR_STEP: f64 = 0.02;
const FULL_PASSED: f64 = 1.2;
/// A rate of which less was asked for does not rise.
const ASKED: f64 = 0.9;
/// What remains of the most that was used after a period: one without a request says nothing of those before.
const USED_FADING: f64 = 0.9;

/// Highest share: of one that is reached nothing more is to be seen.
const REFERENCE_MAX: u16 = 9900;

/// What a policer's rate goes by. The policer's own rate is the highest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The source of the readings; [`Inbound::BACKLOG`]: the requests that wait in the default pool.
    pub source: Box<str>,
    /// Where the reading is to stay.
    pub reference: Reference,
    /// The lowest rate, more than none: nobody is shut out.
    pub min: Rate,
}

/// Where a reading is to stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The share of a resource in use: parts of [`PARTS`].
    Utilization(u16),
    /// The length of a queue.
    QueueLen(u32),
}

impl Inbound {
    /// A source that the gate has by itself. Because a limit keeps the origin's listen queue empty, what waits, waits here.
    pub const BACKLOG: &str = "backlog";
    /// Most policers of a plan with a rate that follows a reading.
    pub const COUNT_MAX: usize = 32;

    /// Checks what the control relies on, of a policer with that rate.
    ///
    /// # Errors
    /// The first fault found, for a person.
    pub fn check(&self, rate: Rate) -> Result<(), &'static str> {
        match self.reference {
            Reference::Utilization(parts) if !(1..=REFERENCE_MAX).contains(&parts) => {
                Err("reference must be more than 0% and at most 99%")
            }
            Reference::QueueLen(0) => Err("reference must be at least 1"),
            _ if self.min.is_zero() => Err("min must be more than 0"),
            _ if self.min > rate => Err("min must be at most the rate"),
            _ if self.source.is_empty() => Err("a source is needed"),
            _ => Ok(()),
        }
    }
}

impl Reference {
    /// As a number of the reading's kind.
    pub fn value(self) -> f64 {
        match self {
            Reference::Utilization(parts) => f64::from(parts) / PARTS as f64,
            Reference::QueueLen(len) => f64::from(len),
        }
    }
}

/// What a law sees of the last period.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// The latest reading.
    pub(crate) reading: f64,
    /// How long the period was.
    pub(crate) seconds: f64,
    /// The rate in force, and the lowest and highest there may be; a second.
    pub(crate) rate: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Requests that had a token, a second, and those that asked for one.
    pub(crate) used: f64,
    pub(crate) asked: f64,
    /// Of a queue: those that left it unserved, a second, as far as that is known.
    pub(crate) given_up: f64,
    /// Whether the reading may be of a period ago.
    pub(crate) may_be_late: bool,
    /// Whether others leave it to this policer to let in more, or less.
    pub(crate) may_rise: bool,
    pub(crate) may_fall: bool,
    /// Whether more wait than should, and do not become fewer.
    pub(crate) is_backed_up: bool,
    /// Whether more wait than should, and become fewer: all is in use until they have been served.
    pub(crate) is_draining: bool,
    /// Whether a queue's law turns requests away though few wait, because this share is above its reference.
    pub(crate) is_in_the_way: bool,
}

/// The law of one policer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InboundLaw {
    reference: Reference,
    /// The reading before.
    before: Option<f64>,
    /// The most that was used lately, a second.
    used: f64,
    /// What was used in the period before.
    came: Option<f64>,
    /// Of a queue: how many leave it in a second; `None`: not known yet.
    served: Option<f64>,
    /// What of it there was when the queue was last too long: all that is possible. `None`: more has gone well since.
    full: Option<f64>,
    /// Periods on end in which all of the resource was in use.
    all_in_use: usize,
    /// Periods on end in which it was so on the way to that.
    towards_all: usize,
}

impl InboundLaw {
    pub(crate) fn new(reference: Reference) -> Self {
        InboundLaw {
            reference,
            before: None,
            used: 0.0,
            came: None,
            served: None,
            full: None,
            all_in_use: 0,
            towards_all: 0,
        }
    }

    /// How long a queue as long as it is to be takes to be served; `None`: it is no queue, or not known.
    pub(crate) fn wait(&self) -> Option<Duration> {
        let served = self.served.filter(|served| *served > 0.0)?;
        Duration::try_from_secs_f64(self.reference.value() / served).ok()
    }

    /// The rate for the next period.
    pub(crate) fn next(&mut self, seen: Seen) -> f64 {
        let Seen { reading, rate, min, max, .. } = seen;
        self.used = seen.used.max(self.used * USED_FADING);
        let used = self.used;
        let came_before = self.came.replace(seen.used).unwrap_or(seen.used);
        let before = self.before.replace(reading).unwrap_or(reading);
        let reference = self.reference.value();
        let is_asked_for = seen.asked >= ASKED * rate;
        let wanted = match self.reference {
            Reference::Utilization(_) => {
                let by = 1.0 + SHARE_GAIN * (reference - reading) / reference;
                let is_all = reading >= reference + ALL_IN_USE * (1.0 - reference);
                self.all_in_use = if is_all { self.all_in_use + 1 } else { 0 };
                let towards_all = (reading - reference) / (1.0 - reference);
                let is_towards = towards_all >= TOWARDS_ALL;
                self.towards_all = if is_towards { self.towards_all + 1 } else { 0 };
                if reading < reference {
                    if is_asked_for { rate * by } else { rate }
                } else if seen.is_draining {
                    rate
                } else if seen.is_backed_up {
                    rate.min(used) * FALL_BACKED_UP
                } else if seen.is_in_the_way {
                    rate.min(used) * FALL_ALL_IN_USE
                } else if is_all {
                    let first = FALL_FIRST.get(self.all_in_use - 1);
                    rate.min(used) * first.unwrap_or(&FALL_ALL_IN_USE)
                } else {
                    let lasts = self.towards_all >= 2;
                    let least = 1.0 - (1.0 - FALL_FIRST[0]) * towards_all;
                    let by = if lasts { by.min(least) } else { by };
                    rate.min(used) * by.max(FALL_ALL_IN_USE)
                }
            }
            Reference::QueueLen(_) => {
                let growth = (reading - before) / seen.seconds;
                // What comes, and neither stays nor leaves unserved, has been served.
                let left = |came: f64| (came - growth - seen.given_up).max(0.0);
                let now = left(seen.used);
                // A reading that is late tells of what came before; of an empty queue it tells nothing.
                let late =
                    Some(left(came_before)).filter(|_| seen.may_be_late && before > reference);
                let served = self.served.map_or(now, |it| {
                    let nearer = |late: f64| (late - it).abs() < (now - it).abs();
                    let left = late.filter(|late| nearer(*late)).unwrap_or(now);
                    it * SERVED_KEPT + left * (1.0 - SERVED_KEPT)
                });
                // Until now no more was served than came.
                let begins = before <= reference && reading > reference;
                let served = if begins { served.max(now) } else { served };
                self.served = Some(served);
                let by = (reference - reading) / DRAIN_S.max(DRAIN_PERIODS * seen.seconds);
                if reading > reference {
                    self.full = Some(served.max(now));
                    let stays = growth >= 0.0 && reading >= 2.0 * reference;
                    // Else the rate that made it shorter would empty it: what is served goes unused until the rate has risen again.
                    let is_nearly_there =
                        reading + NEARLY_PERIODS * growth * seen.seconds < reference;
                    let most = match is_nearly_there {
                        true => max,
                        false if stays => (1.0 - QUEUE_STEP) * rate.min(used),
                        false => rate.min(used),
                    };
                    (served + by).max(SERVED_LEAST * served).min(most)
                } else if is_asked_for && growth <= 0.0 && reading < reference / 2.0 {
                    self.full = self.full.filter(|full| rate < FULL_PASSED * full);
                    let far = rate + by.max(QUEUE_STEP * rate);
                    self.full.map_or(far, |full| far.min(full.max(rate * (1.0 + NEAR_STEP))))
                } else if is_asked_for {
                    (served + by).max(rate)
                } else if growth != 0.0 {
                    rate + by
                } else {
                    rate
                }
            }
        };
        let lowest = if seen.may_fall { min } else { rate };
        // What is served may be let in at any time: a rate below that is there to shorten a queue.
        let kept = rate.max(self.served.unwrap_or(0.0));
        let highest = if seen.may_rise { max } else { kept };
        // Of a rate that is not between them, as after a reload, these are no bounds.
        wanted.max(lowest.min(highest)).min(highest).clamp(min, max)
    }

    /// There was no reading: the next one is compared with none.
    pub(crate) fn is_blind(&mut self) {
        *self = InboundLaw::new(self.reference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seen(reading: f64, rate: f64, used: f64) -> Seen {
        let (min, max, asked) = (10.0, 1000.0, used);
        Seen {
            reading,
            seconds: 1.0,
            rate,
            min,
            max,
            used,
            asked,
            given_up: 0.0,
            may_be_late: false,
            may_rise: true,
            may_fall: true,
            is_backed_up: false,
            is_draining: false,
            is_in_the_way: false,
        }
    }

    fn of_cpu() -> InboundLaw {
        InboundLaw::new(Reference::Utilization(9000))
    }

    #[test]
    fn a_rate_rises_only_if_it_was_used() {
        assert!(of_cpu().next(seen(0.6, 50.0, 46.0)) > 50.0);
        assert_eq!(of_cpu().next(seen(0.6, 50.0, 30.0)), 50.0, "the paper's example");
        let bursts = Seen { asked: 90.0, ..seen(0.6, 50.0, 5.0) };
        assert!(of_cpu().next(bursts) > 50.0, "only the bucket is too small for them");
        let mut queue = InboundLaw::new(Reference::QueueLen(100));
        assert_eq!(queue.next(seen(0.0, 50.0, 30.0)), 50.0);
        assert!(queue.next(seen(1.0, 50.0, 30.0)) > 50.0, "the queue has changed");
        assert!(queue.next(seen(1.0, 50.0, 50.0)) > 50.0, "it was used");
    }

    #[test]
    fn a_rate_falls_from_what_was_used_and_never_below_the_least() {
        let fallen = of_cpu().next(seen(0.95, 1000.0, 60.0));
        assert!((57.0..60.0).contains(&fallen), "{fallen}");
        let mut full = of_cpu();
        let fallen: Vec<f64> = (0..4).map(|_| full.next(seen(1.0, 1000.0, 60.0))).collect();
        assert_eq!(fallen, [54.0, 48.0, 45.0, 45.0]);
        assert_eq!(of_cpu().next(seen(1.0, 10.0, 10.0)), 10.0);
        let mut quiet = of_cpu();
        quiet.next(seen(0.5, 1000.0, 600.0));
        let fallen = quiet.next(seen(0.92, 1000.0, 0.0));
        assert!(fallen > 500.0, "a second without a request: {fallen}");
        let backed_up = Seen { is_backed_up: true, ..seen(0.91, 1000.0, 60.0) };
        assert_eq!(of_cpu().next(backed_up), 30.0);
        assert_eq!(of_cpu().next(Seen { is_draining: true, ..seen(1.0, 60.0, 60.0) }), 60.0);
        assert_eq!(of_cpu().next(Seen { is_in_the_way: true, ..seen(0.91, 60.0, 60.0) }), 45.0);
        let below = Seen { reading: 0.8, ..backed_up };
        assert_eq!(of_cpu().next(below), 1000.0, "the queue is of something else");
        let mut low = InboundLaw::new(Reference::Utilization(1000));
        let fallen = low.next(seen(0.5, 100.0, 100.0));
        assert_eq!(fallen, 75.0, "no more than where all is in use");
        let mut queue = InboundLaw::new(Reference::QueueLen(100));
        queue.next(seen(0.0, 1000.0, 500.0));
        // 190 more wait than before, so that 310 were served; 90 more than there should.
        let served = 500.0 * SERVED_KEPT + 310.0 * (1.0 - SERVED_KEPT);
        assert_eq!(queue.next(seen(190.0, 1000.0, 500.0)), served - 90.0 / DRAIN_S);
        queue.next(seen(511.0, 1000.0, 500.0));
        let bounded = queue.next(seen(511.0, 400.0, 400.0));
        assert!(bounded <= 360.0, "it is full, and cannot grow: {bounded}");
    }

    #[test]
    fn far_above_the_reference_it_falls_faster_from_the_second_reading_on() {
        let mut link = InboundLaw::new(Reference::Utilization(9500));
        let falls = [0.98, 0.98, 0.96, 0.98].map(|it| link.next(seen(it, 100.0, 100.0)));
        // Half of the way to the reference is 1.6 %, and six tenths of a tenth are 6 %.
        let expected = [98.4, 94.0, 99.5, 98.4];
        assert!(falls.iter().zip(expected).all(|(it, to)| (it - to).abs() < 0.1), "{falls:?}");
    }

    #[test]
    fn others_may_go_first() {
        let held = Seen { may_rise: false, may_fall: false, ..seen(0.0, 50.0, 50.0) };
        assert_eq!(of_cpu().next(held), 50.0);
        assert_eq!(of_cpu().next(Seen { reading: 1.0, ..held }), 50.0);
        // After a reload the highest is lower than the rate.
        assert_eq!(of_cpu().next(Seen { rate: 2000.0, ..held }), 1000.0);
    }

    #[test]
    fn a_queue_that_became_too_long_is_shortened_and_not_emptied() {
        // A share is above its reference meanwhile, so that the rate may not rise beyond what is served.
        for (late, may_rise) in [(0, true), (0, false), (1, true), (1, false)] {
            let (serves, asked) = (775.0, 1000.0);
            let mut law = InboundLaw::new(Reference::QueueLen(100));
            let mut lengths = vec![0.0, 225.0, 450.0, 675.0, 900.0];
            lengths.iter().take(5 - late).for_each(|len| {
                law.next(Seen { rate: 1e4, max: 1e4, asked, ..seen(*len, 1e4, asked) });
            });
            let mut rate: f64 = 1e4;
            for _ in 0..30 {
                let used = rate.min(asked);
                let queue: f64 = *lengths.last().unwrap();
                lengths.push((queue + used - serves).max(0.0));
                let reading = lengths[lengths.len() - 1 - late];
                let may_be_late = late > 0;
                let seen =
                    Seen { max: 1e4, asked, may_rise, may_be_late, ..seen(reading, rate, used) };
                rate = law.next(seen);
            }
            assert!(lengths[5..15].iter().any(|len| *len < 200.0), "in ten seconds: {lengths:.0?}");
            assert!(lengths[4..].iter().all(|len| *len > 0.0), "{late} {may_rise}: {lengths:.0?}");
        }
    }

    /// Two quiet minutes, then more than the server can do for a minute: the part of what it can do that is done in that minute.
    fn done_after_a_jump(serves: f64, quiet: f64, demand: f64, late: usize, noise: &[f64]) -> f64 {
        let mut law = InboundLaw::new(Reference::QueueLen(100));
        let (min, max) = (10.0, 1e4);
        let (mut rate, mut lengths, mut done): (f64, _, _) = (max, vec![0.0; late + 1], 0.0);
        for second in 0..180 {
            let asked: f64 = if second < 120 { quiet } else { demand };
            let used = rate.min(asked) * (1.0 + noise[second % noise.len()]);
            let queue: f64 = lengths[lengths.len() - 1] + used;
            let served = queue.min(serves);
            done += if second < 120 { 0.0 } else { served };
            lengths.push(queue - served);
            let reading = lengths[lengths.len() - 1 - late];
            let may_be_late = late > 0;
            rate = law.next(Seen { min, max, asked, may_be_late, ..seen(reading, rate, used) });
        }
        done / (60.0 * serves)
    }

    #[test]
    fn who_gives_up_was_not_served() {
        // The server stops after ten seconds; clients leave after two.
        let mut law = InboundLaw::new(Reference::QueueLen(100));
        let (mut rate, mut lengths) = (1e4, vec![0.0, 0.0]);
        let mut came = vec![0.0, 0.0];
        for second in 0..20 {
            let used = 900f64.min(rate);
            let served = if second < 10 { used } else { 0.0 };
            let given_up = if second < 12 { 0.0 } else { came[came.len() - 2] };
            came.push(used - served);
            lengths.push((lengths[lengths.len() - 1] + used - served - given_up).max(0.0));
            let reading = lengths[lengths.len() - 1];
            rate = law.next(Seen { max: 1e4, asked: 900.0, given_up, ..seen(reading, rate, used) });
            assert!(second < 12 || rate < 200.0, "second {second}: {rate} while nobody is served");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// What came in a quiet time is not what can be served.
        #[test]
        fn a_jump_from_quiet_wastes_nothing(
            serves in 200.0..4000.0f64,
            quiet in 0.01..0.9f64,
            demand in 1.2..4.0f64,
            late in 0usize..2,
            noise in proptest::collection::vec(-0.03..0.03f64, 37),
        ) {
            let done = done_after_a_jump(serves, quiet * serves, demand * serves, late, &noise);
            prop_assert!(done > 0.93, "{done}");
        }

        /// Servers of unknown speed, in front of which such requests and others meet: at the reference within half a minute, and there
        /// without oscillation, though a reading is late by up to two periods, noisy, and a request costs twice or half as much
        /// after two minutes.
        #[test]
        fn any_plant_settles(
            capacity in 20.0..2000.0f64,
            others in 0.0..0.5f64,
            demand in 1.2..10.0f64,
            late in 0usize..2,
            change in prop_oneof![Just(0.5), Just(1.0), Just(2.0)],
            noise in proptest::collection::vec(-0.02..0.02f64, 240),
        ) {
            let (min, max) = (1.0, 1e6);
            let mut law = of_cpu();
            let mut rate: f64 = max;
            let mut uses = vec![others; late + 1];
            let mut seen_late = Vec::new();
            for (second, noise) in noise.into_iter().enumerate() {
                let capacity = if second < 120 { capacity } else { capacity / change };
                let asked = demand * capacity;
                let used = rate.min(asked);
                uses.push((others + used / capacity).min(1.0));
                let reading = (uses[uses.len() - 1 - late] + noise).clamp(0.0, 1.0);
                rate = law.next(Seen { min, max, asked, ..seen(reading, rate, used) });
                // Long enough for a rate that begins at the tenfold.
                if (90..120).contains(&second) || second >= 210 {
                    seen_late.push(uses[uses.len() - 1]);
                }
            }
            let mean = seen_late.iter().sum::<f64>() / seen_late.len() as f64;
            prop_assert!((mean - 0.9).abs() < 0.03, "{mean}");
            let worst = seen_late.iter().map(|it| (it - mean).abs()).fold(0.0, f64::max);
            prop_assert!(worst < 0.08, "it swings by {worst}");
        }
    }
}
