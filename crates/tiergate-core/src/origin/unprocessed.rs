//! Requests that a server says it has not looked at.
//!
//! Over HTTP/2 a server says so of a stream that it refuses (REFUSED_STREAM), and of those that its GOAWAY leaves out. Such a request
//! may be sent again whatever its method (RFC 9113 §8.7): once if it was refused, because a server that refuses two in a row has no room; some
//! times if its connection ended, because servers end connections after a number of requests, and under load the next one may be near its end, too.

/// How often a request is sent again that GOAWAYs left out.
pub const RESENT_MAX: u32 = 8;

/// A request that a server says it has not looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprocessed {
    /// The server takes no more at the moment; otherwise it ends the connection.
    pub is_refused: bool,
    /// All that was sent of the request is still at hand.
    pub is_whole: bool,
    /// How often it was sent again before.
    pub resent: u32,
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
        let most = if self.is_refused { 1 } else { RESENT_MAX };
        match self {
            Unprocessed { is_whole: true, resent, .. } if resent < most => Resend::Again,
            Unprocessed { is_refused: true, .. } => Resend::Pushback,
            _ => Resend::Fails,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_looked_at_is_sent_again_if_it_is_at_hand() {
        let it = Unprocessed { is_refused: true, is_whole: true, resent: 0 };
        assert_eq!(it.resend(), Resend::Again);
        assert_eq!(Unprocessed { is_refused: false, ..it }.resend(), Resend::Again);
        assert_eq!(Unprocessed { resent: 1, ..it }.resend(), Resend::Pushback);
        assert_eq!(Unprocessed { is_whole: false, ..it }.resend(), Resend::Pushback);
        let closing = Unprocessed { is_refused: false, resent: RESENT_MAX - 1, ..it };
        assert_eq!(closing.resend(), Resend::Again);
        assert_eq!(Unprocessed { resent: RESENT_MAX, ..closing }.resend(), Resend::Fails);
    }
}
