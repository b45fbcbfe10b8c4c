//! What never became a request: heads that cannot be understood, and connections that fail before one. They are counted where they fail, and have
//! lines in the access log, of which there are a bounded number a second.

use super::account;
use crate::client::seam::Client;
use crate::clock;
use crate::observe::access_log::Entry;
use crate::observe::counters::Protocol;
use crate::shared::{Config, Shared};
use crate::tls;
use crate::trace::ids::RequestIds;
use std::io;
use std::net::IpAddr;
use std::time::SystemTime;
use tiergate_core::names::PoolId;
use tiergate_core::time::Moment;

/// Something that is no request.
pub(crate) struct Stray<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) config: &'a Config,
    /// When it began, as far as that is known.
    pub(crate) since: Moment,
}

/// What the log says of it.
#[derive(Clone, Copy, Debug, Default)]
struct Facts<'a> {
    protocol: Option<Protocol>,
    status: u16,
    sent: super::record::Written,
    request_id: &'a [u8],
    cause: &'a str,
}

/// Logs a connection that has failed before its first request.
pub(crate) fn connection_failed(
    shared: &Shared,
    client: IpAddr,
    since: Moment,
    what: &str,
    error: &io::Error,
) {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    // Load balancers look so whether a port is open, some by a reset.
    if !matches!(error.kind(), UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe) {
        let stray = Stray { shared, config: &shared.config.load(), since };
        stray.failed(client, what, &tls::reason(error));
    }
}

impl Stray<'_> {
    /// Answers a client with an error of ours.
    pub(crate) async fn fail<C: Client>(&self, client: &mut C, status: u16, why: &'static str) {
        self.shared.tally().bad_request(status);
        let ids = RequestIds::of_none(&self.config.policy);
        let told = ids.as_ref().and_then(|it| it.told(self.config.policy.request_id.as_ref()));
        if self.is_logged() {
            let sent = client.error_len(status, why, false, told);
            let request_id = told.map_or(&b""[..], |told| told.id);
            let facts = Facts { protocol: client.carrier(), status, sent, request_id, cause: why };
            self.log(client.peer().address.ip(), &facts);
        }
        client.fail(status, why, false, told, &self.config.policy.timeouts).await;
    }

    /// A client has been answered so by what reads its protocol.
    pub(crate) fn answered(&self, client: IpAddr, protocol: Protocol, status: u16, cause: &str) {
        self.shared.tally().bad_request(status);
        if self.is_logged() {
            let protocol = Some(protocol);
            self.log(client, &Facts { protocol, status, cause, ..Facts::default() });
        }
    }

    /// A client has broken the protocol: its connection, or stream, ends without an answer.
    pub(crate) fn broke(&self, client: IpAddr, protocol: Protocol, why: &dyn std::fmt::Display) {
        self.shared.tally().protocol_error(protocol);
        if self.is_logged() {
            let (protocol, cause) = (Some(protocol), why.to_string());
            self.log(client, &Facts { protocol, cause: &cause, ..Facts::default() });
        }
    }

    /// A client has left in the middle of a head.
    pub(crate) fn left<C: Client>(&self, client: &C) {
        // One that has sent nothing has only closed its connection.
        if client.held_len() > 0 && self.is_logged() {
            let cause = "the client left before its request was whole";
            let facts = Facts { protocol: client.carrier(), cause, ..Facts::default() };
            self.log(client.peer().address.ip(), &facts);
        }
    }

    /// A connection has failed before its first request.
    pub(crate) fn failed(&self, client: IpAddr, what: &str, why: &dyn std::fmt::Display) {
        if self.is_logged() {
            let cause = format!("{what}: {why}");
            self.log(client, &Facts { cause: &cause, ..Facts::default() });
        }
    }

    fn is_logged(&self) -> bool {
        self.shared.log.load().is_some()
    }

    fn log(&self, client: IpAddr, facts: &Facts<'_>) {
        let Facts { protocol, status, sent, request_id, cause } = *facts;
        let duration = clock::now().since(self.since);
        account::line(
            self.shared,
            &Entry {
                time: SystemTime::now() - duration,
                client: client.to_canonical(),
                protocol,
                status,
                sent_bytes: sent.bytes,
                body_bytes: sent.body,
                duration,
                cause,
                slots: self.shared.door.slots(PoolId::DEFAULT),
                request_id,
                ..Entry::EMPTY
            },
        );
    }
}
