//! Refusals: what the client is told, and what becomes of its connection.

use super::answer::RefusalAnswer;
use super::path::Request;
use crate::client::peer::Peer;
use crate::client::seam::Client;
use crate::config::meant::RefusalConnection;
use crate::respond::{Advice, Format, Template};
use crate::shared::Config;
use tiergate_core::gate::Refused;
use tiergate_core::reason::Reason;

impl<C: Client> Request<'_, '_, C> {
    /// Answers with a refusal.
    pub(super) async fn refuse(&mut self, refused: &Refused, format: Format) {
        let policy = &self.config.policy;
        self.record.reason = Some(refused.reason);
        self.record.policer = refused.policer.map(|(policer, _)| policer);
        if let Some(session) = &self.facts.session {
            session.refused();
        }
        let rule = self.facts.arrival.rule;
        let template = self.config.refusals.template(refused.reason, rule, format);
        let refusal = RefusalAnswer {
            facts: self.facts,
            template,
            advice: Advice { id: self.facts.told_id(policy), ..Advice::of(policy, refused) },
            connection: connection_after(self.config, self.client.peer(), refused.reason, template),
            ends_connection: ends_connection(self.config, self.client.peer(), refused.reason),
            draining: self.shared.is_draining(),
        };
        if refusal.connection != RefusalConnection::Reset {
            self.record.status = refusal.template.status;
        }
        self.mark();
        self.record.sent = self.client.put_refusal(&refusal);
        self.account();
        self.client.finish_refusal(&refusal, &policy.timeouts).await;
    }
}

/// Whether a refusal is meant for the connection that its request came by: clients that are shed or
/// blocked shall not go on over it. That of a trusted peer, many clients' connection, is not closed because
/// of one of them; but where connections are short, it goes like any other.
fn ends_connection(config: &Config, peer: &Peer, reason: Reason) -> bool {
    match reason {
        Reason::ConnectionsFull => true,
        Reason::Shed | Reason::Blocked => !peer.is_trusted(config),
        _ => false,
    }
}

/// What a refusal does with the connection.
fn connection_after(
    config: &Config,
    peer: &Peer,
    reason: Reason,
    template: &Template,
) -> RefusalConnection {
    let usual = config.policy.refusal.connection;
    match (reason, ends_connection(config, peer, reason)) {
        (Reason::Shed, true) => config.policy.shed,
        (_, true) if usual == RefusalConnection::Keep => RefusalConnection::Close,
        _ if template.is_said && usual == RefusalConnection::Reset => RefusalConnection::Close,
        _ => usual,
    }
}
