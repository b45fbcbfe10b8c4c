//! What requests are known by, here and elsewhere: their ids ([`ids`]), and their spans on the way to a collector.
//!
//! A request's spans are made at its end, on its own thread, and only if it is sampled ([`span`]); they wait in a bounded queue for a thread of its
//! own ([`tracer`]). When the queue is full or the collector does not take them, they are dropped and counted: requests never wait, and nothing
//! is sent twice ([ADR 51](../../../../docs/adr/0051-spans-by-otlp.md)).

mod collector;
pub(crate) mod ids;
pub(crate) mod span;
mod tracer;

pub use tracer::{TraceCounters, Tracer};
