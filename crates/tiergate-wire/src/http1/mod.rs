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
mod kind;
mod message;
mod peer;
mod put;
mod request;
mod response;
mod scan;
mod target;
mod trailer_names;
mod translated;
mod write_request;
mod write_response;

pub use chunk::{
    CHUNK_SIZE_DIGITS_MAX, ChunkScanner, EXTENSION_LEN_MAX, EXTENSIONS_LEN_MAX, Scan, Step,
    TRAILER_FIELDS_MAX, TRAILERS_LEN_MAX,
};
pub use fields::{
    FIELDS_CAPACITY, FieldRoom, FieldTable, HeadSearch, LoadReport, is_alike, may_be_trailer,
};
pub use framing::CONNECTION_OPTIONS_MAX;
pub use kind::is_special;
pub use message::{Framing, HeadError, HeadLimits, Malformed, Parsed, Version};
pub use peer::{ForwardInfo, Forwarding, PeerText};
pub use put::put_decimal;
pub use request::{METHOD_LEN_MAX, RequestHead, parse_request};
pub use response::{ResponseHead, parse_response};
pub use scan::is_token;
pub use target::host_name;
pub use trailer_names::TrailerNames;
pub use translated::{request_from_parts, response_fields, response_length};
pub use write_request::write_request_head;
pub use write_response::{Delivery, ResponseInfo, delivery, write_response_head};
