//! What of a request's body came with its head, or was gathered behind it; or is in a file.

use super::side::Http1;
use super::upload::Upload;
use crate::budget::Allowance;
use crate::buffers::{self, SMALL};
use crate::request::body::BodyScanner;
use crate::request::facts::RequestFacts;
use crate::request::fault::{Fault, MALFORMED};
use crate::request::spool::Spool;
use crate::stream::ClientStream;

/// Room behind the body, so that the client's leaving is noticed while the request waits.
const ROOM_BEHIND: usize = SMALL;

impl<S: ClientStream> Http1<'_, S> {
    /// Finds how much of the body came with the head; says whether that is all. Its trailers are kept back until the request has been
    /// decided about.
    pub(super) fn scan(&mut self, facts: &RequestFacts) -> Result<bool, Fault> {
        self.head_len = facts.head_len;
        let scanner = self.scanner.get_or_insert_with(|| BodyScanner::new(facts.body));
        // A reload may have given other names a meaning since it was made.
        scanner.leave_out(&facts.left_out);
        if scanner.is_done() {
            return Ok(true);
        }
        let buffer = self.input.buffer.as_mut().expect("the head lies in it");
        let at = self.head_len + self.early_len;
        let passed = scanner.pass_body(buffer, at).map_err(|_| MALFORMED)?;
        self.early_len += passed.kept;
        Ok(passed.done)
    }

    /// The body is next to go to the origin: trailers that have come go behind it.
    pub(super) fn put_trailers(&mut self) {
        if let (Some(scanner), Some(buffer)) = (&mut self.scanner, &mut self.input.buffer) {
            self.early_len += scanner.put_trailers(buffer, self.head_len + self.early_len);
        }
    }

    /// Makes room behind what was received, for `most` bytes in all and a little more; `false` if there is
    /// no memory left for it.
    pub(super) fn make_room(&mut self, most: usize, allowance: &Allowance<'_>) -> bool {
        let buffer = self.input.buffer.as_mut().expect("the head lies in it");
        buffer.make_room(0);
        if !buffer.is_full() {
            return true;
        }
        // What is there counts as well until it was moved.
        let larger = buffers::next_len(buffer.capacity(), most + ROOM_BEHIND)
            .max(buffer.capacity() + ROOM_BEHIND);
        let Some(reserved) = allowance.take(0, larger) else { return false };
        buffer.move_into(reserved);
        true
    }

    /// The body goes to a file from its beginning: only the head stays where it is.
    pub(super) fn begin_spool(&mut self, spool: Box<Spool>, facts: &RequestFacts, body_max: u64) {
        let mut early = self.input.buffer.take().expect("the head lies in it");
        self.input.buffer = Some(early.split_front(facts.head_len));
        let early = Some(early).filter(|early| !early.is_empty());
        let scanner = self.scanner.take().expect("the body was gathered");
        self.early_len = 0;
        self.upload = Some(Upload::of(scanner, early, body_max));
        self.spool = Some(spool);
    }

    /// Bytes of a following request that came with the last of the body go before what is read next.
    pub(super) fn put_rest_back(&mut self) {
        if let Some(rest) = self.upload.take().and_then(Upload::into_rest) {
            self.input.buffer = Some(rest);
        }
    }
}
