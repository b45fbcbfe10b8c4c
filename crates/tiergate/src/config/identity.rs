//! `[[key]]`, `[token]` and `[geo]`: how clients are identified beyond their addresses.

use super::header_name::CREDENTIAL_HEADER;
use super::kind::{Choice, list, one_or_many};
use super::place::At;
use super::reverse_dns::ReverseDns;
use super::section::{Kind, section};
use super::values::{FILE_TO_READ, TEXT, TIME, check_unique};
use crate::secrets::NamedFile;
use crate::tokens::settings::{KeyTable, Token};
use jsonwebtoken::Algorithm;
use std::time::Duration;

/// Most key tables: a request is looked up in each whose header it has.
pub(super) const KEY_TABLES_MAX: usize = 16;
/// Most databases: each request is looked up in each.
const DATABASES_MAX: usize = 4;

/// The algorithms by their names (RFC 7518 §3.1, RFC 8037 §3.1).
const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("HS256", Algorithm::HS256),
    ("HS384", Algorithm::HS384),
    ("HS512", Algorithm::HS512),
    ("RS256", Algorithm::RS256),
    ("RS384", Algorithm::RS384),
    ("RS512", Algorithm::RS512),
    ("PS256", Algorithm::PS256),
    ("PS384", Algorithm::PS384),
    ("PS512", Algorithm::PS512),
    ("ES256", Algorithm::ES256),
    ("ES384", Algorithm::ES384),
    ("EdDSA", Algorithm::EdDSA),
];

section! {
    /// A table of keys that clients present.
    pub(super) struct KeyTableKeys {
        /// Its name in error messages.
        name: Option<String> = TEXT.required("write name = \"…\"");
        /// The header that carries the key, alone or after `Bearer`; in `authorization` always after
        /// `Bearer`.
        /// Why: what most APIs call it.
        header: String = CREDENTIAL_HEADER.or("x-api-key");
        /// File with one key per line: `name:key`, where the key has 16 to 1024 visible characters, or
        /// `name:sha256:hash` with its SHA-256 in hexadecimal. `#` begins a comment; at most 1,000,000 keys.
        /// Several keys may have the same name, for rotation.
        secret_file: Option<NamedFile> = FILE_TO_READ.required("name a file with name:key lines");
    }
}

section! {
    /// Signed tokens (JWT) that clients present. At least one of the files must be given.
    pub(super) struct TokenKeys {
        /// The header that carries the token, as for keys.
        /// Why: RFC 6750 §2.1.
        header: String = CREDENTIAL_HEADER.or("authorization");
        /// File with 1 to 16 secrets, one per line, as text or as `base64:…`, each of at least 32 bytes. A
        /// token signed with any of them is accepted, for rotation. Each serves `HS256`; one of at least 48 bytes
        /// `HS384` too, and one of at least 64 bytes `HS512` (RFC 7518 §3.2).
        secret_file: Option<NamedFile> = FILE_TO_READ.optional("none");
        /// PEM file with 1 to 16 public keys (`PUBLIC KEY`, `RSA PUBLIC KEY`): RSA of 2048 to 8192 bits for `RS256`,
        /// `RS384`, `RS512`, `PS256`, `PS384` and `PS512`, P-256 for `ES256`, P-384 for `ES384`, Ed25519 for `EdDSA`.
        public_key_file: Option<NamedFile> = FILE_TO_READ.optional("none");
        /// JWKS file (RFC 7517) of at most 64 keys and 1 MiB. A token with `kid` is verified by the keys of that
        /// `kid`. Keys for other uses, or of kinds that are not known, are left out with a warning. A reload reads the
        /// file anew.
        jwks_file: Option<NamedFile> = FILE_TO_READ.optional("none");
        /// The algorithms that tokens may be signed with.
        algorithms: Vec<Algorithm> = list(Choice(ALGORITHMS), ALGORITHMS.len(), "algorithms")
            .plain()
            .or_none("those that the keys are for; a JWK with `alg` is for that one only");
        /// The required `iss`.
        issuer: Option<String> = TEXT.optional("anything");
        /// The value that `aud` must be, or contain. Set it if the issuer signs tokens for other services
        /// with the same secret or key.
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
    token: Option<At<TokenKeys>>,
    geo: Option<GeoKeys>,
) -> Identity {
    let mut tables: Vec<KeyTable> = Vec::new();
    for At { value: raw, place } in keys {
        let Some((name, file)) = raw.name.zip(raw.secret_file) else { continue };
        let before = tables.iter().map(|table| table.name.as_str());
        check_unique("table", &name, before, &place.key("name"));
        tables.push(KeyTable { name, header: raw.header.to_ascii_lowercase(), file });
    }
    let token = token.map(|At { value: raw, place }| {
        if raw.secret_file.is_none() && raw.public_key_file.is_none() && raw.jwks_file.is_none() {
            place.fault(
                "needs secret_file, public_key_file or jwks_file, which tokens are verified by",
            );
        }
        Token {
            header: raw.header.to_ascii_lowercase(),
            secrets: raw.secret_file,
            public_keys: raw.public_key_file,
            jwks: raw.jwks_file,
            algorithms: raw.algorithms,
            issuer: raw.issuer,
            audience: raw.audience,
            leeway: raw.leeway,
        }
    });
    Identity { names, keys: tables, token, geo: geo.map_or_else(Vec::new, |geo| geo.database) }
}
