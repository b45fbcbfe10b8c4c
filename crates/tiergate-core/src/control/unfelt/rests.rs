//! Effects that outlast a pair of turns.
//!
//! A cache that the background fills with what nobody else asks for, work that is accepted at once and done later, a server that a proxy behind this one takes for dead for ten seconds because one answer
//! was late: turns with the background and without find them alike. So now and then it rests for longer than that takes. What requests of the foreground took before that, in turns with the background and without, is compared with
//! what they take at the end of the rest, each with others of its kind. (Turns without it alone begin where an alarm ends one with it, and so while the origin is slow.)
//!
//! Such looks are few, so that only large effects count, and most of them only once the next look finds one as well: what the foreground asks for changes within such times, too. Where one finds that
//! requests took as much less before, such differences come by themselves, and nothing is believed. After an effect, fewer may be in progress; while that does not help, the background rests for longer each time.
//!
//! Source: ours.

use super::effect::CONTRAST_MIN;
use super::uneven::Uneven;
use crate::collections::grown;
use crate::names::LaneId;
use crate::time::Moment;
use std::time::Duration;

/// What requests take is noted for two spans before a rest. Only those count that came and were answered within one, as at the end of the rest, so that long ones are left out alike.
const SPAN: Duration = Duration::from_secs(8);
const BEFORE: Duration = Duration::from_secs(16);
/// A rest lasts for so long, and then for a span.
const DRAINS: Duration = Duration::from_secs(12);
/// It begins with a turn without the background, within this, else there is none.
const BEGINS: Duration = Duration::from_secs(60);
/// Seconds of the background beside the foreground until the first look, and until the one after an effect was found. Each time that nothing is found it takes twice as long.
const FIRST_S: f64 = 44.0;
const AGAIN_S: f64 = 32.0;
/// At most, while the background has less than it might because of an effect; and otherwise.
const APART_CAPPED_S: f64 = 160.0;
const APART_S: f64 = 1200.0;
/// By so much longer they must take before the rest, in ln, and by so many standard errors.
const LASTS: f64 = 0.25;
const SURELY: f64 = 5.0;
/// With so much longer in both spans, one look is enough.
const FAR: f64 = 1.5;
/// Fewer requests before the rest and at its end say nothing.
const REQUESTS_MIN: f64 = 6.0;
/// What varies less does so by rounding.
const VARIANCE_MIN: f64 = 0.01;
/// Of as many as were in progress with an effect, so much may be afterwards, and this at least.
const FEWER: f64 = 0.3;
const FEWEST: f64 = 0.1;
/// In so many seconds that becomes e times as many, also where no look tells anything; when it is more than had an effect, by more than [`AS_MANY`], that is forgotten.
const AGES_S: f64 = 3600.0;
/// Each rest that shows none lets in so many times as many.
const MORE: f64 = 2.0;
/// Where about as many have an effect again, within this factor, one look is enough, and it is the square root of that each time, so much at least; and again by so much more after each rest that shows none.
const AS_MANY: f64 = 1.6;
const MORE_MIN: f64 = 1.2;
const SOONER: f64 = 1.07;
/// Where less than this part of what may be is in progress, it is something else that bounds it.
const UNUSED: f64 = 0.5;
/// For so many seconds more the background rests where fewer have an effect, too, for twice as long each time, up to so many.
const HELD_S: f64 = 60.0;
const HELD_MAX_S: f64 = 1200.0;

/// What the background does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// As it may, for so many seconds more.
    Usual(f64),
    /// The same, and what the foreground's requests take is noted from then on for a while; so many background requests were in progress, times seconds.
    Before(Moment, f64),
    /// Nothing, since then, to compare; so many background requests were in progress before and are now, times seconds.
    Rests(Moment, [f64; 2]),
    /// Nothing, until then, because of what was found.
    Held(Moment),
}

/// What requests of a lane took, in ln.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    requests: f64,
    sum: f64,
    squares: f64,
}

impl Sample {
    fn note(&mut self, ln: f64) {
        self.requests += 1.0;
        self.sum += ln;
        self.squares += ln * ln;
    }

    fn add(&mut self, other: Sample) {
        self.requests += other.requests;
        self.sum += other.sum;
        self.squares += other.squares;
    }

    fn mean(self) -> f64 {
        self.sum / self.requests.max(1.0)
    }

    /// The sum of the squares by which they differ from their mean.
    fn varied(self) -> f64 {
        self.squares - self.sum * self.mean()
    }
}

/// What one of these looks found.
enum Found {
    /// Too little to tell.
    Unknown,
    Nothing,
    /// Requests took longer before the rest, or far longer.
    Longer {
        is_far: bool,
    },
    /// They took shorter.
    Shorter,
}

/// By how much longer requests took, in ln, and the standard error.
struct Longer {
    by: f64,
    error: f64,
}

/// When the background rests, and what that showed.
#[derive(Clone, Debug)]
pub(super) struct Rests {
    phase: Phase,
    /// Seconds between two rests.
    apart_s: f64,
    /// For how long it is held where an effect is found again.
    held_s: f64,
    /// The most that may be in progress, as many as might be when an effect was found, and how fast that grows.
    cap: f64,
    found_at: f64,
    grows: f64,
    /// Whether the last look has found an effect, which may have been chance.
    is_suspected: bool,
    /// What requests of each lane took in the two spans before the rest and at its end.
    samples: Vec<[Sample; 3]>,
    /// Makes the times between looks uneven, so that nothing periodic keeps step with them.
    uneven: Uneven,
}

impl Rests {
    pub(super) fn none() -> Rests {
        Rests {
            phase: Phase::Usual(FIRST_S),
            apart_s: FIRST_S,
            held_s: 0.0,
            cap: f64::INFINITY,
            found_at: f64::INFINITY,
            grows: MORE,
            is_suspected: false,
            samples: Vec::new(),
            uneven: Uneven::FIRST,
        }
    }

    /// The most that may be in progress.
    pub(super) fn most(&self) -> f64 {
        self.cap
    }

    /// Until when the background rests; `None`: it does not.
    pub(super) fn until(&self) -> Option<Moment> {
        match self.phase {
            Phase::Usual(_) | Phase::Before(..) => None,
            Phase::Rests(began, _) => Some(began + DRAINS + SPAN),
            Phase::Held(until) => Some(until),
        }
    }

    /// Whether it rests because of an effect.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Held(_))
    }

    /// A turn without the background begins: as a rest, if one is due.
    pub(super) fn begins(&mut self, now: Moment) {
        if let Phase::Before(began, before) = self.phase
            && now >= began + BEFORE
            && (before >= CONTRAST_MIN * BEFORE.as_secs_f64() || self.cap.is_finite())
        {
            self.phase = Phase::Rests(now, [before, 0.0]);
        }
    }

    /// So many background requests were in progress for so many seconds, until now.
    pub(super) fn pass(&mut self, now: Moment, seconds: f64, running: u32) {
        let work = f64::from(running) * seconds;
        self.phase = match self.phase {
            Phase::Usual(left_s) if left_s > 0.0 => {
                // Of few that may be in progress, there are none for most of the time.
                let counts = running > 0 || self.cap.is_finite();
                Phase::Usual(if counts { left_s - seconds } else { left_s })
            }
            Phase::Usual(_) => {
                self.samples.clear();
                Phase::Before(now, 0.0)
            }
            Phase::Before(began, before) if now < began + BEFORE => {
                Phase::Before(began, before + work)
            }
            Phase::Before(began, before) if now < began + BEFORE + BEGINS => {
                Phase::Before(began, before)
            }
            Phase::Before(..) => self.usual(),
            Phase::Rests(began, [before, during]) if now < began + DRAINS + SPAN => {
                let is_counted = now > began + DRAINS;
                Phase::Rests(began, [before, if is_counted { during + work } else { during }])
            }
            Phase::Rests(_, work) => self.ends(now, work),
            Phase::Held(until) if now < until => Phase::Held(until),
            Phase::Held(_) => self.usual(),
        };
        self.cap *= (seconds / AGES_S).exp();
        if self.cap > AS_MANY * self.found_at {
            self.release();
        }
    }

    /// Nobody of the foreground was there for a while: there is nothing to compare.
    pub(super) fn begins_anew(&mut self) {
        self.phase = match self.phase {
            // What has begun meanwhile is to be over.
            Phase::Usual(left_s) => Phase::Usual(left_s.max(AGAIN_S)),
            Phase::Before(..) | Phase::Rests(..) => {
                self.apart_s = self.apart_s.clamp(AGAIN_S, FIRST_S);
                self.usual()
            }
            Phase::Held(until) => Phase::Held(until),
        };
    }

    /// The lane's requests are others from now on.
    pub(super) fn forgets(&mut self, lane: LaneId) {
        if let Some(samples) = self.samples.get_mut(lane.index()) {
            *samples = Default::default();
        }
    }

    /// A request of the foreground of that lane that came then was answered now, and counts as one that took so long, in ln.
    pub(super) fn answered(&mut self, now: Moment, arrived: Moment, lane: LaneId, ln: f64) {
        let span = match self.phase {
            Phase::Before(began, _) if arrived >= began => {
                let span = |at: Moment| at.since(began).as_secs() / SPAN.as_secs();
                if span(now) != span(arrived) || span(now) > 1 {
                    return;
                }
                span(now) as usize
            }
            Phase::Rests(began, _) if arrived >= began + DRAINS => 2,
            _ => return,
        };
        grown(&mut self.samples, lane.index())[span].note(ln);
    }

    /// As it may, until the next look.
    fn usual(&mut self) -> Phase {
        self.uneven.go_on();
        Phase::Usual(self.apart_s * (0.25 + 1.5 * self.uneven.part()))
    }

    /// A rest is over; the work of the background before it and at its end, in requests times seconds. O(lanes).
    fn ends(&mut self, now: Moment, [before, during]: [f64; 2]) -> Phase {
        let present = before / BEFORE.as_secs_f64();
        let is_gone = during / SPAN.as_secs_f64() <= present / 2.0;
        let was_suspected = std::mem::take(&mut self.is_suspected);
        self.apart_s *= 2.0;
        match if is_gone { self.found() } else { Found::Unknown } {
            // Hardly any of the background was there before either.
            Found::Longer { .. } if present < CONTRAST_MIN => {}
            Found::Longer { is_far } => {
                self.apart_s = AGAIN_S;
                // In turns with it, for three quarters of the time.
                let most = (present / 0.75).max(FEWEST / FEWER).min(self.cap);
                let is_known = most > self.found_at / AS_MANY;
                if is_far || was_suspected || is_known {
                    return self.fewer(now, most);
                }
                self.is_suspected = true;
                return self.usual();
            }
            Found::Nothing => {
                let is_unused = self.cap >= 1.0 && present < UNUSED * self.cap;
                self.held_s /= 2.0;
                self.cap *= self.grows;
                self.grows = (SOONER * self.grows).min(MORE);
                if is_unused {
                    self.release();
                }
            }
            Found::Shorter => {
                self.held_s = 0.0;
                self.release();
            }
            Found::Unknown => self.is_suspected = was_suspected,
        }
        let longest_s = if self.cap.is_finite() { APART_CAPPED_S } else { APART_S };
        self.apart_s = self.apart_s.min(longest_s);
        self.usual()
    }

    /// As many as could be had an effect: fewer may be from now on, or none for a while.
    fn fewer(&mut self, now: Moment, most: f64) -> Phase {
        let is_again = (self.found_at / AS_MANY..self.found_at * AS_MANY).contains(&most);
        self.grows = if is_again { self.grows.sqrt().max(MORE_MIN) } else { MORE };
        (self.cap, self.found_at) = ((FEWER * most).max(FEWEST), most);
        let held_s = self.held_s;
        self.held_s = (2.0 * held_s).clamp(HELD_S, HELD_MAX_S);
        if held_s < 1.0 {
            return self.usual();
        }
        Phase::Held(now + Duration::from_secs_f64(held_s))
    }

    fn release(&mut self) {
        (self.cap, self.found_at, self.grows) = (f64::INFINITY, f64::INFINITY, MORE);
    }

    fn found(&self) -> Found {
        let Some(Longer { by, error }) = self.longer([0, 1]) else { return Found::Unknown };
        if by.abs() < LASTS.max(SURELY * error) {
            return Found::Nothing;
        }
        let is_far = |span| self.longer([span, span]).is_some_and(|longer| longer.by > FAR);
        if by > 0.0 { Found::Longer { is_far: is_far(0) && is_far(1) } } else { Found::Shorter }
    }

    /// What requests took in these spans, from the one to the other, compared with what others of their kind took at the end; `None`: they were too few.
    fn longer(&self, [first, last]: [usize; 2]) -> Option<Longer> {
        let (mut weight, mut longer, mut variance) = (0.0, 0.0, 0.0);
        for samples in &self.samples {
            let mut before = Sample::default();
            samples[first..=last].iter().for_each(|it| before.add(*it));
            let after = samples[2];
            let requests = before.requests + after.requests;
            if before.requests.min(after.requests) < 1.0 || requests < 3.0 {
                continue;
            }
            // What the difference of two means is known by.
            let of = before.requests * after.requests / requests;
            let varied = (before.varied() + after.varied()) / (requests - 2.0);
            weight += of;
            longer += of * (before.mean() - after.mean());
            variance += of * varied.max(VARIANCE_MIN);
        }
        (weight >= REQUESTS_MIN / 2.0)
            .then(|| Longer { by: longer / weight, error: variance.sqrt() / weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(50);

    /// So many seconds with ten background requests in progress where that may be, but for a pause of one second in four; one of the foreground comes each 50 ms, and takes 20 ms, or as many times as long as the
    /// function of the second and of whether the background has been there within ten seconds says. For what part of the time it was there, in parts of ten requests.
    fn run(rests: &mut Rests, seconds: u64, longer: impl Fn(u64, bool) -> f64) -> f64 {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut now, end) = (Moment::ZERO, Moment::from_millis(1000 * seconds));
        let (mut there, mut was_there) = (0.0, Moment::NEVER);
        while now < end {
            let second = now.since(Moment::ZERO).as_secs();
            let is_with = second % 4 != 0;
            if !is_with {
                rests.begins(now);
            }
            let is_there = is_with && rests.until().is_none();
            // Fewer than one: for part of the time.
            let most = rests.most().min(10.0);
            let running = most.floor() + f64::from(random.f64() < most.fract());
            let running = if is_there { running } else { 0.0 };
            if running > 0.0 {
                was_there = now;
            }
            there += running / 10.0;
            rests.pass(now, STEP.as_secs_f64(), running as u32);
            let is_after =
                was_there != Moment::NEVER && now.since(was_there) < Duration::from_secs(10);
            let ln = 0.02_f64.ln() + longer(second, is_after).ln() + random.f64() - 0.5;
            rests.answered(now, now, LaneId(0), ln);
            now = now + STEP;
        }
        there * STEP.as_secs_f64() / seconds as f64 / 0.75
    }

    #[test]
    fn where_nothing_lasts_it_seldom_rests() {
        let mut rests = Rests::none();
        let there = run(&mut rests, 3600, |_, _| 1.0);
        assert!(there > 0.95, "{there}");
        assert_eq!(rests.most(), f64::INFINITY);
    }

    #[test]
    fn what_lasts_for_ten_seconds_is_found_and_it_stays_away() {
        for times in [1.5, 10.0] {
            let there =
                run(&mut Rests::none(), 3600, |_, is_after| if is_after { times } else { 1.0 });
            assert!(there < 0.15, "{times}: {there}");
        }
    }

    /// More than five have one, for ten seconds.
    #[test]
    fn it_stays_with_as_many_as_have_no_effect() {
        let mut rests = Rests::none();
        let (mut now, mut last, mut felt) = (Moment::ZERO, None, 0);
        let mut random = fastrand::Rng::with_seed(5);
        let steps = 4 * 3600 * 20;
        for step in 0..steps {
            let is_with = step / 20 % 4 != 0;
            if !is_with {
                rests.begins(now);
            }
            let is_there = is_with && rests.until().is_none();
            let running = if is_there { rests.most().min(10.0) } else { 0.0 };
            if running > 5.0 {
                last = Some(step);
            }
            rests.pass(now, STEP.as_secs_f64(), running.round() as u32);
            let is_after = last.is_some_and(|last| step - last < 200);
            felt += u32::from(is_after && step > steps / 2);
            let ln = if is_after { 0.7 } else { 0.0 } + random.f64() - 0.5;
            rests.answered(now, now, LaneId(0), ln);
            now = now + STEP;
        }
        let part = f64::from(felt) / (f64::from(steps) / 2.0);
        assert!(part < 0.4, "{part}");
    }

    #[test]
    fn what_is_not_looked_at_any_more_is_forgotten() {
        let mut rests = Rests::none();
        rests.fewer(Moment::ZERO, 10.0);
        assert_eq!(rests.most(), 3.0);
        (1..=2 * 3600).for_each(|second| rests.pass(Moment::from_millis(second * 1000), 1.0, 0));
        assert_eq!(rests.most(), f64::INFINITY);
    }

    #[test]
    fn what_has_ceased_is_forgotten() {
        let mut rests = Rests::none();
        let mended = |second, is_after| if is_after && second < 3600 { 2.0 } else { 1.0 };
        let there = run(&mut rests, 3 * 3600, mended);
        assert!(there > 0.4, "{there}");
        assert_eq!(rests.most(), f64::INFINITY);
    }

    /// Whether the background is there or not.
    #[test]
    fn a_foreground_that_varies_by_itself_costs_it_little() {
        for (every, lasts) in [(60, 15), (60, 30), (37, 9)] {
            let varies = |second: u64, _| if second % every < lasts { 2.7 } else { 1.0 };
            let there = run(&mut Rests::none(), 6 * 3600, varies);
            assert!(there > 0.5, "{lasts} s of {every}: {there}");
        }
    }

    /// Of those that take seconds, the longest are answered after the span in which they came.
    #[test]
    fn as_many_long_ones_are_left_out_before_as_at_the_end() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut rests = Rests::none();
        let mut running: Vec<(Moment, Moment)> = Vec::new();
        for step in 0..72_000 {
            let now = Moment::from_millis(step * 50);
            if step % 80 < 20 {
                rests.begins(now);
            }
            let is_there = rests.until().is_none();
            rests.pass(now, STEP.as_secs_f64(), if is_there { 10 } else { 0 });
            for _ in 0..10 {
                let takes = Duration::from_secs_f64(-4.0 * random.f64().max(1e-9).ln());
                running.push((now, now + takes));
            }
            for (came, ends) in running.extract_if(.., |it| it.1 <= now) {
                let ln = ends.since(came).as_secs_f64().max(0.001).ln();
                rests.answered(now, came, LaneId(0), ln);
            }
        }
        assert_eq!((rests.most(), rests.is_suspected), (f64::INFINITY, false), "{rests:?}");
    }
}
