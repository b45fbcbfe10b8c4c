//! `[forwarding]`: how requests and responses are passed on.

use super::kind::Choice;
use super::place::At;
use super::section::{Kind, section};
use super::values::{FILE_TO_READ, FLAG, bytes};
use crate::secrets::NamedFile;
use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
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
        /// Directory for uploads that are longer than `buffer_request`: their bodies are written to files there
        /// before the request asks for a slot. The files have no names and are gone with the request, also if
        /// the gateway crashes.
        /// Why: it costs disk space, and the origin sees an upload only when that is complete.
        spool_directory: Option<NamedFile> =
            FILE_TO_READ.optional("none: the rest of longer bodies is streamed while the slot is held");
        /// How much of one request's body is written to such a file; the rest of a longer body is streamed. All
        /// requests together: `limits.spool_max`.
        /// Why: enough for photos and documents; a longer upload holds a slot for its rest only.
        spool_request: Option<u64> = bytes(1 << 10..=1 << 40).optional("`\"64MiB\"`");
    }
}

/// What [`ForwardingKeys::spool_request`] is by default.
const SPOOL_REQUEST: u64 = 64 << 20;

/// What is kept in memory for slow clients, so that they hold no slot; all requests together keep at
/// most `limits.buffers_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffering {
    /// Bytes of a request's body that are read before the request asks for its slot. 0: none.
    pub request_max: usize,
    /// Bytes of a response that are read ahead of its client. 0: none.
    pub response_max: usize,
}

/// Where long uploads wait until they are complete, so that slow ones hold no slot; all together take at
/// most `limits.spool_max`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spooling {
    /// The directory of the files.
    pub directory: NamedFile,
    /// Bytes of one request's body that are written to a file.
    pub request_max: u64,
}

impl Spooling {
    /// A file in the directory: without a name, so that nothing is left of it when it is closed.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn create_in(directory: &Path) -> io::Result<File> {
        let file = tempfile::tempfile_in(directory)?;
        // Nobody else could open it but through /proc, and need not read it there either.
        file.set_permissions(PermissionsExt::from_mode(0o600))?;
        Ok(file)
    }

    /// Whether files can be made.
    ///
    /// # Errors
    /// What to do about it.
    pub(super) fn check(&self) -> Result<(), String> {
        let directory = &self.directory.path;
        Self::create_in(directory).map(drop).map_err(|cause| {
            format!(
                "cannot create files in {}: {cause}; name a directory that the gateway may write to",
                directory.display()
            )
        })
    }
}

/// How requests and responses are passed on.
pub(super) struct Resolved {
    pub(super) paths: Handling,
    pub(super) forwarding: Forwarding,
    pub(super) buffering: Buffering,
    pub(super) spooling: Option<Spooling>,
}

pub(super) fn forwarding(At { value: raw, place }: At<ForwardingKeys>) -> Resolved {
    let ForwardingKeys { x_forwarded, forwarded, via, .. } = raw;
    if raw.spool_request.is_some() && !place.has("spool_directory") {
        place.fault_at("spool_request", "has no effect without `spool_directory`");
    }
    let request_max = raw.spool_request.unwrap_or(SPOOL_REQUEST);
    Resolved {
        paths: raw.path,
        forwarding: Forwarding { x_forwarded, forwarded, via },
        buffering: Buffering { request_max: raw.buffer_request, response_max: raw.buffer_response },
        spooling: raw.spool_directory.map(|directory| Spooling { directory, request_max }),
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
