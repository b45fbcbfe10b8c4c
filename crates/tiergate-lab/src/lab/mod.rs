//! Experiments with Tiergate and its peers side by side.

// What runs the experiments calls these.
#![cfg_attr(not(test), allow(dead_code))]

pub(crate) mod agree;
pub(crate) mod page;
pub(crate) mod result;
