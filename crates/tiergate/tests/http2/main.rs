//! Clients in one process with the gateway, hyper as the origin: the cases of one table over HTTP/1.1 and
//! HTTP/2 (`both`), and what only HTTP/2 has, by the `h2` crate's client, curl and h2load.

mod blocking;
mod both;
mod forwarding;
mod limits;
mod origin;
mod peers;
mod queueing;
mod side;
mod signals;
mod slow;
mod streams;
mod world;
