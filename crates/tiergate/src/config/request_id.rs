//! `[request_id]`: an id for each request.

use super::header_name::OWN_HEADER;
use super::place::At;
use super::section::{Kind, section};
use http::HeaderName;
use std::sync::Arc;
use tiergate_wire::http1::TrailerNames;

section! {
    /// An id for each request: taken from trusted peers, else made; passed to the origin, to the client and to the access log.
    pub(super) struct RequestIdKeys {
        /// Name of the header that carries it, both ways. A trusted peer's id is taken if it has 1 to 128 letters, digits and `-_.:;,=+/@`; all
        /// others are replaced.
        /// Why: the name that most servers and load balancers use.
        header: String = OWN_HEADER.or("X-Request-Id");
    }
}

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

/// The header; `None` after a fault.
pub(super) fn request_id(
    At { value: RequestIdKeys { header: text }, .. }: At<RequestIdKeys>,
) -> Option<RequestIdHeader> {
    let name = HeaderName::try_from(&text).ok()?;
    let trailers = [&text].into_iter().collect();
    Some(RequestIdHeader { text: text.into(), name, trailers })
}

impl RequestIdHeader {
    /// For `tiergate check`.
    pub(crate) fn words(&self) -> String {
        format!("in {}, taken from trusted peers, else made", self.text)
    }
}
