//! Chunked bodies (RFC 9112 §7.1), checked byte by byte as they pass, or taken apart.
//!
//! What passes on is what was understood: sizes and data. Extensions, which a recipient may read otherwise, are
//! taken out; trailers are written anew, without those that may not be trailers (RFC 9110 §6.5.1).

use super::fields::{may_be_trailer, parse_trailer};
use super::message::{Malformed, Stop};
use super::trailer_names::TrailerNames;
use std::ops::Range;
use tiergate_core::request::Field;

/// Hexadecimal digits of a chunk's size, leading zeros included: fits 60 bits, so that no
/// recipient's counter overflows.
pub const CHUNK_SIZE_DIGITS_MAX: u8 = 15;
/// Bytes of the extensions of one chunk.
pub const EXTENSION_LEN_MAX: u16 = 256;
/// Bytes of the extensions of all chunks of a message. Source: the same bound as in Go's net/http
/// since CVE-2023-39326, against tiny chunks with large extensions.
pub const EXTENSIONS_LEN_MAX: u16 = 16 * 1024;
/// Bytes of a trailer section, without the empty line that ends it.
pub const TRAILERS_LEN_MAX: usize = 4096;
/// Fields of a trailer section.
pub const TRAILER_FIELDS_MAX: usize = 32;

/// What [`ChunkScanner::feed`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    /// Bytes that belong to the body; fewer than given only if it is done.
    pub consumed: usize,
    /// The last chunk and the trailers are complete.
    pub done: bool,
}

/// What [`ChunkScanner::step`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes that belong to the body, up to and with `data`.
    pub consumed: usize,
    /// Where in the bytes given the data lie; empty if there are none yet.
    pub data: Range<usize>,
    /// The last chunk and the trailers are complete.
    pub done: bool,
}

/// What [`ChunkScanner::pass`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Bytes that belonged to the body; fewer than given only if it is done.
    pub consumed: usize,
    /// How many of them pass on; they are now at the start.
    pub kept: usize,
    /// The last chunk and the trailers are complete. What [`ChunkScanner::put_trailers`] writes passes on next.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before the first digit of a size.
    Size,
    /// Among the digits.
    Digits,
    /// In the extensions.
    Extension,
    /// After the CR of the size line.
    SizeLf,
    /// In the data.
    Data,
    /// Before the CR after the data.
    DataCr,
    /// Before the LF after the data.
    DataLf,
    /// At the start of a trailer line, or of the empty line.
    Trailer,
    /// In a trailer line.
    TrailerLine,
    /// After the CR of the empty line.
    EndLf,
    /// After the end.
    Done,
}

/// Follows one chunked body through any split into reads. Allocates only if there are trailers.
#[derive(Clone, Debug)]
pub struct ChunkScanner {
    state: State,
    /// Digits of the size read so far.
    digits: u8,
    /// Trailer fields so far, those included.
    trailer_fields: u8,
    /// Bytes of this chunk's extensions so far.
    extension_len: u16,
    /// Bytes of all extensions so far.
    extensions_len: u16,
    /// The chunk's size, then what of its data is still to come.
    left: u64,
    /// The trailer section so far, without the fields that may not stand there.
    trailers: Vec<u8>,
    /// Where its last, unfinished line begins.
    trailer_line_at: usize,
    /// Names of which no field passes there, besides those that may not stand there.
    left_out: TrailerNames,
}

impl Default for ChunkScanner {
    #[inline]
    fn default() -> Self {
        ChunkScanner {
            state: State::Size,
            digits: 0,
            trailer_fields: 0,
            extension_len: 0,
            extensions_len: 0,
            left: 0,
            trailers: Vec::new(),
            trailer_line_at: 0,
            left_out: TrailerNames::default(),
        }
    }
}

impl ChunkScanner {
    /// A scanner before the first byte of a body.
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves trailers of those names out of those that pass on, in place of those named before. May be called until they are written
    /// or looked at, also when they have come.
    pub fn leave_out(&mut self, names: TrailerNames) {
        self.left_out = names;
    }

    /// Whether there were trailers, passed on or not: then [`ChunkScanner::put_trailers`] writes the end of the body.
    pub fn has_trailers(&self) -> bool {
        self.trailer_fields > 0
    }

    /// Checks the next bytes of a body that is passed on as it is.
    ///
    /// # Errors
    /// A body that RFC 9112 does not allow, or one over a bound. The recipient has a truncated message: the
    /// connection must be closed, and the scanner not be used again.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<Scan, Malformed> {
        let mut consumed = 0;
        loop {
            let step = self.step(&bytes[consumed..])?;
            consumed += step.consumed;
            if step.done || consumed == bytes.len() {
                return Ok(Scan { consumed, done: step.done });
            }
        }
    }

    /// Checks the next bytes of a body that is passed on, and moves those that pass to the start.
    ///
    /// # Errors
    /// As [`ChunkScanner::feed`].
    pub fn pass(&mut self, bytes: &mut [u8]) -> Result<Pass, Malformed> {
        let (mut at, mut kept) = (0, 0);
        while self.state != State::Done {
            let Some(&byte) = bytes.get(at) else { break };
            let len = match self.state {
                State::Data => self.data(bytes.len() - at),
                State::Trailer | State::TrailerLine => self.trailer(&bytes[at..])?,
                _ => {
                    self.state = self.framing(byte)?;
                    1
                }
            };
            if self.state != State::Extension && self.trailer_fields == 0 && !self.is_in_trailer() {
                if kept < at {
                    bytes.copy_within(at..at + len, kept);
                }
                kept += len;
            }
            at += len;
        }
        Ok(Pass { consumed: at, kept, done: self.state == State::Done })
    }

    /// Writes the trailers of a body that is done and was passed on, and the empty line behind them: nothing if
    /// there were none, since the empty line has passed.
    pub fn put_trailers(&self, out: &mut Vec<u8>) {
        if !self.has_trailers() {
            return;
        }
        for field in self.trailers() {
            for part in [field.name, b": ", field.value, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        out.extend_from_slice(b"\r\n");
    }

    fn is_in_trailer(&self) -> bool {
        self.state == State::TrailerLine
    }

    /// Takes data, of which so many bytes may be there; says how many are.
    fn data(&mut self, bytes: usize) -> usize {
        let len = self.left.min(bytes as u64);
        self.left -= len;
        if self.left == 0 {
            self.state = State::DataCr;
        }
        len as usize
    }

    /// Goes on to the next piece of data in `bytes`, to the end of the body, or to the end of
    /// `bytes`. Call it with what it did not consume until that is nothing.
    ///
    /// # Errors
    /// As [`ChunkScanner::feed`].
    pub fn step(&mut self, bytes: &[u8]) -> Result<Step, Malformed> {
        let mut at = 0;
        while self.state != State::Done {
            let Some(&byte) = bytes.get(at) else { break };
            match self.state {
                State::Data => {
                    let end = at + self.data(bytes.len() - at);
                    return Ok(Step { consumed: end, data: at..end, done: false });
                }
                State::Trailer | State::TrailerLine => at += self.trailer(&bytes[at..])?,
                _ => {
                    self.state = self.framing(byte)?;
                    at += 1;
                }
            }
        }
        Ok(Step { consumed: at, data: at..at, done: self.state == State::Done })
    }

    /// The trailer fields that pass on; complete once the body is done.
    pub fn trailers(&self) -> impl Iterator<Item = Field<'_>> {
        let mut rest = &self.trailers[..self.trailer_line_at];
        let fields = std::iter::from_fn(move || match parse_trailer(rest) {
            Ok((field, len)) => {
                rest = &rest[len..];
                Some(field)
            }
            Err(_) => None,
        });
        // The names may be others than when the line came.
        fields.filter(move |field| !self.left_out.contains(field.name))
    }

    /// The state after one byte of framing.
    #[inline]
    fn framing(&mut self, byte: u8) -> Result<State, Malformed> {
        Ok(match (self.state, byte) {
            (State::Size | State::Digits, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                if self.digits == CHUNK_SIZE_DIGITS_MAX {
                    return Malformed::because("chunk size has too many digits");
                }
                self.digits += 1;
                self.left = self.left << 4 | u64::from(hex(byte));
                State::Digits
            }
            (State::Digits, b';') => self.extension()?,
            (State::Digits | State::Extension, b'\r') => State::SizeLf,
            (State::Size | State::Digits, _) => {
                return Malformed::because("chunk size is malformed");
            }
            (State::Extension, b'\t' | b' '..=b'~') => self.extension()?,
            (State::Extension, _) => {
                return Malformed::because("chunk extension has a byte that is not allowed");
            }
            (State::SizeLf, b'\n') => {
                self.digits = 0;
                self.extension_len = 0;
                if self.left == 0 { State::Trailer } else { State::Data }
            }
            (State::DataCr, b'\r') => State::DataLf,
            (State::DataLf, b'\n') => State::Size,
            (State::DataCr | State::DataLf, _) => {
                return Malformed::because("no CRLF after the chunk's data");
            }
            (State::EndLf, b'\n') => State::Done,
            (State::SizeLf | State::EndLf, _) => return Malformed::because("bare CR"),
            (State::Data | State::Trailer | State::TrailerLine | State::Done, _) => {
                unreachable!("step handles the states that are not framing")
            }
        })
    }

    fn extension(&mut self) -> Result<State, Malformed> {
        if self.extension_len == EXTENSION_LEN_MAX || self.extensions_len == EXTENSIONS_LEN_MAX {
            return Malformed::because("chunk extensions are too long");
        }
        self.extension_len += 1;
        self.extensions_len += 1;
        Ok(State::Extension)
    }

    /// Takes the next piece of the trailer section, up to the end of a line; gives its length.
    /// `bytes` is not empty.
    #[cold]
    fn trailer(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        if self.state == State::Trailer && bytes[0] == b'\r' {
            self.state = State::EndLf;
            return Ok(1);
        }
        self.state = State::TrailerLine;
        let line_end = memchr::memchr(b'\n', bytes).map(|lf| lf + 1);
        let len = line_end.unwrap_or(bytes.len());
        if self.trailers.len() + len > TRAILERS_LEN_MAX {
            return Malformed::because("trailers are too long");
        }
        self.trailers.extend_from_slice(&bytes[..len]);
        if line_end.is_none() {
            return Ok(len);
        }
        if usize::from(self.trailer_fields) == TRAILER_FIELDS_MAX {
            return Malformed::because("too many trailers");
        }
        let line = &self.trailers[self.trailer_line_at..];
        let passes = match parse_trailer(line) {
            Ok((field, line_len)) if line_len == line.len() => may_be_trailer(field.name),
            Err(Stop::Error(error)) => return Malformed::because(error.why),
            // Cannot be, since the line ends with its first LF; refused all the same.
            Ok(_) | Err(Stop::Partial) => return Malformed::because("bare LF"),
        };
        if !passes {
            self.trailers.truncate(self.trailer_line_at);
        }
        self.trailer_fields += 1;
        self.trailer_line_at = self.trailers.len();
        self.state = State::Trailer;
        Ok(len)
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
