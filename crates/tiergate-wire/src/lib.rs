//! The wire formats that the gateway reads and writes: HTTP/1.1, forwarding fields, the PROXY protocol.
//!
//! Pure: bytes in, values out. Nothing here does I/O, reads a clock, logs, spawns or is unsafe. Everything
//! parsed comes from clients and origins, so every parser has a fuzzer.

#![forbid(unsafe_code)]

pub mod forwarded;
pub mod http1;
pub mod proxy_protocol;
pub mod trace_context;
