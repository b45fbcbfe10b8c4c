//! The fields of a request that an answer depends on (RFC 9111 §4.1).

use super::asked::{Asked, Credentials};
use super::directives::members;
use super::names::is_credential;
use crate::request::Field;

/// Most fields that `Vary` may name.
pub const VARY_MAX: usize = 8;
/// Most bytes of the values of one of them; an answer to a request with more is not kept.
pub const VARY_VALUE_MAX: usize = 512;

/// The names in `Vary`, in lower case. `None`: the answer is for this request alone, because it depends on more than that, or on what
/// makes the request one user's.
pub(super) fn names(answer: &[Field<'_>], asked: &Asked) -> Option<Vec<Box<str>>> {
    let mut names: Vec<Box<str>> = Vec::new();
    let fields = answer.iter().filter(|it| it.name.eq_ignore_ascii_case(b"vary"));
    for member in fields.flat_map(|it| members(it.value)) {
        let name = std::str::from_utf8(member).ok()?.to_ascii_lowercase();
        let is_users = match name.as_str() {
            "*" => true,
            "cookie" => asked.credentials == Credentials::Cookie,
            // Its value would be kept, too.
            name if is_credential(name.as_bytes()) => asked.credentials != Credentials::None,
            // The gateway writes these: whose request it is, says the connection.
            "x-forwarded-for" | "x-real-ip" | "forwarded" => true,
            _ => false,
        };
        if is_users {
            return None;
        }
        if names.iter().any(|known| **known == *name) {
            continue;
        }
        if names.len() == VARY_MAX {
            return None;
        }
        names.push(name.into());
    }
    Some(names)
}

/// The values of a field of a request, joined as RFC 9110 §5.3 has it; empty and absent are the same only if the field is empty: an absent
/// one is `None`.
pub(super) fn value(name: &str, request: &[Field<'_>]) -> Option<Vec<u8>> {
    let mut found = request.iter().filter(|it| it.name.eq_ignore_ascii_case(name.as_bytes()));
    let mut all = found.next()?.value.to_vec();
    for more in found {
        all.extend_from_slice(b", ");
        all.extend_from_slice(more.value);
    }
    Some(all)
}

/// Whether a copy that was kept with these values of fields is for a request with those fields. O(bytes of fields), without an allocation.
pub fn selects(kept: &[(Box<str>, Option<Vec<u8>>)], request: &[Field<'_>]) -> bool {
    kept.iter().all(|(name, kept)| is_value(name, kept.as_deref(), request))
}

/// Whether `kept` is what [`value`] says of the field.
fn is_value(name: &str, kept: Option<&[u8]>, request: &[Field<'_>]) -> bool {
    let mut found = request.iter().filter(|it| it.name.eq_ignore_ascii_case(name.as_bytes()));
    let (first, kept) = match (found.next(), kept) {
        (None, None) => return true,
        (Some(first), Some(kept)) => (first, kept),
        _ => return false,
    };
    let rest = found.try_fold(kept.strip_prefix(first.value), |rest, more| {
        Some(rest?.strip_prefix(b", ")?.strip_prefix(more.value))
    });
    rest.flatten().is_some_and(<[u8]>::is_empty)
}
