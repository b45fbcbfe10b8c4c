//! An answer on its way from the origin to its client.
//!
//! ```text
//! read ─▶ outbox ─▶ write ─┬─ the client takes it: read on
//!                          └─ it does not: read ahead, as long as there is an allowance
//! origin done: its connection and the slot go back, then the rest is written; the slot later where there is
//!              no memory left for the rest
//! ```

use super::body::AnswerBody;
use super::fault::{Failure, Fault};
use super::limits::allowance;
use super::outbox::Outbox;
use super::path::Request;
use super::rest::Rest;
use super::slow::Way;
use super::streaming::Streaming;
use crate::budget::Allowance;
use crate::buffers::Buffer;
use crate::client::seam::Client;
use crate::door::SlotGuard;
use crate::grpc;
use crate::link::{Take, Turn};
use crate::origin::Lease;
use crate::tcp_info;
use crate::timers::Timer;
use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;
use tiergate_core::gate::Progress;
use tiergate_core::outcome::End;
use tiergate_core::transmit::Heads;

/// How often a request that holds its slot for want of memory tries again.
const MEMORY_RETRY: Duration = Duration::from_millis(200);

impl<'d, C: Client> Request<'_, 'd, C> {
    /// Passes an answer on: its head, and the body as it comes. When the origin is done, the slot and its
    /// connection are given back, however much the client has still to take.
    pub(super) async fn deliver(
        &mut self,
        mut body: AnswerBody,
        answer: Option<Buffer>,
    ) -> Result<(), Failure> {
        let mut outbox = Outbox::new(std::mem::take(&mut self.head));
        self.stand_in_line(&mut outbox);
        if !body.is_done() {
            self.stream.begin(body.streaming, &mut self.slot);
            self.note_stream();
        }
        let brought = self.bring(&mut outbox, &mut body, answer).await;
        self.record.sent += outbox.written();
        self.leave_line();
        if self.stream.found() {
            self.record.end = Some(End::Upgraded);
        }
        let has_begun = outbox.has_begun();
        self.head = outbox.into_head();
        let is_ended_by_close = body.is_ended_by_close();
        if let Err(Fault::Client(_)) = brought {
            self.rest = Some(Box::new(Rest { held: None, body: Some(body) }));
        }
        brought.map_err(|fault| match fault {
            // The client can still be told.
            Fault::Origin if !has_begun => {
                Failure::Unanswered(Fault::Answer(502, "the origin's answer is malformed"))
            }
            fault if is_ended_by_close => Failure::Unended(fault),
            fault => Failure::Truncated(fault),
        })
    }

    /// The answer has been sent, or is not to be.
    pub(super) fn leave_line(&mut self) {
        if self.turn.take().is_some() {
            self.shared.link.ends(self.client.peer().address, false);
        }
    }

    /// The answer waits for its turns on the link, or it does not.
    pub(super) fn stand_in_line(&mut self, outbox: &mut Outbox) {
        outbox.takes_turns = true;
        if !self.shared.link.is_known() {
            return self.client.sends_in_turns(false);
        }
        let id = self.facts.arrival.class;
        // A reload may have made its class one of the background meanwhile.
        let config = self.shared.config.load();
        let class = config.policy.plan.class(id);
        let is_background = class.is_some_and(|class| class.background);
        let waits = self.shared.link.is_in_turns(is_background);
        self.client.sends_in_turns(waits);
        self.turn = waits.then(|| {
            let segment = self.client.socket().and_then(|socket| tcp_info::segment(&socket));
            let heads = self.heads();
            let heads = segment.map_or(heads, |segment| heads.in_packets_of(segment.into()));
            Box::new(Turn::new(id, class, self.client.peer().address, heads))
        });
    }

    /// What stands around each packet of an answer to this client.
    pub(super) fn heads(&self) -> Heads {
        let peer = self.client.peer();
        // Frames of HTTP/2 are not written to the socket at once.
        Heads::of(peer.by_v6, peer.secure || self.client.socket().is_none())
    }

    async fn bring(
        &mut self,
        outbox: &mut Outbox,
        body: &mut AnswerBody,
        answer: Option<Buffer>,
    ) -> Result<(), Fault> {
        match self.pass_on(outbox, body, answer).await {
            Ok(()) => {
                // It brings its own answer: the memory of the copy is free.
                self.stored = None;
                self.keep_copy(body);
                self.release_slot(outbox);
                self.release_origin(body.reusable);
                let flushed = self.flush(outbox, Some(body)).await;
                // How the client took it does not change how its request ended at the origin.
                self.free_slot();
                flushed
            }
            Err(fault) if fault.is_origins() => {
                let mut place = self.place.take().expect("held until the origin is done");
                place.broken(fault.after_head());
                drop(place);
                if outbox.has_begun() && !outbox.is_empty() {
                    self.slot.iter_mut().for_each(|slot| slot.note(End::Failed));
                    self.release_slot(outbox);
                    // What did come is the client's.
                    let flushed = self.flush(outbox, None).await;
                    self.free_slot();
                    flushed?;
                }
                Err(fault)
            }
            Err(fault) => Err(fault),
        }
    }

    /// The origin is done: its slot is free, if there is memory for what the client has still to take. Else the
    /// request keeps it, so that the number of slots bounds the memory.
    ///
    /// What waits for the link keeps it, too, if that takes nothing from others and enough waits there without one: else all of the background
    /// would be let in, and wait there. After some time it is lent.
    fn release_slot(&mut self, outbox: &mut Outbox) {
        let left = self.left(outbox);
        if let Some(turn) = &mut self.turn
            && self.slot.as_ref().is_some_and(SlotGuard::is_beside)
            && !self.shared.link.is_in_stock(turn, left, self.config.policy.threads)
        {
            return;
        }
        let own_max = usize::MAX;
        let allowance = Allowance { own_max, ..self.allowance() };
        let unsent = self.client.unsent_len();
        let is_all_sent = unsent == 0 && left == 0 && outbox.is_empty();
        let beside = if is_all_sent { 0 } else { unsent + self.client.head_memory() };
        if self.slot.is_some() && outbox.reserve_rest(&allowance, beside) {
            self.free_slot();
        }
    }

    /// The origin is done. Its connection stays with the request until that is sent: a client may take
    /// nothing before it has sent all.
    fn release_origin(&mut self, reusable: bool) {
        let place = self.place.take().expect("held until the origin is done");
        if self.client.is_sent() {
            let stream = self.origin.take().expect("held until the origin is done");
            if reusable {
                place.give_back(Lease { stream, reused: true });
            }
        }
    }

    /// Passes on what comes until the origin is done; the last of it stays in the outbox.
    async fn pass_on(
        &mut self,
        outbox: &mut Outbox,
        body: &mut AnswerBody,
        mut answer: Option<Buffer>,
    ) -> Result<(), Fault> {
        if body.is_done() {
            body.reusable &= answer.is_none();
            return Ok(());
        }
        loop {
            if let Some(buffer) = answer.take() {
                let piece = body.take(buffer).map_err(|_| Fault::Origin)?;
                if let Some(data) = piece.data {
                    self.copy_piece(data.content());
                    self.slot.iter_mut().for_each(|slot| slot.brought(data.content().len()));
                    outbox.push(data);
                }
                if piece.done {
                    self.note_call(body);
                    return Ok(());
                }
            }
            if self.carry(outbox, &mut answer).await? == 0 {
                if !body.ends_with_connection() {
                    return Err(Fault::Origin);
                }
                body.reusable = false;
                return Ok(());
            }
        }
    }

    /// A call by gRPC says in its trailers how it ended.
    fn note_call(&mut self, body: &AnswerBody) {
        if body.streaming != Streaming::Messages {
            return;
        }
        let Some(status) =
            body.chunks().and_then(|it| grpc::status(&it.trailers().collect::<Vec<_>>()))
        else {
            return;
        };
        let end = End::of_grpc_status(status);
        if let Some(slot) = &mut self.slot {
            slot.note(end);
            self.record.end = Some(slot.outcome().end);
        }
        let place = self.place.as_mut().expect("held until the origin is done");
        match end {
            End::Pushback => place.found(503),
            End::Error => place.found(500),
            _ => {}
        }
    }

    /// Hands the outbox to the client, then reads from the origin into `answer`; 0 is the end. If the
    /// client does not take it all, reads ahead; the client's timer is then its own.
    async fn carry(
        &mut self,
        outbox: &mut Outbox,
        answer: &mut Option<Buffer>,
    ) -> Result<usize, Fault> {
        let mut written = false;
        self.begin_write(outbox);
        poll_fn(|context| {
            self.stream.poll(&mut self.slot, context);
            self.note_stream();
            if !written {
                self.poll_body(context)?;
                written = self.poll_outbox(outbox, None, context)?.is_ready();
                if outbox.has_begun() {
                    // No other answer takes the place of this one.
                    self.stored = None;
                }
                let time = self.config.policy.timeouts.response_body;
                if !written {
                    let allowance = self.allowance();
                    let origin = self.origin.as_mut().expect("held until the origin is done");
                    return match outbox.poll_ahead(origin, answer, &allowance, time, context) {
                        Poll::Pending if !outbox.reads_ahead() => {
                            match self.poll_takes(outbox, context) {
                                true => Poll::Ready(Err(Fault::client_slow())),
                                false => Poll::Pending,
                            }
                        }
                        read => {
                            self.slow.goes_on(&mut self.slot, context);
                            read
                        }
                    };
                }
                self.client.timer().arm(time);
            }
            self.poll_read(answer, context)
        })
        .await
    }

    /// Hands the rest to the client; `ends` is a body of which nothing follows.
    pub(super) async fn flush(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
    ) -> Result<(), Fault> {
        self.begin_write(outbox);
        let mut retry = None;
        poll_fn(|context| {
            self.poll_body(context)?;
            let written = self.poll_outbox(outbox, ends, context)?;
            if written.is_pending() {
                self.origin.iter_mut().for_each(|it| it.drop_interims(context));
                outbox.settle();
                if self.slot.is_some() {
                    self.poll_held_slot(outbox, &mut retry, context)?;
                }
            }
            written.map(Ok)
        })
        .await
    }

    /// The request waits for its client and holds a slot. Frees it if the origin is done and memory for the rest
    /// has come free; `retry` wakes the task to try.
    ///
    /// # Errors
    /// The client is too slow, and others wait.
    fn poll_held_slot(
        &mut self,
        outbox: &mut Outbox,
        retry: &mut Option<Timer>,
        context: &mut Context<'_>,
    ) -> Result<(), Fault> {
        if self.place.is_none() {
            let timer = retry.get_or_insert_with(|| Timer::armed(MEMORY_RETRY));
            if timer.poll_expired(context) {
                self.release_slot(outbox);
                timer.arm(MEMORY_RETRY);
                // So that the task is woken at its end.
                let _ = timer.poll_expired(context);
            }
        }
        match self.poll_takes(outbox, context) {
            true => Err(Fault::client_slow()),
            false => Ok(()),
        }
    }

    /// The request waits for its client to take more. Says whether it is to end because the client is too slow.
    fn poll_takes(&mut self, outbox: &Outbox, context: &mut Context<'_>) -> bool {
        if self.is_links_wait(outbox) {
            self.slow.waits_for_link(&mut self.slot, context);
            return false;
        }
        let rate_min = self.config.policy.limits.client_rate_min;
        let client = &*self.client;
        let progress = || Progress { bytes: outbox.sent(), delivered: client.delivered() };
        self.slow.poll_waits(Way::Takes, progress, rate_min, &mut self.slot, context)
    }

    /// Whether it waits for the link and takes nothing from others meanwhile. One that holds a slot that they could have is slow all the same.
    fn is_links_wait(&self, outbox: &Outbox) -> bool {
        self.turn.as_ref().is_some_and(|turn| !turn.is_clients_wait())
            && outbox.awaits_turn()
            && self.left(outbox) > 0
            && self.slot.as_ref().is_none_or(SlotGuard::takes_nothing)
    }

    /// Bytes that are still to be handed over; of an answer that is no more than a head, about as many as that has.
    fn left(&self, outbox: &Outbox) -> u64 {
        match outbox.left() {
            0 => self.client.unsent_head(),
            left => left,
        }
    }

    /// What it may take of the memory for answers that clients have not taken yet: of what is held back half, so that the rest is left
    /// for others.
    fn allowance(&self) -> Allowance<'d> {
        let all = allowance(self.shared, &self.config.policy);
        let parts = if self.turn.as_deref().is_some_and(Turn::is_held) { 2 } else { 1 };
        Allowance { total_max: all.total_max / parts, ..all }
    }

    /// Arms the client's timer, unless its time is running already.
    fn begin_write(&self, outbox: &Outbox) {
        if !outbox.stalled {
            self.client.timer().arm(self.config.policy.timeouts.write);
        }
    }

    /// Hands over what the client takes of an answer that has turns, a segment at a time; `None`: it is not its turn.
    fn poll_in_turn(
        &mut self,
        turn: &mut Turn,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        context: &mut Context<'_>,
    ) -> Result<Option<Poll<()>>, Fault> {
        let time = self.config.policy.timeouts.write;
        if outbox.allowed().is_none() {
            outbox.allow(0);
            outbox.await_turn();
        }
        loop {
            let left = self.left(outbox);
            if outbox.awaits_turn() && left > 0 {
                let took = self.shared.link.poll_take(turn, left, &mut *self.client, context);
                match took.map_err(|_| Fault::gone())? {
                    Take::TooEarly => return Ok(None),
                    Take::NoRoom => {
                        turn.goes_on(self.client.timer());
                        turn.awaits_client();
                        turn.leaves(0);
                        // Nothing is written, which would tell.
                        if self.client.poll_gone(context).is_ready() {
                            return Err(Fault::gone());
                        }
                        return Ok(Some(Poll::Pending));
                    }
                    Take::Bytes(bytes) => {
                        turn.goes_on(self.client.timer());
                        outbox.allow(bytes);
                    }
                }
            }
            let before = outbox.sent();
            let head = if outbox.left() == 0 { left } else { 0 };
            let written = self.client.poll_write(outbox, ends, time, context)?;
            if outbox.sent() > before {
                self.shared.link.written(turn, self.client.socket());
            }
            if head > 0 && self.client.unsent_head() == 0 {
                self.pay_head(turn, outbox, head);
            }
            let is_short = written.is_pending() && !outbox.awaits_turn() && outbox.left() > 0;
            if is_short && turn.is_background() {
                // It would leave later, together with what others have been allowed.
                let (left, sent) = (outbox.allowed().unwrap_or(0), outbox.sent() - before);
                self.shared.link.gives_back(turn, left + sent, sent, &mut *self.client);
                outbox.allow(0);
                outbox.await_turn();
                turn.awaits_client();
            }
            let left = self.left(outbox);
            turn.leaves(if is_short { 0 } else { left });
            if written.is_ready() || is_short || left == 0 {
                return Ok(Some(written));
            }
        }
    }

    /// A head that its protocol frames has been written, all of it: what it has beyond what it was allowed is charged now, and the rest of that is not for the body.
    fn pay_head(&mut self, turn: &Turn, outbox: &mut Outbox, head: u64) {
        let Some(allowed) = outbox.allowed() else { return };
        let beyond = head.saturating_sub(allowed);
        if beyond > 0 {
            self.shared.link.charge(beyond, turn.heads());
            self.client.charged(turn.heads().on_wire(beyond), true);
        }
        outbox.allow(allowed.saturating_sub(head));
    }

    /// Hands over what the client takes; it has the time for writing for each buffer.
    fn poll_outbox(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, Fault> {
        let time = self.config.policy.timeouts.write;
        let before = outbox.sent();
        if outbox.takes_turns && self.turn.is_none() && self.shared.link.is_known() {
            // A reload may have given classes their parts of the link meanwhile.
            self.stand_in_line(outbox);
        }
        let is_charged = self.turn.is_none() && self.shared.link.is_known();
        let head = if is_charged { self.left(outbox) } else { 0 };
        let written = match self.turn.take() {
            None => self.client.poll_write(outbox, ends, time, context)?,
            Some(mut turn) => {
                let polled = self.poll_in_turn(&mut turn, outbox, ends, context);
                self.turn = Some(turn);
                let Some(written) = polled? else {
                    // It waits for the link, not for its client, whose time is what it had left.
                    let timer = self.client.timer();
                    self.turn.iter_mut().for_each(|turn| turn.pauses(timer, time));
                    outbox.stalled = true;
                    if self.is_links_wait(outbox) {
                        self.slow.goes_on(&mut self.slot, context);
                    }
                    if self.client.poll_gone(context).is_ready() {
                        return Err(Fault::gone());
                    }
                    return Ok(Poll::Pending);
                };
                written
            }
        };
        let charged = match outbox.sent() - before {
            0 if is_charged => head.saturating_sub(self.left(outbox)),
            sent => sent,
        };
        if is_charged && charged > 0 {
            let (bytes, heads) = (charged, self.heads());
            self.shared.link.charge(bytes, heads);
            self.client.charged(heads.on_wire(bytes), false);
        }
        outbox.stalled = written.is_pending();
        if outbox.stalled && self.client.timer().poll_expired(context) {
            return Err(Fault::client_slow());
        }
        Ok(written)
    }
}
