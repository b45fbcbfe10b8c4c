//! What of an answer is on its way to its client: usually the head and one buffer. When the client takes
//! it more slowly than the origin gives it, buffers queue up behind, within an [`Allowance`].

use super::fault::Fault;
use super::record::Written;
use crate::budget::{Allowance, Reserved};
use crate::buffers::{Buffer, LARGE, SMALL};
use crate::origin::stream::OriginStream;
use crate::stream::{Outgoing, poll_fill_held};
use crate::timers::Timer;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// What of an answer is on its way to its client.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The answer's head, of which the first `head_sent` bytes were written.
    head: Vec<u8>,
    head_sent: usize,
    front: Option<Buffer>,
    /// What was read ahead, packed: only the last may have room.
    behind: VecDeque<Buffer>,
    /// Bytes of memory that the buffers take of the allowance.
    reserved: usize,
    /// The memory of the others, once no slot bounds it.
    rest: Option<Reserved>,
    sent: u64,
    begun: bool,
    /// Bytes that may be handed over now; `None`: all.
    allowed: Option<u64>,
    /// Whether it waits to be allowed more: all else that may go has gone.
    awaits_turn: bool,
    /// Whether it waits for turns on the link wherever others do, as answers do, and what comes before them does not.
    pub(crate) takes_turns: bool,
    /// Whether the client's protocol is handed a buffer only when it holds none: there is no memory for more.
    pub(crate) is_sparing: bool,
    /// The client took less than it was offered when last asked, and its time is running.
    pub(crate) stalled: bool,
    /// The origin's time while it is read ahead of the client; running if `reads_ahead`.
    patience: Option<Timer>,
    reads_ahead: bool,
}

impl Outbox {
    /// With the answer's head in it.
    pub(crate) fn new(head: Vec<u8>) -> Self {
        let behind = VecDeque::new();
        Outbox {
            head,
            head_sent: 0,
            front: None,
            behind,
            reserved: 0,
            rest: None,
            sent: 0,
            begun: false,
            allowed: None,
            awaits_turn: false,
            takes_turns: false,
            is_sparing: false,
            stalled: false,
            patience: None,
            reads_ahead: false,
        }
    }

    /// Bytes written so far.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// The same, and those of the body; of one in chunks, their heads count.
    pub(crate) fn written(&self) -> Written {
        Written { bytes: self.sent, body: self.sent - self.head_sent as u64 }
    }

    /// The memory of the head, whatever was written of it.
    pub(crate) fn into_head(self) -> Vec<u8> {
        self.head
    }

    /// Whether anything of the answer has gone to the client.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }

    /// The head has gone to the client by another way.
    pub(crate) fn begin(&mut self) {
        self.begun = true;
    }

    /// Whether all was written.
    pub(crate) fn is_empty(&self) -> bool {
        self.head_sent == self.head.len() && self.front.is_none()
    }

    /// Bytes that may be handed over now, where that is bounded.
    pub(crate) fn allowed(&self) -> Option<u64> {
        self.allowed
    }

    /// So many bytes may be handed over from now on.
    pub(crate) fn allow(&mut self, bytes: u64) {
        self.allowed = Some(bytes);
        self.awaits_turn = false;
    }

    /// Whether it waits to be allowed more.
    pub(crate) fn awaits_turn(&self) -> bool {
        self.awaits_turn
    }

    /// What was allowed has been handed over, and more is there.
    pub(crate) fn await_turn(&mut self) {
        self.awaits_turn = true;
    }

    /// So many of them have been.
    fn passes(&mut self, bytes: usize) {
        if let Some(allowed) = &mut self.allowed {
            *allowed = allowed.saturating_sub(bytes as u64);
        }
    }

    /// No more than may be handed over with so many before.
    fn within<'b>(&self, bytes: &'b [u8], before: usize) -> &'b [u8] {
        let most = self.allowed.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(usize::MAX));
        &bytes[..bytes.len().min(most.saturating_sub(before))]
    }

    /// Bytes that are still to be handed over.
    pub(crate) fn left(&self) -> u64 {
        let buffers = self.front.iter().chain(&self.behind);
        let body: usize = buffers.map(|it| it.content().len()).sum();
        (self.head.len() - self.head_sent + body) as u64
    }

    /// Puts more behind what is there.
    pub(crate) fn push(&mut self, mut buffer: Buffer) {
        let Some(front) = &mut self.front else {
            self.reserved += buffer.reserved_bytes();
            self.front = Some(buffer);
            return;
        };
        // Small pieces are packed: a buffer for each would use the allowance up with nothing in it.
        let last = self.behind.back_mut().unwrap_or(front);
        let packed = last.append(buffer.content());
        buffer.consume(packed);
        if !buffer.is_empty() {
            self.reserved += buffer.reserved_bytes();
            self.behind.push_back(buffer);
        }
    }

    /// Bytes of the buffer that goes next; `None` if there is none.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.front.as_ref().map(|front| front.content().len())
    }

    /// Takes the buffer that goes next: it counts as sent.
    pub(crate) fn pop(&mut self) -> Option<Buffer> {
        let front = std::mem::replace(&mut self.front, self.behind.pop_front())?;
        let len = front.content().len();
        self.reserved -= front.reserved_bytes();
        self.sent += len as u64;
        self.passes(len);
        Some(front)
    }

    /// Takes a copy of the first `len` bytes of the buffer that goes next, or as many as a buffer holds: they
    /// count as sent.
    pub(crate) fn pop_part(&mut self, len: usize) -> Buffer {
        let front = self.front.as_mut().expect("its length was asked for");
        let mut part = if len <= SMALL { Buffer::small() } else { Buffer::large() };
        let taken = part.append(&front.content()[..len]);
        front.consume(taken);
        self.sent += taken as u64;
        self.passes(taken);
        part
    }

    /// Takes memory for what is there and was read on account of the slot, and for `more` bytes, which are elsewhere and stay for as
    /// long; `false`: there is none left.
    pub(crate) fn reserve_rest(&mut self, allowance: &Allowance<'_>, more: usize) -> bool {
        let buffers = self.front.iter().chain(&self.behind);
        let unread = buffers.filter(|it| it.reserved_bytes() == 0).map(Buffer::needs);
        let bytes = unread.sum::<usize>() + more;
        self.rest = if bytes > 0 { allowance.take(0, bytes) } else { None };
        bytes == 0 || self.rest.is_some()
    }

    /// The client does not take what there is: it takes no more memory than it needs.
    pub(crate) fn settle(&mut self) {
        self.front.iter_mut().chain(&mut self.behind).for_each(Buffer::fit);
    }

    /// Reads into `held`, which is empty, ahead of a client that does not take what there is; 0 is the
    /// end. `time` is the origin's.
    ///
    /// # Errors
    /// The origin's.
    pub(crate) fn poll_ahead(
        &mut self,
        origin: &mut OriginStream,
        held: &mut Option<Buffer>,
        allowance: &Allowance<'_>,
        time: Duration,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, Fault>> {
        let reserved = self.reserve(allowance);
        let reads_on = std::mem::replace(&mut self.reads_ahead, reserved.is_some());
        // Without memory it is the client's turn alone.
        let Some(reserved) = reserved else { return Poll::Pending };
        let patience = self.patience.get_or_insert_with(Timer::new);
        if !reads_on {
            patience.arm(time);
        }
        match poll_fill_held(origin, held, || Buffer::reserved(reserved), context) {
            Poll::Ready(read) => {
                self.reads_ahead = false;
                Poll::Ready(read.map_err(|_| Fault::Origin))
            }
            Poll::Pending if patience.poll_expired(context) => Poll::Ready(Err(Fault::OriginSlow)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Whether it waits for the origin as well as for the client.
    pub(crate) fn reads_ahead(&self) -> bool {
        self.reads_ahead
    }

    /// Memory for the next read ahead of the client; `None` if there is none left.
    fn reserve(&self, allowance: &Allowance<'_>) -> Option<Reserved> {
        let left = allowance.own_max.saturating_sub(self.reserved);
        if left == 0 {
            return None;
        }
        allowance.take(self.reserved, left.min(LARGE))
    }

    /// Writes what it can. `taken` is called whenever a buffer has been written whole.
    ///
    /// # Errors
    /// What the socket says.
    pub(crate) fn poll<W: AsyncWrite + Unpin>(
        &mut self,
        io: &mut W,
        mut taken: impl FnMut(),
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.is_empty() {
            if self.allowed == Some(0) {
                // What is held on the way is the client's to take before more goes.
                ready!(Pin::new(&mut *io).poll_flush(context))?;
                self.awaits_turn = true;
                return Poll::Pending;
            }
            let head = self.within(&self.head[self.head_sent..], 0);
            let body = self.front.as_ref().map_or(&[][..], Buffer::content);
            let body = self.within(body, head.len());
            let written = ready!(Outgoing::new(head, body).poll_some(io, context))?;
            let of_head = written.min(head.len());
            self.begun = true;
            self.sent += written as u64;
            self.head_sent += of_head;
            self.passes(written);
            if let Some(front) = &mut self.front {
                front.consume(written - of_head);
                if front.is_empty() {
                    self.pop();
                    taken();
                }
            }
        }
        Pin::new(io).poll_flush(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use std::sync::Arc;
    use std::task::Waker;

    /// Takes so many bytes and then no more.
    struct Client {
        room: usize,
        got: Vec<u8>,
    }

    impl AsyncWrite for Client {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Poll::Pending;
            }
            self.room -= count;
            self.got.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn filled(mut buffer: Buffer, bytes: &[u8]) -> Buffer {
        assert_eq!(buffer.append(bytes), bytes.len());
        buffer
    }

    #[test]
    fn pieces_are_packed_within_the_allowance_and_leave_in_order() {
        let budget = Arc::new(Budget::default());
        let allowance = Allowance { budget: &budget, total_max: 1 << 20, own_max: 3 * LARGE / 2 };
        let mut context = Context::from_waker(Waker::noop());
        let mut client = Client { room: 10, got: Vec::new() };
        let mut outbox = Outbox::new(b"head ".to_vec());
        let piece: Vec<u8> = (0..50_000u32).map(|at| at as u8).collect();
        outbox.push(filled(Buffer::large(), &piece));
        assert!(outbox.poll(&mut client, || (), &mut context).is_pending());
        let mut expected = [b"head ", &piece[..]].concat();
        let mut reads = 0;
        while let Some(reserved) = outbox.reserve(&allowance) {
            let len = reserved.bytes().min(20_000);
            outbox.push(filled(Buffer::reserved(reserved), &piece[..len]));
            expected.extend_from_slice(&piece[..len]);
            reads += 1;
        }
        assert_eq!(budget.used(), allowance.own_max);
        assert!(reads >= 4, "{reads}: packed");
        client.room = usize::MAX;
        let mut taken = 0;
        assert!(outbox.poll(&mut client, || taken += 1, &mut context).is_ready());
        assert!(client.got == expected, "the same bytes in the same order");
        assert_eq!((outbox.sent(), taken), (expected.len() as u64, 3));
        assert_eq!((budget.used(), outbox.reserved), (0, 0));
    }
}
