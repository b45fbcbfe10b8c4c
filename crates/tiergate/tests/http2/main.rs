//! HTTP/2 from clients: the `h2` crate's client, curl and h2load before the gateway, hyper behind it.

mod blocking;
mod forwarding;
mod limits;
mod origin;
mod peers;
mod queueing;
mod signals;
mod slow;
mod streams;
mod world;
