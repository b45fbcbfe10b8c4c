//! What a request holds while it is in progress: its slot; or, once it has become a stream, its place
//! among those.

use super::lock::Door;
use std::ops::Deref;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::gate::{Arrival, Claim, Lends, Refused, Slot, Stream, Ticket, Verdict};
use tiergate_core::names::ServerId;
use tiergate_core::outcome::{End, Outcome};
use tiergate_core::time::Moment;

/// A slot in use, or a stream that has none. Dropped, a slot goes back with the outcome noted last; if
/// none was, the client left.
#[derive(Debug)]
pub struct Guard<D: Deref<Target = Door>> {
    door: D,
    hold: Hold,
    /// The wait for a slot in place of one that is lent.
    again: Option<Ticket>,
    outcome: Outcome,
    /// The gate may ask for the slot before the request has ended.
    is_preemptible: bool,
    /// It waits for a slot of another server.
    is_moving: bool,
}

/// A guard that borrows the door.
pub type SlotGuard<'d> = Guard<&'d Door>;

#[derive(Debug)]
enum Hold {
    Slot(Slot),
    Stream(Stream),
    /// It was dropped, or handed over.
    Nothing,
}

impl<D: Deref<Target = Door>> Guard<D> {
    pub(super) fn new(door: D, slot: Slot) -> Self {
        let outcome = Outcome::without_answer(End::Cancelled);
        let (hold, again) = (Hold::Slot(slot), None);
        Guard { door, hold, again, outcome, is_preemptible: false, is_moving: false }
    }

    /// The same slot, held by way of another pointer to the same door. The task that held it is not woken any more.
    pub fn hand_over<E: Deref<Target = Door>>(mut self, door: E) -> Guard<E> {
        self.keep();
        self.waits_no_more();
        let mut hold = std::mem::replace(&mut self.hold, Hold::Nothing);
        if let Hold::Slot(slot) = &mut hold {
            self.door.gate().quickens(slot);
        }
        let (again, outcome) = (None, self.outcome);
        Guard { door, hold, again, outcome, is_preemptible: false, is_moving: false }
    }

    fn slot(&self) -> &Slot {
        match &self.hold {
            Hold::Slot(slot) => slot,
            _ => unreachable!("a request waits, and is answered, before it becomes a stream"),
        }
    }

    /// When the slot was granted.
    pub fn admitted(&self) -> Moment {
        self.slot().admitted()
    }

    /// The server is away, and the request tries again after so long.
    pub fn is_away(&mut self, pause: Duration) {
        let Hold::Slot(slot) = &mut self.hold else { return };
        let now = self.door.now();
        let mut gate = self.door.gate();
        gate.is_away(now, slot, now + pause);
        self.door.settle(gate, now);
    }

    /// The request is about to go to a server of the configuration that is in force now.
    pub fn goes_to_server(&mut self) {
        let Hold::Slot(slot) = &mut self.hold else { return };
        let now = self.door.now();
        self.door.gate().goes_to(now, slot);
    }

    /// The server whose slot it is, where each has a limit of its own.
    pub fn server(&self) -> Option<ServerId> {
        match &self.hold {
            Hold::Slot(slot) => slot.server(),
            _ => None,
        }
    }

    /// The request is to go to another server than these: ready when it has a slot there. Its own goes to the next meanwhile. The task
    /// is woken then.
    pub fn poll_transfer(&mut self, not_at: &[ServerId], context: &Context<'_>) -> Poll<()> {
        let Hold::Slot(slot) = &mut self.hold else { return Poll::Ready(()) };
        let now = self.door.now();
        let mut gate = self.door.gate();
        if !std::mem::replace(&mut self.is_moving, true) {
            gate.transfer(now, slot, not_at, context.waker().clone());
        }
        let is_transferred = gate.is_transferred(now, slot);
        self.is_moving = !is_transferred;
        self.door.settle(gate, now);
        if is_transferred { Poll::Ready(()) } else { Poll::Pending }
    }

    /// How long the request waited for it.
    pub fn waited(&self) -> Duration {
        self.slot().waited()
    }

    /// The head of the final answer arrived, of so many bytes.
    pub fn answered(&mut self, now: Moment, head_len: usize) {
        self.waits_no_more();
        self.outcome.first_byte = Some(now.since(self.admitted()));
        self.outcome.bytes = head_len as u64;
    }

    /// More of the answer's body came from the origin.
    pub fn brought(&mut self, len: usize) {
        self.outcome.bytes += len as u64;
    }

    /// The client has left; what its request still does at the origin goes on.
    pub fn left(&mut self, now: Moment) {
        if let Hold::Slot(slot) = &self.hold {
            self.outcome.left = Some(now.since(slot.admitted()));
        }
    }

    /// How it will have ended, unless something else is noted later.
    pub fn note(&mut self, end: End) {
        self.outcome.end = end;
    }

    /// How it has ended so far.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Whether it has become a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self.hold, Hold::Stream(_))
    }

    /// The request has become a stream, which may last for as long as its client stays: its slot goes to
    /// the next. It keeps the slot where its class has as many streams as it may; `false` then.
    pub fn become_stream(&mut self) -> bool {
        let Hold::Slot(slot) = std::mem::replace(&mut self.hold, Hold::Nothing) else {
            unreachable!("a request becomes a stream once");
        };
        let outcome = Outcome { end: End::Upgraded, ..self.outcome };
        let now = self.door.now();
        let mut gate = self.door.gate();
        match gate.stream(now, slot, outcome) {
            Ok(stream) => {
                self.hold = Hold::Stream(stream);
                self.outcome = outcome;
                self.door.settle(gate, now);
                true
            }
            Err(slot) => {
                self.hold = Hold::Slot(slot);
                false
            }
        }
    }

    /// Lets the request be preempted for one of a class above, from now on until [`SlotGuard::keep`]: the
    /// task is woken when that is wanted, and [`SlotGuard::is_preempted`] tells. Ready at once.
    pub fn poll_permit_preemption(&mut self, context: &Context<'_>) -> Poll<()> {
        let Hold::Slot(slot) = &mut self.hold else { return Poll::Ready(()) };
        let now = self.door.now();
        let mut gate = self.door.gate();
        let permitted = gate.permit_preemption(now, slot, context.waker().clone());
        self.is_preemptible |= permitted;
        self.door.settle(gate, now);
        Poll::Ready(())
    }

    /// Whether the request is to end for one of a class above. Free for those that may not be preempted.
    pub fn is_preempted(&self) -> bool {
        self.is_preemptible
            && matches!(&self.hold, Hold::Slot(slot) if self.door.gate().is_preempted(slot))
    }

    /// The client is too slow, or is not any more. The task is woken when the request is to end because of it;
    /// [`Guard::is_to_end`] tells. Ready at once.
    pub fn poll_slow(&mut self, is_slow: bool, context: &Context<'_>) -> Poll<()> {
        let Hold::Slot(slot) = &mut self.hold else { return Poll::Ready(()) };
        let now = self.door.now();
        let mut gate = self.door.gate();
        match is_slow {
            true => gate.slows(now, slot, context.waker().clone()),
            false => gate.quickens(slot),
        }
        self.door.settle(gate, now);
        Poll::Ready(())
    }

    /// The request waits for nothing but its client: its slot goes to the next, if it may. Whether it does.
    pub fn lend(&mut self, lends: Lends) -> bool {
        let Hold::Slot(slot) = &mut self.hold else { return false };
        let now = self.door.now();
        let mut gate = self.door.gate();
        let is_lent = gate.lend(now, slot, lends, &self.outcome);
        self.door.settle(gate, now);
        is_lent
    }

    /// The request of the background does not wait for its client any more: it is in progress, if its slot was lent. Whether it was.
    pub fn resume(&mut self) -> bool {
        let Hold::Slot(slot) = &mut self.hold else { return false };
        let now = self.door.now();
        let mut gate = self.door.gate();
        let was_lent = gate.resume(now, slot);
        self.door.settle(gate, now);
        was_lent
    }

    /// The request that arrived so is to have a slot again, if its own is lent, before its end is sent. The task is woken
    /// when the wait is over.
    ///
    /// # Errors
    /// It is refused.
    pub fn poll_comes_back(
        &mut self,
        arrival: &Arrival,
        context: &Context<'_>,
    ) -> Poll<Result<(), Refused>> {
        let Hold::Slot(slot) = &mut self.hold else { return Poll::Ready(Ok(())) };
        let now = self.door.now();
        let mut gate = self.door.gate();
        let claim = match self.again {
            Some(ticket) => gate.claim(ticket),
            None => match gate.comes_back(now, slot, arrival, || context.waker().clone()) {
                None => return Poll::Ready(Ok(())),
                Some(Verdict::Admit(slot)) => Claim::Admitted(slot),
                Some(Verdict::Queue(ticket)) => {
                    self.again = Some(ticket);
                    Claim::Waiting
                }
                Some(Verdict::Reject(reason)) => Claim::Rejected(reason),
            },
        };
        let settled = match claim {
            Claim::Waiting => Poll::Pending,
            Claim::Admitted(own) => {
                gate.give_up(now, std::mem::replace(slot, own));
                Poll::Ready(Ok(()))
            }
            Claim::Rejected(reason) => Poll::Ready(Err(gate.refused(now, arrival, reason))),
        };
        if settled.is_ready() {
            self.again = None;
        }
        self.door.settle(gate, now);
        settled
    }

    /// It waits for no slot any more in place of one that is lent.
    fn waits_no_more(&mut self) {
        if let Some(ticket) = self.again.take() {
            let now = self.door.now();
            let mut gate = self.door.gate();
            gate.cancel(now, ticket);
            self.door.settle(gate, now);
        }
    }

    /// The client has left, and the origin works for longer than is usual. The task is woken when the request is to
    /// end because of it; [`Guard::is_to_end`] tells. Ready at once.
    pub fn poll_overstays(&mut self, context: &Context<'_>) -> Poll<()> {
        let Hold::Slot(slot) = &mut self.hold else { return Poll::Ready(()) };
        let now = self.door.now();
        let mut gate = self.door.gate();
        gate.overstays(now, slot, context.waker().clone());
        self.door.settle(gate, now);
        Poll::Ready(())
    }

    /// Whether it is of the background: see [`Slot::is_beside`].
    pub fn is_beside(&self) -> bool {
        matches!(&self.hold, Hold::Slot(slot) if slot.is_beside())
    }

    /// Whether it holds nothing that others could have: see [`Slot::takes_nothing`].
    pub fn takes_nothing(&self) -> bool {
        matches!(&self.hold, Hold::Slot(slot) if slot.takes_nothing())
    }

    /// Whether the request is to end because its client is too slow, or has left.
    pub fn is_to_end(&self) -> bool {
        matches!(&self.hold, Hold::Slot(slot) if self.door.gate().is_to_end(slot))
    }

    /// The answer has begun: the request keeps its slot to the end.
    pub fn keep(&mut self) {
        if !std::mem::take(&mut self.is_preemptible) {
            return;
        }
        let Hold::Slot(slot) = &mut self.hold else { return };
        let now = self.door.now();
        let mut gate = self.door.gate();
        gate.forbid_preemption(now, slot);
        self.door.settle(gate, now);
    }
}

impl<D: Deref<Target = Door>> Drop for Guard<D> {
    fn drop(&mut self) {
        self.waits_no_more();
        match std::mem::replace(&mut self.hold, Hold::Nothing) {
            Hold::Slot(slot) => {
                let mut gate = self.door.gate();
                let now = self.door.now();
                gate.finish(now, slot, self.outcome);
                self.door.settle(gate, now);
            }
            Hold::Stream(stream) => self.door.gate().stream_ended(stream),
            Hold::Nothing => {}
        }
    }
}
