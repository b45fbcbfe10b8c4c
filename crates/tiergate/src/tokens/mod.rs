//! Keys and tokens: the subject of a request, proven by a secret.
//!
//! A subject is only ever taken from a key in the table, or from a token whose signature, times and
//! audience are valid. Anything else is not an error: the request is classified without a subject, and
//! the origin gets the header as it was sent.
//!
//! Secrets are kept in the form that checks need, in types whose `Debug` hides them; errors name a line
//! and never repeat it.

mod keys;
mod proof;
pub mod settings;
mod token;

pub use proof::Proof;

use crate::secrets::Faults;
use keys::Keys;
use settings::{KeyTable, Token};
use std::fmt;
use std::time::SystemTime;
use tiergate_core::request::Field;
use tiergate_core::stored::is_called;
use token::Verifier;

/// The secrets of a policy, read.
#[derive(Default)]
pub struct Credentials {
    keys: Vec<Keys>,
    token: Option<Verifier>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({} key tables, token: {})", self.keys.len(), self.token.is_some())
    }
}

impl Credentials {
    /// Reads the files that the policy names. Warns of what an operator should know; `faults` gets
    /// everything that is wrong with them.
    pub fn load(
        tables: &[KeyTable],
        token: Option<&Token>,
        warnings: &mut Vec<String>,
        faults: &mut Faults,
    ) -> Self {
        let mut keys = |table: &KeyTable| table.file.check(Keys::load(table, warnings), faults);
        let keys = tables.iter().filter_map(&mut keys).collect();
        let token = token.map(|it| Verifier::load(it, warnings, faults));
        Credentials { keys, token }
    }

    /// The subject of the request; empty: none. A token takes precedence over keys. `claims` is a buffer
    /// for a token's content; `seen` is called for each credential that was checked.
    ///
    /// Cost: nothing without a key table or token in the policy; one pass over the field names if the
    /// request has no credential.
    pub fn subject<'a>(
        &'a self,
        fields: &[Field<'_>],
        claims: &'a mut Vec<u8>,
        seen: impl Fn(Proof),
    ) -> &'a [u8] {
        if let Some(token) = &self.token
            && let Some(value) = only(fields, &token.settings.header)
            && let Some(value) = bearer(value, &token.settings.header)
        {
            let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            match token.subject(value, since.unwrap_or_default().as_secs_f64(), claims) {
                Ok(range) => {
                    seen(Proof::Verified);
                    return &claims[range];
                }
                Err(proof) => seen(proof),
            }
        }
        for table in &self.keys {
            let Some(value) = only(fields, &table.header) else { continue };
            let Some(key) = bearer(value, &table.header) else { continue };
            match table.subject(key) {
                Some(subject) => {
                    seen(Proof::Verified);
                    return subject;
                }
                None => seen(Proof::Rejected),
            }
        }
        b""
    }

    /// Whether the request has a field that a key or a token is read from, verified or not. Costs nothing without such in the policy.
    pub fn is_presented(&self, fields: &[Field<'_>]) -> bool {
        let headers = self.keys.iter().map(|it| &it.header);
        let mut headers = headers.chain(self.token.as_ref().map(|it| &it.settings.header));
        headers.any(|header| fields.iter().any(|field| is_called(field.name, header)))
    }
}

/// The value of the only field of that name; a repeated one is ambiguous and not used.
fn only<'f>(fields: &[Field<'f>], name: &str) -> Option<&'f [u8]> {
    let mut values = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
    let first = values.next()?;
    values.next().is_none().then_some(first.value)
}

/// The credential after `Bearer` (RFC 6750 §2.1), which is optional in headers other than `Authorization`.
fn bearer<'f>(value: &'f [u8], header: &str) -> Option<&'f [u8]> {
    const SCHEME: &[u8] = b"bearer ";
    match value.split_at_checked(SCHEME.len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case(SCHEME) => {
            Some(rest.trim_ascii_start())
        }
        _ if header == "authorization" => None,
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_is_taken_only_where_it_stands_alone() {
        let field = |name: &'static str, value: &'static str| Field {
            name: name.as_bytes(),
            value: value.as_bytes(),
        };
        let one = [field("a", "b"), field("X-Api-Key", "one")];
        assert_eq!(only(&one, "x-api-key"), Some(&b"one"[..]));
        assert_eq!(only(&[one[1], field("x-api-key", "one")], "x-api-key"), None);
        assert_eq!(only(&one, "authorization"), None);
        assert_eq!(bearer(b"bEarer  x.y.z", "authorization"), Some(&b"x.y.z"[..]));
        assert_eq!(bearer(b"Basic abc", "authorization"), None);
        assert_eq!(bearer(b"Bearer", "authorization"), None);
        assert_eq!(bearer(b"abc", "x-api-key"), Some(&b"abc"[..]));
    }
}
