//! The gateway.

pub mod config;
pub mod http1;
