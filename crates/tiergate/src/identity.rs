//! Who the client of a request is, beyond its address: what rules are shown of it.
//!
//! Nothing here waits. What is not known, or not proven, is shown as unknown.

use crate::clock;
use crate::names::Name;
use crate::shared::Config;
use std::net::IpAddr;

/// What is known of a request's client. Kept while the rules look at it.
#[derive(Debug, Default)]
pub struct Who {
    name: Option<Name>,
}

impl Who {
    /// What is known of a client now. Costs nothing if no rule asks for it.
    pub fn of(config: &Config, client: IpAddr) -> Self {
        Who { name: config.names.as_ref().and_then(|names| names.of(client, clock::recent())) }
    }

    /// Its name by reverse DNS; empty: unknown.
    pub fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default().as_bytes()
    }
}
