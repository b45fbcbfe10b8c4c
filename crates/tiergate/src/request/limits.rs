//! The policy's bounds, as the parsers take them.

use crate::budget::Allowance;
use crate::config::meant::{Limits, Policy};
use crate::shared::Shared;
use tiergate_wire::http1::HeadLimits;

/// The bounds on a request's head.
pub(crate) fn of_request_heads(limits: &Limits) -> HeadLimits {
    let Limits { request_head_max, target_len_max, fields_max, .. } = *limits;
    HeadLimits { head_len_max: request_head_max, target_len_max, fields_max }
}

/// The bounds on the head of an origin's answer.
pub(super) fn of_response_heads(limits: &Limits) -> HeadLimits {
    let Limits { response_head_max, fields_max, .. } = *limits;
    HeadLimits { head_len_max: response_head_max, target_len_max: 0, fields_max }
}

/// What an answer may take of the memory for slow clients.
pub(super) fn allowance<'c>(shared: &'c Shared, policy: &Policy) -> Allowance<'c> {
    Allowance {
        budget: &shared.counters.buffered,
        total_max: policy.limits.buffers_max,
        own_max: policy.buffering.response_max,
    }
}
