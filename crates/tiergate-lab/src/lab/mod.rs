//! Experiments: servers, and the load of the papers.
#![allow(dead_code)]

pub(crate) mod httperf;
pub(crate) mod server;
pub(crate) mod surge;
