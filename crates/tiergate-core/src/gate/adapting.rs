//! The adaptations of a plan, and what each is doing.

use crate::adapt::{
    Adaptation, Adapted, Estimate, Floors, LevelNumber, Part, SetPoints, Traffic, Watch, Watched,
};
use crate::names::{AdaptationId, ClassId, SiteId};
use crate::outcome::{End, Outcome};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::time::Moment;
use std::time::Duration;

/// All adaptations of the plan in force.
#[derive(Debug, Default)]
pub(super) struct Adapting {
    /// In the plan's order.
    pub(super) list: Vec<Adapter>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) id: AdaptationId,
    pub(super) settings: Adaptation,
    pub(super) points: SetPoints,
    pub(super) floors: Floors,
    pub(super) traffic: Traffic,
    /// Its readings: one or more.
    pub(super) watches: Vec<Watch>,
    /// Which of them decided last.
    pub(super) short: usize,
    /// Since when the traffic is counted.
    pub(super) since: Moment,
    /// Periods in a row in which a reading was missing.
    pub(super) blind: u32,
    pub(super) state: Adapts,
}

/// What an adaptation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapts {
    /// Every request gets full quality.
    Full,
    /// Some get less.
    Adapts,
    /// All get the least that there is, and the reading is beyond its reference all the same.
    Lowest,
    /// There is no reading, or one of another kind: the levels stay, but clients that they refuse are let in again after a while.
    Blind,
}

impl Adapts {
    /// Every state.
    pub const ALL: [Adapts; 4] = [Adapts::Full, Adapts::Adapts, Adapts::Lowest, Adapts::Blind];

    /// Its name in status and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Adapts::Full => "full",
            Adapts::Adapts => "adapts",
            Adapts::Lowest => "lowest",
            Adapts::Blind => "blind",
        }
    }
}

/// An adaptation at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct AdaptationState {
    /// Its settings.
    pub settings: Adaptation,
    /// What it goes by: one or more.
    pub readings: Vec<WatchState>,
    /// Which of them decided last: its place.
    pub short: usize,
    /// What it is doing.
    pub state: Adapts,
    /// The set point of each class that has requests under it, the most important first.
    pub set_points: Vec<(ClassId, f64)>,
    /// Requests that were refused for it, and those that were answered, by level.
    pub answered: Vec<u64>,
    /// The sites with guarantees, in the plan's order.
    pub guarantees: Vec<GuaranteeState>,
    /// The part of the guarantees that is kept: less than 1 where they are more than the server can do.
    pub kept: f64,
}

/// A reading of an adaptation at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchState {
    /// Its source and reference.
    pub watched: Watched,
    /// The latest reading; `None`: there is none that holds.
    pub reading: Option<f64>,
    /// Share of it that a request a second takes, by level, apart from its bytes; at level 0, a refusal.
    pub costs: Vec<Estimate>,
    /// Share of it that a MiB a second takes.
    pub mebibyte: Estimate,
}

/// A site's guarantee at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuaranteeState {
    /// The site.
    pub site: SiteId,
    /// Share of what the sensor measures that is guaranteed.
    pub guaranteed: f64,
    /// Share that it uses, by what requests cost as the policy says; on average over the last periods.
    pub used: f64,
}

impl Adapting {
    /// Whether one that goes by this source can still lower quality, so that nobody needs to be refused for it yet.
    pub(super) fn can_degrade(&self, source: &str) -> bool {
        let goes_by =
            |it: &Adapter| it.watches.iter().any(|watch| *watch.watched.source == *source);
        let is_good = |part: &Part| part.rate > 0.0 && part.set_point > 1.0;
        self.list.iter().any(|it| {
            it.state != Adapts::Blind && goes_by(it) && it.points.parts().iter().any(is_good)
        })
    }

    fn of(&mut self, id: AdaptationId) -> Option<&mut Adapter> {
        self.list.iter_mut().find(|it| it.id == id)
    }

    /// A request got a slot, or waits for one.
    pub(super) fn came(&mut self, adapted: Option<Adapted>, class: ClassId) {
        if let Some(it) = adapted.and_then(|adapted| self.of(adapted.adaptation)) {
            it.traffic.came(class);
        }
    }

    /// A request was served; whatever came of it, the server was at work.
    pub(super) fn served(
        &mut self,
        adapted: Option<Adapted>,
        class: ClassId,
        outcome: &Outcome,
        lasted: Duration,
    ) {
        if outcome.end != End::Preempted
            && let Some(adapted) = adapted
            && let Some(it) = self.of(adapted.adaptation)
        {
            it.traffic.served(class, adapted.level, outcome.bytes, lasted);
        }
    }

    /// A request was refused on arrival. `needs_resource`: one that its requests need beside a slot of the pool. It is refused for want
    /// of that, which says nothing of what the readings measure.
    pub(super) fn refused(
        &mut self,
        adapted: Option<Adapted>,
        class: ClassId,
        needs_resource: bool,
        reason: Reason,
    ) {
        let Some(it) = adapted.and_then(|adapted| self.of(adapted.adaptation)) else { return };
        if reason == Reason::Level {
            it.traffic.came(class);
            it.traffic.served(class, 0, 0, Duration::ZERO);
        } else if reason.is_for_want_of_capacity() {
            it.traffic.came(class);
            if !needs_resource {
                it.traffic.lacked();
            }
        }
    }

    /// A request that waited was refused; `needs_resource`: as for [`Adapting::refused`].
    pub(super) fn gave_up(
        &mut self,
        adapted: Option<Adapted>,
        needs_resource: bool,
        reason: Reason,
    ) {
        if reason.is_for_want_of_capacity()
            && !needs_resource
            && let Some(it) = adapted.and_then(|adapted| self.of(adapted.adaptation))
        {
            it.traffic.lacked();
        }
    }

    /// Follows a plan: an adaptation that is known keeps its set points and what it has learned.
    pub(super) fn reconfigure(&mut self, now: Moment, plan: &Plan) {
        let mut former = std::mem::take(&mut self.list);
        let all = plan.adaptation_ids().iter().zip(&plan.adaptations);
        for (id, settings) in all.filter(|(_, settings)| settings.acts) {
            let known = former.iter().position(|it| it.id == *id);
            let mut it = match known {
                Some(place) => former.swap_remove(place),
                None => Adapter::new(now, *id, settings),
            };
            if it.settings.levels.len() != settings.levels.len() {
                // What was learned of a level is of another now.
                it.watches.iter_mut().for_each(Watch::forget_costs);
                it.traffic = Traffic::default();
            }
            it.watch(settings);
            it.settings = settings.clone();
            let least = f64::from(it.least());
            it.points.reconfigure(plan.class_ids(), least, settings.highest());
            it.floors.reconfigure(plan, settings);
            self.list.push(it);
        }
    }
}

impl Adapter {
    fn new(now: Moment, id: AdaptationId, settings: &Adaptation) -> Self {
        Adapter {
            id,
            settings: settings.clone(),
            points: SetPoints::default(),
            floors: Floors::default(),
            traffic: Traffic::default(),
            watches: settings.watched().map(Watch::new).collect(),
            short: 0,
            since: now,
            blind: 0,
            state: Adapts::Blind,
        }
    }

    /// Follows its settings: of a source that stays, what was learned stays.
    fn watch(&mut self, settings: &Adaptation) {
        let mut former = std::mem::take(&mut self.watches);
        for watched in settings.watched() {
            let known = former.iter().position(|it| it.watched.source == watched.source);
            let mut watch = match known {
                Some(place) => former.swap_remove(place),
                None => Watch::new(watched.clone()),
            };
            if watch.watched.reference != watched.reference {
                watch.is_blind();
                watch.reading = None;
            }
            watch.watched = watched;
            self.watches.push(watch);
        }
        self.short = self.short.min(self.watches.len() - 1);
    }

    /// The lowest level that there may be.
    pub(super) fn least(&self) -> LevelNumber {
        if self.settings.refuses { 0 } else { 1 }
    }

    /// Whether a reading is higher than it should be.
    pub(super) fn is_beyond(&self) -> bool {
        self.watches.iter().any(Watch::is_beyond)
    }

    /// What it is doing, by where the set points of those classes are that have requests.
    pub(super) fn what(&self) -> Adapts {
        let highest = f64::from(self.settings.highest());
        let parts = self.points.parts();
        let mut busy = parts.iter().filter(|it| it.is_busy()).peekable();
        if busy.peek().is_some() && self.is_beyond() && busy.all(|it| it.is_lowest(self.least())) {
            Adapts::Lowest
        } else if parts.iter().all(|it| it.set_point >= highest) {
            Adapts::Full
        } else {
            Adapts::Adapts
        }
    }

    pub(super) fn seen(&self) -> AdaptationState {
        let levels = usize::from(self.settings.highest()) + 1;
        let used = |it: &&crate::adapt::Part| {
            it.is_busy() || it.set_point < f64::from(self.settings.highest())
        };
        AdaptationState {
            settings: self.settings.clone(),
            readings: self
                .watches
                .iter()
                .map(|it| WatchState {
                    watched: it.watched.clone(),
                    reading: it.reading,
                    costs: it.costs(self.settings.highest()),
                    mebibyte: it.model.mebibyte(),
                })
                .collect(),
            short: self.short,
            state: self.state,
            set_points: self
                .points
                .parts()
                .iter()
                .filter(used)
                .map(|it| (it.class, it.set_point))
                .collect(),
            answered: self.traffic.totals[..levels].to_vec(),
            guarantees: self
                .floors
                .sites
                .iter()
                .map(|it| GuaranteeState {
                    site: it.site,
                    guaranteed: it.guaranteed,
                    used: it.used,
                })
                .collect(),
            kept: self.floors.kept,
        }
    }
}
