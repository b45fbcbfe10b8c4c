//! Clients that nobody wants. Each kind runs until it is dropped; what they get in return is not judged,
//! except that no answer may be another request's.

pub(super) mod answers;
pub(super) mod http2;
pub(super) mod idle;
pub(super) mod leave;
pub(super) mod malformed;
mod place;
pub(super) mod slow;
