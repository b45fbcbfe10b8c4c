//! The world: one event loop in which clients, the gate and the server meet.

mod door;
mod ends;
mod request;
mod run;
mod send;
mod sessions;
mod state;

pub(crate) use state::World;
