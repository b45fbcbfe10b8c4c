//! Earliest deadline first, whatever child the request belongs to; those that are late already go after
//! all others.
//!
//! On one slot it meets every deadline whenever any order could that does not break requests off and
//! knows no more of the future (Jackson 1955; Dertouzos 1974), provided that inside a class the order is
//! by deadline too ([`crate::class::Order::Deadline`]).
//!
//! Source: WebQoS §4.4 ("schedules based on the deadline for completion of each request").

use super::Next;
use super::compare::Compare;

/// The policy; it keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline;

impl Compare for Deadline {
    fn goes_before(&self, one: &Next, other: &Next) -> bool {
        let key = |next: &Next| (next.late, next.deadline, next.arrived, next.number);
        key(one) < key(other)
    }
}
