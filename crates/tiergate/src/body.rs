//! Where a body ends, found while its bytes pass through unchanged.

use crate::http1::{ChunkScanner, Framing};

/// What one look at some bytes found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// How many of them belong to the body.
    pub consumed: usize,
    /// Whether the body ends with them.
    pub done: bool,
}

/// The body is not framed as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Finds the end of a body.
#[derive(Debug)]
pub struct BodyScanner {
    state: State,
}

#[derive(Debug)]
enum State {
    Done,
    Length(u64),
    Chunked(Box<ChunkScanner>),
    UntilClose,
}

impl BodyScanner {
    /// At the beginning of a body.
    pub fn new(framing: Framing) -> Self {
        let state = match framing {
            Framing::None | Framing::Length(0) => State::Done,
            Framing::Length(len) => State::Length(len),
            Framing::Chunked => State::Chunked(Box::default()),
            Framing::UntilClose => State::UntilClose,
        };
        BodyScanner { state }
    }

    /// Whether the whole body has been seen.
    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Whether the end of the connection is the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Looks at the next bytes.
    ///
    /// # Errors
    /// A chunk is not framed to the letter.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Scan, Malformed> {
        let consumed = match &mut self.state {
            State::Done => 0,
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
                let scan = scanner.feed(bytes).map_err(|_| Malformed)?;
                if scan.done {
                    self.state = State::Done;
                }
                scan.consumed
            }
        };
        Ok(Scan { consumed, done: self.is_done() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(BodyScanner::new(Framing::Chunked).feed(b"3\nabc"), Err(Malformed));
    }

    #[test]
    fn until_close_never_ends_by_itself() {
        let mut body = BodyScanner::new(Framing::UntilClose);
        assert_eq!(body.feed(b"abc"), Ok(Scan { consumed: 3, done: false }));
        assert!(body.ends_with_connection());
    }
}
