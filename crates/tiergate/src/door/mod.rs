//! The door: the one lock around the gate, and what a request does there.
//!
//! It knows neither a runtime nor a clock: moments are arguments, tasks are woken by
//! [`std::task::Waker`], and what is given back when a guard is dropped is timed by the function that the
//! door was made with. Its driver calls [`Door::tick`] when the gate wants it.

mod arrive;
mod blocks;
mod lock;
mod slot_guard;
#[cfg(test)]
mod tests;
mod waiting;

pub use arrive::{Entry, Left};
pub use blocks::BlockNews;
pub use lock::Door;
pub use slot_guard::{Guard, SlotGuard};
pub use waiting::{Settled, Waiting};
