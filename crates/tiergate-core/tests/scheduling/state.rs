//! What the model knows: who waits, who runs, and by which plan.

use std::fmt;
use std::time::Duration;
use tiergate_core::control::Slots;
use tiergate_core::plan::Spec;
use tiergate_core::time::Moment;

/// A request.
#[derive(Clone)]
pub(crate) struct Req {
    pub(crate) id: u32,
    /// Its class: its place in [`State::plan`].
    pub(crate) class: usize,
    pub(crate) flow: u64,
    /// In millionths.
    pub(crate) score: u64,
    pub(crate) arrived: Moment,
    pub(crate) due: Moment,
    /// Whether it belongs to a session that runs.
    pub(crate) session: bool,
    pub(crate) slots: u32,
    pub(crate) bytes: u32,
    /// How long it will hold its slots, if it stays.
    pub(crate) service: Duration,
    /// Bytes of its answer, if it stays.
    pub(crate) answer: u64,
    /// When its client leaves.
    pub(crate) leaves: Moment,
    /// Whether its owner is gone when it hears of its slot.
    pub(crate) absent: bool,
}

impl Req {
    /// How long it holds its slots if it gets them at that moment.
    pub(crate) fn holds(&self, from: Moment) -> Duration {
        if self.absent { Duration::ZERO } else { self.service.min(self.leaves.since(from)) }
    }

    /// Bytes of its answer if it is started at that moment.
    pub(crate) fn answered(&self, from: Moment) -> f64 {
        if self.holds(from) < self.service { 0.0 } else { self.answer as f64 }
    }

    /// Work in slot-seconds if it is started at that moment.
    pub(crate) fn work(&self, from: Moment) -> f64 {
        f64::from(self.slots) * self.holds(from).as_secs_f64()
    }
}

/// Who waits and who runs.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) now: Moment,
    /// The plan in force; behind its classes those that are gone from it and have requests left.
    pub(crate) plan: Spec,
    /// How many of the classes are in the plan in force.
    pub(crate) planned: usize,
    /// In order of arrival.
    pub(crate) waiting: Vec<Req>,
    pub(crate) running: Vec<Req>,
}

impl fmt::Debug for Req {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Req { id, class, flow, score, arrived, due, session, slots, bytes, service, .. } = self;
        let (arrived, due) = (arrived.seconds() * 1e3, due.seconds() * 1e3);
        write!(f, "{id}: class {class} flow {flow} from {arrived} to {due} ms, {service:?}")?;
        write!(f, ", {slots} slots, {bytes} bytes, score {score}, session {session}")
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "at {} ms, {} slots", self.now.seconds() * 1e3, self.slots())?;
        writeln!(f, "between sites: {:?}", self.plan.between_sites)?;
        self.plan.sites.iter().try_for_each(|site| writeln!(f, "{site:?}"))?;
        self.plan.classes.iter().try_for_each(|class| writeln!(f, "{class:?}"))?;
        self.waiting.iter().try_for_each(|req| writeln!(f, "waits {req:?}"))?;
        self.running.iter().try_for_each(|req| writeln!(f, "runs {req:?}"))
    }
}

impl State {
    pub(crate) fn new(plan: Spec) -> Self {
        let planned = plan.classes.len();
        State { now: Moment::ZERO, plan, planned, waiting: Vec::new(), running: Vec::new() }
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        match self.plan.slots {
            Slots::Fixed(slots) => slots,
            Slots::Adaptive(_) | Slots::Shared(_) => unreachable!("these tests have fixed slots"),
        }
    }

    /// Slots that nobody holds. Fewer may be there than are held, after a reload.
    pub(crate) fn free(&self) -> u32 {
        let held: u32 = self.running.iter().map(|req| req.slots).sum();
        self.slots().saturating_sub(held)
    }

    /// Slots that requests of the classes hold.
    pub(crate) fn held(&self, classes: &[usize]) -> u32 {
        let of = self.running.iter().filter(|req| classes.contains(&req.class));
        of.map(|req| req.slots).sum()
    }

    /// Who waits of the classes.
    pub(crate) fn waiting_of<'a>(
        &'a self,
        classes: &'a [usize],
    ) -> impl Iterator<Item = &'a Req> + Clone {
        self.waiting.iter().filter(|req| classes.contains(&req.class))
    }

    /// The classes of each site.
    pub(crate) fn sites(&self) -> Vec<Vec<usize>> {
        let mut sites = vec![Vec::new(); self.plan.sites.len()];
        for (place, class) in self.plan.classes[..self.planned].iter().enumerate() {
            sites[class.site.index()].push(place);
        }
        sites
    }

    /// Puts a plan in force. Requests of classes that are gone from it stay theirs.
    pub(crate) fn reload(&mut self, mut plan: Spec) {
        let former = std::mem::take(&mut self.plan.classes);
        let (in_plan, gone) = former.split_at(self.planned);
        self.planned = plan.classes.len();
        for class in gone.iter().chain(in_plan) {
            let is_of = |req: &Req| former[req.class].name == class.name;
            let left = self.waiting.iter().chain(&self.running).any(is_of);
            if left && plan.classes.iter().all(|it| it.name != class.name) {
                plan.classes.push(class.clone());
            }
        }
        let place = |name: &String| plan.classes.iter().position(|class| class.name == *name);
        for req in self.waiting.iter_mut().chain(&mut self.running) {
            req.class = place(&former[req.class].name).expect("it is there, or left over");
        }
        self.plan = plan;
    }

    /// Whether the request's class is gone from the plan.
    pub(crate) fn is_gone(&self, req: &Req) -> bool {
        req.class >= self.planned
    }

    /// Whether the request's deadline has passed while it waits.
    pub(crate) fn is_late(&self, req: &Req) -> bool {
        req.due <= self.now
    }
}
