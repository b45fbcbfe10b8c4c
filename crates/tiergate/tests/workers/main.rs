//! Workers that the gateway starts: they come back when they are killed, get what the policy says of the processors, follow
//! reloads, and end with the gateway. Counts and ratios only.

#[path = "../support/mod.rs"]
mod support;

mod doctor;
mod ends;
mod house;
mod priority;
mod restarts;
mod shares;
