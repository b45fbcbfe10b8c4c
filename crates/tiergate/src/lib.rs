//! The gateway.

pub mod admin;
pub mod config;
pub mod dashboard;
pub mod observe;
