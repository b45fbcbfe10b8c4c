//! What is noted about a request on its way.

use std::time::Duration;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;
use tiergate_core::stored::Instead;
use tiergate_core::time::Moment;

/// How many bytes of an answer were written, or will be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    /// All of them; over HTTP/2, whose heads are compressed, those of the body.
    pub(crate) bytes: u64,
    /// Those of the body.
    pub(crate) body: u64,
}

impl std::ops::AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.body += other.body;
    }
}

/// What is noted about a request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// When its head was there.
    pub(crate) arrived: Moment,
    /// The status of the answer; 0 if none was sent.
    pub(crate) status: u16,
    /// The status that the origin answered; 0: none.
    pub(crate) origin_status: u16,
    /// Bytes of the answer, as far as they were written.
    pub(crate) sent: Written,
    /// How long it waited for its slot; `None`: it did not ask for one.
    pub(crate) waited: Option<Duration>,
    /// From the slot to the head of the answer.
    pub(crate) first_byte: Option<Duration>,
    /// Whether it got a slot.
    pub(crate) granted: bool,
    /// How its slot ended.
    pub(crate) end: Option<End>,
    /// What it got a stored copy instead of.
    pub(crate) stored: Option<Instead>,
    /// Why it was refused.
    pub(crate) reason: Option<Reason>,
    /// The policer that had no token for it.
    pub(crate) policer: Option<PolicerId>,
    /// The server that it was sent to.
    pub(crate) server: Option<&'static str>,
    /// What went wrong, in words; empty: nothing.
    pub(crate) cause: &'static str,
    /// When it got its slot.
    pub(crate) slot_since: Option<Moment>,
    /// When the origin was done with it; kept only of requests whose spans are exported.
    pub(crate) origin_done: Option<Moment>,
}

impl Record {
    /// Of a request whose head is there.
    pub(crate) fn new(arrived: Moment) -> Self {
        Record {
            arrived,
            status: 0,
            origin_status: 0,
            sent: Written::default(),
            waited: None,
            first_byte: None,
            granted: false,
            end: None,
            stored: None,
            reason: None,
            policer: None,
            server: None,
            cause: "",
            slot_since: None,
            origin_done: None,
        }
    }
}
