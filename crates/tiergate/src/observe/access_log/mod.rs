//! The access log: a line per request, as JSON, in Apache's formats, or as an operator writes it (`pattern`).
//!
//! A line is formatted on the request's own thread into that thread's [`Buffer`], and handed to the
//! writer's thread in batches through a bounded channel. When the writer cannot keep up, whole
//! batches are dropped and counted; requests never wait.
//!
//! What is never logged: `Cookie`, `Authorization` and every other field that is not named in
//! [`Entry`], and the queries of target and referrer: they carry tokens, addresses and what people searched
//! for.

mod buffer;
mod entry;
mod escape;
mod format;
mod pattern;
mod request_line;
mod strays;
mod time;
mod writer;

pub use buffer::{Buffer, FLUSH_INTERVAL};
pub use entry::{Entry, Verdict};
pub(crate) use time::rfc3339;
pub use writer::Log;
