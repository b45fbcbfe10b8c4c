//! Clients over HTTP/1.0 and HTTP/1.1.
//!
//! | | |
//! |---|---|
//! | `connection` | one request after the other, until either side ends it |
//! | `side` | the seam: the connection as the client's side of one request |
//! | `input` | what was received, and how the rest is read |
//! | `early` | what of a request's body came with the head |
//! | `upload` | a request's body that did not come with the head |

mod connection;
mod early;
mod input;
mod side;
mod upload;

pub use connection::serve;
