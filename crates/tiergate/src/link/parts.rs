//! What classes have of the link, for whoever looks from outside.

use super::Link;
use serde::{Deserialize, Serialize};
use tiergate_core::class::ClassId;
use tiergate_core::plan::Plan;

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
    /// Bytes on the wire that it has sent in its turns, reckoned from what was written.
    pub sent_bytes: u64,
}

impl Link {
    /// What each class has of it; empty: only the background takes turns, or the link is not known.
    pub fn parts(&self, plan: &Plan) -> Vec<LinkPart> {
        let part = |class: ClassId, name: &str| {
            let of = |it: &tiergate_core::transmit::Account| LinkPart {
                class: name.to_owned(),
                reserved: it.share().part(),
                extra: it.share().extra,
                weight: it.share().weight,
                sent_bytes: it.sent(),
            };
            self.read(|schedule| schedule.of(class).filter(|_| schedule.is_shared()).map(of))
        };
        let classes = plan.class_ids().iter().zip(&plan.classes);
        classes.filter_map(|(id, class)| part(*id, &class.name).flatten()).collect()
    }
}
