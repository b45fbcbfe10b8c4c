//! The admin listener: health, readiness, metrics, status, configuration, refusals, reload.
//!
//! It shows the state of other parts ([`Context`]) and decides nothing. It is bound to loopback unless the
//! policy says otherwise, has no authentication of its own, and defends a loopback address against
//! web pages that request it ([`guard`]). Everything is bounded: connections, heads, bodies, time.

mod context;
pub mod control;
mod guard;
mod index;
pub mod last_change;
mod mask;
mod routes;
mod server;
pub mod status;
#[cfg(test)]
mod tests;

pub use context::{ConfigInForce, Context, Phase, Reload, unready};
pub use server::{bind, serve, spawn};
