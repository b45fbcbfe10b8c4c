//! The adaptations of a plan, and what each is doing.

use crate::adapt::{Adaptation, Adapted, Estimate, LevelNumber, Model, PiLaw, SetPoints, Traffic};
use crate::names::{AdaptationId, ClassId};
use crate::outcome::{End, Outcome};
use crate::plan::Plan;
use crate::reason::Reason;
use crate::time::Moment;

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
    pub(super) traffic: Traffic,
    pub(super) law: PiLaw,
    pub(super) model: Model,
    pub(super) reading: Option<f64>,
    /// When that came.
    pub(super) read: Option<Moment>,
    /// Since when the traffic is counted.
    pub(super) since: Moment,
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
    /// There is no reading, or one of another kind: the levels stay.
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
    /// The latest reading; `None`: there is none that holds.
    pub reading: Option<f64>,
    /// What it is doing.
    pub state: Adapts,
    /// The set point of each class that has requests under it, the most important first.
    pub set_points: Vec<(ClassId, f64)>,
    /// Requests that were refused for it, and those that were answered, by level.
    pub answered: Vec<u64>,
    /// Share of the server that a request a second takes, by level, apart from its bytes; at level 0, a refusal.
    pub costs: Vec<Estimate>,
    /// Share of the server that a MiB a second takes.
    pub mebibyte: Estimate,
}

impl Adapting {
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
    pub(super) fn served(&mut self, adapted: Option<Adapted>, outcome: &Outcome) {
        if outcome.end != End::Preempted
            && let Some(adapted) = adapted
            && let Some(it) = self.of(adapted.adaptation)
        {
            it.traffic.served(adapted.level, outcome.bytes);
        }
    }

    /// A request was refused on arrival.
    pub(super) fn refused(&mut self, adapted: Option<Adapted>, class: ClassId, reason: Reason) {
        let Some(it) = adapted.and_then(|adapted| self.of(adapted.adaptation)) else { return };
        if reason == Reason::Level {
            it.traffic.came(class);
            it.traffic.served(0, 0);
        } else if reason.is_for_want_of_capacity() {
            it.traffic.came(class);
            it.traffic.lacked();
        }
    }

    /// A request that waited was refused.
    pub(super) fn gave_up(&mut self, adapted: Option<Adapted>, reason: Reason) {
        if reason.is_for_want_of_capacity()
            && let Some(it) = adapted.and_then(|adapted| self.of(adapted.adaptation))
        {
            it.traffic.lacked();
        }
    }

    /// Follows a plan: an adaptation that is known keeps its set points and what it has learned.
    pub(super) fn reconfigure(&mut self, now: Moment, plan: &Plan) {
        let mut former = std::mem::take(&mut self.list);
        for (id, settings) in plan.adaptation_ids().iter().zip(&plan.adaptations) {
            let known = former.iter().position(|it| it.id == *id);
            let mut it = match known {
                Some(place) => former.swap_remove(place),
                None => Adapter::new(now, *id, settings),
            };
            if it.settings.levels.len() != settings.levels.len() {
                // What was learned of a level is of another now.
                (it.model, it.traffic) = (Model::new(), Traffic::default());
            }
            if it.settings.source != settings.source || it.settings.reference != settings.reference
            {
                it.law.is_blind();
                (it.reading, it.read) = (None, None);
            }
            if it.settings.source != settings.source {
                it.model = Model::new();
            }
            it.settings = settings.clone();
            let least = f64::from(it.least());
            it.points.reconfigure(plan.class_ids(), least, settings.highest());
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
            traffic: Traffic::default(),
            law: PiLaw::default(),
            model: Model::new(),
            reading: None,
            read: None,
            since: now,
            state: Adapts::Blind,
        }
    }

    /// The lowest level that there may be.
    pub(super) fn least(&self) -> LevelNumber {
        if self.settings.refuses { 0 } else { 1 }
    }

    /// Whether the reading is higher than it should be.
    pub(super) fn is_beyond(&self) -> bool {
        self.reading.is_some_and(|reading| reading > self.settings.reference.value())
    }

    /// What it is doing, by where the set points of those classes are that have requests.
    pub(super) fn what(&self) -> Adapts {
        let (least, highest) = (f64::from(self.least()), f64::from(self.settings.highest()));
        let parts = self.points.parts();
        let mut busy = parts.iter().filter(|it| it.is_busy()).peekable();
        if busy.peek().is_some() && self.is_beyond() && busy.all(|it| it.set_point <= least) {
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
            reading: self.reading,
            state: self.state,
            set_points: self
                .points
                .parts()
                .iter()
                .filter(used)
                .map(|it| (it.class, it.set_point))
                .collect(),
            answered: self.traffic.totals[..levels].to_vec(),
            costs: (0..levels).map(|level| self.model.request(level as LevelNumber)).collect(),
            mebibyte: self.model.mebibyte(),
        }
    }
}
