//! An answer on its way from the origin to a client of HTTP/2: as in [`crate::deliver`], with `h2` where
//! the socket is there.

use super::answer;
use super::forward::{Journey, gone};
use super::payload::Payload;
use super::upload::Upload;
use crate::body::{AnswerBody, Malformed};
use crate::buffers::Buffer;
use crate::link::Fault;
use crate::origin::stream::OriginStream;
use crate::origin::{Lease, Place};
use crate::outbox::Outbox;
use http::Response;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use tiergate_core::outcome::End;

impl Journey<'_, '_> {
    /// Passes the answer on: its head, and the body as it comes. When the origin is done, the slot and
    /// its connection are given back, however much the client has still to take.
    pub(super) async fn deliver(
        &mut self,
        response: Response<()>,
        mut body: AnswerBody,
        answer: Option<Buffer>,
        mut origin: OriginStream,
        mut place: Place,
    ) -> Result<(), Fault> {
        let is_empty = body.is_done();
        if is_empty {
            body.reusable &= answer.is_none();
            self.held = None;
        } else {
            self.turn.begin(body.streaming, &mut self.held);
        }
        let sending = self.respond.send_response(response, is_empty).map_err(|_| gone())?;
        self.sending = Some(sending);
        let mut outbox = Outbox::new(&[]);
        let brought = match is_empty {
            true => Ok(()),
            false => self.bring(&mut outbox, &mut body, answer, &mut origin).await,
        };
        if let Err(fault) = brought {
            if matches!(fault, Fault::Origin | Fault::OriginSlow) {
                place.broken();
                drop((place, origin));
                if let Some(mut held) = self.held.take() {
                    held.note(End::Failed);
                }
                // What did come is the client's.
                self.flush(&mut outbox, None, None).await?;
            }
            return Err(fault);
        }
        self.held = None;
        let mut origin = Some(origin);
        if self.upload.as_ref().is_none_or(Upload::is_done) {
            let stream = origin.take().expect("just put there");
            if body.reusable {
                place.give_back(Lease { stream, reused: true });
            }
        }
        drop(place);
        match is_empty {
            true => Ok(()),
            false => self.flush(&mut outbox, Some(&body), origin.as_mut()).await,
        }
    }

    /// Passes on what comes until the origin is done; the last of it stays in the outbox.
    async fn bring(
        &mut self,
        outbox: &mut Outbox<'_>,
        body: &mut AnswerBody,
        mut answer: Option<Buffer>,
        origin: &mut OriginStream,
    ) -> Result<(), Fault> {
        loop {
            if let Some(buffer) = answer.take() {
                let piece = body.take(buffer).map_err(|Malformed| Fault::Origin)?;
                if let Some(data) = piece.data {
                    self.held.iter_mut().for_each(|held| held.brought(data.content().len()));
                    outbox.push(data);
                }
                if piece.done {
                    return Ok(());
                }
            }
            if self.carry(outbox, &mut answer, origin).await? == 0 {
                if !body.ends_with_connection() {
                    return Err(Fault::Origin);
                }
                body.reusable = false;
                return Ok(());
            }
        }
    }

    /// Hands the outbox to `h2`, then reads from the origin into `held`; 0 is the end. While the client
    /// has no room, reads ahead; the stream's timer is then the client's.
    async fn carry(
        &mut self,
        outbox: &mut Outbox<'_>,
        held: &mut Option<Buffer>,
        origin: &mut OriginStream,
    ) -> Result<usize, Fault> {
        let timeouts = self.config.policy.timeouts;
        let mut handed = false;
        if !outbox.stalled {
            self.timer.arm(timeouts.write);
        }
        poll_fn(|context| {
            self.turn.poll(&mut self.held, context);
            if !handed {
                self.poll_upload(origin, context)?;
                handed = self.poll_outbox(outbox, None, context)?.is_ready();
                if !handed {
                    let time = timeouts.response_body;
                    return outbox.poll_ahead(origin, held, &self.allowance, time, context);
                }
                self.timer.arm(timeouts.response_body);
            }
            self.poll_read(origin, held, context)
        })
        .await
    }

    /// Hands the rest to `h2`; with `body`, that is all, and its trailers follow.
    async fn flush(
        &mut self,
        outbox: &mut Outbox<'_>,
        body: Option<&AnswerBody>,
        mut origin: Option<&mut OriginStream>,
    ) -> Result<(), Fault> {
        if !outbox.stalled {
            self.timer.arm(self.config.policy.timeouts.write);
        }
        poll_fn(|context| {
            if let Some(origin) = &mut origin {
                self.poll_upload(origin, context)?;
            }
            self.poll_outbox(outbox, body, context)?.map(Ok)
        })
        .await
    }

    /// Hands each buffer to `h2` as soon as the client has room for any of it: what is beyond its room
    /// waits there, at most one buffer. The client has the time for writing for each. `ends` is a body
    /// of which nothing follows.
    fn poll_outbox(
        &mut self,
        outbox: &mut Outbox<'_>,
        ends: Option<&AnswerBody>,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, Fault> {
        while let Some(len) = outbox.next_len() {
            if self.poll_room(len, context)?.is_pending() {
                outbox.stalled = true;
                if self.timer.poll_expired(context) {
                    return Err(Fault::Client(io::ErrorKind::TimedOut.into()));
                }
                return Ok(Poll::Pending);
            }
            let payload = Payload::of(outbox.pop().expect("just looked"), len);
            self.record.sent_bytes += len as u64;
            self.timer.arm(self.config.policy.timeouts.write);
            match ends {
                Some(body) if outbox.is_empty() => {
                    return self.finish(Some(payload), body).map(Poll::Ready);
                }
                _ => {
                    let sending = self.sending.as_mut().expect("the head was sent");
                    sending.send_data(payload, false).map_err(|_| gone())?;
                }
            }
        }
        outbox.stalled = false;
        match ends {
            Some(body) => self.finish(None, body).map(Poll::Ready),
            None => Ok(Poll::Ready(())),
        }
    }

    /// Ready when the client has room for any of `len` bytes.
    fn poll_room(&mut self, len: usize, context: &mut Context<'_>) -> Result<Poll<()>, Fault> {
        let sending = self.sending.as_mut().expect("the head was sent");
        sending.reserve_capacity(len);
        while sending.capacity() == 0 {
            match sending.poll_capacity(context) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(Some(Err(_)) | None) => return Err(gone()),
                Poll::Pending => return Ok(Poll::Pending),
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Sends the last of the body, and the trailers.
    fn finish(&mut self, payload: Option<Payload>, body: &AnswerBody) -> Result<(), Fault> {
        let sending = self.sending.as_mut().expect("the head was sent");
        let trailers = answer::trailers(body);
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
