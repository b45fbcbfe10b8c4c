//! `[request_id]`: an id for each request.

use super::place::At;
use super::section::{Kind, section};
use super::values::HEADER;
use http::HeaderName;
use std::sync::Arc;
use tiergate_wire::http1::{TrailerNames, is_special};

section! {
    /// An id for each request: taken from trusted peers, else made; passed to the origin, to the client and to the access log.
    pub(super) struct RequestIdKeys {
        /// Name of the header that carries it, both ways. A trusted peer's id is taken if it has 1 to 128 letters, digits and `-_.:;,=+/@`; all
        /// others are replaced.
        /// Why: the name that most servers and load balancers use.
        header: String = HEADER.or("X-Request-Id");
    }
}

/// Fields that mean something else to clients and origins.
const TAKEN: [&str; 12] = [
    "accept",
    "accept-encoding",
    "authorization",
    "cache-control",
    "content-encoding",
    "content-type",
    "cookie",
    "retry-after",
    "set-cookie",
    "traceparent",
    "tracestate",
    "user-agent",
];

/// The header that carries requests' ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestIdHeader {
    /// Its name as written.
    pub text: Arc<str>,
    /// The same, for HTTP/2.
    pub name: HeaderName,
    /// The same, for trailers of answers.
    pub trailers: TrailerNames,
}

/// The header; reports a name that has another meaning.
pub(super) fn request_id(
    At { value: RequestIdKeys { header: text }, place }: At<RequestIdKeys>,
) -> Option<RequestIdHeader> {
    let name = HeaderName::try_from(&text).ok()?;
    if is_special(text.as_bytes()) || TAKEN.contains(&name.as_str()) {
        let message = format!("must be a header without another meaning, got \"{text}\"");
        place.fault_at("header", message);
        return None;
    }
    let trailers = [&text].into_iter().collect();
    Some(RequestIdHeader { text: text.into(), name, trailers })
}

impl RequestIdHeader {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        format!("in {}, taken from trusted peers, else made", self.text)
    }
}
