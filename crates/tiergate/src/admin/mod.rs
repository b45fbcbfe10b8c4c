//! The admin listener: health, readiness, metrics, status, configuration, refusals, reload, settings.
//!
//! It shows the state of other parts ([`Context`]) and decides nothing. It is bound to loopback unless the
//! policy says otherwise, asks for a token only where settings are changed, and defends a loopback address against
//! web pages that request it ([`guard`]). Everything is bounded: connections, heads, bodies, time.

pub mod adaptation;
mod context;
pub mod control;
pub(crate) mod guard;
pub mod incident;
pub mod last_change;
mod live;
mod mask;
pub mod observed;
mod page;
mod quantiles;
mod routes;
mod server;
pub mod settings;
pub mod status;
#[cfg(test)]
mod tests;
mod token;
mod trail;

pub use context::{
    CertificateStatus, ConfigInForce, Context, InForce, MemoryBounds, Phase, Reload, unready,
};
pub use server::{bind, serve, spawn};
pub use token::AdminTokens;
