//! The gateway.

pub mod config;
pub mod observe;
