//! What a request says of copies.

use super::directives::{Directives, members};
use crate::request::Field;
use std::time::Duration;

/// Fields by which some frameworks serve another page than the target names, or name another host in it: an answer to a request with
/// one of them could be planted for others.
const MISLEADING: [&str; 9] = [
    "x-original-url",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
    "x-host",
    "x-original-host",
    "x-forwarded-server",
    "forwarded-host",
];

/// By what a request may be one user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credentials {
    /// By nothing.
    #[default]
    None,
    /// `Authorization`, a client certificate, or a verified key or token.
    Identity,
    /// `Cookie`, whatever else there is.
    Cookie,
}

/// What a request says of copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// By what it may be one user's.
    pub credentials: Credentials,
    /// Its answer may be kept, as far as the request is concerned.
    pub keeps: bool,
    /// The oldest copy that it takes instead of waiting, where it says one (`no-cache`: zero). Instead of a refusal it takes any: no
    /// answer is worse than an old one.
    pub age_max: Option<Duration>,
}

impl Asked {
    /// Of a request; `identified`: its client has proven who it is by other means than the fields. `None`: copies do not concern it. Only
    /// GET has an answer that is kept, and only GET and HEAD get one.
    pub fn of(method: &[u8], fields: &[Field<'_>], identified: bool) -> Option<Self> {
        let head_only = match method {
            b"GET" => false,
            b"HEAD" => true,
            _ => return None,
        };
        let mut asked = Asked { credentials: Credentials::None, keeps: !head_only, age_max: None };
        if identified {
            asked.credentials = Credentials::Identity;
        }
        let mut pragma = false;
        let mut controls = false;
        for Field { name, value } in fields {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            match name.len() {
                5 if is("range") => return None,
                6 if is("cookie") => asked.credentials = Credentials::Cookie,
                6 if is("pragma") => pragma |= members(value).any(|it| it == b"no-cache"),
                7 if is("upgrade") => return None,
                8 if is("if-match") || is("if-range") => return None,
                13 if is("authorization") => {
                    asked.credentials = asked.credentials.max(Credentials::Identity);
                }
                13 if is("cache-control") => controls = true,
                19 if is("if-unmodified-since") => return None,
                _ if MISLEADING.iter().any(|it| is(it)) => asked.keeps = false,
                _ => {}
            }
        }
        if controls {
            let said = Directives::of(fields, "cache-control");
            asked.keeps &= !said.no_store;
            asked.age_max = if said.no_cache { Some(Duration::ZERO) } else { said.max_age };
        } else if pragma {
            // RFC 9111 §5.4: only without `Cache-Control`.
            asked.age_max = Some(Duration::ZERO);
        }
        Some(asked)
    }
}

/// Whether a request with this method may change what its target answers (RFC 9110 §9.2.1): a copy goes when it succeeds.
pub fn is_unsafe(method: &[u8]) -> bool {
    !matches!(method, b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE")
}
