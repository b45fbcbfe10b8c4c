//! `tiergate agent`: reads sensors beside an origin on another machine, and shows the readings to gateways that ask for them.
//!
//! Readings are taken once a period, however often they are asked for; an answer only shows the latest ([`Board`]). Nothing is pushed, and
//! the agent knows no gateway.

mod board;
mod server;

pub(crate) use board::Board;
pub(crate) use server::{Access, serve};
