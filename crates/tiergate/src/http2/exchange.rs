//! One request and its answer on one connection to the origin.
//!
//! ```text
//! send ─▶ head ─┬─ 1xx: pass on, head again
//!               └─ final: pass on ─▶ body ─▶ [trailers] ─▶ end
//! ```

use super::answer::{self, Body, Piece, Seen};
use super::forward::{Journey, gone};
use super::payload::Payload;
use super::upload::Upload;
use crate::buffers::Buffer;
use crate::exchange::{Failure, INTERIM_MAX, answered};
use crate::link::{Fault, upload_fault};
use crate::origin::stream::OriginStream;
use crate::origin::{Lease, Place};
use crate::stream::{Outgoing, poll_fill_held};
use http::Response;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};

impl Journey<'_, '_> {
    /// Sends the request, passes the answer on.
    pub(super) async fn exchange(
        &mut self,
        head: &[u8],
        mut place: Place,
        lease: Lease,
        may_repeat: bool,
    ) -> Result<(), Failure> {
        let mut origin = lease.stream;
        match self.send(head, &mut origin).await {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                place.broken();
                return Err(Fault::OriginSlow.into());
            }
            Err(_) if may_repeat => return Err(Failure::Stale),
            // It may have answered before it closed: reading tells.
            Err(_) | Ok(()) => {}
        }
        let mut answer: Option<Buffer> = None;
        let mut interims = 0;
        loop {
            let bytes = answer.as_ref().map_or(&[][..], Buffer::content);
            let (len, response) = match answer::look(bytes, self.config, self.facts.head_only) {
                Seen::Final { len, response, body } => {
                    place.alive();
                    answered(&mut self.held, &mut self.record, response.status().as_u16());
                    consume(&mut answer, len);
                    let delivered = self.deliver(response, body, answer, origin, place).await;
                    return delivered.map_err(Failure::BrokenOff);
                }
                Seen::Bad(why) => {
                    place.broken();
                    return Err(Fault::Answer(502, why).into());
                }
                Seen::Partial => {
                    let nothing_yet = answer.is_none() && interims == 0;
                    if let Some(buffer) = &mut answer {
                        buffer.make_room(self.config.policy.limits.response_head_max + 1);
                    }
                    let fault = match self.read(&mut origin, &mut answer).await {
                        Ok(count) if count > 0 => continue,
                        Ok(_) => Fault::Origin,
                        Err(fault) => fault,
                    };
                    if matches!(fault, Fault::Origin) && may_repeat && nothing_yet {
                        return Err(Failure::Stale);
                    }
                    if matches!(fault, Fault::Origin | Fault::OriginSlow) {
                        place.broken();
                    }
                    return Err(fault.into());
                }
                Seen::Interim { len, response } => (len, response),
            };
            interims += 1;
            if interims > INTERIM_MAX {
                place.broken();
                return Err(Fault::Answer(502, "the origin sent too many interim answers").into());
            }
            // It fails if the stream is gone, which reading tells.
            let _ = self.respond.send_informational(response);
            consume(&mut answer, len);
        }
    }

    /// Sends the head. With a body, it leaves together with what there is of that: see `read`.
    async fn send(&mut self, head: &[u8], origin: &mut OriginStream) -> io::Result<()> {
        let timeouts = &self.config.policy.timeouts;
        if let Some(upload) = &mut self.upload {
            upload.begin(head);
            self.timer.arm(timeouts.request_body);
            return Ok(());
        }
        let mut outgoing = Outgoing::new(head, &[]);
        self.timer.arm(timeouts.write);
        let sent = self.timer.bound(|context| outgoing.poll(origin, context)).await;
        self.timer.arm(timeouts.response_head);
        sent
    }

    /// Reads from the origin into `held`; 0 is the end.
    async fn read(
        &mut self,
        origin: &mut OriginStream,
        held: &mut Option<Buffer>,
    ) -> Result<usize, Fault> {
        poll_fn(|context| {
            self.poll_upload(origin, context)?;
            let read = poll_fill_held(origin, held, Buffer::large, context);
            if let Poll::Ready(read) = read {
                return Poll::Ready(read.map_err(|_| Fault::Origin));
            }
            if self.poll_gone(context).is_ready() {
                return Poll::Ready(Err(gone()));
            }
            if self.timer.poll_expired(context) {
                return Poll::Ready(Err(match self.waits_for_client() {
                    true => Fault::Answer(408, "the request's body took too long"),
                    false => Fault::OriginSlow,
                }));
            }
            Poll::Pending
        })
        .await
    }

    fn waits_for_client(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| !upload.is_over() && upload.is_dry())
    }

    fn poll_upload(
        &mut self,
        origin: &mut OriginStream,
        context: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let Some(upload) = self.upload.as_mut().filter(|upload| !upload.is_over()) else {
            return Ok(());
        };
        let timeouts = &self.config.policy.timeouts;
        match upload.poll(origin, &self.timer, timeouts.request_body, context) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) => {
                self.timer.arm(timeouts.response_head);
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(upload_fault(error)),
        }
    }

    /// Passes the answer on: its head, and the body as it comes. When the origin is done, the slot and
    /// the connection are given back, before a client that may be slow has taken the last bytes.
    async fn deliver(
        &mut self,
        response: Response<()>,
        mut body: Body,
        mut answer: Option<Buffer>,
        mut origin: OriginStream,
        place: Place,
    ) -> Result<(), Fault> {
        let mut done = body.is_empty();
        if done {
            body.reusable &= answer.is_none();
            self.held = None;
        }
        let sending = self.respond.send_response(response, done).map_err(|_| gone())?;
        self.sending = Some(sending);
        while !done {
            if answer.is_none() {
                self.timer.arm(self.config.policy.timeouts.response_body);
                if self.read(&mut origin, &mut answer).await? == 0 {
                    if !body.ends_with_connection() {
                        return Err(Fault::Origin);
                    }
                    body.reusable = false;
                    self.held = None;
                    return self.finish(None, &body);
                }
            }
            let Some(buffer) = answer.take() else { continue };
            let piece = body.take(buffer).map_err(|_| Fault::Origin)?;
            done = piece.done;
            if done {
                self.held = None;
            }
            self.pass_on(piece, &body, &mut origin).await?;
        }
        if body.reusable && self.upload.as_ref().is_none_or(Upload::is_done) {
            place.give_back(Lease { stream: origin, reused: true });
        }
        Ok(())
    }

    /// Hands a piece of the body to `h2` as soon as the client has room for any of it: what is beyond
    /// its room waits there, at most one buffer.
    async fn pass_on(
        &mut self,
        piece: Piece,
        body: &Body,
        origin: &mut OriginStream,
    ) -> Result<(), Fault> {
        let Some(payload) = piece.payload else {
            return match piece.done {
                true => self.finish(None, body),
                false => Ok(()),
            };
        };
        self.record.sent_bytes += payload.len() as u64;
        let sending = self.sending.as_mut().expect("the head was sent");
        sending.reserve_capacity(payload.len());
        if sending.capacity() == 0 {
            self.wait_for_room(origin).await?;
        }
        match piece.done {
            true => self.finish(Some(payload), body),
            false => self
                .sending
                .as_mut()
                .expect("the head was sent")
                .send_data(payload, false)
                .map_err(|_| gone()),
        }
    }

    async fn wait_for_room(&mut self, origin: &mut OriginStream) -> Result<(), Fault> {
        self.timer.arm(self.config.policy.timeouts.write);
        poll_fn(|context| {
            self.poll_upload(origin, context)?;
            let sending = self.sending.as_mut().expect("the head was sent");
            loop {
                match sending.poll_capacity(context) {
                    Poll::Ready(Some(Ok(0))) => {}
                    Poll::Ready(Some(Ok(_))) => return Poll::Ready(Ok(())),
                    Poll::Ready(Some(Err(_)) | None) => return Poll::Ready(Err(gone())),
                    Poll::Pending => break,
                }
            }
            if self.timer.poll_expired(context) {
                return Poll::Ready(Err(Fault::Client(io::ErrorKind::TimedOut.into())));
            }
            Poll::Pending
        })
        .await
    }

    /// Sends the last of the body, and the trailers.
    fn finish(&mut self, payload: Option<Payload>, body: &Body) -> Result<(), Fault> {
        let sending = self.sending.as_mut().expect("the head was sent");
        let trailers = body.trailers();
        if payload.is_some() || trailers.is_none() {
            sending
                .send_data(payload.unwrap_or_default(), trailers.is_none())
                .map_err(|_| gone())?;
        }
        if let Some(trailers) = trailers {
            sending.send_trailers(trailers).map_err(|_| gone())?;
        }
        Ok(())
    }
}

/// Forgets the head's bytes; gives the buffer back if no others came with it.
fn consume(answer: &mut Option<Buffer>, count: usize) {
    if let Some(buffer) = answer {
        buffer.consume(count);
        if buffer.is_empty() {
            *answer = None;
        }
    }
}
