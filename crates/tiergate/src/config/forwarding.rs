//! `[forwarding]`: how requests and responses are passed on.

use super::section::{Kind, section};
use super::values::{FLAG, bytes};

/// Most that is buffered for one slow client, each way: longer bodies are streamed at no loss.
const BUFFER_MAX: u64 = 64 << 20;

section! {
    /// How requests and responses are passed on.
    pub(super) struct ForwardingKeys {
        /// Whether to send `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
        /// Why: applications read them.
        x_forwarded: bool = FLAG.or(true);
        /// Whether to send `Forwarded` (RFC 7239).
        /// Why: few applications read it, and it could contradict `X-Forwarded-For`.
        forwarded: bool = FLAG.or(false);
        /// Whether to add `Via` to requests and responses.
        /// Why: RFC 9110 §7.6.3 requires it of proxies, but nginx and others by default do not compress
        /// responses to a request that has it ([ADR 6](adr/0006-no-via-by-default.md)).
        via: bool = FLAG.or(false);
        /// How much of a request's body is read before the request asks for a slot; 0: nothing.
        /// Why: enough for forms and API requests; file uploads are streamed.
        buffer_request: usize = bytes(0..=BUFFER_MAX).or("64KiB");
        /// How much of a response is read from the origin ahead of a slower client; 0: nothing.
        /// Why: enough for nearly every page and API response; larger responses are mostly files.
        buffer_response: usize = bytes(0..=BUFFER_MAX).or("256KiB");
    }
}

/// The forwarding headers added to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// `X-Forwarded-For`, `-Proto`, `-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
    /// `Via` (RFC 9110 §7.6.3), in requests and responses.
    pub via: bool,
}

/// What is kept in memory for slow clients, so that they hold no slot; all requests together keep at
/// most `limits.buffers_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes of a request's body that are read before the request asks for its slot. 0: none.
    pub request_max: usize,
    /// Bytes of a response that are read ahead of its client. 0: none.
    pub response_max: usize,
}

impl ForwardingKeys {
    pub(super) fn resolve(self) -> (Forwarding, Buffering) {
        let ForwardingKeys { x_forwarded, forwarded, via, .. } = self;
        (
            Forwarding { x_forwarded, forwarded, via },
            Buffering { request_max: self.buffer_request, response_max: self.buffer_response },
        )
    }
}

impl Forwarding {
    /// For `tiergate check`: the headers that are added; empty if none are.
    pub(crate) fn words(&self) -> Option<String> {
        let headers =
            [(self.x_forwarded, "X-Forwarded-*"), (self.forwarded, "Forwarded"), (self.via, "Via")];
        let added: Vec<&str> =
            headers.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        (!added.is_empty()).then(|| format!("requests carry {}", added.join(", ")))
    }
}
