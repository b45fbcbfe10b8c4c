//! Who gets the next slot: what policy files say of it, and what the gateway makes of that.

#[path = "../support/mod.rs"]
mod support;

mod blocking;
mod deadlines;
mod explained;
mod faults;
mod preempted;
mod reloads;
mod shares;
mod streams;
mod work;
