//! The adaptive limit: the fewest slots that give the origin's full throughput, found while serving.
//!
//! While the limit binds, throughput is measured in windows at the limit and now and then a little
//! above and below it. [`Curve`] says where throughput stops growing, and how sure that is; the limit
//! goes there, and the less sure, the wider the next windows spread. Nothing is refused or starved to
//! measure: a probe changes the number of slots by as little as tells something.
//!
//! Answers count by what those of their class take on average ([`Mix`]): a window in which more of the
//! slow ones had their turn is no slower origin.
//!
//! What is not evidence: time in which slots are free, 5xx, failures, clients that leave, the length
//! of single answers (streams and long polls hold slots; all that counts is whether more slots give
//! more answers).

use super::curve::{Advice, Curve, LATENCY_PRICE, Point};
use super::law::{Bounds, Cause, Law, OriginLoad, Step};
use super::mix::Mix;
use super::regain::Regain;
use super::window::{Measured, Window, is_answer};
use crate::class::ClassId;
use crate::outcome::Outcome;
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
/// Time at the origin that nobody notices. What shorter queues there would save is less than what
/// they cost: with few requests in progress neither the gateway nor the origin finds several at once
/// to work on, and each pays for waking up.
const UNNOTICED: Duration = Duration::from_millis(1);
/// The same for a few requests: the first few at once give more throughput than the curve shows, because
/// while one is computed another is read or written; a limit of two or three costs a real Apache with
/// CGI up to a tenth. Five, as long as they take no more than 20 ms.
const UNNOTICED_FEW: (f64, Duration) = (5.0, Duration::from_millis(20));
/// Most that the limit grows or shrinks between two windows.
const LN_STEP_MAX: f64 = std::f64::consts::LN_2 * 1.2;
/// How far probes go, as ln: at least far enough to tell something, at most where it still costs
/// little.
const LN_PROBE: (f64, f64) = (0.1, 0.5);
/// A search ends after so many windows, or when ln of the knee is known to within this.
const SEARCH_WINDOWS: u32 = 16;
const SEARCH_DOUBT: f64 = 0.25;
/// What probing may cost: share of the throughput (downward) or of its worth in latency (upward),
/// on average over all windows, when the curve is sure and when it is not.
const PROBE_BUDGET: (f64, f64) = (0.01, 0.04);
/// A probe downward costs at least this share of what it takes away, however sure it seems that it
/// costs nothing.
const PROBE_COST_MIN: f64 = 0.1;
/// So long, and so many times as long as a slot is held, a limit is unused before it comes down.
const UNUSED: Duration = Duration::from_secs(1);
const UNUSED_HELD: u32 = 10;
/// Weight of the latest answer in the mean time that a slot is held.
const HELD_WEIGHT: f64 = 1.0 / 128.0;
/// What remains of a high dispersion after a window.
const DISPERSION_FADING: f64 = 0.98;
/// Heavier tails are not waited for: the windows would take too long.
const DISPERSION_MAX: f64 = 10.0;
/// How much more the services may vary than the times seen, where these hide it by queueing at the
/// origin; only in doubt whether they vary less than chance.
const DISPERSION_HIDDEN: f64 = 5.0;
/// The part of the slots that is nearly all of them: three quarters.
const NEARLY: (u64, u64) = (3, 4);
/// Variance that each request in progress adds to a window's count: it is begun before the window, or
/// ends after it. A quarter is that of a coin.
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
    /// Most requests at once since a while ago, and until when that is counted.
    peak: u32,
    peak_until: Moment,
    mix: Mix,
    /// Mean time a slot is held by an answered request, seconds, and answers in it.
    held_s: f64,
    held_count: u32,
    /// Variance over mean of the count of answers.
    dispersion: f64,
    regain: Regain,
    /// This window looks whether lost capacity is back.
    looking: bool,
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
            peak: 0,
            peak_until: Moment::ZERO,
            mix: Mix::new(),
            held_s: 0.0,
            held_count: 0,
            dispersion: 0.0,
            regain: Regain::new(),
            looking: false,
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
        self.window.set_full(kept && nearly);
    }

    /// A few nanoseconds; 20 µs at the end of a window, at most 40 times a second. Never allocates.
    fn finished(
        &mut self,
        now: Moment,
        class: ClassId,
        admitted: Moment,
        outcome: &Outcome,
        load: OriginLoad,
    ) -> Option<Step> {
        let held_s = now.since(admitted).as_secs_f64();
        self.window.pass(now, load.running);
        // Fewer are only ever in progress after an end: the most are seen here.
        self.peak = self.peak.max(load.running);
        let slow = held_s >= self.held_s;
        let counts = self.window.count(load.running, admitted, outcome, slow);
        if is_answer(outcome) {
            self.held_count = self.held_count.saturating_add(1);
            let factor = (1.0 / f64::from(self.held_count)).max(HELD_WEIGHT);
            self.held_s += (held_s - self.held_s) * factor;
            self.mix.answered(class, held_s, counts);
        }
        if self.window_is_over() {
            return self.conclude(now);
        }
        if self.looking {
            // Too many for the origin, or nobody needs so many.
            let over = now.since(self.window.opened()) > self.unused();
            return if over || self.window.is_losing() { self.look_no_more(now) } else { None };
        }
        if self.window.is_losing() {
            return self.back_off(now, load.running);
        }
        self.come_down(now)
    }

    /// What the requests of each class take is learned anew.
    fn renumbered(&mut self) {
        self.mix = Mix::new();
        self.window.restart();
    }
}

impl AdaptiveLimit {
    /// A limit that nobody needs and that is hardly known comes down to what is used: when it is needed
    /// again the way up is shorter than the way down, which leads through full queues at the origin.
    fn come_down(&mut self, now: Moment) -> Option<Step> {
        if now < self.peak_until {
            return None;
        }
        let peak = std::mem::replace(&mut self.peak, 0);
        let counted = self.peak_until > Moment::ZERO;
        self.peak_until = now + self.unused();
        let slots = peak.max(self.bounds.slots_start);
        if !counted || slots >= self.slots || self.doubt <= SEARCH_DOUBT {
            return None;
        }
        self.ln_base = f64::from(slots).ln();
        self.curve.dismiss();
        self.enter(now, slots, Cause::Unused)
    }

    fn unused(&self) -> Duration {
        UNUSED.max(UNUSED_HELD * self.held())
    }

    fn window_is_over(&self) -> bool {
        let (served, bound) = (self.window.served(), self.window.bound());
        served >= self.served_wanted() && bound >= self.time_wanted()
            || served >= WINDOW_SERVED_MIN && bound >= WINDOW_ENOUGH
    }

    /// Answers that make a window: the surer the curve, the more it takes to tell something new.
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

    /// Whether little will tell enough: what is looked for is large.
    fn hurries(&self) -> bool {
        self.searching || self.looking
    }

    fn held(&self) -> Duration {
        Duration::from_secs_f64(self.held_s.min(60.0))
    }

    /// The window is complete: adds it to the curve and chooses the next.
    fn conclude(&mut self, now: Moment) -> Option<Step> {
        if now.since(self.window.opened()) > WINDOW_STALE {
            if self.looking {
                return self.look_no_more(now);
            }
            self.window = Window::open(now, self.slots, self.window.is_full(), Duration::ZERO);
            self.mix.open();
            return None;
        }
        self.measure_dispersion();
        let measured = self.window.measured();
        let point = Point {
            ln_slots: measured.running.ln(),
            ln_rate: (self.mix.answers() / measured.seconds).ln(),
            variance: self.variance(measured),
        };
        if self.looking && self.curve.expects(point) {
            return self.look_no_more(now);
        }
        let advice = self.curve.add(point);
        self.curve.rescale(self.mix.accept());
        let Some(advice) = advice else {
            return self.enter(now, self.slots, Cause::Probed);
        };
        let looked = std::mem::take(&mut self.looking);
        if !advice.changed && looked {
            self.regain.in_vain(now, self.looked(now));
        }
        let is_back = advice.changed && looked && self.regain.is_near(point.ln_slots);
        let recalled = if is_back { self.curve.recall() } else { None };
        let Advice { ln_best, doubt, windows, changed } = recalled.unwrap_or(advice);
        if changed {
            self.mix.changed();
        }
        self.doubt = doubt;
        self.searching = windows < SEARCH_WINDOWS && doubt > SEARCH_DOUBT;
        let before = self.ln_base;
        let rate = f64::from(measured.served) / measured.seconds;
        let low = f64::from(self.bounds.slots_min.max(1)).max(unnoticed(rate)).ln();
        let high = f64::from(self.bounds.slots_max).ln().max(low);
        self.ln_base = ln_best.clamp(before - LN_STEP_MAX, before + LN_STEP_MAX).clamp(low, high);
        let moved = self.ln_base - before;
        // Downward a probe costs throughput as soon as it is below the knee.
        let (highest, deepest) = if self.searching {
            (LN_PROBE.1, LN_PROBE.1)
        } else {
            (3.0 * LN_PROBE.0, 2.0 * LN_PROBE.0)
        };
        // A probe that is smaller than the noise of two windows tells nothing; one that is larger than
        // needed is what the important class's slowest requests wait for.
        let noise = 2.0 * point.variance.sqrt();
        let wide = if self.searching { (0.7 * doubt).max(noise) } else { noise };
        let wide = wide.clamp(LN_PROBE.0, highest);
        let reach = (0.7 * doubt).clamp(LN_PROBE.0, deepest);
        let base = self.ln_base.exp().round();
        let standing = moved.abs() <= reach;
        if standing && !self.searching {
            if self.regain.settled(now, self.ln_base) {
                self.curve.remember();
            } else if let Some(ln_slots) = self.regain.look(now, self.ln_base) {
                self.looking = true;
                return self.enter(now, ln_slots.exp().round() as u32, Cause::Probed);
            }
        }
        // A limit on the move shows other concurrencies anyway.
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
    fn look_no_more(&mut self, now: Moment) -> Option<Step> {
        self.looking = false;
        self.curve.dismiss();
        self.regain.in_vain(now, self.looked(now));
        self.enter(now, self.ln_base.exp().round() as u32, Cause::Probed)
    }

    /// How long this look took; longer where service times vary much, because it tells little then.
    fn looked(&self, now: Moment) -> Duration {
        let took = now.since(self.window.opened()).min(self.unused());
        took.mul_f64(self.dispersion.max(1.0).powi(2))
    }

    /// How many slots above or below the limit the next window looks: as often as the budget allows, and
    /// never below what the limit may be, because nothing would follow from it.
    fn probe(&mut self, base: f64, low: f64, wide: f64, reach: f64) -> f64 {
        let budget = if self.searching { PROBE_BUDGET.1 } else { PROBE_BUDGET.0 };
        let up = ((base * wide.exp()).round() - base).max(1.0);
        let down = (base - (base / reach.exp()).round()).clamp(1.0, (base - low).max(1.0));
        self.credit_up = (self.credit_up + budget).min(1.0);
        self.credit_down = (self.credit_down + budget).min(1.0);
        let cost_up = LATENCY_PRICE * (up / base).ln_1p();
        // A limit that is probably too high may be lowered for nothing.
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

    /// Nearly nothing is answered in time: fewer at once may be. Half of what is in progress, which may
    /// be far less than the limit, because what clients have left is still being worked on.
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
        self.window = Window::open(now, slots, self.window.is_full(), settling);
        self.mix.open();
        if slots == self.slots {
            return None;
        }
        self.slots = slots;
        Some(Step { slots, cause })
    }

    /// Variance of ln of the throughput measured. Nearly constant services are counted more exactly
    /// than chance (dispersion 1) would allow.
    fn variance(&self, measured: Measured) -> f64 {
        let served = f64::from(measured.served);
        let cut = CUT_VARIANCE * measured.running / served;
        // While searching the limit may be far too high, and the queue at the origin hides nearly all.
        let hidden =
            if self.searching { 1.0 } else { (DISPERSION_HIDDEN * self.dispersion).min(1.0) };
        self.dispersion.max(hidden).max(cut) / served
    }

    /// Brings the index of dispersion of the count of answers up to date.
    fn measure_dispersion(&mut self) {
        let now = self.mix.dispersion(self.held_s);
        // Where requests queue at the origin the times vary less than the services do, so the highest
        // value counts, and fades.
        self.dispersion = (self.dispersion * DISPERSION_FADING).max(now).min(DISPERSION_MAX);
    }
}

/// How many slots nobody notices, where each second brings so many answers.
fn unnoticed(rate: f64) -> f64 {
    let (few, time) = UNNOTICED_FEW;
    let few = (rate * time.as_secs_f64()).min(few);
    (rate * UNNOTICED.as_secs_f64()).max(few).floor()
}
