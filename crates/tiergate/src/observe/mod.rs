//! Observability: counters, metrics, the access log, recent refusals.
//!
//! Nothing here makes decisions or delays a request: counters are relaxed atomics, log lines go to a
//! writer thread through a bounded channel, refusals are kept in a ring whose lock is only tried. What
//! does not fit is dropped and counted.

pub mod access_log;
pub mod answers;
pub mod counters;
pub mod history;
pub mod hour;
pub mod metrics;
pub mod program_log;
pub mod refusals;
pub mod server;
pub mod snapshot;
pub mod words;
