//! Buffers: taken when bytes are there to be held, given back as soon as they are gone.
//!
//! A waiting connection holds none. Each thread keeps a few of each size, last given first taken, so
//! that the hot one stays in the cache.

use crate::budget::Reserved;
use std::cell::RefCell;
use std::ops::Range;

/// Bytes of a small buffer: holds nearly every request head.
pub const SMALL: usize = 8 * 1024;
/// Bytes of a large buffer: what is read from a socket at once while a body streams.
pub const LARGE: usize = 64 * 1024;

/// Buffers of each size that a thread keeps: 512 KiB and 2 MiB.
const KEPT_SMALL: usize = 64;
const KEPT_LARGE: usize = 32;

#[derive(Default)]
struct Kept {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
    text: Vec<Vec<u8>>,
}

thread_local! {
    static KEPT: RefCell<Kept> = RefCell::default();
}

/// A byte buffer with content in `start..end`.
#[derive(Debug)]
pub struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// What it takes of the memory for slow clients; `None`: it is what every request may have.
    reserved: Option<Reserved>,
}

impl Buffer {
    /// An empty buffer of [`SMALL`] bytes.
    pub fn small() -> Self {
        let kept = KEPT.with_borrow_mut(|kept| kept.small.pop());
        Self::over(kept.unwrap_or_else(|| vec![0; SMALL].into()))
    }

    /// An empty buffer of [`LARGE`] bytes.
    pub fn large() -> Self {
        let kept = KEPT.with_borrow_mut(|kept| kept.large.pop());
        Self::over(kept.unwrap_or_else(|| vec![0; LARGE].into()))
    }

    /// An empty buffer of as many bytes as were reserved for it.
    pub fn reserved(reserved: Reserved) -> Self {
        let mut buffer = match reserved.bytes() {
            LARGE => Self::large(),
            len => Self::over(vec![0; len].into()),
        };
        buffer.reserved = Some(reserved);
        buffer
    }

    fn over(bytes: Box<[u8]>) -> Self {
        Buffer { bytes, start: 0, end: 0, reserved: None }
    }

    /// Bytes that it takes of the memory for slow clients.
    pub fn reserved_bytes(&self) -> usize {
        self.reserved.as_ref().map_or(0, Reserved::bytes)
    }

    /// Bytes that it can hold.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Moves into a buffer of as many bytes as were reserved for it, which must suffice.
    pub fn move_into(&mut self, reserved: Reserved) {
        let mut larger = Self::reserved(reserved);
        let took = larger.append(self.content());
        assert_eq!(took, self.content().len(), "it is larger than what it holds");
        *self = larger;
    }

    /// Gives back what was reserved if a small buffer suffices.
    pub fn settle(&mut self) {
        if self.reserved.is_some() && self.content().len() <= SMALL {
            let mut small = Self::small();
            small.append(self.content());
            *self = small;
        }
    }

    /// Bytes of the smallest buffer for the content.
    pub fn needs(&self) -> usize {
        if self.content().len() <= SMALL { SMALL } else { self.capacity() }
    }

    /// Moves into a small buffer if that suffices. One with memory of its own stays.
    pub fn fit(&mut self) {
        if self.reserved.is_none() && self.needs() < self.capacity() {
            let mut small = Self::small();
            small.append(self.content());
            *self = small;
        }
    }

    /// Copies as many of `bytes` as there is room for behind the content; says how many.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let room = self.room();
        let count = room.len().min(bytes.len());
        room[..count].copy_from_slice(&bytes[..count]);
        self.filled(count);
        count
    }

    /// The content.
    pub fn content(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The content, to be changed in place.
    pub fn content_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Whether there is no content.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The room behind the content.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Whether there is no room behind the content.
    pub fn is_full(&self) -> bool {
        self.end == self.bytes.len()
    }

    /// The first `count` bytes of the room have been filled.
    pub fn filled(&mut self, count: usize) {
        self.end += count;
        assert!(self.end <= self.bytes.len(), "more was filled than there is room");
    }

    /// Forgets the first `count` bytes of the content.
    pub fn consume(&mut self, count: usize) {
        self.start += count;
        assert!(self.start <= self.end, "more was consumed than there is");
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Puts `bytes` in the place of a part of the content.
    pub fn replace(&mut self, part: Range<usize>, bytes: &[u8]) {
        let behind = self.content().len() - part.end;
        let len = part.start + bytes.len() + behind;
        if self.start + len > self.bytes.len() {
            let mut larger = Self::over(vec![0; len.max(SMALL)].into());
            larger.append(self.content());
            larger.reserved = self.reserved.take();
            *self = larger;
        }
        let (from, to) = (self.start + part.end, self.start + part.start + bytes.len());
        self.bytes.copy_within(from..from + behind, to);
        self.bytes[to - bytes.len()..to].copy_from_slice(bytes);
        self.end = self.start + len;
        self.consume(0);
    }

    /// Takes the first `len` bytes of the content into a buffer of their own; the rest stays.
    pub fn split_front(&mut self, len: usize) -> Self {
        let mut front = match len <= SMALL {
            true => Self::small(),
            false => Self::over(vec![0; len].into()),
        };
        front.append(&self.content()[..len]);
        self.consume(len);
        front
    }

    /// Forgets all but the first `len` bytes of the content.
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start + len);
    }

    /// Makes room behind the content: moves it to the front, and into a buffer of `len` bytes if it
    /// fills this one.
    pub fn make_room(&mut self, len: usize) {
        if self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.is_full() && len > self.bytes.len() {
            let mut larger: Box<[u8]> = vec![0; len].into();
            larger[..self.end].copy_from_slice(&self.bytes);
            keep(std::mem::replace(&mut self.bytes, larger));
        }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.content()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.bytes));
    }
}

fn keep(bytes: Box<[u8]>) {
    let _ = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        match bytes.len() {
            SMALL if kept.small.len() < KEPT_SMALL => kept.small.push(bytes),
            LARGE if kept.large.len() < KEPT_LARGE => kept.large.push(bytes),
            _ => {}
        }
    });
}

/// How much memory the next bytes of a body get that fills what it has, `has` bytes: four times that,
/// but no more than `most`. So a client makes us hold little more than what it sent.
pub(crate) fn next_len(has: usize, most: usize) -> usize {
    most.min(has.saturating_mul(4))
}

/// An empty byte string for a head that is being written; give it back with [`keep_text`].
pub fn text() -> Vec<u8> {
    KEPT.with_borrow_mut(|kept| kept.text.pop()).unwrap_or_else(|| Vec::with_capacity(2048))
}

/// Gives a byte string back, unless it grew beyond what is worth keeping.
pub fn keep_text(mut text: Vec<u8>) {
    text.clear();
    if text.capacity() <= SMALL {
        let _ = KEPT.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            if kept.text.len() < KEPT_SMALL {
                kept.text.push(text);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_survives_growth_and_moves() {
        let mut buffer = Buffer::small();
        let filling = buffer.room().len();
        buffer.room().fill(7);
        buffer.filled(filling);
        assert!(buffer.is_full());
        buffer.make_room(SMALL * 4);
        assert_eq!(buffer.content().len(), SMALL);
        assert!(buffer.content().iter().all(|&byte| byte == 7));
        assert_eq!(buffer.room().len(), SMALL * 3);
        buffer.consume(SMALL - 1);
        buffer.make_room(SMALL * 4);
        assert_eq!(buffer.content(), [7]);
        assert_eq!(buffer.room().len(), SMALL * 4 - 1);
    }

    #[test]
    fn a_part_is_replaced_in_place_and_beyond_the_room() {
        let mut buffer = Buffer::small();
        buffer.append(b"_headbodynext");
        buffer.consume(1);
        buffer.replace(4..8, b"b");
        assert_eq!(buffer.content(), b"headbnext");
        buffer.replace(4..5, &[b'x'; SMALL]);
        assert_eq!(buffer.content().len(), SMALL + 8);
        assert!(buffer.content().starts_with(b"headx") && buffer.content().ends_with(b"xnext"));
        buffer.replace(0..SMALL + 8, b"");
        assert_eq!((buffer.is_empty(), buffer.room().len()), (true, SMALL + 8));
    }

    #[test]
    fn a_front_is_split_off() {
        for len in [3, SMALL + 1] {
            let mut buffer = Buffer::large();
            buffer.append(&[b'h'; SMALL + 1][..len]);
            buffer.append(b"body");
            assert_eq!(buffer.split_front(len).content(), &[b'h'; SMALL + 1][..len]);
            assert_eq!(buffer.content(), b"body");
        }
    }

    #[test]
    fn memory_grows_with_what_was_sent_up_to_the_bound() {
        assert_eq!(next_len(SMALL, 100_000), 4 * SMALL);
        assert_eq!(next_len(4 * SMALL, 100_000), 100_000);
        assert_eq!(next_len(usize::MAX / 2, usize::MAX), usize::MAX);
    }

    #[test]
    fn buffers_are_used_again_and_only_so_many_kept() {
        let place = Buffer::small().bytes.as_ptr();
        assert_eq!(Buffer::small().bytes.as_ptr(), place);
        let many: Vec<Buffer> = (0..KEPT_SMALL * 2).map(|_| Buffer::small()).collect();
        drop(many);
        assert_eq!(KEPT.with_borrow(|kept| kept.small.len()), KEPT_SMALL);
    }
}
