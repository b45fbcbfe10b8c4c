//! What classes have of the link, for `/status`, metrics and `tiergate top`.

use serde::{Deserialize, Serialize};
use tiergate_core::class::ClassId;
use tiergate_core::plan::Plan;
use tiergate_core::transmit::Scheduler;

/// A class that takes turns on the link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkPart {
    /// The class.
    pub class: String,
    /// The part of the link that it has reserved, 0 to 1.
    pub reserved: f64,
    /// Whether it also has its part of what is left.
    pub extra: bool,
    /// How large that part is, relative to the others'.
    pub weight: f64,
    /// Bytes on the wire that it has had in its turns, whether or not its clients were there to take them.
    pub sent_bytes: u64,
}

/// What each class has of the link; empty: only the background takes turns.
pub(super) fn of(schedule: &Scheduler, plan: &Plan) -> Vec<LinkPart> {
    let part = |class: ClassId, name: &str| {
        let account = schedule.of(class).filter(|_| schedule.is_shared())?;
        let share = account.share();
        Some(LinkPart {
            class: name.to_owned(),
            reserved: share.part(),
            extra: share.extra,
            weight: share.weight,
            sent_bytes: account.sent(),
        })
    };
    let classes = plan.class_ids().iter().zip(&plan.classes);
    classes.filter_map(|(id, class)| part(*id, &class.name)).collect()
}
