//! `[[key]]`, `[token]` and `[geo]`: how clients are identified beyond their addresses.

use super::kind::one_or_many;
use super::place::At;
use super::reverse_dns::ReverseDns;
use super::section::{Kind, section};
use super::values::{FILE_TO_READ, HEADER, TEXT, TIME, check_unique};
use crate::secrets::NamedFile;
use crate::tokens::settings::{KeyTable, Token};
use std::time::Duration;

/// Most key tables: a request is looked up in each whose header it has.
pub(super) const KEY_TABLES_MAX: usize = 16;
/// Most databases: each request is looked up in each.
const DATABASES_MAX: usize = 4;

section! {
    /// A table of keys that clients present.
    pub(super) struct KeyTableKeys {
        /// Its name in error messages.
        name: Option<String> = TEXT.required("write name = \"…\"");
        /// The header that carries the key, alone or after `Bearer`; in `authorization` always after
        /// `Bearer`.
        /// Why: what most APIs call it.
        header: String = HEADER.or("x-api-key");
        /// File with one key per line: `name:key`, where the key has 16 to 1024 visible characters, or
        /// `name:sha256:hash` with its SHA-256 in hexadecimal. `#` begins a comment; at most 1,000,000 keys.
        /// Several keys may have the same name, for rotation.
        secret_file: Option<NamedFile> = FILE_TO_READ.required("name a file with name:key lines");
    }
}

section! {
    /// Signed tokens (JWT with `HS256`) that clients present.
    pub(super) struct TokenKeys {
        /// The header that carries the token, as for keys.
        /// Why: RFC 6750 §2.1.
        header: String = HEADER.or("authorization");
        /// File with 1 to 16 secrets, one per line, as text or as `base64:…`, each of at least 32 bytes. A
        /// token signed with any of them is accepted, for rotation.
        secret_file: Option<NamedFile> = FILE_TO_READ.required("name a file with a secret a line");
        /// The required `iss`.
        issuer: Option<String> = TEXT.optional("anything");
        /// The value that `aud` must be, or contain. Set it if the issuer signs tokens for other services
        /// with the same secret.
        audience: Option<String> = TEXT.optional("anything");
        /// Tolerated clock difference for `exp` and `nbf`.
        /// Why: clocks synchronised by NTP differ by less; RFC 7519 §4.1.4 allows a few minutes at most.
        leeway: Duration = TIME.or("1m");
    }
}

section! {
    /// Countries and autonomous systems of addresses.
    pub(super) struct GeoKeys {
        /// MaxMind database (`.mmdb`) of countries or autonomous systems, or a list of databases, of which
        /// the first that has the address counts; each at most 1 GiB.
        database: Vec<NamedFile> = one_or_many(FILE_TO_READ, DATABASES_MAX, "databases")
            .plain()
            .needed("name a MaxMind database, \"….mmdb\"");
    }
}

/// How clients are identified, beyond their addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Names by reverse DNS.
    pub names: ReverseDns,
    /// Tables of keys.
    pub keys: Vec<KeyTable>,
    /// Signed tokens.
    pub token: Option<Token>,
    /// Databases of countries and autonomous systems.
    pub geo: Vec<NamedFile>,
}

pub(super) fn identity(
    names: ReverseDns,
    keys: Vec<At<KeyTableKeys>>,
    token: Option<TokenKeys>,
    geo: Option<GeoKeys>,
) -> Identity {
    let mut tables: Vec<KeyTable> = Vec::new();
    for At { value: raw, place } in keys {
        let Some((name, file)) = raw.name.zip(raw.secret_file) else { continue };
        let before = tables.iter().map(|table| table.name.as_str());
        check_unique("table", &name, before, &place.key("name"));
        tables.push(KeyTable { name, header: raw.header.to_ascii_lowercase(), file });
    }
    let token = token.and_then(|raw| {
        Some(Token {
            header: raw.header.to_ascii_lowercase(),
            file: raw.secret_file?,
            issuer: raw.issuer,
            audience: raw.audience,
            leeway: raw.leeway,
        })
    });
    Identity { names, keys: tables, token, geo: geo.map_or_else(Vec::new, |geo| geo.database) }
}
