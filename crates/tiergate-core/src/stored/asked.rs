//! What a request says of copies.

use super::directives::{Directives, members};
use super::names::{is_credential, is_misleading, is_plain_option};
use crate::request::Field;
use std::time::Duration;

/// By what a request may be one user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Credentials {
    /// By nothing.
    #[default]
    None,
    /// A client certificate, or a field that carries a key or a token, such as `Authorization`; nobody need have checked it.
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
    /// It may be answered without a body, because its client has a copy: it is not the one to bring a new one.
    pub is_conditional: bool,
    /// The oldest copy that it takes instead of waiting, where it says one (`no-cache`: zero). Instead of a refusal it takes any: no
    /// answer is worse than an old one.
    pub age_max: Option<Duration>,
}

impl Asked {
    /// Of a request; `identified`: its client says who it is by other means than fields whose names tell. `fields` are those that are
    /// believed, which the origin gets. `None`: copies do not concern it. Only GET has an answer that is kept, and only GET and HEAD
    /// get one. O(bytes of names).
    pub fn of(method: &[u8], fields: &[Field<'_>], identified: bool) -> Option<Self> {
        let head_only = match method {
            b"GET" => false,
            b"HEAD" => true,
            _ => return None,
        };
        let mut asked = Asked {
            credentials: Credentials::None,
            keeps: !head_only,
            is_conditional: false,
            age_max: None,
        };
        if identified {
            asked.credentials = Credentials::Identity;
        }
        let mut pragma = false;
        let mut controls = false;
        for Field { name, value } in fields {
            let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
            asked.keeps &= !is_misleading(name, value);
            match name.len() {
                5 if is("range") => return None,
                6 if is("cookie") => asked.credentials = Credentials::Cookie,
                6 if is("pragma") => pragma |= members(value).any(|it| it == b"no-cache"),
                7 if is("upgrade") => return None,
                8 if is("if-match") || is("if-range") => return None,
                // Whatever it names does not reach the origin, which may vary by it all the same.
                10 if is("connection") => asked.keeps &= members(value).all(is_plain_option),
                13 if is("if-none-match") => asked.is_conditional = true,
                17 if is("if-modified-since") => asked.is_conditional = true,
                13 if is("cache-control") => controls = true,
                19 if is("if-unmodified-since") => return None,
                _ if is_credential(name) => {
                    asked.credentials = asked.credentials.max(Credentials::Identity);
                }
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
