//! Requests that a server says it has not looked at.
//!
//! Over HTTP/2 a server says so of a stream that it refuses (REFUSED_STREAM), and of those that its GOAWAY leaves out. Such a request
//! may be sent again whatever its method (RFC 9113 §8.7): once, because a server that refuses two in a row has no room.

/// A request that a server says it has not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprocessed {
    /// The server takes no more at the moment; otherwise it ends the connection.
    pub is_refused: bool,
    /// All that was sent of the request is still at hand.
    pub is_whole: bool,
    /// It was not sent again before.
    pub is_first: bool,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// It is sent once more.
    Again,
    /// It fails as one that the server refuses for want of capacity.
    Pushback,
    /// It fails.
    Fails,
}

impl Unprocessed {
    /// What becomes of the request.
    #[must_use]
    pub const fn resend(self) -> Resend {
        match self {
            Unprocessed { is_whole: true, is_first: true, .. } => Resend::Again,
            Unprocessed { is_refused: true, .. } => Resend::Pushback,
            _ => Resend::Fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_sent_again_once_if_it_is_at_hand() {
        let it = Unprocessed { is_refused: true, is_whole: true, is_first: true };
        assert_eq!(it.resend(), Resend::Again);
        assert_eq!(Unprocessed { is_refused: false, ..it }.resend(), Resend::Again);
        assert_eq!(Unprocessed { is_first: false, ..it }.resend(), Resend::Pushback);
        assert_eq!(Unprocessed { is_whole: false, ..it }.resend(), Resend::Pushback);
        let closing = Unprocessed { is_refused: false, is_first: false, ..it };
        assert_eq!(closing.resend(), Resend::Fails);
    }
}
