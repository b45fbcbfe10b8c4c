//! What the simulator needs of the gateway: its policy applied to requests that nobody sent.
//!
//! Used by the command line alone; nothing of the request's path comes here.

mod replay;
mod sort;

pub use replay::{Log, Pace, replay};
pub use sort::Sorter;

use crate::config::meant::Policy;
use tiergate_sim::scenario::for_policy::Gateway;

/// What of a policy a trial is made of.
pub fn gateway(policy: &Policy) -> Gateway {
    Gateway {
        plan: policy.plan.clone(),
        sessions: policy.session.is_some(),
        origin_timeout: policy.timeouts.response_head,
        on_cancel: policy.origin.on_cancel,
    }
}
