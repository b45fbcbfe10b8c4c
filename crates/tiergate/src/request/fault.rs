//! Why a request was not answered by the origin.

use std::io;
use tiergate_core::gate::Refused;

/// Why a request was not answered by the origin, or not to the end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The client gets this error of ours, if nothing was sent to it yet.
    Answer(u16, &'static str),
    /// The client has left, or does not take what is written.
    Client(io::Error),
    /// The origin's listen queue stayed full while the origin served others.
    Full,
    /// The origin has not looked at the request, because it takes no more at the moment.
    Refusing,
    /// The origin closed the connection, or its answer is malformed.
    Origin,
    /// The origin did not go on in time.
    OriginSlow,
    /// The gate wants the slot for a request of a class above, or gives it none again; nothing was sent to the client yet.
    Refused(Box<Refused>),
}

/// The body is not framed as it says.
pub(crate) const MALFORMED: Fault = Fault::Answer(400, MALFORMED_TEXT);
/// What the client is told of it.
pub(crate) const MALFORMED_TEXT: &str = "the body is malformed";
/// Nothing of the body came for too long.
pub(crate) const TOO_SLOW: Fault = Fault::Answer(408, "the request's body took too long");
/// It came too slowly while others waited for a slot.
pub(crate) const SLOWER_THAN_OTHERS: Fault =
    Fault::Answer(408, "the request's body came too slowly while others waited");
/// The body is longer than the policy's bound.
pub(crate) const TOO_LARGE: Fault = Fault::Answer(413, TOO_LARGE_TEXT);
/// What the client is told of a body that is longer than the policy's bound.
pub(crate) const TOO_LARGE_TEXT: &str = "the body is larger than this site takes";

impl Fault {
    /// The client has left.
    pub(crate) fn gone() -> Self {
        Fault::Client(io::ErrorKind::ConnectionReset.into())
    }

    /// The client has not taken or sent anything for too long.
    pub(crate) fn client_slow() -> Self {
        Fault::Client(io::ErrorKind::TimedOut.into())
    }

    /// Whether it is the origin's.
    pub(crate) fn is_origins(&self) -> bool {
        matches!(self, Fault::Origin | Fault::OriginSlow)
    }

    /// What the log says of an answer whose head was sent and whose end is missing.
    pub(crate) fn after_head(&self) -> &'static str {
        match *self {
            Fault::Answer(_, why) => why,
            Fault::OriginSlow => "the origin did not go on with its answer in time",
            _ => "the origin broke off its answer",
        }
    }

    /// What the client is told, while nothing was sent to it yet.
    pub(crate) fn answer(&self) -> (u16, &'static str) {
        match *self {
            Fault::Answer(status, why) => (status, why),
            Fault::Full => (503, "the origin's listen queue stayed full"),
            Fault::Refusing => (503, "the origin refuses more requests at the moment"),
            Fault::OriginSlow => (504, "the origin did not answer in time"),
            _ => (502, "the origin closed the connection without an answer"),
        }
    }
}

/// How far a request had come when it failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection to the origin had been closed while it was idle: nothing came, and all can be sent
    /// again.
    Stale,
    /// The same of a connection over HTTP/2 that was in use: with many others, all of which would be sent again.
    Lost,
    /// Before a final answer.
    Unanswered(Fault),
    /// The origin's answer is an error, and a copy is served in its place; the end is noted.
    Replaced,
    /// After the answer's head was sent to the client.
    Truncated(Fault),
    /// The same, where an orderly close would look like the answer's end.
    Unended(Fault),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        Failure::Unanswered(fault)
    }
}
