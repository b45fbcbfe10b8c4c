//! Every decision of Tiergate, and nothing else.
//!
//! A request: classify → admit → schedule → account. A signal: sense → control. They meet in
//! [`gate::Gate`]. Nothing here does I/O, reads a clock, takes a lock, logs, spawns or is unsafe:
//! `now` is an argument, verdicts and settings are return values.

#![forbid(unsafe_code)]

pub mod account;
pub mod adapt;
pub mod adjust;
pub mod admit;
pub mod arrival;
mod backlog;
pub mod calibrate;
pub mod class;
pub mod classify;
mod collections;
pub mod control;
mod cost;
pub mod demux;
pub mod early;
pub mod fault;
pub mod gate;
pub mod headroom;
pub mod histogram;
pub mod incident;
pub mod mark;
mod named;
pub mod names;
pub mod native_histogram;
pub mod origin;
pub mod outcome;
pub mod plan;
pub mod reason;
pub mod request;
pub mod schedule;
pub mod sense;
pub mod shadow;
pub mod stored;
pub mod time;
pub mod trace;
pub mod transmit;
pub mod workers;
