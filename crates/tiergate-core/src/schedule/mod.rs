//! Scheduling: which class's next waiter gets the next slot; where there are several sites, which site's,
//! and then which class's of it.
//!
//! A policy ranks *children*: the classes of a site, or the sites. Each policy is one file and keeps one
//! law, but for those that keep nothing, which share one (`compare`); [`Schedule`] puts them together. A policy is told what happens and asked who is next:
//!
//! | the gate says | when |
//! |---|---|
//! | [`Scheduler::advance`] | before anything changes |
//! | [`Scheduler::pick`] | a slot may be given: to whom? Asked, nothing is given yet |
//! | [`Scheduler::granted`] | it was given |
//! | [`Scheduler::finished`] | it is back, and what the request really cost |
//! | [`Scheduler::next_change`] | when time alone will make another answer of it |

mod balance;
mod children;
mod compare;
mod fixed;
mod policy;
mod scheduler;
mod shared;
mod site;
mod strict;
mod terms;
mod tree;
mod weighted;

pub use crate::names::SiteId;
pub use children::Child;
pub use policy::Policy;
pub use scheduler::{Grant, Load, Next, Scheduler};
pub use site::Site;
pub use terms::{Costing, Terms};
pub use tree::Schedule;
