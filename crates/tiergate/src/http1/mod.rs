//! HTTP/1.1 on the wire, without I/O: heads are parsed from and written to byte slices, chunked
//! bodies are checked as they pass.
//!
//! Source: RFC 9110 and RFC 9112. Where the RFC lets a recipient choose, the reading that no other
//! recipient can take differently is chosen, which mostly means that the message is refused: what
//! goes to the origin is never ambiguous.
//!
//! The order of work on a connection: [`HeadSearch::ready`] → [`parse_request`] →
//! (decide) → [`write_request_head`] → body by its [`Framing`] → [`parse_response`] →
//! [`write_response_head`] → body by its [`Framing`].
//!
//! A parser never looks at more than `head_len_max` bytes, keeps nothing between calls, and gives
//! the same answer however the bytes were split into reads.

mod chunk;
mod fields;
mod framing;
mod peer;
mod request;
mod response;
mod scan;
mod target;
mod translated;
mod write_request;
mod write_response;

pub use chunk::{
    CHUNK_SIZE_DIGITS_MAX, ChunkError, ChunkScanner, EXTENSION_LEN_MAX, EXTENSIONS_LEN_MAX, Scan,
    Step, TRAILER_FIELDS_MAX, TRAILERS_LEN_MAX,
};
pub(crate) use fields::may_be_trailer;
pub use fields::{CONNECTION_OPTIONS_MAX, FIELDS_CAPACITY, FieldRoom, FieldTable, HeadSearch};
pub use peer::{ForwardInfo, PeerText};
pub use request::{METHOD_LEN_MAX, RequestHead, parse_request};
pub use response::{ResponseHead, parse_response};
pub(crate) use scan::is_token;
pub use target::host_name;
pub use translated::{request_from_parts, response_fields, response_length};
pub(crate) use write_request::put_decimal;
pub use write_request::write_request_head;
pub use write_response::{Delivery, ResponseInfo, delivery, write_response_head};

/// Bounds on a message head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the whole head, its blank line included.
    pub head_len_max: usize,
    /// Bytes of the request target.
    pub target_len_max: usize,
    /// Field lines; [`FIELDS_CAPACITY`] bounds it too.
    pub fields_max: usize,
}

/// What a parser made of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    /// The whole thing is there.
    Complete(T),
    /// What is there is good; more must come.
    Partial,
}

/// The protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1.
    Http11,
}

/// How the end of a message's body is found (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// There is no body.
    None,
    /// This many bytes follow; may be 0.
    Length(u64),
    /// Chunks follow.
    Chunked,
    /// Everything until the connection closes. Responses only.
    UntilClose,
}

impl Framing {
    /// Whether not one byte of body follows the head.
    pub fn is_empty(self) -> bool {
        matches!(self, Framing::None | Framing::Length(0))
    }
}

/// Why a head is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadError {
    /// The status to answer with: 400, 414, 417, 431, 501, 505; for an origin's head always 502.
    pub status: u16,
    /// What is wrong, for the log.
    pub why: &'static str,
}

impl std::fmt::Display for HeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.why, self.status)
    }
}

impl std::error::Error for HeadError {}

impl HeadError {
    #[cold]
    fn new(status: u16, why: &'static str) -> Self {
        HeadError { status, why }
    }

    #[cold]
    fn bad(why: &'static str) -> Self {
        HeadError { status: 400, why }
    }
}
