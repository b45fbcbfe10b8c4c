//! What the policy says of keys and tokens.

use crate::secrets::NamedFile;
use jsonwebtoken::Algorithm;
use std::time::Duration;

/// A table of keys that clients present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    /// Its name in messages.
    pub name: String,
    /// The header that carries the key, lower case.
    pub header: String,
    /// The keys.
    pub file: NamedFile,
}

/// Signed tokens that clients present (JWT). At least one of the files is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The header that carries the token, lower case; `authorization`: behind `Bearer`.
    pub header: String,
    /// Secrets that the issuer has too.
    pub secrets: Option<NamedFile>,
    /// The issuer's public keys in PEM.
    pub public_keys: Option<NamedFile>,
    /// The issuer's key set (RFC 7517).
    pub jwks: Option<NamedFile>,
    /// The algorithms that may be used; empty: all that the keys are for.
    pub algorithms: Vec<Algorithm>,
    /// What `iss` must be; `None`: anything.
    pub issuer: Option<String>,
    /// What `aud` must be or contain; `None`: anything.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
}
