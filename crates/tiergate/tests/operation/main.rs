//! What operators do with a gateway: start, stop, watch, predict.

#[path = "../support/mod.rs"]
mod support;

mod drain;
mod remote_sensors;
mod sensors;
mod signals;
mod simulate;
mod systemd;
mod upgrade;
