//! The plan: the settings of a gate, as a whole; what a reload replaces.
//!
//! A [`Spec`] is what is wanted, and may be wrong; a [`Plan`] is built of it and cannot be. The plan
//! knows its classes, sites, policers and rules by ids that outlast it ([`crate::names`]), and in the
//! order that it gives them.
//!
//! | file | what it has |
//! |---|---|
//! | `spec` | the settings |
//! | `build`, `built` | how a plan is built of them, and what it is |
//! | `places` | ids in a plan's order, and back |
//! | `check` | what the gate relies on |

mod build;
mod built;
mod check;
mod places;
mod spec;
mod split;

pub use built::{Plan, RuleLabel};
pub use places::Places;
pub use spec::{PoolSettings, ResourceSettings, Spec};
pub use split::Split;
