//! Requests that are lost, slowly: so many of them that the limit must be far too high.

use super::super::law::Completion;
use crate::outcome::{End, Outcome};
use crate::time::Moment;

/// Requests lost in a block, and for each kept, at which the limit is far too high.
const LOST: (u32, u32) = (8, 3);
/// From which part of the usual time on a client that leaves, or a failure, tells of the origin.
const LEFT_LATE: f64 = 0.75;
const FAILED_LATE: f64 = 2.0;

/// What the end of a request says of the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The origin did the work that it was asked for.
    Answered,
    /// It did not in time.
    TooLate,
    /// Its client left although others have been answered by then.
    LeftLate,
    /// Its client left sooner than it could have been answered.
    LeftEarly,
    /// Nothing.
    Nothing,
}

impl Ended {
    /// How a request ended that was in service for `held_s` seconds, where `usual_s` are usual. An answer whose client left
    /// before its end counts: it may have waited for long before it got its slot.
    pub(super) fn of(outcome: &Outcome, held_s: f64, usual_s: f64) -> Self {
        match outcome.end {
            End::Served | End::Upgraded => Ended::Answered,
            End::Cancelled if outcome.first_byte.is_some() => Ended::Answered,
            End::Cancelled if held_s < LEFT_LATE * usual_s => Ended::LeftEarly,
            End::Cancelled => Ended::LeftLate,
            End::TimedOut | End::Error if held_s >= FAILED_LATE * usual_s => Ended::TooLate,
            End::TimedOut | End::Error | End::Pushback | End::Failed | End::Preempted => {
                Ended::Nothing
            }
        }
    }
}

/// Requests that were lost, slowly, and that were not: those of earlier blocks count half, and those admitted before the
/// limit was last halved not at all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    lost: u32,
    kept: u32,
    halved: Moment,
}

impl Losses {
    /// Counts the end of a request.
    pub(super) fn add(&mut self, completion: &Completion<'_>, ended: Ended) {
        let own = u32::from(completion.admitted >= self.halved);
        match ended {
            Ended::Answered => self.kept += own,
            Ended::TooLate | Ended::LeftLate => self.lost += own,
            Ended::LeftEarly | Ended::Nothing => {}
        }
    }

    /// Whether nearly all are lost.
    pub(super) fn are_nearly_all(&self) -> bool {
        self.lost >= LOST.0 && self.lost > LOST.1 * self.kept
    }

    /// The limit was halved.
    pub(super) fn halved(&mut self, now: Moment) {
        *self = Losses { lost: 0, kept: 0, halved: now };
    }

    /// A block is over.
    pub(super) fn age(&mut self) {
        (self.lost, self.kept) = (self.lost / 2, self.kept / 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_the_end_of_a_request_says() {
        let of = |end, held_s| Ended::of(&Outcome::without_answer(end), held_s, 1.0);
        let first_byte = Some(Duration::ZERO);
        let begun = Outcome { first_byte, ..Outcome::without_answer(End::Cancelled) };
        assert_eq!(of(End::Served, 9.0), Ended::Answered);
        assert_eq!(
            Ended::of(&begun, 9.0, 1.0),
            Ended::Answered,
            "its client left during the answer"
        );
        assert_eq!(
            [of(End::Cancelled, 0.5), of(End::Cancelled, 1.0)],
            [Ended::LeftEarly, Ended::LeftLate]
        );
        assert_eq!([of(End::Error, 0.1), of(End::Error, 2.0)], [Ended::Nothing, Ended::TooLate]);
        assert_eq!([of(End::Failed, 9.0), of(End::Pushback, 9.0)], [Ended::Nothing; 2]);
    }
}
