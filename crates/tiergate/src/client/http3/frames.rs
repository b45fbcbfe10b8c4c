//! Cuts what a request stream, or the client's control stream, brings at the bounds of its frames (RFC 9114 §7.1).
//!
//! `h3` reads on whenever it is asked for a frame, also while it holds some, and waits for the whole of a frame that is no
//! DATA, however long. Handed one head of a frame or one part of a payload at a time, it never holds more than that; frames
//! that it would only skip are left out, as are empty ones of DATA, which it takes for the end of the body. What has to be
//! whole is gathered here: a part of a datagram keeps all of it in memory.

use arrayvec::ArrayVec;
use bytes::{Buf, Bytes, BytesMut};

const DATA: u64 = 0x0;
const HEADERS: u64 = 0x1;
/// Frames that belong elsewhere, or that HTTP/2 had: an error of the connection.
const MISPLACED: [u64; 9] = [0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xd];
/// Given to `h3` in place of any of them, the shortest that it takes for that error. It waits for the rest of some of them that are whole, such as one that has no
/// number where it should, reads on for ever, and keeps all that comes.
const UNEXPECTED: &[u8] = &[0x2, 0];
/// Frames of the control stream: settings, and those that are one number.
const SETTINGS: u64 = 0x4;
const NUMBERS: [u64; 3] = [0x3, 0x7, 0xd];
/// Bytes of the longest of them.
const CONTROL_LEN_MAX: u64 = 4096;

/// Type and length, eight bytes each at most.
const HEAD_LEN_MAX: usize = 16;

/// Where in its frames a stream is.
#[derive(Debug)]
pub(super) struct Frames {
    place: Place,
    head: ArrayVec<u8, HEAD_LEN_MAX>,
    /// What has come of a payload that has to be whole.
    gathered: BytesMut,
    /// `None`: of the control stream.
    headers_len_max: Option<u64>,
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
    /// The same, if it is one number.
    Number,
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
    /// A frame that is to be one number is none.
    Malformed,
}

impl Frames {
    /// At the beginning of a stream. `headers_len_max`: bytes of the longest header block, compressed.
    pub(super) fn new(headers_len_max: u64) -> Self {
        Frames { headers_len_max: Some(headers_len_max), ..Frames::of_control() }
    }

    /// At the beginning of a control stream, behind its type.
    pub(super) fn of_control() -> Self {
        let (head, gathered) = (ArrayVec::new(), BytesMut::new());
        Frames { place: Place::Head, head, gathered, headers_len_max: None }
    }

    /// Takes bytes from the front of `held`.
    pub(super) fn cut(&mut self, held: &mut Bytes) -> Cut {
        loop {
            match self.place {
                Place::Head => {
                    let Some((kind, len)) = self.read_head(held) else { return Cut::More };
                    let Some((len_max, fate)) = self.fate(kind, len) else {
                        self.place = Place::Payload { left: len, fate: Fate::Skipped };
                        self.head.clear();
                        return Cut::Part(Bytes::from_static(UNEXPECTED));
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
                Place::Payload { left: 0, fate: Fate::Number } => return Cut::Malformed,
                Place::Payload { left: 0, .. } => self.place = Place::Head,
                Place::Payload { .. } if held.is_empty() => return Cut::More,
                Place::Payload { left, fate } => {
                    let len = usize::try_from(left).unwrap_or(usize::MAX).min(held.len());
                    let part = held.split_to(len);
                    let left = left - len as u64;
                    self.place = Place::Payload { left, fate };
                    match fate {
                        Fate::Passed => return Cut::Part(part),
                        Fate::Gathered | Fate::Number => self.gathered.extend_from_slice(&part),
                        Fate::Skipped => {}
                    }
                    if left == 0 && fate == Fate::Number {
                        let mut number = &self.gathered[..];
                        if varint(&mut number).is_none() || !number.is_empty() {
                            return Cut::Malformed;
                        }
                        self.place = Place::Head;
                    }
                    if left == 0 && !self.gathered.is_empty() {
                        return Cut::Part(std::mem::take(&mut self.gathered).freeze());
                    }
                }
            }
        }
    }

    /// What becomes of a frame, and how long it may be; `None`: it is misplaced.
    fn fate(&self, kind: u64, len: u64) -> Option<(u64, Fate)> {
        match (kind, self.headers_len_max) {
            (DATA, Some(_)) if len > 0 => Some((u64::MAX, Fate::Passed)),
            (DATA, Some(_)) => Some((u64::MAX, Fate::Skipped)),
            (HEADERS, Some(len_max)) => Some((len_max, Fate::Gathered)),
            (SETTINGS, None) => Some((CONTROL_LEN_MAX, Fate::Gathered)),
            (kind, None) if NUMBERS.contains(&kind) => Some((CONTROL_LEN_MAX, Fate::Number)),
            (DATA | HEADERS, None) => None,
            (kind, _) if MISPLACED.contains(&kind) => None,
            _ => Some((u64::MAX, Fate::Skipped)),
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
pub(super) fn varint(bytes: &mut &[u8]) -> Option<u64> {
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
        passed_by(Frames::new(100), stream, piece)
    }

    fn passed_by(mut frames: Frames, stream: &[u8], piece: usize) -> Result<(Vec<u8>, usize), Cut> {
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
                    other => return Err(other),
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
        for kind in MISPLACED {
            // As a whole frame, as one that ends too early, and as one that never ends.
            for payload in [&b""[..], b"\x01", b"\x40", &[7; 5000]] {
                let stream = [frame(kind, payload), [0, 1, b'A'].repeat(9)].concat();
                let (out, _) = passed(&stream[..frame(kind, payload).len()], 3).expect("short");
                assert_eq!(out, UNEXPECTED, "{kind}: {payload:?}");
                assert!(passed(&stream, 3).expect("short").0.starts_with(UNEXPECTED));
            }
        }
    }

    #[test]
    fn of_a_control_stream_only_what_is_whole_is_passed() {
        let control = |stream: &[u8]| passed_by(Frames::of_control(), stream, 3);
        for (kind, payload) in
            [(SETTINGS, &b""[..]), (SETTINGS, &[7; 900]), (0x7, b"\x41\0"), (0xd, b"\x3f")]
        {
            let stream = [frame(kind, payload), frame(0xf_0700, b"u=1")].concat();
            assert_eq!(control(&stream).expect("whole").0, frame(kind, payload), "{kind}");
        }
        for kind in NUMBERS {
            for payload in [&b""[..], b"\x40", b"\x01\x01", &[0xff; 9]] {
                assert_eq!(
                    control(&frame(kind, payload)),
                    Err(Cut::Malformed),
                    "{kind}: {payload:?}"
                );
            }
        }
        for kind in [DATA, HEADERS, 0x2, 0x5, 0x9] {
            assert_eq!(control(&frame(kind, b"ab")).expect("short").0, UNEXPECTED, "{kind}");
        }
        assert_eq!(control(&frame(SETTINGS, &[7; 5000])), Err(Cut::TooLong));
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
