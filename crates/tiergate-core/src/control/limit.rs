//! The limit in force: a law, what it said last, and the slots in use under it.

use super::law::{Bounds, Cause, Completion, Law, Step};
use super::pushback::Pushback;
use super::slots::Slots;
use super::target::{ServiceTarget, TargetState};
use super::targets::Targets;
use crate::names::ClassId;
use crate::sense::Reading;
use crate::time::Moment;
use std::time::Duration;

/// The law may go beyond what service targets allow by one slot in so many.
const SLACK: u32 = 8;

/// The number of slots in force, the law that finds it, and how many are in use.
#[derive(Debug)]
pub(crate) struct Limit {
    law: Box<dyn Law>,
    /// Whether the number is found while serving.
    is_adaptive: bool,
    bounds: Bounds,
    /// What the origin lets requests have.
    pushback: Pushback,
    /// What keeps classes at their service targets.
    targets: Targets,
    /// What the law says, within the bounds. Every decision asks for it, so that it stands here.
    slots: u32,
    running: u32,
    last_step: Option<(Moment, Step)>,
    /// Whether slots are free that no waiting request may have.
    kept: bool,
    /// By how much the wall clock is ahead of moments.
    ahead: Duration,
}

impl Limit {
    pub(crate) fn new(law: Box<dyn Law>, slots: &Slots) -> Self {
        let (bounds, is_adaptive) = (slots.bounds(), slots.is_adaptive());
        let slots = bounds.clamp(law.slots());
        let (pushback, targets) = (Pushback::default(), Targets::default());
        let (running, last_step, kept, ahead) = (0, None, false, Duration::ZERO);
        Limit {
            law,
            is_adaptive,
            bounds,
            pushback,
            targets,
            slots,
            running,
            last_step,
            kept,
            ahead,
        }
    }

    /// The same set in another way, for slots of the same server: those in use stay so. [`Limit::set_targets`] follows.
    pub(crate) fn succeeded_by(&mut self, now: Moment, slots: &Slots) {
        let before = self.slots;
        self.reconfigure(slots);
        if self.slots != before {
            let step = Step { slots: self.slots, cause: Cause::Reload };
            self.last_step = Some((now, step));
        }
    }

    /// Begins anew with what a plan says; slots in use stay so. [`Limit::set_targets`] follows.
    pub(crate) fn reconfigure(&mut self, slots: &Slots) {
        let (running, ahead) = (self.running, self.ahead);
        *self = Limit { running, ..Limit::new(slots.law(), slots) };
        self.set_clock(ahead);
    }

    /// The wall clock is ahead of moments by so much; see [`Law::set_clock`].
    pub(crate) fn set_clock(&mut self, ahead: Duration) {
        self.ahead = ahead;
        self.law.set_clock(ahead);
    }

    /// The service targets of classes; what was found for those that stay is kept. O(classes²).
    pub(crate) fn set_targets(
        &mut self,
        now: Moment,
        wanted: impl Iterator<Item = (ClassId, ServiceTarget)>,
    ) {
        let before = self.targets.most();
        self.targets.reconfigure(now, wanted);
        if self.targets.most() != before {
            self.tell_bounds(now);
            self.take(now, Some(Step { slots: self.law.slots(), cause: Cause::Reload }));
        }
    }

    /// How the service target of a class fares; `None`: it has none here. O(targets).
    pub(crate) fn target(&self, class: ClassId) -> Option<TargetState> {
        let state = self.targets.state(class)?;
        // Where the law needs clearly fewer (a look below is not that), it is not the target that bounds them.
        Some(TargetState {
            slots: state.slots.filter(|most| *most <= self.slots + self.slots / 4 + 1),
            ..state
        })
    }

    /// The class whose target came to be missed (`true`), or is missed no longer; said once.
    pub(crate) fn take_target_news(&mut self) -> Option<(ClassId, bool)> {
        self.targets.take_news()
    }

    /// Whether the number is found while serving.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.is_adaptive
    }

    /// The number of slots in force.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// The last change, and when.
    pub(crate) fn last_step(&self) -> Option<(Moment, Step)> {
        self.last_step
    }

    /// Slots in use.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// Whether the origin refuses requests beyond those that are in progress, so many without slots among them.
    pub(crate) fn is_refused_beyond(&self, lent: u32) -> bool {
        self.pushback.most().is_some_and(|most| self.running + lent >= most)
    }

    /// Whether a slot is free.
    pub(crate) fn has_free(&self) -> bool {
        self.running < self.slots
    }

    /// Whether a request that takes so many slots may have them now; one that takes more than there are
    /// may if nobody else runs.
    pub(crate) fn fits(&self, slots: u16) -> bool {
        self.running == 0 || self.running + u32::from(slots) <= self.slots
    }

    /// A request gets slots.
    pub(crate) fn grant(&mut self, now: Moment, slots: u16) {
        self.law.pass(now, self.running);
        self.running += u32::from(slots);
    }

    /// A request lends its slots; [`Limit::grant`] when it takes them back.
    pub(crate) fn lend(&mut self, now: Moment, slots: u16) {
        self.law.pass(now, self.running);
        self.running -= u32::from(slots);
    }

    /// Nobody who has slots holds them any more.
    pub(crate) fn write_off(&mut self, now: Moment) {
        self.law.pass(now, self.running);
        self.running = 0;
    }

    /// So many more slots are in use, which were granted by another limit.
    pub(crate) fn holds_too(&mut self, slots: u32) {
        self.running += slots;
    }

    /// A request gives its slots back; [`Limit::finished`] follows.
    pub(crate) fn take_back(&mut self, slots: u16) {
        self.running -= u32::from(slots);
    }

    /// Slots that are free now are kept from the requests that wait, if any do: time in which they are says
    /// nothing of an idle origin.
    pub(crate) fn note_kept(&mut self, now: Moment, anybody_waits: bool) {
        // At a target's bound the law may have more than anybody gets.
        let is_bounded = self.targets.most().is_some_and(|most| most <= self.slots);
        let kept = anybody_waits && (is_bounded || self.has_free());
        let was_kept = std::mem::replace(&mut self.kept, kept);
        if kept || was_kept {
            self.law.pass(now, self.running);
            self.law.keep(kept, self.running);
        }
    }

    /// A request gave its slots back; see [`Law::finished`].
    pub(crate) fn finished(&mut self, completion: &Completion<'_>) {
        let step = self.law.finished(completion);
        self.take(completion.now, step);
        if self.pushback.finished(completion, self.slots) {
            let step = Step { slots: self.law.slots(), cause: Cause::Pushback };
            self.take(completion.now, Some(step));
        }
        if self.targets.finished(completion, self.slots, self.bounds.clamp(0)) {
            self.take_targets(completion.now);
        }
    }

    /// The same, of a request that also needed a slot of another limit, which it tells what the origin refused and whether it
    /// met its target.
    pub(crate) fn finished_elsewhere(&mut self, completion: &Completion<'_>) {
        let step = self.law.finished(completion);
        self.take(completion.now, step);
        if self.targets.passes(completion.now) {
            self.take_targets(completion.now);
        }
    }

    /// The most slots that there may be.
    pub(crate) fn most(&self) -> u32 {
        self.bounds.slots_max
    }

    /// The bound of targets is another one.
    fn take_targets(&mut self, now: Moment) {
        self.tell_bounds(now);
        self.take(now, Some(Step { slots: self.law.slots(), cause: Cause::Target }));
    }

    /// The server is away; see [`Law::is_away`].
    pub(crate) fn is_away(&mut self, now: Moment) {
        self.law.is_away(now);
        self.targets.is_away(now);
    }

    /// A sensor sent a reading.
    pub(crate) fn observe(&mut self, now: Moment, reading: &Reading<'_>) {
        let step = self.law.observe(now, reading);
        self.take(now, step);
    }

    /// The limit has other bounds from now on; what the law has learned stays.
    pub(crate) fn set_bounds(&mut self, now: Moment, slots: &Slots) {
        self.bounds = slots.bounds();
        self.tell_bounds(now);
        self.take(now, Some(Step { slots: self.law.slots(), cause: Cause::Adjusted }));
    }

    /// Tells the law where it may go: hardly higher than the targets let it. Else it would wait for slots to be used that nobody
    /// gets before it learns anything, and would not find that fewer are enough; exactly as high, it would begin anew with each
    /// small step of theirs.
    fn tell_bounds(&mut self, now: Moment) {
        let most = self.targets.most().map_or(u32::MAX, |most| most.saturating_add(most / SLACK));
        let slots_max = self.bounds.slots_max.min(most).max(self.bounds.slots_min);
        self.law.set_bounds(now, &Bounds { slots_max, ..self.bounds.clone() });
    }

    fn take(&mut self, now: Moment, step: Option<Step>) {
        let Some(step) = step else { return };
        let most = [self.pushback.most(), self.targets.most()].into_iter().flatten();
        let slots = self.bounds.clamp(most.fold(step.slots, u32::min));
        if slots != self.slots {
            self.slots = slots;
            self.last_step = Some((now, Step { slots, ..step }));
        }
    }
}
