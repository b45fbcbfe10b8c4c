//! Admission: whether a request may have a slot, or wait for one.

pub mod block;
pub mod bucket;
pub mod connections;
pub(crate) mod demand;
pub mod feasible;
mod flow_buckets;
pub(crate) mod groups;
pub mod importance;
pub mod inbound;
pub(crate) mod lasting;
pub(crate) mod partition;
pub(crate) mod patience;
pub mod policer;
pub mod retry;
pub mod session;
pub(crate) mod sketch;
pub(crate) mod stall;
pub mod trigger;
pub(crate) mod triggers;
