//! The gateway.

pub mod admin;
mod agent;
pub mod budget;
pub mod buffers;
mod calibrate;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod connections;
pub mod dashboard;
pub mod date;
#[cfg(feature = "degrade")]
pub mod degrade;
pub mod door;
pub mod geo;
pub mod import;
pub mod lanes;
pub mod link;
pub mod listen;
#[cfg(feature = "memory")]
pub mod memory;
pub mod observe;
pub mod observed;
pub mod orca;
pub mod origin;
pub mod rate_limit;
mod request;
pub mod respond;
pub mod reverse_dns;
pub mod run;
pub mod saved_syn;
pub mod secrets;
pub mod seldom;
pub mod sensors;
pub mod session;
pub mod shared;
mod side_http;
pub mod simulate;
pub mod stored;
pub mod stream;
pub mod tally;
pub mod tcp_info;
pub mod ticks;
pub mod timers;
pub mod tls;
pub mod tokens;
