//! The bytes of a DATA frame, as they lie in a buffer of ours.

use crate::buffers::Buffer;
use bytes::Buf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// How many buffers of a stream `h2` holds, and of how many bytes. Stream and connection are tasks of one thread: lock and atomic only
/// say so to the compiler.
#[derive(Debug, Default)]
pub(super) struct Held {
    count: AtomicUsize,
    bytes: AtomicUsize,
    stream: Mutex<Option<Waker>>,
}

impl Held {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ready when `h2` holds none: the socket has them, or the stream has ended. Else the task is woken then.
    pub(super) fn poll_none(&self, context: &Context<'_>) -> Poll<()> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return Poll::Ready(());
        }
        let mut waker = self.stream.lock().expect("no code panics while it holds the waker");
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
        Poll::Pending
    }
}

/// One of them. Dropped, it is held no more.
#[derive(Debug)]
pub(super) struct Holding {
    held: Arc<Held>,
    bytes: usize,
}

impl Holding {
    fn one(held: &Arc<Held>, bytes: usize) -> Self {
        held.count.fetch_add(1, Ordering::Relaxed);
        held.bytes.fetch_add(bytes, Ordering::Relaxed);
        Holding { held: held.clone(), bytes }
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.held.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.held.count.fetch_sub(1, Ordering::Relaxed) == 1 {
            let mut waker =
                self.held.stream.lock().expect("no code panics while it holds the waker");
            waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// The bytes of a DATA frame.
#[derive(Debug, Default)]
pub(super) enum Payload {
    /// None.
    #[default]
    Empty,
    /// Read from the origin.
    Buffer(Buffer, #[expect(dead_code, reason = "counts while it lives")] Holding),
    /// An answer of ours, from the given byte on.
    Text(Arc<str>, usize),
}

impl Payload {
    /// What was read. What is small moves into a small buffer, because `h2` may keep it until the socket has
    /// room.
    pub(super) fn of(mut buffer: Buffer, held: &Arc<Held>) -> Self {
        buffer.fit();
        let len = buffer.content().len();
        Payload::Buffer(buffer, Holding::one(held, len))
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.chunk().len()
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Payload::Empty => &[],
            Payload::Buffer(buffer, _) => buffer.content(),
            Payload::Text(text, at) => &text.as_bytes()[*at..],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Payload::Empty => assert_eq!(count, 0, "more was consumed than there is"),
            Payload::Buffer(buffer, _) => buffer.consume(count),
            Payload::Text(_, at) => *at += count,
        }
    }
}
