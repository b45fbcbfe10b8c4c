//! The set points that guarantees pay for: below its floor no class of a site is adapted, however much the others ask for.
//!
//! ```text
//! requests a second by class, what a level costs ─▶ as much as the guarantee pays for ─▶ floors
//! what the site really used ─▶ correction
//! ```
//!
//! The paper has a loop for each site that moves its set point until the site uses what it is guaranteed, and a request gets the
//! higher one of that and of what all get. Such a loop winds up as long as the server has room, because the site uses more than its guarantee whatever
//! the loop does; and when the room is gone, it has to be unwound first. Here the floor is what the model says that the guarantee pays for, so
//! that it is there when it is needed, and what is left of the error is integrated only while the floor is in force.
//!
//! Where all guarantees together are more than the server can do, because it has become slower than its costs say, all are cut by the same
//! factor: an overloaded server keeps none.
//!
//! Source: Abdelzaher 5.1 to 5.3.

use super::guarantee::Costs;
use super::level::LevelNumber;
use super::model::Model;
use super::set_points::SetPoints;
use super::settings::Adaptation;
use super::traffic::{Rates, Traffic};
use crate::names::{ClassId, SiteId};
use crate::plan::Plan;

/// By what part of the error the correction moves in a period, and its bounds: where few clients make up most of a site's requests, its floor
/// has to be far from what the model says.
const CORRECTION_GAIN: f64 = 0.1;
const CORRECTION_MIN: f64 = -1.0 - TOLERANCE;
const CORRECTION_MAX: f64 = 1.0;
/// What is kept of a correction in a period in which its floor is not in force, or the site asks for no more than it is guaranteed.
const CORRECTION_KEPT: f64 = 0.9;
/// By what part a floor is for more than is guaranteed until the correction says what is right: a period that counts one request too many is to
/// cost nobody quality who asks for what is guaranteed.
const TOLERANCE: f64 = 0.03;
/// What is kept of a site's average use after a period.
const USED_KEPT: f64 = 0.7;
/// Most by which the guarantees are cut, or restored, in a period; and the least that is left of them.
const CUT_MAX: f64 = 0.1;
const KEPT_MIN: f64 = 0.05;
/// By what factor a site may use more than it is guaranteed before the others' guarantees are cut: its own correction is not done yet.
const OVER: f64 = 1.2;
/// What is kept of how much dearer than the policy says requests are, after a period, and the most of that.
const DEAR_KEPT: f64 = 0.7;
const DEAR_MAX: f64 = 20.0;
/// Less use than that says nothing of it.
const USED_MIN: f64 = 0.01;
/// The part of a full answer's price that a lower level has at least.
const PRICE_MIN: f64 = 0.05;

/// A site with a guarantee, under one adaptation.
#[derive(Clone, Debug)]
pub(crate) struct SiteFloor {
    pub(crate) site: SiteId,
    /// Its classes, the most important first.
    classes: Vec<ClassId>,
    /// Share of the server that its guarantee takes.
    pub(crate) guaranteed: f64,
    /// Share that it uses, on average over the last periods.
    pub(crate) used: f64,
    /// By what part the floor is to be for more than the model says.
    correction: f64,
}

/// The sites with guarantees.
#[derive(Clone, Debug)]
pub(crate) struct Floors {
    pub(crate) sites: Vec<SiteFloor>,
    /// The part of the guarantees that the server can keep: 1 but where its costs are wrong.
    pub(crate) kept: f64,
    /// How much dearer than the policy says requests are: 1 or more.
    dear: f64,
}

/// The period that is over.
pub(crate) struct Period<'a> {
    pub(crate) costs: Costs,
    /// The lowest and the highest level.
    pub(crate) levels: (LevelNumber, LevelNumber),
    pub(crate) model: &'a Model,
    pub(crate) traffic: &'a Traffic,
    pub(crate) seconds: f64,
    /// Share of the server that was used, if it is known.
    pub(crate) reading: Option<f64>,
}

/// What a request of a class and level costs.
struct Prices<'a> {
    costs: Costs,
    /// Of a request of each level, apart from its bytes.
    requests: [f64; Adaptation::LEVELS_MAX + 1],
    traffic: &'a Traffic,
}

impl<'a> Prices<'a> {
    /// At full quality as the policy says, and below it by such a part less as was learned: in absolute terms, what was learned and what the policy
    /// says may be of two servers.
    fn new(period: &Period<'a>) -> Self {
        let Period { costs, levels: (_, highest), model, traffic, .. } = *period;
        let full = model.request(highest);
        let mut requests = [costs.request; Adaptation::LEVELS_MAX + 1];
        for level in (1..usize::from(highest)).rev() {
            let more = model.step(level as LevelNumber);
            let is_known = more.is_known() && full.is_known();
            let part = if is_known { more.value / full.value } else { 0.0 };
            let price = requests[level + 1] - part * costs.request;
            requests[level] = price.max(PRICE_MIN * costs.request);
        }
        requests[0] = costs.refusal;
        Prices { costs, requests, traffic }
    }

    fn of(&self, class: ClassId, level: LevelNumber) -> f64 {
        let bytes = match level {
            0 => 0.0,
            level => self.costs.of_bytes(self.traffic.length_of(class, level)),
        };
        self.requests[usize::from(level)] + bytes
    }

    /// Share of the server that a class has used in the period.
    fn used(&self, class: ClassId, seconds: f64) -> f64 {
        self.of_rates(&self.traffic.rates_of(class, seconds))
    }

    fn of_rates(&self, rates: &Rates) -> f64 {
        let requests = rates.by_level.iter().zip(&self.requests);
        let requests: f64 = requests.map(|(rate, price)| rate * price).sum();
        requests + self.costs.of_bytes(rates.bytes)
    }
}

impl Default for Floors {
    fn default() -> Self {
        Floors { sites: Vec::new(), kept: 1.0, dear: 1.0 }
    }
}

impl Floors {
    /// Follows a plan: what is known of a site stays.
    pub(crate) fn reconfigure(&mut self, plan: &Plan, settings: &Adaptation) {
        let former = std::mem::take(&mut self.sites);
        let Some(costs) = settings.costs else {
            *self = Floors::default();
            return;
        };
        for (site, id) in plan.sites.iter().zip(plan.site_ids()) {
            let Some(guarantee) = &site.guarantee else { continue };
            if !settings.sites.contains(id) {
                continue;
            }
            let of_site = plan.class_ids().iter().zip(&plan.classes);
            let classes = of_site.filter(|(_, class)| class.site == *id).map(|(id, _)| *id);
            let known = former.iter().find(|it| it.site == *id);
            self.sites.push(SiteFloor {
                site: *id,
                classes: classes.collect(),
                guaranteed: costs.share(guarantee),
                used: known.map_or(0.0, |it| it.used),
                correction: known.map_or(0.0, |it| it.correction),
            });
        }
        if self.sites.is_empty() {
            *self = Floors::default();
        }
    }

    /// A period is over: sets the floors of all classes with a guarantee.
    pub(crate) fn step(&mut self, period: &Period<'_>, points: &mut SetPoints) {
        let prices = Prices::new(period);
        let seconds = period.seconds;
        if let Some(reading) = period.reading {
            let said = prices.of_rates(&period.traffic.rates(seconds)).max(USED_MIN);
            let dear = (reading / said).clamp(1.0, DEAR_MAX);
            self.dear = self.dear * DEAR_KEPT + dear * (1.0 - DEAR_KEPT);
        }
        for it in &mut self.sites {
            let used: f64 = it.classes.iter().map(|class| prices.used(*class, seconds)).sum();
            it.used = it.used * USED_KEPT + used * (1.0 - USED_KEPT);
            let promised = it.guaranteed * self.kept;
            let is_in_force = it.classes.iter().any(|class| points.is_cut(*class));
            it.correction = if is_in_force {
                let error = (promised - used) / promised.max(f64::MIN_POSITIVE);
                // One period says no more, whatever ended in it.
                let error = error.clamp(-1.0, 1.0);
                (it.correction + CORRECTION_GAIN * error).clamp(CORRECTION_MIN, CORRECTION_MAX)
            } else {
                it.correction * CORRECTION_KEPT
            };
            let budget = promised * (1.0 + TOLERANCE + it.correction);
            let floors = it.affordable(budget, period.levels, &prices, points);
            for (class, floor) in it.classes.iter().zip(floors) {
                points.set_floor(*class, floor);
            }
        }
    }

    /// The use of the server is to change by so much, and the set points leave that: by it the guarantees are cut, or restored. Returns what is
    /// left.
    pub(crate) fn cut_by(&mut self, by: f64, points: &SetPoints) -> f64 {
        let is_busy = |it: &&SiteFloor| it.classes.iter().any(|class| points.is_held(*class));
        let busy = self.sites.iter().filter(is_busy);
        let all: f64 = busy.map(|it| it.guaranteed).sum::<f64>() * self.dear;
        // Its correction is at work, and not at its end.
        let is_corrected = |it: &SiteFloor| {
            it.used > OVER * it.guaranteed * self.kept
                && it.correction > CORRECTION_MIN
                && it.classes.iter().any(|class| points.is_cut(*class))
        };
        if by < 0.0 && (all <= 0.0 || self.sites.iter().any(is_corrected)) {
            return by;
        }
        let before = self.kept;
        let change = by / all.max(f64::MIN_POSITIVE);
        self.kept = (before + change.clamp(-CUT_MAX, CUT_MAX)).clamp(KEPT_MIN, 1.0);
        by - (self.kept - before) * all
    }
}

impl SiteFloor {
    /// The set points of its classes that a part of the server so large pays for: for every class the lowest quality first, then more of it, the
    /// most important first.
    fn affordable(
        &self,
        budget: f64,
        (least, highest): (LevelNumber, LevelNumber),
        prices: &Prices<'_>,
        points: &SetPoints,
    ) -> Vec<f64> {
        let mut floors = vec![f64::from(least); self.classes.len()];
        // The lower of both rates: a site that is back within its guarantee after a surge gets full quality at once.
        let of = |class: &ClassId, level| points.usual_rate_of(*class) * prices.of(*class, level);
        let mut left = budget - self.classes.iter().map(|class| of(class, least)).sum::<f64>();
        // Nobody is refused so that another one gets better answers.
        for levels in [least..1, least.max(1)..highest] {
            for (class, floor) in self.classes.iter().zip(&mut floors) {
                if *floor < f64::from(levels.start) {
                    continue;
                }
                for level in levels.clone() {
                    let step = (of(class, level + 1) - of(class, level)).max(0.0);
                    if step > left {
                        *floor += (left / step).max(0.0);
                        left = 0.0;
                        break;
                    }
                    *floor += 1.0;
                    left -= step;
                }
            }
        }
        floors
    }
}
