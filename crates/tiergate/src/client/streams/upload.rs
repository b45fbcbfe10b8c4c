//! A request's body on its way from DATA frames to the origin: as it is if its length is known, else
//! in chunks, with its trailers. Part of it may be gathered before the request asks for its slot.

use super::incoming::Incoming;
use crate::budget::Allowance;
use crate::buffers::{self, Buffer, SMALL};
use crate::origin::stream::OriginStream;
use crate::request::facts::RequestFacts;
use crate::request::fault::{Fault, MALFORMED, TOO_LARGE};
use crate::request::spool::Spool;
use crate::timers::Timer;
use bytes::{Buf, Bytes};
use http::HeaderMap;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tiergate_wire::http1::{self, Framing, TRAILER_FIELDS_MAX, TRAILERS_LEN_MAX, TrailerNames};
use tokio::io::AsyncWrite;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// DATA frames come.
    Data,
    /// They have ended; trailers may follow.
    Trailers,
    /// All was read from the client.
    Read,
    /// All was written to the origin, or it takes no more.
    Done { refused: bool },
}

/// A request's body, and its head once that goes to the origin.
#[derive(Debug)]
pub(in crate::client) struct Upload<B> {
    body: B,
    /// What was gathered of the body and goes first. Copied, so that neither the connection's window nor
    /// a larger read of the protocol's crate is held by it.
    gathered: Option<Buffer>,
    /// What was read after that, and not copied: the client may not replace it yet.
    first: Option<Bytes>,
    chunked: bool,
    /// Names of which no trailer passes on.
    left_out: TrailerNames,
    /// They stay where they are until the request has been decided about: a reload may give other names a meaning.
    holds_trailers: bool,
    /// Its length, where that is known.
    len: Option<u64>,
    /// What is left when all was read stays here.
    pub(in crate::client) holds_end: bool,
    stage: Stage,
    /// Goes before `data`: the head, or the frame of a chunk; from `lead_at` on.
    lead: Vec<u8>,
    lead_at: usize,
    data: Bytes,
    /// Bytes of `data` that the client was not yet told to replace.
    owed: usize,
    /// A chunk was begun and its CRLF not written.
    in_chunk: bool,
    /// Bytes that have begun to go to the origin.
    passed: u64,
    total_max: u64,
    /// What of the body is in a file and goes before the rest, until the origin has it.
    spool: Option<Box<Spool>>,
}

impl<B: Incoming> Upload<B> {
    pub(in crate::client) fn new(body: B) -> Self {
        Upload {
            body,
            gathered: None,
            first: None,
            chunked: false,
            left_out: TrailerNames::default(),
            holds_trailers: false,
            len: None,
            holds_end: false,
            stage: Stage::Data,
            lead: Vec::new(),
            lead_at: 0,
            data: Bytes::new(),
            owed: 0,
            in_chunk: false,
            passed: 0,
            total_max: 0,
            spool: None,
        }
    }

    /// Takes in what has come together with the head.
    pub(in crate::client) fn poll_early(&mut self, context: &mut Context<'_>) {
        if self.first.is_none() {
            // A failure shows again when more is read.
            let _ = self.poll_more(context);
        }
    }

    /// Reads the next frame, which goes after what was gathered.
    pub(in crate::client) fn poll_more(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.stage == Stage::Data {
            match ready!(self.body.poll_data(context))? {
                Some(data) => self.first = Some(data),
                None => self.stage = Stage::Trailers,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Whether all of the body was read from the client.
    pub(in crate::client) fn is_read(&self) -> bool {
        self.stage != Stage::Data || self.body.is_ended()
    }

    /// Bytes that were read and do not go to the origin yet.
    pub(in crate::client) fn gathered_len(&self) -> usize {
        let gathered = self.gathered.as_ref().map_or(0, |buffer| buffer.content().len());
        gathered + self.first.as_ref().map_or(0, Bytes::len)
    }

    /// Copies what was read last, and lets the client replace it; `false` if there is no memory left.
    pub(in crate::client) fn gather(&mut self, most: usize, allowance: &Allowance<'_>) -> bool {
        let Some(data) = &self.first else { return true };
        if data.is_empty() {
            // A frame may be empty: it needs no room, and there may be no buffer yet.
            self.first = None;
            return true;
        }
        let (has, capacity) = match &self.gathered {
            Some(buffer) => (buffer.content().len(), buffer.capacity()),
            None => (0, 0),
        };
        let needs = has + data.len();
        if needs > capacity {
            let larger = buffers::next_len(capacity.max(SMALL), most).max(needs);
            let Some(reserved) = allowance.take(0, larger) else { return false };
            match &mut self.gathered {
                Some(buffer) => buffer.move_into(reserved),
                None => self.gathered = Some(Buffer::reserved(reserved)),
            }
        }
        let buffer = self.gathered.as_mut().expect("just made");
        buffer.append(data);
        self.body.release(data.len());
        self.first = None;
        true
    }

    /// The body is next to go to the origin; `total_max`: bytes of the longest that is taken.
    pub(in crate::client) fn begin(&mut self, facts: &RequestFacts, total_max: u64) {
        let framing = facts.body;
        self.chunked = framing == Framing::Chunked;
        self.left_out = facts.left_out.clone();
        self.holds_trailers = false;
        self.len = match framing {
            Framing::Length(len) => Some(len),
            Framing::None | Framing::Chunked | Framing::UntilClose => None,
        };
        self.total_max = total_max;
        if framing.is_empty() {
            self.stage = Stage::Done { refused: false };
        }
    }

    /// What the client sends through a tunnel: what has come already, and the rest.
    pub(in crate::client) fn tunnel(&mut self) -> (Bytes, &mut B) {
        (self.first.take().unwrap_or_default(), &mut self.body)
    }

    /// What was gathered and all that follows goes to a file; the body has begun.
    pub(in crate::client) fn begin_spool(&mut self, spool: Box<Spool>) {
        self.spool = Some(spool);
        self.holds_trailers = self.chunked;
    }

    /// Whether the head is to go by itself: a file is next.
    pub(in crate::client) fn is_spooled(&self) -> bool {
        self.spool.is_some()
    }

    /// Puts the request's head in front; nothing may have been polled before.
    pub(in crate::client) fn put_head(&mut self, head: &[u8]) {
        self.lead.clear();
        self.lead.extend_from_slice(head);
        self.lead_at = 0;
    }

    /// Whether the whole body has been handed on.
    pub(in crate::client) fn is_done(&self) -> bool {
        self.stage == Stage::Done { refused: false } && self.spool.is_none()
    }

    /// Whether there is no more to be done: the body has been handed on or the origin takes no more.
    pub(in crate::client) fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Done { .. })
    }

    /// Bytes of the body that were read.
    pub(in crate::client) fn total(&self) -> u64 {
        self.passed + self.gathered_len() as u64
    }

    /// Whether it is the client's turn: all that was read has been taken.
    pub(in crate::client) fn is_dry(&self) -> bool {
        self.has_passed_all() && self.spool.as_ref().is_none_or(|spool| spool.awaits_bytes())
    }

    /// Whether all was read, and the end of it is held.
    pub(in crate::client) fn is_end_held(&self) -> bool {
        // The client may say later that what was read is all.
        let is_all = self.stage == Stage::Read || self.len.is_some_and(|len| self.passed >= len);
        self.holds_end && is_all && !self.is_over()
    }

    /// Whether there is nothing more to be read for now.
    fn is_read_to_its_end(&self) -> bool {
        match self.stage {
            Stage::Data => false,
            Stage::Trailers => self.holds_trailers,
            Stage::Read | Stage::Done { .. } => true,
        }
    }

    fn has_passed_all(&self) -> bool {
        self.lead_at == self.lead.len() && self.data.is_empty()
    }

    /// Moves what can be moved. Ready when the body has ended or the origin takes no more.
    ///
    /// # Errors
    /// The client's. `timer` is armed anew with `patience` at every step.
    pub(in crate::client) fn poll(
        &mut self,
        origin: &mut OriginStream,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        if let Some(spool) = &mut self.spool {
            ready!(spool.poll_send(origin, timer, patience, context))?;
            self.spool = None;
        }
        while !self.is_over() {
            // Read first, so that the head and what there is of the body leave together.
            let read = match self.data.is_empty() {
                true => self.poll_read(context)?,
                false => Poll::Pending,
            };
            if self.is_end_held() {
                return Poll::Pending;
            }
            if !self.has_passed_all() {
                ready!(self.poll_write(origin, context));
                timer.arm(patience);
            } else if self.stage == Stage::Read {
                self.stage = Stage::Done { refused: false };
            } else {
                ready!(read);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Moves what can be moved to the file. Ready when the body has ended or no more is taken.
    ///
    /// # Errors
    /// The client's, or the file's. `timer` is armed anew with `patience` at every step.
    pub(in crate::client) fn poll_spool(
        &mut self,
        timer: &Timer,
        patience: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Fault>> {
        loop {
            let spool = self.spool.as_mut().expect("it has begun");
            ready!(spool.poll_written(timer, patience, context))?;
            let read = self.poll_put(context)?;
            let spool = self.spool.as_ref().expect("it has begun");
            if spool.is_to_be_written() {
                continue;
            }
            let is_over = self.is_read_to_its_end() && self.has_passed_all();
            if is_over || !spool.is_filling() {
                return Poll::Ready(Ok(()));
            }
            ready!(read);
        }
    }

    /// Puts into the file's buffer what there is. Pending if that is not all that fits there.
    fn poll_put(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, Fault> {
        loop {
            let is_over = self.is_read_to_its_end();
            if self.has_passed_all() && (is_over || self.poll_read(context)?.is_pending()) {
                return Ok(Poll::Pending);
            }
            let spool = self.spool.as_mut().expect("it has begun");
            let of_lead = spool.put(&self.lead[self.lead_at..]);
            let of_data = match self.lead_at + of_lead == self.lead.len() {
                true => spool.put(&self.data),
                false => 0,
            };
            self.moved(of_lead, of_data);
            if !self.has_passed_all() {
                return Ok(Poll::Ready(()));
            }
        }
    }

    /// Takes the next frame over.
    fn poll_read(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, Fault> {
        let failed = Fault::Client;
        if let Some(gathered) = self.gathered.take() {
            self.take(Bytes::from_owner(gathered))?;
            self.owed = 0;
            return Ok(Poll::Ready(()));
        }
        if self.first.is_none()
            && matches!(self.stage, Stage::Data)
            && self.poll_more(context).map_err(failed)?.is_pending()
        {
            return Ok(Poll::Pending);
        }
        if let Some(data) = self.first.take() {
            self.take(data)?;
        } else if self.stage == Stage::Trailers && !self.holds_trailers {
            match self.body.poll_trailers(context) {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(trailers) => {
                    let trailers = trailers.map_err(failed)?;
                    self.end(trailers.as_ref())?;
                }
            }
        }
        Ok(Poll::Ready(()))
    }

    fn take(&mut self, data: Bytes) -> Result<(), Fault> {
        self.passed += data.len() as u64;
        if self.total_max > 0 && self.passed > self.total_max {
            return Err(TOO_LARGE);
        }
        // The protocol's side has looked at it already. Were it mistaken, the origin would take the rest for another request.
        if self.len.is_some_and(|len| self.passed > len) {
            return Err(MALFORMED);
        }
        // An empty frame would be the last chunk.
        if self.chunked && !data.is_empty() {
            self.forget_written();
            let end = if self.in_chunk { "\r\n" } else { "" };
            write!(self.lead, "{end}{:x}\r\n", data.len()).expect("a Vec takes all");
            self.in_chunk = true;
        }
        self.owed = data.len();
        self.data = data;
        Ok(())
    }

    fn end(&mut self, trailers: Option<&HeaderMap>) -> Result<(), Fault> {
        self.stage = Stage::Read;
        if self.len.is_some_and(|len| self.passed < len) {
            return Err(MALFORMED);
        }
        if !self.chunked {
            // There is no room for trailers behind a body of known length; RFC 9110 §6.5.1 lets a
            // recipient drop them.
            return Ok(());
        }
        self.forget_written();
        self.lead.extend_from_slice(if self.in_chunk { b"\r\n0\r\n" } else { b"0\r\n" });
        let (begin, mut count) = (self.lead.len(), 0);
        for (name, value) in trailers.into_iter().flatten() {
            let name = name.as_str().as_bytes();
            if http1::may_be_trailer(name) && !self.left_out.contains(name) {
                count += 1;
                for part in [name, b": ", value.as_bytes(), b"\r\n"] {
                    self.lead.extend_from_slice(part);
                }
            }
        }
        // As over HTTP/1.1. On the way to an origin over HTTP/2 it would be found too late: the request would have no end.
        if count > TRAILER_FIELDS_MAX || self.lead.len() - begin > TRAILERS_LEN_MAX {
            return Err(MALFORMED);
        }
        self.lead.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn forget_written(&mut self) {
        self.lead.drain(..self.lead_at);
        self.lead_at = 0;
    }

    fn poll_write(&mut self, origin: &mut OriginStream, context: &mut Context<'_>) -> Poll<()> {
        while !self.has_passed_all() {
            let lead = &self.lead[self.lead_at..];
            let slices = [IoSlice::new(lead), IoSlice::new(&self.data)];
            match ready!(Pin::new(&mut *origin).poll_write_vectored(context, &slices)) {
                Ok(count) if count > 0 => {
                    let of_lead = count.min(lead.len());
                    self.moved(of_lead, count - of_lead);
                }
                // It may have answered before it closed; the answer's side finds out.
                _ => {
                    self.stage = Stage::Done { refused: true };
                    return Poll::Ready(());
                }
            }
        }
        Poll::Ready(())
    }

    /// So many bytes have been handed on.
    fn moved(&mut self, of_lead: usize, of_data: usize) {
        self.lead_at += of_lead;
        self.data.advance(of_data);
        // The client may send so much more: its body flows as it is taken.
        let taken = of_data.min(self.owed);
        self.owed -= taken;
        self.body.release(taken);
    }
}
