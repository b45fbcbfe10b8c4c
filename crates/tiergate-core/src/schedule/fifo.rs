//! First in, first out: the request that came first, whatever child it belongs to. What the other policies
//! are compared with.

use super::Next;
use super::compare::Compare;

/// The policy; it keeps nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fifo;

impl Compare for Fifo {
    fn goes_before(&self, one: &Next, other: &Next) -> bool {
        (one.arrived, one.number) < (other.arrived, other.number)
    }
}
