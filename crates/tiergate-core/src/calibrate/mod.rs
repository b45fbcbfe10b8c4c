//! How much an origin can do, from a load that rises step by step: capacity, the concurrency at the knee, the resource that
//! saturates first, and the cost of a request and of a byte.
//!
//! ```text
//!  Slice ─▶ Ramp ─▶ Order::{GoOn, Concurrency(n), End(why)}      what is done next
//!             └──▶ Steps ─▶ capacity ─▶ bottleneck               what it showed
//!                              └──────▶ fit                      a request, a MiB
//! ```
//!
//! The load is a closed loop: so many requests in progress, each replaced when its answer is complete. However slow the origin
//! becomes, no more than that many wait for it, which an open loop cannot promise. The number doubles until throughput no
//! longer grows, which is past the knee by at most a factor of two; then the knee is searched for below, and the load goes
//! back to it.
//!
//! | file | what it decides |
//! |---|---|
//! | `ramp` | how many requests are in progress next, and when it ends |
//! | `step` | throughput, latency and utilization of a step, with their error |
//! | `capacity` | capacity and knee, from all steps |
//! | `bottleneck` | which resource saturates, from the utilizations at capacity |
//! | `fit` | service time by request and by MiB, from the capacities of several sizes |
//! | `samples`, `usage` | latencies and utilizations |
//!
//! Source: Eggert and Heidemann (1999), 3: the bottleneck is the resource that saturates first under a rising load. Abdelzaher,
//! Shin and Bhatti (2002), 7.2: the service time of a size is the inverse of its maximum rate, a line through several sizes.

mod bottleneck;
mod capacity;
mod fit;
mod ramp;
mod samples;
mod step;
mod usage;

pub use bottleneck::{Bottleneck, Finding, SATURATED, bottleneck};
pub use capacity::{Capacity, capacity};
pub use fit::{Fit, Point, fit};
pub use ramp::{End, Order, Ramp, Settings};
pub use samples::Samples;
pub use step::{Slice, Step};
pub use usage::{Resource, Usage};
