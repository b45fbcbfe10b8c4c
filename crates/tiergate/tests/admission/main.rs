//! Which requests get a slot, when, and which are refused.

#[path = "../support/mod.rs"]
mod support;

mod adaptation;
mod background;
mod diffserver;
mod greedy;
mod inbound;
mod lanes;
mod newcomers;
mod observed;
mod observed_parts;
mod policing;
mod pools;
mod resources;
mod server_limits;
mod service_target;
mod sessions;
