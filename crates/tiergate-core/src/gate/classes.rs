//! The classes at the gate: what the plan says of each, and what it is doing, by id; and the order of
//! importance.
//!
//! | a class | its rank |
//! |---|---|
//! | is in the plan | its place there |
//! | is gone, and requests of it wait or run, or streams are open | behind the plan's, the first to go first |
//! | is gone, and nothing is left of it | none, until a request comes that was classified before it went |
//!
//! A class that is gone keeps its settings, its queue and its counters; a name that comes back to the plan
//! finds them again.

use crate::admit::patience::{AnswerTime, Patience};
use crate::class::{Class, Order};
use crate::collections::grown;
use crate::names::ClassId;
use crate::plan::Plan;
use crate::schedule::Load;
use crate::time::Moment;
use std::time::Duration;

const NO_RANK: u16 = u16::MAX;

/// One class.
#[derive(Clone, Debug)]
pub(super) struct ClassRecord {
    /// What the latest plan that had it says of it.
    pub(super) settings: Class,
    rank: u16,
    /// Since when the schedule has been told of its grants in the units, and under the policies, that are
    /// in force.
    pub(super) charged_since: Moment,
    /// Requests that hold slots.
    pub(super) requests: u32,
    /// Streams that are open.
    pub(super) streams: u32,
    /// Where the turns among its lanes have got to.
    pub(super) turn: f64,
    /// How long its clients wait.
    pub(super) patience: Patience,
    /// When one of its requests last found a free slot; where it is the first of a queue of several classes, one of theirs.
    pub(super) idle: Moment,
    /// The first of the classes that wait in one queue with it, come first, served first; `None`: no other does. Whether an
    /// overload lasts is told by all of these: else the one whose queue is short on purpose leaves all places to the others.
    pub(super) queue_of: Option<ClassId>,
    /// Of the first of them: how long answers take to requests of all.
    pub(super) answers: AnswerTime,
}

impl ClassRecord {
    fn new(now: Moment, settings: Class) -> Self {
        ClassRecord {
            settings,
            rank: NO_RANK,
            charged_since: now,
            requests: 0,
            streams: 0,
            turn: 0.0,
            patience: Patience::default(),
            idle: now,
            queue_of: None,
            answers: AnswerTime::default(),
        }
    }

    /// How long a request may wait for its slot: as the policy says (`own`: of this request), or less if its
    /// client would have left before the answer.
    pub(super) fn deadline(&self, own: Option<Duration>) -> Duration {
        let policys = own.unwrap_or(self.settings.deadline);
        match self.settings.patience {
            true => self.patience.deadline(policys),
            false => policys,
        }
    }

    /// Whether requests wait for less while an overload lasts: nothing is known of their clients, and they are
    /// served in order of arrival; any other order serves some of those that came lately.
    pub(super) fn is_unknown(&self) -> bool {
        let Class { patience, order, .. } = self.settings;
        patience && order == Order::Fifo && self.patience.known().is_none()
    }

    /// Whether requests of it run or streams of it are open.
    fn is_held(&self) -> bool {
        self.requests > 0 || self.streams > 0
    }
}

/// All classes.
#[derive(Clone, Debug, Default)]
pub(super) struct Classes {
    /// By id; `None`: never in force.
    records: Vec<Option<Box<ClassRecord>>>,
    /// By rank.
    order: Vec<ClassId>,
    loads: Vec<Load>,
    /// How many of the order are in the plan.
    planned: usize,
}

impl Classes {
    /// Puts a plan's classes in force. `is_charged`: whether the schedule goes on with what it was told of
    /// a class. O(classes), squared of those that wait in one queue.
    pub(super) fn reconfigure(
        &mut self,
        now: Moment,
        plan: &Plan,
        is_charged: impl Fn(ClassId) -> bool,
    ) {
        let former = std::mem::take(&mut self.order);
        let mut loads = vec![Load::default(); self.records.len()];
        for (id, load) in former.iter().zip(std::mem::take(&mut self.loads)) {
            loads[id.index()] = load;
            self.at_mut(*id).rank = NO_RANK;
        }
        for (id, class) in plan.class_ids().iter().zip(&plan.classes) {
            let record = grown(&mut self.records, id.index())
                .get_or_insert_with(|| Box::new(ClassRecord::new(now, class.clone())));
            record.settings.clone_from(class);
            record.queue_of = plan.queue_of(class);
            if !is_charged(*id) {
                record.charged_since = now;
            }
            self.join(*id, loads.get(id.index()).copied().unwrap_or_default());
        }
        let (in_plan, gone) =
            former.split_at(std::mem::replace(&mut self.planned, self.order.len()));
        for id in gone {
            self.at_mut(*id).queue_of = None;
        }
        for &id in gone.iter().chain(in_plan) {
            let (record, load) = (self.at(id), loads[id.index()]);
            if record.rank == NO_RANK && (load.all_waiting() > 0 || record.is_held()) {
                self.join(id, load);
            }
        }
    }

    /// Gives the class the last rank.
    fn join(&mut self, id: ClassId, load: Load) {
        self.at_mut(id).rank = self.order.len() as u16;
        self.order.push(id);
        self.loads.push(load);
    }

    /// The class that a request belongs to: its own, or the least important if the gate never had such a
    /// class. It has a rank. O(1).
    pub(super) fn entered(&mut self, class: ClassId) -> ClassId {
        match self.records.get(class.index()) {
            Some(Some(record)) if record.rank != NO_RANK => class,
            Some(Some(_)) => {
                self.join(class, Load::default());
                class
            }
            _ => self.order[self.planned - 1],
        }
    }

    /// Lets those go that are not in the plan and have nothing left.
    pub(super) fn let_go(&mut self) {
        if self.order.len() == self.planned {
            return;
        }
        let gone = self.order.split_off(self.planned);
        let loads = self.loads.split_off(self.planned);
        for (id, load) in gone.into_iter().zip(loads) {
            self.at_mut(id).rank = NO_RANK;
            if load.all_waiting() > 0 || self.at(id).is_held() {
                self.join(id, load);
            }
        }
    }

    pub(super) fn at(&self, class: ClassId) -> &ClassRecord {
        self.records[class.index()].as_ref().expect("the class was in force")
    }

    pub(super) fn at_mut(&mut self, class: ClassId) -> &mut ClassRecord {
        self.records[class.index()].as_mut().expect("the class was in force")
    }

    /// The class's place in the order of importance.
    pub(super) fn rank(&self, class: ClassId) -> usize {
        self.at(class).rank.into()
    }

    /// The class of that rank.
    pub(super) fn of_rank(&self, rank: usize) -> ClassId {
        self.order[rank]
    }

    /// Every class that has a rank, in order.
    pub(super) fn ranked(&self) -> &[ClassId] {
        &self.order
    }

    /// What each does that has a rank, in order.
    pub(super) fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The same, to be changed.
    pub(super) fn loads_mut(&mut self) -> &mut [Load] {
        &mut self.loads
    }

    /// What a class does.
    pub(super) fn load(&self, class: ClassId) -> Load {
        self.loads.get(self.rank(class)).copied().unwrap_or_default()
    }

    /// The same, to be changed.
    pub(super) fn load_mut(&mut self, class: ClassId) -> &mut Load {
        let rank = self.rank(class);
        &mut self.loads[rank]
    }

    /// Whether the class is in the plan in force.
    pub(super) fn is_planned(&self, class: ClassId) -> bool {
        self.rank(class) < self.planned
    }

    /// Every class that ever was in force: those of the plan in its order, then all others, the latest to
    /// be named first.
    pub(super) fn all(&self) -> impl Iterator<Item = (ClassId, &ClassRecord)> + '_ {
        let planned = self.order[..self.planned].iter().map(|id| (*id, self.at(*id)));
        let others = self.records.iter().enumerate().rev();
        let others =
            others.filter_map(|(id, record)| Some((ClassId(id as u16), &**record.as_ref()?)));
        planned.chain(others.filter(|(_, record)| usize::from(record.rank) >= self.planned))
    }
}
