//! The last change of a number of slots.

use crate::observe::server::ServerStatus;
use crate::observe::words::harmless;
use serde::{Deserialize, Serialize};
use tiergate_core::control::Step;
use tiergate_core::names::ServerId;
use tiergate_core::time::Moment;

/// A change of the number of slots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastChange {
    /// How long ago. Seconds.
    pub age_seconds: f64,
    /// Slots since; with limits by server, of all servers that may get requests.
    pub slots: u32,
    /// Why: the name of a cause.
    pub cause: String,
    /// The server whose limit it was, and how many slots that has since; `None`: the servers share a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// See [`LastChange::server`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_slots: Option<u32>,
}

/// The last change, of which the gate says so much.
pub(super) fn last_change(step: Option<(Moment, Step)>, now: Moment) -> Option<LastChange> {
    step.map(|(at, step)| LastChange {
        age_seconds: now.since(at).as_secs_f64(),
        slots: step.slots,
        cause: step.cause.name().to_owned(),
        server: None,
        server_slots: None,
    })
}

impl LastChange {
    /// The same of the limit of a server of a pool, which has so many slots since.
    pub(super) fn of_server(
        self,
        id: ServerId,
        slots: u32,
        pool: &str,
        origin: &[ServerStatus],
    ) -> Self {
        let server = origin.iter().find(|it| it.id == Some(id) && it.pool == pool);
        // It may have gone since the gate was looked at.
        let server = server.map(|it| it.address.clone());
        LastChange { server_slots: server.as_ref().map(|_| slots), server, ..self }
    }

    /// What was set to how many, in words.
    pub fn what(&self) -> String {
        match (&self.server, self.server_slots) {
            (Some(server), Some(slots)) => format!("limit of {} set to {slots}", harmless(server)),
            _ => format!("limit set to {}", self.slots),
        }
    }
}
