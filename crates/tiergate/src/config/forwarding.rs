//! `[forwarding]`: how requests and responses are passed on.

use super::section::{Kind, section};
use super::values::{Flag, bytes};

/// Most that is buffered for one slow client, each way: longer bodies are streamed at no loss.
const BUFFER_MAX: u64 = 64 << 20;

section! {
    /// How requests and responses are passed on.
    #[derive(Clone, Debug)]
    pub(super) struct ForwardingKeys {
        /// `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`.
        /// Why: what applications read.
        x_forwarded: bool = Flag.or(true);
        /// `Forwarded` (RFC 7239).
        /// Why: few read it, and two spellings may contradict each other.
        forwarded: bool = Flag.or(false);
        /// `Via`, in requests and responses.
        /// Why: RFC 9110 §7.6.3 demands it of proxies, but nginx and others do not compress for a client
        /// that says it is one ([ADR 6](adr/0006-no-via-by-default.md)).
        via: bool = Flag.or(false);
        /// Bytes of a request's body that are read before the request asks for its slot; 0: none.
        /// Why: forms and what programs post fit; files are streamed.
        buffer_request: usize = bytes(0..=BUFFER_MAX).or("64KiB");
        /// Bytes of a response that are read ahead of a client that is slower than the origin; 0: none.
        /// Why: nearly every page and every answer of an API; what is larger is mostly a file.
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
