//! Admission: whether a request that finds no free slot may wait for one.

pub mod feasible;
pub mod importance;
pub mod session;
