//! What goes through the gateway: heads, bodies, streams, and what goes wrong on the way.

#[path = "../support/mod.rs"]
mod support;

mod degrade;
mod grpc;
mod large_bodies;
mod link;
mod malformed_wire;
mod origin_faults;
mod origin_http2;
mod slow_clients;
mod spooling;
mod websocket;
