//! Triggers: a class is refused while some backlog is long, so that the classes above it wait less.
//!
//! A trigger names a backlog (of one class, of several, of all) and a length at which the class begins
//! to be refused; it goes on until the backlog is shorter than a second length. With both the same this
//! is WebQoS's rule: "until the total number of queued requests falls below j".
//!
//! Requests of running sessions are spared ("existing sessions should be maintained"): what bounds them is the length of
//! the queue, their deadline, and how many of one session go first.
//!
//! Source: WebQoS §4.3 (j of all queued, k of premium queued). Any backlog and hysteresis: ours.

use crate::names::ClassId;

/// Classes whose waiting requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Backlogs {
    /// Every class, and what still waits in classes that are gone.
    All,
    /// These.
    Of(Vec<ClassId>),
}

/// When a class is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// Whose waiting requests count.
    pub of: Backlogs,
    /// From so many waiting on; at least 1.
    pub waiting: u32,
    /// Until there are fewer than so many; 1 to `waiting`.
    pub until: u32,
}

impl Trigger {
    /// Most triggers of one class.
    pub const COUNT_MAX: usize = 8;
}
