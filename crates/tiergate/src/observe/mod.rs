//! Observation: what the gateway counts, logs and remembers, and how it is written down.
//!
//! Nothing here decides, and nothing here may hold up a request: counters are relaxed atomics, log
//! lines go to a writer thread through a bounded channel, refusals are kept in a ring whose lock is
//! only tried. What does not fit is dropped and counted.

pub mod access_log;
pub mod counters;
pub mod history;
pub mod metrics;
pub mod refusals;
pub mod server;
pub mod snapshot;
pub mod words;
