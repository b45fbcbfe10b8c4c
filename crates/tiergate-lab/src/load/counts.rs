//! How requests ended, counted.

use serde::{Deserialize, Serialize};

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A whole 2xx answer within the client's patience.
    Ok,
    /// 503 or 429.
    Refused,
    /// Another status, or a broken connection.
    Failed,
    /// The client gave up.
    TimedOut,
}

/// Numbers of requests. Once all have ended, `sent` is the sum of the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counts {
    /// That were due to be sent, those that found no connection included.
    pub(crate) sent: u64,
    /// Answered 2xx, whole and within the client's patience: goodput.
    pub(crate) ok: u64,
    /// Answered 503 or 429 at the last attempt.
    pub(crate) refused: u64,
    /// Answered otherwise, or broken, at the last attempt.
    pub(crate) failed: u64,
    /// Given up by the client at the last attempt.
    pub(crate) timed_out: u64,
}

impl Counts {
    /// Counts the end of a request.
    pub(crate) fn ended(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Ok => &mut self.ok,
            Outcome::Refused => &mut self.refused,
            Outcome::Failed => &mut self.failed,
            Outcome::TimedOut => &mut self.timed_out,
        } += 1;
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.ok += other.ok;
        self.refused += other.refused;
        self.failed += other.failed;
        self.timed_out += other.timed_out;
    }
}
