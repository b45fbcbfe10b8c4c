//! One request and its answer on one connection to the origin.
//!
//! ```text
//! send ─▶ head ─┬─ 1xx: pass on, head again
//!               └─ final: pass on ─▶ body ─▶ [trailers] ─▶ end
//! ```

use super::answer::{self, Seen};
use super::forward::{Journey, gone};
use crate::buffers::Buffer;
use crate::door::Held;
use crate::exchange::{Failure, INTERIM_MAX, answered};
use crate::gather::TOO_SLOW;
use crate::link::{Fault, upload_fault};
use crate::origin::stream::OriginStream;
use crate::origin::{Lease, Place};
use crate::stream::{Outgoing, poll_fill_held};
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
        if let Some(held) = self.held.as_mut().filter(|_| self.facts.may_be_broken_off.is_some()) {
            poll_fn(|context| held.poll_permit_preemption(context)).await;
        }
        let mut answer: Option<Buffer> = None;
        let mut interims = 0;
        loop {
            let bytes = answer.as_ref().map_or(&[][..], Buffer::content);
            let (len, response) = match answer::look(bytes, self.config, self.facts) {
                Seen::Final { len, response, body } => {
                    place.alive();
                    let status = response.status().as_u16();
                    answered(&mut self.held, &mut self.record, status, len);
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
                    let read = poll_fn(|context| match &self.held {
                        Some(held) if held.is_preempted() => Poll::Ready(Err(Fault::Preempted)),
                        _ => self.poll_read(&mut origin, &mut answer, context),
                    });
                    let fault = match read.await {
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
            self.held.iter_mut().for_each(Held::keep);
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
    pub(super) fn poll_read(
        &mut self,
        origin: &mut OriginStream,
        held: &mut Option<Buffer>,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, Fault>> {
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
                true => TOO_SLOW,
                false => Fault::OriginSlow,
            }));
        }
        Poll::Pending
    }

    fn waits_for_client(&self) -> bool {
        let upload = self.upload.as_ref();
        upload.is_some_and(|upload| !upload.is_over() && upload.is_dry())
    }

    pub(super) fn poll_upload(
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
                self.parked = None;
                self.timer.arm(timeouts.response_head);
                Ok(())
            }
            Poll::Ready(Err(error)) => Err(upload_fault(error)),
        }
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
