//! Answers that last for as long as their client stays: streams of events (SSE) and of messages (gRPC).
//! They do little at the origin for the time that they take, and a few of them would hold all slots; so
//! they give their slot back and are counted apart ([`SlotGuard::become_stream`]).
//!
//! What an answer is, the origin says by its `Content-Type`; what a client asks for changes nothing.

use crate::door::SlotGuard;
use crate::grpc;
use crate::timers::Timer;
use std::task::Context;
use std::time::Duration;
use tiergate_core::request::Field;

/// How an answer may turn out to last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Streaming {
    /// Like any other.
    #[default]
    No,
    /// A stream from its head on: `text/event-stream`.
    Events,
    /// A call, of which only time tells whether it is one answer or a stream of them:
    /// `application/grpc`, `application/grpc-web`. It counts as a stream when it lasts longer than
    /// [`MESSAGES_AFTER`].
    Messages,
}

/// How long a gRPC answer may go on after its head before it counts as a stream: its single message and
/// its trailers follow at once, as origins write head and message together.
pub(crate) const MESSAGES_AFTER: Duration = Duration::from_secs(1);

impl Streaming {
    /// By the header of the final answer.
    pub(crate) fn of(fields: &[Field<'_>]) -> Self {
        let kind = fields.iter().find(|field| field.name.eq_ignore_ascii_case(b"content-type"));
        kind.map_or(Streaming::No, |kind| Self::of_type(kind.value))
    }

    fn of_type(value: &[u8]) -> Self {
        let begins = |with: &[u8]| {
            let (found, rest) = value.split_at_checked(with.len())?;
            let ends = matches!(rest.first(), None | Some(b';' | b'+' | b'-' | b' ' | b'\t'));
            (found.eq_ignore_ascii_case(with) && ends).then_some(())
        };
        if begins(b"text/event-stream").is_some() {
            Streaming::Events
        } else if grpc::is_type(value) {
            Streaming::Messages
        } else {
            Streaming::No
        }
    }
}

/// Finds out whether an answer on its way is a stream, and gives its slot back then.
#[derive(Debug, Default)]
pub(crate) struct StreamDetector {
    after: Option<Timer>,
    found: bool,
}

impl StreamDetector {
    /// The head is there, and a body follows. Events are a stream from here on.
    pub(crate) fn begin(&mut self, streaming: Streaming, slot: &mut Option<SlotGuard<'_>>) {
        match streaming {
            Streaming::No => {}
            Streaming::Events => self.become_stream(slot),
            Streaming::Messages => {
                let timer = Timer::new();
                timer.arm(MESSAGES_AFTER);
                self.after = Some(timer);
            }
        }
    }

    /// Makes the answer a stream when it is time; the task is woken then.
    pub(crate) fn poll(&mut self, slot: &mut Option<SlotGuard<'_>>, context: &mut Context<'_>) {
        if self.after.as_ref().is_some_and(|timer| timer.poll_expired(context)) {
            self.after = None;
            self.become_stream(slot);
        }
    }

    fn become_stream(&mut self, slot: &mut Option<SlotGuard<'_>>) {
        self.found = slot.as_mut().is_some_and(SlotGuard::become_stream);
    }

    /// Whether the answer has become a stream.
    pub(crate) fn found(&self) -> bool {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_and_messages_stream() {
        let of = |value: &str| Streaming::of_type(value.as_bytes());
        for events in ["text/event-stream", "Text/Event-Stream;charset=utf-8", "text/event-stream "]
        {
            assert_eq!(of(events), Streaming::Events, "{events}");
        }
        for messages in
            ["application/grpc", "application/grpc+proto", "application/grpc-web-text;a=b"]
        {
            assert_eq!(of(messages), Streaming::Messages, "{messages}");
        }
        for plain in ["", "text/html", "text/event-streams", "application/grpcs", "text/event"] {
            assert_eq!(of(plain), Streaming::No, "{plain}");
        }
    }
}
