//! What rules are shown of a request's client, beyond its address.
//!
//! Nothing here waits. What is not known, or not proven, is shown as unknown.

use crate::clock;
use crate::geo::Place;
use crate::reverse_dns::Name;
use crate::shared::{Config, Shared};
use crate::tokens::Credentials;
use std::net::IpAddr;
use std::sync::Arc;
use tiergate_core::request::Field;

/// What is known of a request's client. Kept while the rules look at it.
#[derive(Debug)]
pub(super) struct ClientIdentity<'c> {
    name: Option<Name>,
    subject: &'c [u8],
    /// Where its address is.
    pub(super) place: Place,
}

/// The subject of a request that is decided twice, so that its token is verified and counted once.
#[derive(Debug)]
pub(super) struct ProvenSubject {
    subject: Box<[u8]>,
    /// What it was proven by.
    by: Arc<Credentials>,
}

impl<'c> ClientIdentity<'c> {
    /// What is known of a client now. Costs nothing if no rule asks for it. `claims` is room for a
    /// token's content. `proven`: what was found when the request was decided first; it holds unless a reload has read the
    /// credentials anew, by which the subject is then to be proven.
    pub(super) fn of(
        shared: &Shared,
        config: &'c Config,
        client: IpAddr,
        fields: &[Field<'_>],
        claims: &'c mut Vec<u8>,
        proven: Option<&'c ProvenSubject>,
    ) -> Self {
        let credentials = &config.policy.credentials;
        let seen = |proof| shared.tally().credentials[proof as usize].one();
        let subject = match proven {
            None => credentials.subject(fields, claims, seen),
            Some(proven) if Arc::ptr_eq(&proven.by, credentials) => &proven.subject[..],
            Some(_) => credentials.subject(fields, claims, |_| {}),
        };
        ClientIdentity {
            name: config.reverse_dns.as_ref().and_then(|dns| dns.name_of(client, clock::recent())),
            place: config.policy.geo.of(client),
            subject,
        }
    }

    /// Its subject, for when the request is decided again.
    pub(super) fn proven(&self, config: &Config) -> ProvenSubject {
        ProvenSubject { subject: self.subject.into(), by: config.policy.credentials.clone() }
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
