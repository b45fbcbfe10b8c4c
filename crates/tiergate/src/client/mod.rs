//! Clients: their connections by each protocol, behind one seam.
//!
//! | | |
//! |---|---|
//! | [`seam`] | what a request's path needs of its client, whatever the protocol |
//! | [`http1`] | HTTP/1.0 and HTTP/1.1: one request after the other |
//! | [`http2`] | HTTP/2: a task for each stream |
//! | [`http3`] | HTTP/3: the same over QUIC |
//! | `streams` | what HTTP/2 and HTTP/3 have in common |
//! | [`alt_svc`] | tells clients of HTTP/1.1 and HTTP/2 that HTTP/3 is there |
//! | `tunnel` | upgraded connections and streams: bytes both ways |
//! | [`peer`], [`history`] | the other end of a connection, and what it has brought so far |

pub mod alt_svc;
pub mod history;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod peer;
pub(crate) mod seam;
mod streams;
mod tunnel;

pub(crate) use streams::window;
