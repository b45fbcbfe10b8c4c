//! The fixed limit: a number of slots that the policy names.

use super::law::{Law, OriginLoad, Step};
use crate::class::ClassId;
use crate::outcome::Outcome;
use crate::time::Moment;

/// Always the same number of slots.
#[derive(Debug)]
pub(super) struct Fixed {
    slots: u32,
}

impl Fixed {
    pub(super) fn new(slots: u32) -> Self {
        Fixed { slots: slots.max(1) }
    }
}

impl Law for Fixed {
    fn slots(&self) -> u32 {
        self.slots
    }

    fn finished(
        &mut self,
        _now: Moment,
        _class: ClassId,
        _admitted: Moment,
        _outcome: &Outcome,
        _load: OriginLoad,
    ) -> Option<Step> {
        None
    }
}
