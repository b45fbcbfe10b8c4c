//! What becomes of a request at the origin when its client has left.
//!
//! Most servers work on, and a slot that were free at once would let more requests be in progress there than
//! there are slots. So a task of its own reads what is left of the answer, on behalf of nobody, and gives slot
//! and connection back at its end; or it closes the connection, where that makes the server stop
//! ([`tiergate_core::origin::Way`]). It ends after [`LEN_MAX`] bytes, after some times the usual time of an
//! answer, and earlier where the gate ends it for others that wait
//! ([`tiergate_core::gate::Gate::overstays`]): then the connection is closed and the slot is free.

use super::body::AnswerBody;
use super::limits;
use super::path::Request;
use super::rest::Rest;
use super::streaming::Streaming;
use crate::buffers::Buffer;
use crate::client::seam::Client;
use crate::clock;
use crate::door::Guard;
use crate::observe::counters::Abandoned;
use crate::origin::stream::OriginStream;
use crate::origin::{Lease, Place};
use crate::shared::{Config, OwnedDoor, Shared};
use crate::stored::Change;
use crate::stream::poll_fill_held;
use crate::timers::Timer;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::origin::{Bounds, Leftover, Way};
use tiergate_core::outcome::End;
use tiergate_core::time::Moment;
use tiergate_wire::http1::{self, FieldTable, Parsed};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

/// Bytes that are read on behalf of nobody. Beyond, what the origin would still send costs more than a new
/// connection, and a server that is stopped while it writes notices.
const LEN_MAX: usize = 1 << 20;

/// So long at least is looked for what has arrived already.
const TURN: Duration = Duration::from_millis(1);

/// How often it is asked whether a request that overstays is taken never to end.
const AGAIN: Duration = Duration::from_millis(100);

/// A request that no client waits for.
struct Remnant {
    shared: Arc<Shared>,
    config: Arc<Config>,
    slot: Guard<OwnedDoor>,
    place: Place,
    stream: OriginStream,
    rest: Rest,
    head_only: bool,
    left: Moment,
    /// It has taken longer than is usual, and the gate was told.
    overstays: bool,
    /// What it changes, as long as its answer is not known.
    change: Option<Change>,
}

impl<C: Client> Request<'_, '_, C> {
    /// The client has left: if its request is at the origin, sees to it that its slot tells the truth.
    pub(super) fn abandon(&mut self) {
        // Where its answer is not awaited, it counts as having succeeded.
        let is_sent = self.origin.is_some() && self.record.status == 0;
        let change = if is_sent { self.change() } else { None };
        let rest = self.rest.take();
        let (place, stream) = (self.place.take(), self.origin.take());
        let (Some(rest), Some(mut place), Some(stream)) = (rest, place, stream) else { return };
        let Some(slot) = self.slot.take_if(|slot| !slot.is_stream()) else { return };
        // Of a request that was not sent whole the origin can make nothing.
        let is_multiplexed = stream.is_multiplexed();
        let way = match (place.client_left(is_multiplexed), self.client.is_sent()) {
            // A stream has no half to be closed; it is cancelled.
            (Way::Finish(_), false) if is_multiplexed => Way::Abort,
            (Way::Finish(bounds), false) => Way::Close(bounds),
            (way, _) => way,
        };
        let mut slot = slot.hand_over(OwnedDoor(self.shared.clone()));
        slot.note(End::Cancelled);
        // A slow client's slot that others are to have goes to them now.
        if way == Way::Abort || slot.is_to_end() {
            self.shared.tally().abandoned[Abandoned::Cut as usize].one();
            return;
        }
        let remnant = Remnant {
            shared: self.shared.clone(),
            config: self.config.clone(),
            slot,
            place,
            stream,
            rest: *rest,
            head_only: self.facts.head_only,
            left: clock::now(),
            overstays: false,
            change,
        };
        tokio::spawn(remnant.see_to_the_end(way));
    }
}

impl Remnant {
    async fn see_to_the_end(mut self, way: Way) {
        let (closes, bounds) = match way {
            Way::Finish(bounds) => (false, bounds),
            Way::Close(bounds) => (true, bounds),
            Way::Abort => return,
        };
        // One that overstays when its client leaves is not awaited anew. But a server whose connection is closed needs the
        // time to notice that.
        let before = if closes { Duration::ZERO } else { self.place.lasted(self.left) };
        let within = bounds.within.saturating_sub(before).max(TURN);
        let within = within.min(self.config.policy.timeouts.response_head);
        // Through TLS, a server that takes nothing keeps even the end of our half from being sent.
        if closes && !matches!(timeout(within, self.stream.shutdown()).await, Ok(Ok(()))) {
            return self.count(Abandoned::Cut);
        }
        let end = self.read_all(Bounds { within, ..bounds }).await;
        let took = clock::now().since(self.left);
        let leftover = match end {
            Abandoned::Finished => Some(Leftover::Answered(took)),
            Abandoned::Stopped => Some(Leftover::Stopped),
            // What is ended for another reason tells nothing of the server.
            Abandoned::Cut => (took >= within).then_some(Leftover::Endless),
        };
        leftover.into_iter().for_each(|leftover| self.place.left_over(closes, leftover));
        if !closes && end == Abandoned::Stopped {
            self.place.broken("the origin closed the connection before the end of its answer");
        }
        self.count(end);
        let reusable = self.rest.body.as_ref().is_some_and(|body| body.reusable);
        if end == Abandoned::Finished && reusable && !closes {
            self.place.give_back(Lease { stream: self.stream, reused: true });
        }
    }

    fn count(&self, end: Abandoned) {
        self.shared.tally().abandoned[end as usize].one();
    }

    async fn read_all(&mut self, bounds: Bounds) -> Abandoned {
        let timer = Timer::new();
        timer.arm(bounds.overstays.min(bounds.within));
        let mut len = 0;
        loop {
            if let Some(end) = self.digest() {
                return end;
            }
            if let Some(buffer) = &mut self.rest.held {
                buffer.make_room(self.config.policy.limits.response_head_max + 1);
            }
            let read = poll_fn(|context| {
                let (stream, held) = (&mut self.stream, &mut self.rest.held);
                if let Poll::Ready(read) = poll_fill_held(stream, held, Buffer::large, context) {
                    return Poll::Ready(Some(read.unwrap_or(0)));
                }
                match self.is_over(bounds, &timer, context) {
                    true => Poll::Ready(None),
                    false => Poll::Pending,
                }
            });
            match read.await {
                None => return Abandoned::Cut,
                Some(0) => {
                    let ends =
                        self.rest.body.as_ref().is_some_and(AnswerBody::ends_with_connection);
                    return if ends { Abandoned::Finished } else { Abandoned::Stopped };
                }
                Some(count) => len += count,
            }
            if len > LEN_MAX {
                return Abandoned::Cut;
            }
        }
    }

    /// Whether it has lasted for long enough; the task is woken when that may have changed.
    fn is_over(&mut self, bounds: Bounds, timer: &Timer, context: &mut Context<'_>) -> bool {
        while timer.poll_expired(context) {
            let now = clock::now();
            let left_over = bounds.within.saturating_sub(now.since(self.left));
            if left_over.is_zero() {
                return true;
            }
            if !self.overstays && self.place.never_ends(now) {
                self.overstays = true;
                let _ = self.slot.poll_overstays(context);
            }
            timer.arm(if self.overstays { left_over } else { left_over.min(AGAIN) });
        }
        self.overstays && self.slot.is_to_end()
    }

    /// Looks through what is here; `None`: more must come.
    fn digest(&mut self) -> Option<Abandoned> {
        while self.rest.body.is_none() {
            if let Err(end) = self.look()? {
                return Some(end);
            }
        }
        let body = self.rest.body.as_mut().expect("its head was seen");
        let held = self.rest.held.take().filter(|buffer| !buffer.is_empty());
        if body.is_done() {
            body.reusable &= held.is_none();
            return Some(Abandoned::Finished);
        }
        match body.take(held?) {
            Ok(piece) => piece.done.then_some(Abandoned::Finished),
            Err(_) => {
                self.place.broken("the origin's answer is malformed");
                Some(Abandoned::Cut)
            }
        }
    }

    /// Looks for a head; `None`: more must come.
    fn look(&mut self) -> Option<Result<(), Abandoned>> {
        let held = self.rest.held.as_mut()?;
        let limits = limits::of_response_heads(&self.config.policy.limits);
        let mut table = FieldTable::new();
        let parsed = http1::parse_response(held.content(), &mut table, &limits, self.head_only);
        let (len, body) = match parsed {
            Ok(Parsed::Complete(head)) => {
                // What may last for as long as somebody listens ends here.
                if head.upgrade || Streaming::of(table.fields()) != Streaming::No {
                    return Some(Err(Abandoned::Cut));
                }
                let body = AnswerBody::new(head.body, false, head.keep_alive);
                (head.len, (!head.is_interim()).then_some((head.status, body)))
            }
            Ok(Parsed::Partial) => return None,
            Err(error) => {
                self.place.broken(error.why);
                return Some(Err(Abandoned::Cut));
            }
        };
        drop(table);
        held.consume(len);
        if let Some((status, body)) = body {
            self.rest.body = Some(body);
            self.place.found(status);
            self.change.take().into_iter().for_each(|change| change.answered(status));
            self.slot.answered(clock::now(), len);
        }
        Some(Ok(()))
    }
}
