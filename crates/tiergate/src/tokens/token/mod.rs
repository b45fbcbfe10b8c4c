//! Signed tokens: JSON Web Tokens (RFC 7519).
//!
//! The signature is checked before the content is read, by keys that are each for the algorithms of their kind: a token that
//! names another algorithm, or none, is rejected (RFC 8725 §3.1).
//!
//! Keys and public-key signatures are those of the crate jsonwebtoken; header and claims are read here. Its `decode` takes 4.9 µs for an
//! `HS256` token, this 1.7 µs in the same run of `examples/token_cost.rs`: it reads each part twice, into memory of its own. It also
//! asks the system for the time, and does not bound lengths. For public keys the difference is lost in the signature's cost.

mod keyring;

use super::proof::Proof;
use super::settings::Token;
use crate::secrets::Faults;
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::Algorithm;
use keyring::Keyring;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Longest token, header and subject.
const TOKEN_LEN_MAX: usize = 16 << 10;
const HEADER_LEN_MAX: usize = 4096;
const SUBJECT_LEN_MAX: usize = 256;

/// Checks tokens.
pub(super) struct Verifier {
    /// What the policy says.
    pub(super) settings: Token,
    keys: Keyring,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} keys, {})", self.keys.len(), self.settings.header)
    }
}

/// A token's header.
#[derive(Deserialize)]
struct Header<'t> {
    #[serde(borrow)]
    alg: Cow<'t, str>,
    /// The name of the key. Only ever compared with names of keys that were read: never a path or an address.
    #[serde(borrow)]
    kid: Option<Cow<'t, str>>,
    /// Extensions that must be understood (RFC 7515 §4.1.11); none is supported.
    #[serde(default, deserialize_with = "present")]
    crit: bool,
}

/// Of a field that is there, whatever its value.
fn present<'t, D: Deserializer<'t>>(value: D) -> Result<bool, D::Error> {
    IgnoredAny::deserialize(value).map(|_| true)
}

/// A token's claims.
#[derive(Deserialize)]
struct Claims<'t> {
    #[serde(borrow)]
    sub: Cow<'t, str>,
    exp: f64,
    nbf: Option<f64>,
    #[serde(borrow)]
    iss: Option<Cow<'t, str>>,
    #[serde(borrow)]
    aud: Option<Audience<'t>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Audience<'t> {
    One(#[serde(borrow)] Cow<'t, str>),
    Many(Vec<String>),
}

impl Verifier {
    /// Reads the files of keys; `faults` gets what is wrong with them, never with their content.
    pub(super) fn load(settings: &Token, warnings: &mut Vec<String>, faults: &mut Faults) -> Self {
        Verifier { settings: settings.clone(), keys: Keyring::load(settings, warnings, faults) }
    }

    /// The subject of a token at second `now` of UNIX time, as a range of `claims`, which is filled with
    /// the token's content. Costs the reading of two small JSON texts and one HMAC of the token for each secret until one fits, or
    /// up to 4 signatures by public keys; `examples/token_cost.rs` measures them.
    pub(super) fn subject(
        &self,
        token: &[u8],
        now: f64,
        claims: &mut Vec<u8>,
    ) -> Result<Range<usize>, Proof> {
        let content = self.content(token, claims).ok_or(Proof::Rejected)?;
        let said: Claims<'_> = serde_json::from_slice(content).map_err(|_| Proof::Rejected)?;
        let Token { issuer, audience, leeway, .. } = &self.settings;
        let audience = match (audience, &said.aud) {
            (None, _) => true,
            (Some(ours), Some(Audience::One(theirs))) => theirs == ours,
            (Some(ours), Some(Audience::Many(theirs))) => theirs.contains(ours),
            (Some(_), None) => false,
        };
        let issuer = issuer.is_none() || issuer.as_deref() == said.iss.as_deref();
        // Control characters cannot be in a policy, and would garble a log.
        let plain = |letter: char| !letter.is_control();
        let named = !said.sub.is_empty()
            && said.sub.len() <= SUBJECT_LEN_MAX
            && said.sub.chars().all(plain);
        if !(audience && issuer && named) {
            return Err(Proof::Rejected);
        }
        let leeway = leeway.as_secs_f64();
        if said.nbf.is_some_and(|nbf| now + leeway < nbf) || now >= said.exp + leeway {
            return Err(Proof::Untimely);
        }
        match said.sub {
            Cow::Borrowed(subject) => {
                let start = subject.as_ptr() as usize - content.as_ptr() as usize;
                Ok(start..start + subject.len())
            }
            // It was written with escapes.
            Cow::Owned(subject) => {
                *claims = subject.into_bytes();
                Ok(0..claims.len())
            }
        }
    }

    /// The content of a token whose signature is valid.
    fn content<'c>(&self, token: &[u8], claims: &'c mut Vec<u8>) -> Option<&'c [u8]> {
        if token.len() > TOKEN_LEN_MAX {
            return None;
        }
        let signed_len = memchr::memrchr(b'.', token)?;
        let (signed, signature) = (&token[..signed_len], &token[signed_len + 1..]);
        let header_len = memchr::memchr(b'.', signed)?;
        let (header, content) = (&signed[..header_len], &signed[header_len + 1..]);
        if header.len() > HEADER_LEN_MAX {
            return None;
        }
        let header = decoded(header, claims)?;
        let header: Header<'_> = serde_json::from_slice(header).ok()?;
        if header.crit {
            return None;
        }
        let algorithm: Algorithm = header.alg.parse().ok()?;
        if !self.keys.verify(algorithm, header.kid.as_deref(), signed, signature) {
            return None;
        }
        decoded(content, claims)
    }
}

/// Decodes into `room`, whose content is replaced.
fn decoded<'r>(text: &[u8], room: &'r mut Vec<u8>) -> Option<&'r [u8]> {
    room.clear();
    room.resize(BASE64URL_NOPAD.decode_len(text.len()).ok()?, 0);
    BASE64URL_NOPAD.decode_mut(text, room).ok()?;
    Some(room)
}

#[cfg(test)]
mod outside;
#[cfg(test)]
mod tests;
