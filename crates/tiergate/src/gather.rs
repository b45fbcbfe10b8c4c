//! A request's body, read before the request asks for its slot: a client that is slow to send it holds
//! memory of ours, and nothing of the origin's.

use crate::account::{self, Record};
use crate::body::{BodyScanner, Malformed};
use crate::budget::Allowance;
use crate::buffers::{self, SMALL};
use crate::config::meant::Policy;
use crate::decide::Facts;
use crate::http1::Framing;
use crate::link::{Fault, TOO_LARGE};
use crate::respond;
use crate::serve::{Connection, Next};
use crate::shared::{Config, Shared};
use crate::stream::{ClientStream, poll_fill};
use std::io;
use tiergate_core::outcome::End;

/// What a client waits for that has announced a body (RFC 9110 §15.2.1).
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Nothing came for too long.
pub(crate) const TOO_SLOW: Fault = Fault::Answer(408, "the request's body took too long");

/// Room behind the body, so that the client's leaving is noticed while the request waits.
const ROOM_BEHIND: usize = SMALL;

/// Whether a body that is not there yet is to be gathered.
///
/// Not so one that is known to be longer than what is gathered, of a client that waits to be told
/// whether it is wanted: that is for the origin to say before the body is sent.
pub(crate) fn is_wanted(policy: &Policy, body: Framing, expects: bool) -> bool {
    let bound = policy.buffering.request_max;
    let may_be_long = match body {
        Framing::Length(len) => len > bound as u64,
        Framing::Chunked => false,
        Framing::None | Framing::UntilClose => return false,
    };
    bound > 0 && !(may_be_long && expects)
}

/// How much memory the next bytes of a body get that fills what it has, `has` bytes: four times that,
/// but no more than `most`. So a client makes us hold little more than what it sent.
pub(crate) fn next_len(has: usize, most: usize) -> usize {
    most.min(has.saturating_mul(4))
}

impl<S: ClientStream> Connection<S> {
    /// Reads the request's body behind its head: whole, or as much as there is memory for.
    ///
    /// # Errors
    /// What to answer, or the client's leaving.
    pub(crate) async fn gather(
        &mut self,
        shared: &Shared,
        config: &Config,
        facts: &Facts,
    ) -> Result<(), Fault> {
        let policy = &config.policy;
        let bound = policy.buffering.request_max;
        let body_max = policy.limits.request_body_max;
        let expected = match facts.body {
            Framing::Length(len) => usize::try_from(len).unwrap_or(usize::MAX),
            _ => usize::MAX,
        };
        let most = facts.head_len + expected.min(bound) + ROOM_BEHIND;
        let allowance = Allowance {
            budget: &shared.counters.buffered,
            total_max: policy.limits.buffers_max,
            own_max: usize::MAX,
        };
        if facts.expects && self.received().len() == facts.head_len {
            self.write(config, CONTINUE).await.map_err(Fault::Client)?;
        }
        let mut body = BodyScanner::new(facts.body);
        let mut seen = facts.head_len;
        loop {
            let scan = body.feed(&self.received()[seen..]).map_err(|Malformed| MALFORMED)?;
            seen += scan.consumed;
            let len = seen - facts.head_len;
            if body_max > 0 && len as u64 > body_max {
                return Err(TOO_LARGE);
            }
            if scan.done || len >= bound || !self.make_room(most, &allowance) {
                return Ok(());
            }
            self.timer.arm(policy.timeouts.request_body);
            let Connection { io, timer, input, .. } = self;
            let buffer = input.as_mut().expect("the head lies in it");
            match timer.bound(|context| poll_fill(io, buffer, context)).await {
                Ok(0) => return Err(Fault::Client(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::TimedOut => return Err(TOO_SLOW),
                Err(error) => return Err(Fault::Client(error)),
            }
        }
    }

    /// Makes room behind what was received; `false` if there is no memory left for it.
    fn make_room(&mut self, most: usize, allowance: &Allowance<'_>) -> bool {
        let buffer = self.input.as_mut().expect("the head lies in it");
        buffer.make_room(0);
        if !buffer.is_full() {
            return true;
        }
        // What is there counts as well until it was moved.
        let larger = next_len(buffer.capacity(), most).max(buffer.capacity() + ROOM_BEHIND);
        let Some(reserved) = allowance.take(0, larger) else { return false };
        buffer.move_into(reserved);
        true
    }

    /// Ends a request whose body could not be gathered: it never came to the gate.
    pub(crate) async fn give_up(
        &mut self,
        shared: &Shared,
        config: &Config,
        facts: &Facts,
        mut record: Record,
        fault: Fault,
    ) -> io::Result<Next> {
        record.received_bytes = self.received().len() as u64;
        let (status, why) = match fault {
            Fault::Client(error) => {
                record.end = Some(End::Cancelled);
                account::http1(shared, config, facts, self.received(), &record);
                return Err(error);
            }
            fault => fault.answer(),
        };
        shared.tally().bad_request(status);
        record.status = status;
        account::http1(shared, config, facts, self.received(), &record);
        let mut out = buffers::text();
        respond::write_error(&mut out, status, why, false, facts.head_only);
        self.write(config, &out).await?;
        buffers::keep_text(out);
        Ok(Next::Linger)
    }
}

/// The body is not framed as it says.
pub(crate) const MALFORMED: Fault = Fault::Answer(400, "the body is malformed");

/// Whether all of a body is in `early`, the bytes behind its head.
///
/// # Errors
/// It is not framed as it says.
pub(crate) fn is_whole(body: Framing, early: &[u8]) -> Result<bool, Malformed> {
    match body {
        Framing::None => Ok(true),
        Framing::Length(len) => Ok(early.len() as u64 >= len),
        framing => BodyScanner::new(framing).feed(early).map(|scan| scan.done),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_whole_when_its_framing_says_so() {
        assert_eq!(is_whole(Framing::None, b""), Ok(true));
        assert_eq!(is_whole(Framing::Length(3), b"ab"), Ok(false));
        assert_eq!(is_whole(Framing::Length(3), b"abcGET"), Ok(true));
        assert_eq!(is_whole(Framing::Chunked, b"1\r\na\r\n0\r\n\r"), Ok(false));
        assert_eq!(is_whole(Framing::Chunked, b"1\r\na\r\n0\r\n\r\nGET"), Ok(true));
        assert_eq!(is_whole(Framing::Chunked, b"1\na"), Err(Malformed));
    }

    #[test]
    fn memory_grows_with_what_was_sent_up_to_the_bound() {
        assert_eq!(next_len(SMALL, 100_000), 4 * SMALL);
        assert_eq!(next_len(4 * SMALL, 100_000), 100_000);
        assert_eq!(next_len(usize::MAX / 2, usize::MAX), usize::MAX);
    }
}
