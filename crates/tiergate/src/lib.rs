//! The gateway.

pub mod config;
pub mod forwarded;
pub mod http1;
pub mod proxy_protocol;
