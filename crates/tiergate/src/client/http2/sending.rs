//! A stream's answer on its way to the client, as far as that lets it.

use super::payload::Payload;
use super::side::Http2;
use crate::client::streams::answer;
use crate::request::body::AnswerBody;
use crate::request::fault::Fault;
use crate::request::outbox::Outbox;
use http::Response;
use std::task::{Context, Poll, ready};
use std::time::Duration;

impl Http2<'_> {
    /// Hands to `h2` what the client's windows let through, so that only the socket can hold it up there: what
    /// waits for the client's windows waits in the outbox, and a client that widens them byte by byte has the
    /// time for a buffer all the same.
    pub(super) fn poll_answer(
        &mut self,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if let Some(response) = self.response.take()
            && self.send_head(response, outbox, ends)?.is_ready()
        {
            return Poll::Ready(Ok(()));
        }
        while let Some(len) = outbox.next_len() {
            // What has its turns on the link is not to leave together later, once a client reads that did not.
            if outbox.is_sparing || outbox.allowed().is_some() {
                ready!(self.held.poll_none(context));
            }
            let allowed = outbox.allowed().map(|it| usize::try_from(it).unwrap_or(usize::MAX));
            let most = allowed.map_or(len, |allowed| len.min(allowed));
            if most == 0 {
                outbox.await_turn();
                return Poll::Pending;
            }
            let room = ready!(self.poll_room(most, context))?.min(most);
            let buffer = if room < len {
                outbox.pop_part(room)
            } else {
                self.timer.arm(time);
                outbox.pop().expect("just looked")
            };
            let payload = Payload::of(buffer, &self.held);
            if let Some(body) = ends.filter(|_| outbox.is_empty()) {
                self.send_last(Some(payload), body, time)?;
                return self.poll_sent(context);
            }
            let sending = self.sending.as_mut().expect("the head was sent");
            sending.send_data(payload, false).map_err(|_| Fault::gone())?;
        }
        let Some(body) = ends else { return Poll::Ready(Ok(())) };
        if !self.is_over {
            self.send_last(None, body, time)?;
        }
        self.poll_sent(context)
    }

    /// Sends the answer's head. `ends` is a body of which nothing follows.
    fn send_head(
        &mut self,
        response: Response<()>,
        outbox: &mut Outbox,
        ends: Option<&AnswerBody>,
    ) -> Result<Poll<()>, Fault> {
        let is_all = outbox.is_empty() && ends.is_some_and(|body| answer::trailers(body).is_none());
        let sending = self.respond.send_response(response, is_all).map_err(|_| Fault::gone())?;
        self.sending = Some(sending);
        outbox.begin();
        Ok(if is_all { Poll::Ready(()) } else { Poll::Pending })
    }

    /// How many of `len` bytes may go: all, or as many as the client's windows let through once all before
    /// them have gone.
    pub(super) fn poll_room(
        &mut self,
        len: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, Fault>> {
        let Some(sending) = &mut self.sending else { return Poll::Ready(Ok(len)) };
        sending.reserve_capacity(len);
        loop {
            let room = sending.capacity();
            if room >= len || room > 0 && self.held.poll_none(context).is_ready() {
                return Poll::Ready(Ok(room.min(len)));
            }
            if !matches!(ready!(sending.poll_capacity(context)), Some(Ok(_))) {
                return Poll::Ready(Err(Fault::gone()));
            }
        }
    }

    /// Ready when nothing of the answer, which was handed over whole, is held any more. The client's windows
    /// let it through, so it is the connection that is slow: each of its streams has the time for a buffer of
    /// every one.
    fn poll_sent(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let sending = self.sending.as_mut().expect("the head was sent");
        if sending.poll_reset(context).is_ready() {
            return Poll::Ready(Err(Fault::gone()));
        }
        self.held.poll_none(context).map(Ok)
    }

    /// Sends the last of the body, and the trailers; `time` is that for one buffer.
    fn send_last(
        &mut self,
        payload: Option<Payload>,
        body: &AnswerBody,
        time: Duration,
    ) -> Result<(), Fault> {
        self.is_over = true;
        self.timer.arm(time.saturating_mul(u32::try_from(self.tally.live()).unwrap_or(u32::MAX)));
        let sending = self.sending.as_mut().expect("the head was sent");
        let trailers = answer::trailers(body);
        if payload.is_some() || trailers.is_none() {
            let payload = payload.unwrap_or_default();
            sending.send_data(payload, trailers.is_none()).map_err(|_| Fault::gone())?;
        }
        if let Some(trailers) = trailers {
            sending.send_trailers(trailers).map_err(|_| Fault::gone())?;
        }
        Ok(())
    }
}
