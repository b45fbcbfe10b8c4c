//! The limit in force: a law, and what it said last.

use super::law::{Law, OriginLoad, Step};
use crate::class::ClassId;
use crate::outcome::Outcome;
use crate::time::Moment;

/// The number of slots in force and the law that finds it.
#[derive(Debug)]
pub(crate) struct Limit {
    law: Box<dyn Law>,
    /// What the law says. Every decision asks for it, so that it stands here.
    slots: u32,
    last_step: Option<(Moment, Step)>,
    /// Whether slots are free that no waiting request may have.
    kept: bool,
}

impl Limit {
    pub(crate) fn new(law: Box<dyn Law>) -> Self {
        Limit { slots: law.slots(), law, last_step: None, kept: false }
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
    pub(crate) fn finished(
        &mut self,
        now: Moment,
        class: ClassId,
        admitted: Moment,
        outcome: &Outcome,
        load: OriginLoad,
    ) {
        if let Some(step) = self.law.finished(now, class, admitted, outcome, load) {
            self.slots = step.slots;
            self.last_step = Some((now, step));
        }
    }

    /// Classes have other numbers from now on.
    pub(crate) fn renumbered(&mut self) {
        self.law.renumbered();
    }
}
