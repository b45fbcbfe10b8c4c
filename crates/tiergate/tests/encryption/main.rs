//! TLS on both sides.

#[path = "../support/mod.rs"]
mod support;

mod origin_tls;
mod tls;
mod tls_clients;
mod tls_revocation;
