//! Bounds that hold whatever clients do.

#[path = "../support/mod.rs"]
mod support;

mod access_log;
mod connections;
mod crowded;
mod descriptors;
mod half_closed;
mod interim;
mod port;
mod program_log;
