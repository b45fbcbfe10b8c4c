//! Clients over HTTP/1.0 and HTTP/1.1.
//!
//! | | |
//! |---|---|
//! | `connection` | one request after the other, until either side ends it |
//! | `side` | the seam: the connection as the client's side of one request, with what is kept of that |
//! | `input` | what was received, and how the rest is read |
//! | `early` | what of a request's body came with the head |
//! | `upload` | a request's body that did not come with the head |
//! | `sending` | the request on its way to the origin |
//! | `answer` | the origin's answer on its way to the client |
//! | `refusal` | what the gateway answers itself |
//! | `next` | what becomes of the connection after a request |

mod answer;
mod connection;
mod early;
mod input;
mod next;
mod refusal;
mod sending;
mod side;
mod upload;

pub use connection::serve;
