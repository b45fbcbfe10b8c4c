//! Plays client and origin around the whole request path, in memory and in virtual time, by a script that is
//! decoded from bytes; then checks the tapes of all connections. Shared by a test and a fuzzer.
//!
//! | | |
//! |---|---|
//! | `choices` | bytes as choices |
//! | `texts` | requests and answers: well-formed ones, and what one should not send |
//! | `world` | the gateway between them, and the tapes |
//! | `http1`, `http2` | clients |
//! | `origin` | the origin |
//! | `framing` | HTTP/1.1 as an independent reader sees it |
//! | `check` | what must hold for the tapes |

mod check;
mod choices;
mod framing;
mod http1;
mod http2;
mod origin;
mod texts;
mod world;

pub(crate) use choices::random_bytes;
pub(crate) use world::{Report, play, serve, start};
