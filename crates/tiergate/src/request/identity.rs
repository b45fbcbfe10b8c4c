//! What rules are shown of a request's client, beyond its address.
//!
//! Nothing here waits. What is not known, or not proven, is shown as unknown.

use crate::clock;
use crate::geo::Place;
use crate::reverse_dns::Name;
use crate::shared::{Config, Shared};
use std::net::IpAddr;
use tiergate_core::request::Field;

/// What is known of a request's client. Kept while the rules look at it.
#[derive(Debug)]
pub(super) struct ClientIdentity<'c> {
    name: Option<Name>,
    subject: &'c [u8],
    /// Where its address is.
    pub(super) place: Place,
}

impl<'c> ClientIdentity<'c> {
    /// What is known of a client now. Costs nothing if no rule asks for it. `claims` is room for a
    /// token's content.
    pub(super) fn of(
        shared: &Shared,
        config: &'c Config,
        client: IpAddr,
        fields: &[Field<'_>],
        claims: &'c mut Vec<u8>,
    ) -> Self {
        let seen = |proof| shared.tally().credentials[proof as usize].one();
        ClientIdentity {
            name: config.reverse_dns.as_ref().and_then(|dns| dns.name_of(client, clock::recent())),
            place: config.policy.geo.of(client),
            subject: config.policy.credentials.subject(fields, claims, seen),
        }
    }

    /// The subject of a verified token or key; empty: there is none.
    pub(super) fn subject(&self) -> &[u8] {
        self.subject
    }

    /// Its name by reverse DNS; empty: unknown.
    pub(super) fn name(&self) -> &[u8] {
        self.name.as_deref().unwrap_or_default().as_bytes()
    }
}
