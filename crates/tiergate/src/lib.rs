//! The gateway.

pub mod config;
