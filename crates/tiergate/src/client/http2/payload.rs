//! The bytes of a DATA frame, as they lie in a buffer of ours.

use crate::buffers::{Buffer, SMALL};
use bytes::Buf;
use std::sync::Arc;

/// The bytes of a DATA frame.
#[derive(Debug, Default)]
pub(super) enum Payload {
    /// None.
    #[default]
    Empty,
    /// Read from the origin.
    Buffer(Buffer),
    /// An answer of ours, from the given byte on.
    Text(Arc<str>, usize),
}

impl Payload {
    /// The first `len` bytes of what was read. What is small moves into a small buffer, because `h2`
    /// may keep it until the client has room.
    pub(super) fn of(mut buffer: Buffer, len: usize) -> Self {
        buffer.truncate(len);
        if len <= SMALL {
            let mut small = Buffer::small();
            small.room()[..len].copy_from_slice(buffer.content());
            small.filled(len);
            return Payload::Buffer(small);
        }
        Payload::Buffer(buffer)
    }
}

impl Buf for Payload {
    fn remaining(&self) -> usize {
        self.chunk().len()
    }

    fn chunk(&self) -> &[u8] {
        match self {
            Payload::Empty => &[],
            Payload::Buffer(buffer) => buffer.content(),
            Payload::Text(text, at) => &text.as_bytes()[*at..],
        }
    }

    fn advance(&mut self, count: usize) {
        match self {
            Payload::Empty => assert_eq!(count, 0, "more was consumed than there is"),
            Payload::Buffer(buffer) => buffer.consume(count),
            Payload::Text(_, at) => *at += count,
        }
    }
}
