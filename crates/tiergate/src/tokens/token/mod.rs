//! Signed tokens: JSON Web Tokens (RFC 7519) with HMAC-SHA256 (`HS256`, RFC 7518 §3.2).
//!
//! The signature is checked before the content is read, and the algorithm is fixed: a token that names
//! another, or none, is rejected (RFC 8725 §3.1).

use super::proof::Proof;
use super::settings::Token;
use crate::secrets;
use aws_lc_rs::hmac::{self, Key};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// Most secrets: during a rotation the old and the new one are valid.
const SECRETS_MAX: usize = 16;

/// Longest token, header and subject.
const TOKEN_LEN_MAX: usize = 16 << 10;
const HEADER_LEN_MAX: usize = 1024;
const SUBJECT_LEN_MAX: usize = 256;

/// Checks tokens.
pub(super) struct Verifier {
    /// What the policy says.
    pub(super) settings: Token,
    secrets: Vec<Key>,
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verifier({} secrets, {})", self.secrets.len(), self.settings.header)
    }
}

/// A token's header.
#[derive(Deserialize)]
struct Header<'t> {
    #[serde(borrow)]
    alg: Cow<'t, str>,
    /// Extensions that must be understood (RFC 7515 §4.1.11); none is supported.
    crit: Option<IgnoredAny>,
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
    /// Reads the file of secrets: one a line, as text or as `base64:…`.
    ///
    /// # Errors
    /// The first line that is wrong, never with its content.
    pub(super) fn load(settings: &Token, warnings: &mut Vec<String>) -> Result<Self, String> {
        let secrets = secrets::signing(&settings.file, SECRETS_MAX, warnings)?;
        Ok(Verifier { settings: settings.clone(), secrets })
    }

    /// The subject of a token at second `now` of UNIX time, as a range of `claims`, which is filled with
    /// the token's content. Costs one HMAC of the token for each secret until one fits, and the
    /// reading of two small JSON texts; `examples/identity_cost.rs` measures it.
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
        let mut tag = [0; 32];
        if header.len() > HEADER_LEN_MAX
            || BASE64URL_NOPAD.decode_len(signature.len()).ok()? != tag.len()
        {
            return None;
        }
        BASE64URL_NOPAD.decode_mut(signature, &mut tag).ok()?;
        let known = |secret: &Key| hmac::verify(secret, signed, &tag).is_ok();
        if !self.secrets.iter().any(known) {
            return None;
        }
        let header = decoded(header, claims)?;
        let header: Header<'_> = serde_json::from_slice(header).ok()?;
        if header.alg != "HS256" || header.crit.is_some() {
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
mod tests;
