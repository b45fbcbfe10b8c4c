//! The adaptive limit: the fewest slots that give the origin's full throughput, found while serving.
//!
//! While the limit binds, throughput is measured in windows: at the limit, and now and then at a probe a
//! little above or below it. [`Curve`] estimates where throughput stops growing, and how sure that is. The
//! limit goes there; the less sure the estimate, the wider the next probes. No request is refused or
//! starved for a measurement: a probe changes the number of slots by the least that is informative.
//!
//! Answers are weighted by the mean time that those of their class take ([`Mix`]), so that a window with
//! more slow requests is not taken for a slower origin.
//!
//! An answer that came so late that its client would have left even without a wait for the slot is work for nobody: where clients
//! leave sooner than a server with a queue answers, throughput stays as it is while all of it is lost. So throughput is taken times the share of
//! answers in time, as far as that is not chance ([`Timely`]).
//!
//! Not evidence: time in which slots are free, 5xx, failures, clients that leave for other reasons, the length of a single
//! answer (streams and long polls hold slots; what counts is whether more slots give more answers).

use super::curve::{Advice, Curve, LATENCY_PRICE, Point};
use super::law::{Bounds, Cause, Completion, Law, Step};
use super::lookback::Lookback;
use super::mix::Mix;
use super::quickest::Quickest;
use super::regain::Regain;
use super::timely::Timely;
use super::unused::Unused;
use super::window::Window;
use crate::time::Moment;
use std::time::Duration;

/// Shortest window: longer than the hiccups of a scheduler.
const WINDOW_MIN: Duration = Duration::from_millis(25);
/// Shortest window once the curve is known.
const WINDOW_SETTLED_MIN: Duration = Duration::from_millis(100);
/// A window this long ends with fewer answers than wanted.
const WINDOW_ENOUGH: Duration = Duration::from_millis(500);
const WINDOW_SERVED_MIN: u32 = 10;
/// A window that took longer than this from first to last (the limit hardly ever binds) is stale.
const WINDOW_STALE: Duration = Duration::from_secs(60);
/// Time at the origin that is too short to matter. Shorter queues would cost more than they save: with few
/// requests in progress neither the gateway nor the origin finds several to work on at once, and each
/// pays for waking up.
const NEGLIGIBLE: Duration = Duration::from_millis(1);
/// The same for a few requests: the first few at once give more throughput than the curve shows, because
/// while one is computed another is read or written, and because a worker may be held a little longer than
/// its answer (Apache after a CGI program). Eight, as long as they take no more than 25 ms.
const NEGLIGIBLE_FEW: (f64, Duration) = (8.0, Duration::from_millis(25));
/// Most that the limit grows or shrinks between two windows.
const LN_STEP_MAX: f64 = std::f64::consts::LN_2 * 1.2;
/// How far probes go, as ln: the least that is informative, and the most that costs little.
const LN_PROBE: (f64, f64) = (0.1, 0.5);
/// A search ends after this many windows, or when ln of the knee is known to within this.
const SEARCH_WINDOWS: u32 = 16;
const SEARCH_DOUBT: f64 = 0.25;
/// What probing may cost: share of the throughput (downward) or of its worth in latency (upward),
/// on average over all windows, when the curve is sure and when it is not. Downward it is less where the curve has held for long and
/// is surer than this: capacity that is lost shows without a probe, and capacity that is won does not.
const PROBE_BUDGET: (f64, f64) = (0.01, 0.04);
const DOUBT_SURE: f64 = 0.18;
/// A probe downward costs at least this share of what it takes away, however sure it seems that it
/// costs nothing.
const PROBE_COST_MIN: f64 = 0.1;
/// How long a limit is unused before it comes down: this, and this many times the time a slot is held.
const UNUSED: Duration = Duration::from_secs(1);
const UNUSED_HELD: u32 = 10;
/// Where the quickest requests take so many times as long as usual, the origin may have more to do than it can.
const SLOWER: f64 = 1.8;
/// Weight of the latest answer in the mean time that a slot is held.
const HELD_WEIGHT: f64 = 1.0 / 128.0;
/// What remains of a high dispersion after a window.
const DISPERSION_FADING: f64 = 0.98;
/// Heavier tails are not waited for: the windows would take too long.
const DISPERSION_MAX: f64 = 10.0;
/// How much more the service times may vary than the times seen, which queueing at the origin evens
/// out. Used only to decide whether they vary less than chance.
const DISPERSION_HIDDEN: f64 = 5.0;
/// The part of the slots that counts as nearly all of them: three quarters.
const NEARLY: (u64, u64) = (3, 4);
/// Variance that each request in progress adds to a window's count, because it begins before the window
/// or ends after it: that of a coin, a quarter.
const CUT_VARIANCE: f64 = 0.25;

/// Finds how many requests the origin can work on at once.
#[derive(Clone, Debug)]
pub struct AdaptiveLimit {
    bounds: Bounds,
    slots: u32,
    /// ln of the limit that the probes surround.
    ln_base: f64,
    doubt: f64,
    /// The curve is new and not sure yet: short windows, bold probes.
    searching: bool,
    /// Credit for probes upward and downward, in windows' worth.
    credit_up: f64,
    credit_down: f64,
    window: Window,
    curve: Curve,
    unused: Unused,
    quickest: Quickest,
    mix: Mix,
    timely: Timely,
    /// Mean time a slot is held by an answered request, seconds, and answers in it.
    held_s: f64,
    held_count: u32,
    /// Variance over mean of the count of answers.
    dispersion: f64,
    regain: Regain,
    lookback: Lookback,
    /// This window probes whether lost capacity is back.
    probing_recovery: bool,
}

impl AdaptiveLimit {
    /// A limit that knows nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        let slots = bounds.clamp(bounds.slots_start);
        AdaptiveLimit {
            slots,
            ln_base: f64::from(slots).ln(),
            doubt: f64::INFINITY,
            searching: true,
            credit_up: 0.0,
            credit_down: 0.0,
            window: Window::open(Moment::ZERO, slots, false, Duration::ZERO),
            curve: Curve::new(f64::from(slots)),
            unused: Unused::default(),
            quickest: Quickest::default(),
            mix: Mix::new(),
            timely: Timely::default(),
            held_s: 0.0,
            held_count: 0,
            dispersion: 0.0,
            regain: Regain::new(),
            lookback: Lookback::default(),
            probing_recovery: false,
            bounds,
        }
    }
}

impl Law for AdaptiveLimit {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn pass(&mut self, now: Moment, running: u32) {
        self.window.pass(now, running);
    }

    /// With nearly all slots in use that is as good as all of them: throughput is measured at the
    /// number in use. With fewer it says nothing, neither of an idle origin nor of a busy one.
    fn keep(&mut self, kept: bool, running: u32) {
        let nearly = u64::from(running) * NEARLY.1 >= u64::from(self.slots) * NEARLY.0;
        self.window.full = kept && nearly;
    }

    fn is_away(&mut self, now: Moment) {
        self.window = Window::open(now, self.slots, self.window.full, Duration::ZERO);
        self.mix.open();
    }

    /// A few nanoseconds; 20 µs at the end of a window, at most 40 times a second. Never allocates.
    fn finished(&mut self, completion: &Completion<'_>) -> Option<Step> {
        let Completion { now, lane, admitted, outcome, load, .. } = *completion;
        let held_s = now.since(admitted).as_secs_f64();
        self.window.pass(now, load.running);
        // The number in progress only falls at an end, so that its peaks are seen here.
        self.unused.see(load.running);
        let counts = self.window.count(completion, self.held_s, self.mix.held_s(lane));
        if outcome.is_answer() {
            self.held_count = self.held_count.saturating_add(1);
            let factor = (1.0 / f64::from(self.held_count)).max(HELD_WEIGHT);
            self.held_s += (held_s - self.held_s) * factor;
            self.mix.answered(lane, held_s, counts);
            self.quickest.see(held_s);
        }
        if self.window_is_over() {
            return self.conclude(now);
        }
        if self.probing_recovery {
            // Too many for the origin, or more than are needed.
            let over = now.since(self.window.opened) > self.unused_for();
            return if over || self.window.is_failing() {
                self.end_recovery_probe(now)
            } else {
                None
            };
        }
        if self.window.is_failing() {
            return self.back_off(now, load.running);
        }
        self.come_down(now)
    }

    fn set_bounds(&mut self, now: Moment, bounds: &Bounds) {
        self.bounds = bounds.clone();
        let slots = bounds.clamp(self.slots);
        if slots != self.slots {
            self.probing_recovery = false;
            self.curve.dismiss();
            self.ln_base = f64::from(slots).ln();
            self.enter(now, slots, Cause::Adjusted);
        }
    }
}

impl AdaptiveLimit {
    /// Lowers a limit that is not needed, and hardly known, to what is used: should it be needed again, the
    /// way up is quicker than the way down, which leads through full queues at the origin. What is in use may wait at the
    /// origin, so that one window looks below it where even the quickest requests have become slow.
    fn come_down(&mut self, now: Moment) -> Option<Step> {
        let period = self.unused_for();
        let peak = self.unused.peak(now, period)?;
        let is_known = self.doubt <= SEARCH_DOUBT;
        let is_filled = peak >= self.slots;
        let ends = !is_filled || self.unused.is_look_over(now);
        if ends && self.unused.ends_look() {
            return self.enter(now, self.ln_base.exp().round() as u32, Cause::Probed);
        }
        if is_filled {
            return None;
        }
        let slots = peak.max(self.bounds.slots_start);
        if self.quickest.over_usual() > SLOWER {
            let below = (f64::from(peak) / LN_PROBE.1.exp()).round();
            let rate = f64::from(peak) / self.held_s;
            let enough = below >= negligible(rate).max(f64::from(self.bounds.slots_min));
            if enough && self.unused.looks(now, period) {
                self.curve.dismiss();
                return self.enter(now, below as u32, Cause::Probed);
            }
        }
        if is_known || slots >= self.slots {
            return None;
        }
        self.ln_base = f64::from(slots).ln();
        self.curve.dismiss();
        self.enter(now, slots, Cause::Unused)
    }

    fn unused_for(&self) -> Duration {
        UNUSED.max(UNUSED_HELD * self.held())
    }

    fn window_is_over(&self) -> bool {
        let (served, bound) = (self.window.served, self.window.bound());
        served >= self.served_wanted() && bound >= self.time_wanted()
            || served >= WINDOW_SERVED_MIN && bound >= WINDOW_ENOUGH
    }

    /// Answers that make a window: the surer the curve, the more it takes to learn something new.
    fn served_wanted(&self) -> u32 {
        let least = match self.doubt {
            doubt if doubt > 0.7 => 16,
            _ if self.hurries() => 40,
            _ => 240,
        };
        ((f64::from(least) * self.dispersion.max(1.0)) as u32).max(self.slots)
    }

    /// Binding time that makes a window: each slot is used about once.
    fn time_wanted(&self) -> Duration {
        let least = if self.hurries() { WINDOW_MIN } else { WINDOW_SETTLED_MIN };
        least.max(self.held())
    }

    /// Whether short windows suffice, because a large effect is looked for.
    fn hurries(&self) -> bool {
        self.searching || self.probing_recovery
    }

    fn held(&self) -> Duration {
        Duration::from_secs_f64(self.held_s.min(60.0))
    }

    /// The window is complete: adds it to the curve and chooses the next.
    fn conclude(&mut self, now: Moment) -> Option<Step> {
        if now.since(self.window.opened) > WINDOW_STALE {
            if self.probing_recovery {
                return self.end_recovery_probe(now);
            }
            self.window = Window::open(now, self.slots, self.window.full, Duration::ZERO);
            self.mix.open();
            return None;
        }
        self.measure_dispersion();
        let seconds = self.window.bound().as_nanos() as f64 / 1e9;
        let (ln_timely, chance) = self.timely.share(self.window.good, self.window.served);
        let point = Point {
            ln_slots: self.window.running().ln(),
            ln_rate: (self.mix.answers() / seconds).ln() + ln_timely,
            variance: self.variance() + chance,
        };
        if self.probing_recovery && self.curve.expects(point) {
            return self.end_recovery_probe(now);
        }
        let advice = self.curve.add(point);
        self.curve.rescale(self.mix.accept());
        let Some(advice) = advice else {
            return self.enter(now, self.slots, Cause::Probed);
        };
        let probed = std::mem::take(&mut self.probing_recovery);
        if !advice.changed && probed {
            self.regain.in_vain(now, self.recovery_probe_cost(now));
        }
        let is_back = advice.changed && probed && self.regain.is_near(point.ln_slots);
        let recalled = if is_back { self.curve.recall() } else { None };
        let Advice { ln_best, doubt, windows, changed } = recalled.unwrap_or(advice);
        if changed {
            self.mix.changed();
        }
        self.doubt = doubt;
        if self.unused.measured(doubt <= SEARCH_DOUBT) {
            self.ln_base = f64::from(self.slots).ln();
        } else {
            self.quickest.measured();
        }
        self.searching = windows < SEARCH_WINDOWS && doubt > SEARCH_DOUBT;
        let before = self.ln_base;
        let rate = f64::from(self.window.served) / seconds;
        let low = f64::from(self.bounds.slots_min.max(1)).max(negligible(rate)).ln();
        let high = f64::from(self.bounds.slots_max).ln().max(low);
        self.ln_base = ln_best.clamp(before - LN_STEP_MAX, before + LN_STEP_MAX).clamp(low, high);
        let moved = self.ln_base - before;
        // Downward a probe costs throughput as soon as it is below the knee.
        let (highest, deepest) = if self.searching {
            (LN_PROBE.1, LN_PROBE.1)
        } else {
            (3.0 * LN_PROBE.0, 2.0 * LN_PROBE.0)
        };
        // A probe smaller than the noise of two windows is not informative; a larger one than needed adds to
        // the tail latency of the important class.
        let noise = 2.0 * point.variance.sqrt();
        let wide = if self.searching { (0.7 * doubt).max(noise) } else { noise };
        let wide = wide.clamp(LN_PROBE.0, highest);
        let reach = (0.7 * doubt).clamp(LN_PROBE.0, deepest);
        let base = self.ln_base.exp().round();
        let standing = moved.abs() <= reach;
        if standing && !self.searching {
            if self.regain.settled(now, self.ln_base) {
                self.curve.remember();
            } else if let Some(ln_slots) = self.regain.probe(now, self.ln_base) {
                self.probing_recovery = true;
                return self.enter(now, ln_slots.exp().round() as u32, Cause::Probed);
            }
        }
        match (changed, recalled) {
            (_, Some(_)) => self.lookback.known(now, self.ln_base),
            (true, None) => self.lookback.changed(self.ln_base),
            (false, None) => self.lookback.at(now, self.ln_base),
        }
        if standing
            && !self.searching
            && let Some(back) = self.lookback.due(now, self.ln_base)
            && back.exp() < base
        {
            return self.enter(now, back.exp().max(low.exp()).round() as u32, Cause::Probed);
        }
        // A limit that is moving visits other concurrencies anyway.
        let aside = if standing { self.probe(base, low.exp(), wide, reach) } else { 0.0 };
        let slots = base + aside;
        let cause = match aside {
            0.0 if moved > 0.0 => Cause::Grew,
            0.0 if moved < 0.0 => Cause::Shrank,
            _ => Cause::Probed,
        };
        self.enter(now, slots as u32, cause)
    }

    /// Lost capacity is not back: the limit stays where it was.
    fn end_recovery_probe(&mut self, now: Moment) -> Option<Step> {
        self.probing_recovery = false;
        self.curve.dismiss();
        self.regain.in_vain(now, self.recovery_probe_cost(now));
        self.enter(now, self.ln_base.exp().round() as u32, Cause::Probed)
    }

    /// How long this recovery probe took, weighted up where service times vary much and it says little.
    fn recovery_probe_cost(&self, now: Moment) -> Duration {
        let took = now.since(self.window.opened).min(self.unused_for());
        took.mul_f64(self.dispersion.max(1.0).powi(2))
    }

    /// How many slots above (or below, negative) the limit the next window probes: as often as the budget
    /// allows, and never below the lower bound, where the result could not be used.
    fn probe(&mut self, base: f64, low: f64, wide: f64, reach: f64) -> f64 {
        let budget = if self.searching { PROBE_BUDGET.1 } else { PROBE_BUDGET.0 };
        let up = ((base * wide.exp()).round() - base).max(1.0);
        let down = (base - (base / reach.exp()).round()).clamp(1.0, (base - low).max(1.0));
        self.credit_up = (self.credit_up + budget).min(1.0);
        let is_sure = self.doubt < DOUBT_SURE;
        let rarely = if is_sure { self.curve.novelty() } else { 1.0 };
        self.credit_down = (self.credit_down + rarely * budget).min(1.0);
        let cost_up = LATENCY_PRICE * (up / base).ln_1p();
        // Lowering a limit that is probably too high costs nothing.
        let missed = |slots: f64| self.curve.missed(slots.ln());
        let cost_down = (missed(base - down) - missed(base)).max(PROBE_COST_MIN * down / base);
        if self.credit_up >= cost_up {
            self.credit_up -= cost_up;
            up
        } else if self.credit_down >= cost_down && base - down >= low - 0.5 {
            self.credit_down -= cost_down;
            -down
        } else {
            0.0
        }
    }

    /// Nearly every request fails: halves the concurrency, from what is in progress. That may be far below
    /// the limit, because the origin still works on requests whose clients have left.
    fn back_off(&mut self, now: Moment, running: u32) -> Option<Step> {
        self.ln_base = (f64::from(self.slots.min(running)) * 0.5).floor().max(1.0).ln();
        self.curve.flush(self.ln_base);
        self.doubt = f64::INFINITY;
        self.searching = true;
        self.enter(now, self.ln_base.exp().round() as u32, Cause::Failures)
    }

    /// Opens the next window.
    fn enter(&mut self, now: Moment, slots: u32, cause: Cause) -> Option<Step> {
        let slots = self.bounds.clamp(slots);
        let settling = if slots == self.slots { Duration::ZERO } else { self.held() };
        self.window = Window::open(now, slots, self.window.full, settling);
        self.mix.open();
        if slots == self.slots {
            return None;
        }
        self.slots = slots;
        Some(Step { slots, cause })
    }

    /// Variance of ln of the throughput measured. Where service times are nearly constant, counts are more
    /// exact than chance (dispersion 1) would allow.
    fn variance(&self) -> f64 {
        let served = f64::from(self.window.served);
        let cut = CUT_VARIANCE * self.window.running() / served;
        // While searching the limit may be far too high, and the queue at the origin hides nearly all.
        let hidden =
            if self.searching { 1.0 } else { (DISPERSION_HIDDEN * self.dispersion).min(1.0) };
        self.dispersion.max(hidden).max(cut) / served
    }

    /// Brings the index of dispersion of the count of answers up to date.
    fn measure_dispersion(&mut self) {
        let now = self.mix.dispersion(self.held_s);
        // Queueing at the origin evens out the times seen, so that the highest value counts, and fades.
        self.dispersion = (self.dispersion * DISPERSION_FADING).max(now).min(DISPERSION_MAX);
    }
}

/// How many slots are negligible at a rate of answers a second.
fn negligible(rate: f64) -> f64 {
    let (few, time) = NEGLIGIBLE_FEW;
    let few = (rate * time.as_secs_f64()).min(few);
    (rate * NEGLIGIBLE.as_secs_f64()).max(few).floor()
}
