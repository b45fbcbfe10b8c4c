//! Where a body ends, found while its bytes pass through, or without the chunks around them.

use super::streaming::Streaming;
use crate::buffers::Buffer;
use tiergate_wire::http1::{ChunkScanner, Framing, Malformed, Scan, TrailerNames};

/// Finds the end of a body.
#[derive(Debug)]
pub(crate) struct BodyScanner {
    state: State,
}

#[derive(Debug)]
enum State {
    Done,
    Length(u64),
    Chunked(Box<ChunkScanner>),
    /// The whole has been seen; its trailers are still to be put.
    Trailers(Box<ChunkScanner>),
    UntilClose,
}

impl BodyScanner {
    /// At the beginning of a body.
    pub(crate) fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(len) => State::Length(len),
            Framing::Chunked => State::Chunked(Box::default()),
            Framing::UntilClose => State::UntilClose,
        };
        BodyScanner { state }
    }

    /// Leaves trailers of those names out of what passes on. To be called before they are put.
    pub(crate) fn leave_out(&mut self, names: &TrailerNames) {
        if let State::Chunked(scanner) | State::Trailers(scanner) = &mut self.state {
            scanner.leave_out(names.clone());
        }
    }

    /// Whether the whole body has been seen.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.state, State::Done | State::Trailers(_))
    }

    /// Whether the end of the connection is the end of the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Looks at the bytes of the buffer from `from` on, and leaves what passes on of those that belong to the
    /// body: [`Passed::kept`] bytes.
    ///
    /// # Errors
    /// A chunk is not framed to the letter.
    pub(crate) fn pass(&mut self, buffer: &mut Buffer, from: usize) -> Result<Passed, Malformed> {
        let passed = self.pass_body(buffer, from)?;
        let trailers = self.put_trailers(buffer, from + passed.kept);
        Ok(Passed { kept: passed.kept + trailers, ..passed })
    }

    /// The same, but that trailers are not there before they are put.
    ///
    /// # Errors
    /// As those of [`BodyScanner::pass`].
    pub(crate) fn pass_body(
        &mut self,
        buffer: &mut Buffer,
        from: usize,
    ) -> Result<Passed, Malformed> {
        let State::Chunked(scanner) = &mut self.state else {
            let Scan { consumed, done } = self.feed(&buffer.content()[from..])?;
            return Ok(Passed { consumed, kept: consumed, done });
        };
        let pass = scanner.pass(&mut buffer.content_mut()[from..])?;
        if pass.done {
            self.state = match std::mem::replace(&mut self.state, State::Done) {
                State::Chunked(scanner) if scanner.has_trailers() => State::Trailers(scanner),
                _ => State::Done,
            };
        }
        if pass.kept < pass.consumed {
            buffer.replace(from + pass.kept..from + pass.consumed, &[]);
        }
        Ok(Passed { consumed: pass.consumed, kept: pass.kept, done: pass.done })
    }

    /// Whether the whole has been seen, and trailers are still to be put.
    pub(crate) fn holds_trailers(&self) -> bool {
        matches!(self.state, State::Trailers(_))
    }

    /// Puts the trailers that are still to be put, and the end of the body, into the buffer; says how many bytes.
    pub(crate) fn put_trailers(&mut self, buffer: &mut Buffer, at: usize) -> usize {
        let State::Trailers(scanner) = &self.state else { return 0 };
        let mut trailers = Vec::new();
        scanner.put_trailers(&mut trailers);
        buffer.replace(at..at, &trailers);
        self.state = State::Done;
        trailers.len()
    }

    /// Looks at the next bytes.
    ///
    /// # Errors
    /// A chunk is not framed to the letter.
    pub(crate) fn feed(&mut self, bytes: &[u8]) -> Result<Scan, Malformed> {
        let consumed = match &mut self.state {
            State::Done | State::Trailers(_) => 0,
            State::UntilClose => bytes.len(),
            State::Length(left) => {
                let part = (*left).min(bytes.len() as u64);
                *left -= part;
                if *left == 0 {
                    self.state = State::Done;
                }
                part as usize
            }
            State::Chunked(scanner) => {
                let scan = scanner.feed(bytes)?;
                if scan.done {
                    self.state = State::Done;
                }
                scan.consumed
            }
        };
        Ok(Scan { consumed, done: self.is_done() })
    }
}

/// What [`BodyScanner::pass`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passed {
    /// Bytes that belonged to the body.
    pub(crate) consumed: usize,
    /// Bytes that are there in their place, and pass on.
    pub(crate) kept: usize,
    /// Whether the body ends with them.
    pub(crate) done: bool,
}

/// Whether all of a body is in `early`, the bytes behind its head.
///
/// # Errors
/// It is not framed as it says.
pub(crate) fn is_whole(body: Framing, early: &[u8]) -> Result<bool, Malformed> {
    match body {
        Framing::None => Ok(true),
        Framing::Length(len) => Ok(early.len() as u64 >= len),
        framing => BodyScanner::new(framing).feed(early).map(|scan| scan.done),
    }
}

/// An answer's body as it comes from the origin.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    frames: Frames,
    /// Whether the origin's connection may be used again: nothing has followed the body.
    pub(crate) reusable: bool,
    /// Whether it may last for as long as its client stays.
    pub(crate) streaming: Streaming,
}

#[derive(Debug)]
enum Frames {
    /// Passed on.
    Kept(BodyScanner),
    /// Chunks, for a client that knows none.
    Taken(Box<ChunkScanner>),
}

/// What one look at some bytes of an answer's body found.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The bytes for the client, if there are any.
    pub(crate) data: Option<Buffer>,
    /// Whether the body ends with them.
    pub(crate) done: bool,
}

impl AnswerBody {
    /// At the beginning. `dechunk`: chunks are not passed on, only what is in them. `reusable`: the
    /// origin keeps its connection open after the answer.
    pub(crate) fn new(framing: Framing, dechunk: bool, reusable: bool) -> Self {
        let frames = match framing {
            Framing::Chunked if dechunk => Frames::Taken(Box::default()),
            framing => Frames::Kept(BodyScanner::new(framing)),
        };
        AnswerBody { frames, reusable, streaming: Streaming::No }
    }

    /// Leaves trailers of those names out. To be called at the beginning.
    pub(crate) fn leave_out(&mut self, names: &TrailerNames) {
        match &mut self.frames {
            Frames::Kept(scanner) => scanner.leave_out(names),
            Frames::Taken(scanner) => scanner.leave_out(names.clone()),
        }
    }

    /// Whether there is none, or the whole has been seen.
    pub(crate) fn is_done(&self) -> bool {
        matches!(&self.frames, Frames::Kept(scanner) if scanner.is_done())
    }

    /// Whether the end of the connection is the end of the body.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(&self.frames, Frames::Kept(scanner) if scanner.ends_with_connection())
    }

    /// Whether, over HTTP/1, only the close of the client's connection ends it there.
    pub(crate) fn is_ended_by_close(&self) -> bool {
        match &self.frames {
            Frames::Kept(scanner) => scanner.ends_with_connection(),
            Frames::Taken(_) => true,
        }
    }

    /// What was taken apart, for its trailers.
    pub(crate) fn chunks(&self) -> Option<&ChunkScanner> {
        match &self.frames {
            Frames::Kept(_) => None,
            Frames::Taken(scanner) => Some(scanner),
        }
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// A chunk is not framed to the letter.
    pub(crate) fn take(&mut self, mut buffer: Buffer) -> Result<Piece, Malformed> {
        let (len, done, consumed) = match &mut self.frames {
            Frames::Kept(scanner) => {
                let passed = scanner.pass(&mut buffer, 0)?;
                (passed.kept, passed.done, passed.kept)
            }
            Frames::Taken(scanner) => dechunk(scanner, &mut buffer)?,
        };
        // Whatever follows an answer was not asked for.
        self.reusable &= consumed == buffer.content().len();
        buffer.truncate(len);
        Ok(Piece { data: (len > 0).then_some(buffer), done })
    }
}

/// Leaves the data alone in the buffer: their length, whether the body has ended, and the length of all
/// that belonged to it.
fn dechunk(
    scanner: &mut ChunkScanner,
    buffer: &mut Buffer,
) -> Result<(usize, bool, usize), Malformed> {
    let (mut at, mut len) = (0, 0);
    loop {
        let bytes = buffer.content_mut();
        let step = scanner.step(&bytes[at..])?;
        bytes.copy_within(at + step.data.start..at + step.data.end, len);
        len += step.data.len();
        at += step.consumed;
        if step.done || at == bytes.len() {
            return Ok((len, step.done, at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_whole_when_its_framing_says_so() {
        assert_eq!(is_whole(Framing::None, b""), Ok(true));
        assert_eq!(is_whole(Framing::Length(3), b"ab"), Ok(false));
        assert_eq!(is_whole(Framing::Length(3), b"abcGET"), Ok(true));
        assert_eq!(is_whole(Framing::Chunked, b"1\r\na\r\n0\r\n\r"), Ok(false));
        assert_eq!(is_whole(Framing::Chunked, b"1\r\na\r\n0\r\n\r\nGET"), Ok(true));
        assert!(is_whole(Framing::Chunked, b"1\na").is_err());
    }

    #[test]
    fn a_length_ends_where_it_says_and_leaves_the_rest() {
        let mut body = BodyScanner::new(Framing::Length(5));
        assert_eq!(body.feed(b"abc"), Ok(Scan { consumed: 3, done: false }));
        assert_eq!(body.feed(b"deGET /"), Ok(Scan { consumed: 2, done: true }));
        assert_eq!(body.feed(b"GET /"), Ok(Scan { consumed: 0, done: true }));
    }

    #[test]
    fn chunks_end_with_the_trailer_and_leave_the_rest() {
        let mut body = BodyScanner::new(Framing::Chunked);
        assert_eq!(body.feed(b"3\r\nab"), Ok(Scan { consumed: 5, done: false }));
        assert_eq!(body.feed(b"c\r\n0\r\n\r\nGET"), Ok(Scan { consumed: 8, done: true }));
        assert!(BodyScanner::new(Framing::Chunked).feed(b"3\nabc").is_err());
    }

    fn buffer(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::small();
        assert_eq!(buffer.append(bytes), bytes.len());
        buffer
    }

    #[test]
    fn an_answer_loses_its_chunks_only_where_it_must() {
        let wire = b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\nmore";
        for (dechunk, expected) in [(false, &wire[..wire.len() - 4]), (true, b"abcde")] {
            let mut body = AnswerBody::new(Framing::Chunked, dechunk, true);
            let mut seen = Vec::new();
            for byte in wire {
                let piece = body.take(buffer(&[*byte])).expect("well framed");
                seen.extend_from_slice(piece.data.as_ref().map_or(&[][..], Buffer::content));
                if piece.done {
                    break;
                }
            }
            assert_eq!(seen, expected);
            let mut body = AnswerBody::new(Framing::Chunked, dechunk, true);
            let piece = body.take(buffer(wire)).expect("well framed");
            assert_eq!(piece.data.expect("some").content(), expected);
            assert!(piece.done && !body.reusable, "what follows was not asked for");
            let mut body = AnswerBody::new(Framing::Chunked, dechunk, true);
            assert!(body.take(buffer(b"3\nabc")).is_err(), "a bare LF");
        }
    }

    #[test]
    fn until_close_never_ends_by_itself() {
        let mut body = BodyScanner::new(Framing::UntilClose);
        assert_eq!(body.feed(b"abc"), Ok(Scan { consumed: 3, done: false }));
        assert!(body.ends_with_connection());
    }
}
