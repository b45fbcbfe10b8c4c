//! What the policy says of keys and tokens.

use crate::secrets::NamedFile;
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

/// Signed tokens that clients present (JWT, HS256).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// The header that carries the token, lower case; `authorization`: behind `Bearer`.
    pub header: String,
    /// The secrets.
    pub file: NamedFile,
    /// What `iss` must be; `None`: anything.
    pub issuer: Option<String>,
    /// What `aud` must be or contain; `None`: anything.
    pub audience: Option<String>,
    /// By how much clocks may differ.
    pub leeway: Duration,
}
