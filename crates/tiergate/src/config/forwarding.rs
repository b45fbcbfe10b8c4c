//! `[forwarding]`: how requests and responses are passed on.

use super::kind::Choice;
use super::section::{Kind, section};
use super::values::{FLAG, bytes};
use tiergate_core::classify::path::Handling;
use tiergate_wire::http1::Forwarding;

/// Most that is buffered for one slow client, each way: longer bodies are streamed at no loss.
const BUFFER_MAX: u64 = 64 << 20;

section! {
    /// How requests and responses are passed on.
    pub(super) struct ForwardingKeys {
        /// Which path the origin gets. `"strict"`: the normalised path, and a path that servers read
        /// differently is refused with 400; `"decoded"`: the normalised path, with `%2F`, `%5C` and `\` as `/`;
        /// `"normalised"`: the normalised path, with these as the client wrote them; `"as_received"`: what
        /// the client sent: [paths](#paths-what-rules-see-and-what-the-origin-gets).
        /// Why: a server that decodes a path in another way than rules would serve what they forbid.
        path: Handling = Choice(&[
            ("strict", Handling::Strict),
            ("decoded", Handling::Decoded),
            ("normalised", Handling::Normalised),
            ("as_received", Handling::AsReceived),
        ]).or("strict");
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
    pub(super) fn resolve(self) -> (Handling, Forwarding, Buffering) {
        let ForwardingKeys { x_forwarded, forwarded, via, .. } = self;
        (
            self.path,
            Forwarding { x_forwarded, forwarded, via },
            Buffering { request_max: self.buffer_request, response_max: self.buffer_response },
        )
    }
}

/// For `tiergate check`: what becomes of paths.
pub(crate) fn path_words(handling: Handling) -> &'static str {
    match handling {
        Handling::Strict => {
            "the origin gets normalised paths; paths that servers read differently get 400"
        }
        Handling::Decoded => {
            "the origin gets normalised paths, with encoded slashes and backslashes as slashes"
        }
        Handling::Normalised => {
            "the origin gets normalised paths, with encoded slashes and backslashes as received"
        }
        Handling::AsReceived => {
            "the origin gets paths as received, which it may read differently from rules"
        }
    }
}

/// For `tiergate check`: the headers that are added to requests; `None` if none are.
pub(crate) fn header_words(add: &Forwarding) -> Option<String> {
    let headers =
        [(add.x_forwarded, "X-Forwarded-*"), (add.forwarded, "Forwarded"), (add.via, "Via")];
    let added: Vec<&str> = headers.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
    (!added.is_empty()).then(|| format!("requests carry {}", added.join(", ")))
}
