//! Cuts what a request stream brings at the bounds of its frames (RFC 9114 §7.1).
//!
//! `h3` reads on whenever it is asked for a frame, also while it holds some, and waits for the whole of a frame that is no
//! DATA, however long. Handed one head of a frame or one part of a payload at a time, it never holds more than that; frames
//! that it would only skip are left out, as are empty ones of DATA, which it takes for the end of the body. What has to be
//! whole is gathered here: a part of a datagram keeps all of it in memory.

use arrayvec::ArrayVec;
use bytes::{Buf, Bytes, BytesMut};

const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
/// Frames that belong elsewhere, or that HTTP/2 had: an error, which `h3` finds.
const MISPLACED: [u64; 9] = [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd];
/// Bytes of such a frame that are read for that.
const MISPLACED_LEN_MAX: u64 = 1024;
/// Type and length, eight bytes each at most.
const HEAD_LEN_MAX: usize = 16;

/// Where in its frames a stream is.
#[derive(Debug)]
pub(super) struct Frames {
    place: Place,
    head: ArrayVec<u8, HEAD_LEN_MAX>,
    /// What has come of a payload that has to be whole.
    gathered: BytesMut,
    headers_len_max: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Head,
    Payload { left: u64, fate: Fate },
}

/// What becomes of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It is passed on as it comes.
    Passed,
    /// It is passed on once it is whole.
    Gathered,
    Skipped,
}

/// What comes of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The next that is to be passed on.
    Part(Bytes),
    /// All was taken: more is needed.
    More,
    /// A frame is longer than is read at once.
    TooLong,
}

impl Frames {
    /// At the beginning of a stream. `headers_len_max`: bytes of the longest header block, compressed.
    pub(super) fn new(headers_len_max: u64) -> Self {
        let (head, gathered) = (ArrayVec::new(), BytesMut::new());
        Frames { place: Place::Head, head, gathered, headers_len_max }
    }

    /// Takes bytes from the front of `held`.
    pub(super) fn cut(&mut self, held: &mut Bytes) -> Cut {
        loop {
            match self.place {
                Place::Head => {
                    let Some((kind, len)) = self.read_head(held) else { return Cut::More };
                    let (len_max, fate) = match kind {
                        DATA if len > 0 => (u64::MAX, Fate::Passed),
                        HEADERS => (self.headers_len_max, Fate::Gathered),
                        kind if MISPLACED.contains(&kind) => (MISPLACED_LEN_MAX, Fate::Gathered),
                        _ => (u64::MAX, Fate::Skipped),
                    };
                    if len > len_max {
                        return Cut::TooLong;
                    }
                    self.place = Place::Payload { left: len, fate };
                    let head = std::mem::take(&mut self.head);
                    if fate != Fate::Skipped {
                        return Cut::Part(Bytes::copy_from_slice(&head));
                    }
                }
                Place::Payload { left: 0, .. } => self.place = Place::Head,
                Place::Payload { .. } if held.is_empty() => return Cut::More,
                Place::Payload { left, fate } => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(held.len());
                    let part = held.split_to(len);
                    let left = left - len as u64;
                    self.place = Place::Payload { left, fate };
                    match fate {
                        Fate::Passed => return Cut::Part(part),
                        Fate::Gathered => self.gathered.extend_from_slice(&part),
                        Fate::Skipped => {}
                    }
                    if left == 0 && !self.gathered.is_empty() {
                        return Cut::Part(std::mem::take(&mut self.gathered).freeze());
                    }
                }
            }
        }
    }

    /// Whether a payload has begun that is not whole: the stream must not end here.
    pub(super) fn is_cut_off(&self) -> bool {
        matches!(self.place, Place::Payload { left: 1.., .. })
    }

    /// The stream has ended: what there is of a head, for `h3` to complain of.
    pub(super) fn rest(&mut self) -> Option<Bytes> {
        let head = std::mem::take(&mut self.head);
        (!head.is_empty()).then(|| Bytes::copy_from_slice(&head))
    }

    /// Type and length of the next frame, once they are whole.
    fn read_head(&mut self, held: &mut Bytes) -> Option<(u64, u64)> {
        loop {
            let mut head = &self.head[..];
            if let Some(kind) = varint(&mut head)
                && let Some(len) = varint(&mut head)
            {
                return Some((kind, len));
            }
            if held.is_empty() {
                return None;
            }
            self.head.push(held.get_u8());
        }
    }
}

/// A number of QUIC's (RFC 9000 §16) at the front of `bytes`, if it is whole.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let first = *bytes.first()?;
    let len = 1 << (first >> 6);
    let (number, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    let further = number[1..].iter();
    Some(further.fold(u64::from(first & 0x3f), |sum, byte| sum << 8 | u64::from(*byte)))
}

/// The head of a frame of DATA.
pub(super) fn data_head(len: usize) -> ArrayVec<u8, HEAD_LEN_MAX> {
    let mut head = ArrayVec::new();
    head.push(DATA as u8);
    let len = len as u64;
    let bytes = match len {
        0..=0x3f => 1,
        0x40..=0x3fff => 2,
        0x4000..=0x3fff_ffff => 4,
        _ => 8,
    };
    let encoded = len.to_be_bytes();
    let mark = (bytes as u32).trailing_zeros() as u8;
    head.extend(encoded[8 - bytes..].iter().copied());
    head[1] |= mark << 6;
    head
}

/// An answer without a body whose status has three digits, as a frame of HEADERS: for a request that has no head yet.
pub(super) fn bare_answer(status: u16) -> Vec<u8> {
    // The name is entry 24 of QPACK's static table, and nothing else is referred to (RFC 9204 §4.5.4).
    let mut frame = vec![HEADERS as u8, 8, 0, 0, 0x5f, 0x09, 3];
    frame.extend_from_slice(format!("{status:03}").as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
        let mut bytes = [1 << 62 | kind, 3 << 62 | payload.len() as u64].map(u64::to_be_bytes);
        bytes[0] = (3 << 62 | kind).to_be_bytes();
        [&bytes[0][..], &bytes[1][..], payload].concat()
    }

    /// What passes, with the bytes given in pieces.
    fn passed(stream: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Cut> {
        let mut frames = Frames::new(100);
        let (mut out, mut longest) = (Vec::new(), 0);
        for piece in stream.chunks(piece) {
            let mut held = Bytes::copy_from_slice(piece);
            loop {
                match frames.cut(&mut held) {
                    Cut::Part(part) => {
                        longest = longest.max(part.len());
                        out.extend_from_slice(&part);
                    }
                    Cut::More => break,
                    Cut::TooLong => return Err(Cut::TooLong),
                }
            }
            assert!(held.is_empty(), "all is taken");
        }
        Ok((out, longest))
    }

    #[test]
    fn a_part_never_crosses_the_bound_of_a_frame() {
        let (one, two) = (frame(DATA, b"one"), frame(DATA, b"three"));
        let stream = [&one[..], &two[..]].concat();
        let (out, longest) = passed(&stream, 1000).expect("short");
        assert_eq!((out, longest), (stream, HEAD_LEN_MAX));
    }

    #[test]
    fn long_header_blocks_and_misplaced_frames_are_not_waited_for() {
        assert_eq!(passed(&frame(HEADERS, &[7; 101]), 3), Err(Cut::TooLong));
        assert!(passed(&frame(HEADERS, &[7; 100]), 3).is_ok());
        assert_eq!(passed(&frame(0x4, &[7; 1025]), 3), Err(Cut::TooLong));
    }

    #[test]
    fn heads_of_data_are_as_short_as_they_can_be() {
        for len in [1, 63, 64, 16383, 16384, (1 << 30) - 1, 1 << 30] {
            let head = data_head(len);
            let mut rest = &head[..];
            assert_eq!((varint(&mut rest), varint(&mut rest)), (Some(0), Some(len as u64)));
            assert!(rest.is_empty());
        }
        assert_eq!(data_head(63).len(), 2);
    }

    #[test]
    fn a_stream_may_end_between_frames_and_nowhere_else() {
        for kind in [DATA, HEADERS, 0x21] {
            let stream = frame(kind, b"five!");
            for end in HEAD_LEN_MAX..=stream.len() {
                let (mut frames, mut held) =
                    (Frames::new(100), Bytes::copy_from_slice(&stream[..end]));
                while let Cut::Part(_) = frames.cut(&mut held) {}
                assert_eq!(frames.is_cut_off(), end < stream.len(), "{kind}: {end}");
            }
        }
    }

    #[test]
    fn a_header_block_is_passed_whole_however_it_comes() {
        let mut frames = Frames::new(100);
        let mut parts = Vec::new();
        for byte in frame(HEADERS, &[7; 100]) {
            let mut held = Bytes::copy_from_slice(&[byte]);
            while let Cut::Part(part) = frames.cut(&mut held) {
                parts.push(part.len());
            }
        }
        assert_eq!(parts, [HEAD_LEN_MAX, 100]);
    }

    proptest! {
        #[test]
        fn what_h3_needs_passes_whole_and_nothing_else(
            kinds in prop::collection::vec((0u64..4, 0usize..90), 0..12),
            piece in 1usize..40,
        ) {
            let (mut stream, mut expected) = (Vec::new(), Vec::new());
            for (kind, len) in kinds {
                // 0x21 and 0x41 are unknown here.
                let kind = [DATA, HEADERS, 0x21, 0x41][kind as usize];
                let frame = frame(kind, &vec![kind as u8; len]);
                stream.extend_from_slice(&frame);
                if kind == HEADERS || kind == DATA && len > 0 {
                    expected.extend_from_slice(&frame);
                }
            }
            prop_assert_eq!(passed(&stream, piece).expect("short").0, expected);
        }
    }
}
