//! The limit in force: a law, and what it said last.

use super::law::{Bounds, Cause, Completion, Law, Step};
use super::slots::Slots;
use crate::sense::Reading;
use crate::time::Moment;

/// The number of slots in force and the law that finds it.
#[derive(Debug)]
pub(crate) struct Limit {
    law: Box<dyn Law>,
    bounds: Bounds,
    /// What the law says, within the bounds. Every decision asks for it, so that it stands here.
    slots: u32,
    last_step: Option<(Moment, Step)>,
    /// Whether slots are free that no waiting request may have.
    kept: bool,
}

impl Limit {
    pub(crate) fn new(law: Box<dyn Law>, slots: &Slots) -> Self {
        let bounds = slots.bounds();
        Limit { slots: bounds.clamp(law.slots()), bounds, law, last_step: None, kept: false }
    }

    /// The number of slots in force.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// The last change, and when.
    pub(crate) fn last_step(&self) -> Option<(Moment, Step)> {
        self.last_step
    }

    /// A request is about to get slots; `running` are in use so far.
    pub(crate) fn pass(&mut self, now: Moment, running: u32) {
        self.law.pass(now, running);
    }

    /// Whether the slots that are free now are kept from the requests that wait: time in which they are
    /// says nothing of an idle origin.
    pub(crate) fn note_kept(&mut self, now: Moment, kept: bool, running: u32) {
        let was_kept = std::mem::replace(&mut self.kept, kept);
        if kept || was_kept {
            self.law.pass(now, running);
            self.law.keep(kept, running);
        }
    }

    /// A request gave its slots back; see [`Law::finished`].
    pub(crate) fn finished(&mut self, completion: &Completion<'_>) {
        let step = self.law.finished(completion);
        self.take(completion.now, step);
    }

    /// A sensor sent a reading.
    pub(crate) fn observe(&mut self, now: Moment, reading: &Reading<'_>) {
        let step = self.law.observe(now, reading);
        self.take(now, step);
    }

    /// The limit has other bounds from now on; what the law has learned stays.
    pub(crate) fn set_bounds(&mut self, now: Moment, slots: &Slots) {
        self.bounds = slots.bounds();
        self.law.set_bounds(now, &self.bounds);
        self.take(now, Some(Step { slots: self.law.slots(), cause: Cause::Adjusted }));
    }

    fn take(&mut self, now: Moment, step: Option<Step>) {
        let Some(step) = step else { return };
        let slots = self.bounds.clamp(step.slots);
        if slots != self.slots {
            self.slots = slots;
            self.last_step = Some((now, Step { slots, ..step }));
        }
    }

    /// Classes have other numbers from now on.
    pub(crate) fn renumbered(&mut self) {
        self.law.renumbered();
    }
}
