//! Scheduling: which class's longest waiter gets the next slot.

pub mod strict;

/// One class's part in a scheduling decision.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Requests that wait.
    pub waiting: u32,
    /// Slots held.
    pub running: u32,
    /// Share of the slots that the class is sure of, 0.0 to 1.0.
    pub minimum: f64,
}
