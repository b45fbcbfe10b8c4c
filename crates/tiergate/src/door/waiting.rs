//! A request in the backlog.

use super::lock::Door;
use super::slot_guard::SlotGuard;
use std::future::poll_fn;
use std::task::{Context, Poll};
use tiergate_core::gate::{Arrival, Claim, Refused, Ticket};
use tiergate_core::stored::Instead;

/// How a wait ended that was not refused.
#[derive(Debug)]
pub enum Settled<'d> {
    /// With the slot.
    Slot(SlotGuard<'d>),
    /// With the copy that was at hand.
    Stored(Instead),
}

/// A request in the backlog. Dropped, it leaves.
#[derive(Debug)]
pub struct Waiting<'d> {
    door: &'d Door,
    ticket: Option<Ticket>,
}

impl<'d> Waiting<'d> {
    pub(super) fn new(door: &'d Door, ticket: Ticket) -> Self {
        Waiting { door, ticket: Some(ticket) }
    }

    /// The end of the wait of the request that arrived so: its slot, or the copy that was at hand, if `has_copy` says
    /// that it may still be served. `gone` is polled too; once it is ready the request leaves the backlog, and `None` is returned.
    /// Cancel safe.
    pub async fn wait(
        mut self,
        arrival: &Arrival,
        has_copy: impl Fn() -> bool,
        mut gone: impl FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Option<Result<Settled<'d>, Refused>> {
        poll_fn(|context| {
            if let Poll::Ready(settled) = self.poll_settled(arrival, &has_copy) {
                return Poll::Ready(Some(settled));
            }
            gone(context).map(|()| None)
        })
        .await
    }

    fn poll_settled(
        &mut self,
        arrival: &Arrival,
        has_copy: impl Fn() -> bool,
    ) -> Poll<Result<Settled<'d>, Refused>> {
        let ticket = self.ticket.expect("polled only until it is settled");
        let mut gate = self.door.gate();
        let settled = match gate.claim_with_copy(ticket, has_copy) {
            Err(instead) => Ok(Settled::Stored(instead)),
            Ok(Claim::Waiting) => return Poll::Pending,
            Ok(Claim::Admitted(slot)) => Ok(Settled::Slot(SlotGuard::new(self.door, slot))),
            Ok(Claim::Rejected(reason)) => Err(gate.refused(self.door.now(), arrival, reason)),
        };
        drop(gate);
        self.ticket = None;
        Poll::Ready(settled)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let now = self.door.now();
            let mut gate = self.door.gate();
            gate.cancel(now, ticket);
            self.door.settle(gate, now);
        }
    }
}
