//! Keys and tokens: whom a request stands for, proven by a secret.
//!
//! A subject is only ever taken from a key that is in the table or a token whose signature, times and
//! audience hold. Anything else is no error and no subject: the request is classified without one, and
//! the origin sees the header as it was sent.
//!
//! Secrets are kept as what is needed to check them, in types whose `Debug` shows none; faults name a
//! line and never repeat it.

mod keys;
pub mod settings;
mod token;

use crate::named_file::NamedFile;
use keys::Keys;
use settings::{KeyTable, TokenSettings};
use std::fmt;
use std::time::SystemTime;
use tiergate_core::request::Field;
use token::Verifier;

/// How a key or token was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It holds.
    Verified,
    /// It is unknown, malformed, not signed by us, or not meant for us.
    Rejected,
    /// It held once, or will.
    Untimely,
}

impl Proof {
    /// Every proof, in the order of their indices.
    pub const ALL: [Proof; 3] = [Proof::Verified, Proof::Rejected, Proof::Untimely];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Proof::Verified => "verified",
            Proof::Rejected => "rejected",
            Proof::Untimely => "untimely",
        }
    }
}

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
    /// Reads the files that the policy names. Warns of what whoever runs the gateway should know.
    ///
    /// # Errors
    /// Everything that is wrong with them, at their lines of the policy.
    pub fn load(
        tables: &[KeyTable],
        token: Option<&TokenSettings>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, Vec<(NamedFile, String)>> {
        let mut faults = Vec::new();
        let mut credentials = Credentials::default();
        for table in tables {
            match Keys::load(table, warnings) {
                Ok(keys) => credentials.keys.push(keys),
                Err(fault) => faults.push((table.file.clone(), fault)),
            }
        }
        if let Some(settings) = token {
            match Verifier::load(settings, warnings) {
                Ok(token) => credentials.token = Some(token),
                Err(fault) => faults.push((settings.file.clone(), fault)),
            }
        }
        match faults.is_empty() {
            true => Ok(credentials),
            false => Err(faults),
        }
    }

    /// Whom the request stands for; empty: nobody. The token's word goes before the keys'. `claims` is
    /// room for a token's content; `seen` is told of each credential that was looked at.
    ///
    /// Cost: nothing without a key table or token in the policy, a look at the field names where the
    /// request has none.
    pub fn subject<'a>(
        &'a self,
        fields: &[Field<'_>],
        claims: &'a mut Vec<u8>,
        seen: impl Fn(Proof),
    ) -> &'a [u8] {
        if let Some(token) = &self.token
            && let Some(value) = only(fields, &token.header)
            && let Some(value) = bearer(value, &token.header)
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
}

/// The value of the only field of that name: two contradict, or one was added on the way.
fn only<'f>(fields: &[Field<'f>], name: &str) -> Option<&'f [u8]> {
    let mut values = fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name.as_bytes()));
    let first = values.next()?;
    values.next().is_none().then_some(first.value)
}

/// What stands behind `Bearer` (RFC 6750 §2.1). Other headers may do without the word.
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
