//! `[shedding]`: which requests are shed under overload.

use super::kind::Choice;
use super::mode::{MODE, Mode};
use super::refusal::RefusalConnection;
use super::section::{Kind, section};
use super::show;
use super::values::TIME;
use std::time::Duration;

section! {
    /// Sheds the least important requests under overload, as many as it takes, and closes their
    /// connections: first those without `importance`, then of the lesser class, then of the shorter
    /// connection.
    pub(super) struct Shedding {
        /// Whether it is in force, `"enforce"`; or not, `"observe"`: nothing is shed then, and what would be is [not known](#mode-parts-of-a-policy-that-are-observed).
        mode: Mode = MODE.or("enforce");
        /// The acceptable standing queueing delay (the backlog divided by the rate at which it is served);
        /// less than the `deadline` of the classes. Requests are shed once it has been exceeded for three
        /// periods of 100 ms.
        /// Why: people do not notice it, and a queue that stands for longer is not a burst (CoDel's interval,
        /// RFC 8289 §3.2).
        delay: Duration = TIME.or("100ms");
        /// How connections are closed: `"close"`: 503 and close, over HTTP/2 503 and GOAWAY; `"reset"`:
        /// reset without a response, over HTTP/2 RST_STREAM and GOAWAY.
        /// Why: a client that is told when to come back does not retry at once.
        close: RefusalConnection = Choice(&[
            ("close", RefusalConnection::Close),
            ("reset", RefusalConnection::Reset),
        ]).or("close");
    }
}

/// For `tiergate check`. `by_session`: whether only running sessions have importance.
pub(crate) fn words(delay: Duration, close: RefusalConnection, by_session: bool) -> Vec<String> {
    let closed = match close {
        RefusalConnection::Reset => "their connections are reset without a response",
        _ => "they get 503 and their connections are closed",
    };
    let importance = match by_session {
        true => "importance, which only running sessions have",
        false => "importance",
    };
    vec![
        format!("while the queueing delay is more than {}: as many as it takes", show::time(delay)),
        format!(
            "in the order of {importance}; then of classes; then the shorter connections first"
        ),
        closed.to_owned(),
    ]
}
