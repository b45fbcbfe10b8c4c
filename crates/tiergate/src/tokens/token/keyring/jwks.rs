//! Key sets: JWKS files (RFC 7517 §5).

use super::key::{FILE_LEN_MAX, Key};
use crate::secrets::{self, NamedFile};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Most keys of a set, those that are left out too.
const KEYS_MAX: usize = 64;

/// Most keys of which an error says why they are left out.
const REASONS_MAX: usize = 4;

/// Longest name of a key.
const KID_LEN_MAX: usize = 256;

/// Shortest secret, in bytes: as long as the shortest hash (RFC 7518 §3.2).
const SECRET_LEN_MIN: usize = 32;

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

/// The keys of a set. One that cannot verify tokens is left out with a warning, as the standard has it: issuers publish keys for
/// other uses beside them.
///
/// # Errors
/// The file is no set, has a private key, or no key that can verify tokens.
pub(super) fn read(file: &NamedFile, warnings: &mut Vec<String>) -> Result<Vec<Key>, String> {
    let (text, readers) = secrets::read_public(file, FILE_LEN_MAX, warnings)?;
    let shown = file.path.display();
    let set: Set = serde_json::from_str(&text).map_err(|cause| {
        format!("{shown}:{}: must be a JSON Web Key Set: {{\"keys\": […]}}", cause.line())
    })?;
    if set.keys.len() > KEYS_MAX {
        return Err(format!("{shown} must have at most {KEYS_MAX} keys, got {}", set.keys.len()));
    }
    let (mut keys, mut reasons) = (Vec::new(), Vec::new());
    for (number, value) in (1..).zip(set.keys) {
        // `d` is the private part of all kinds but `oct` (RFC 7518 §6, RFC 8037 §2).
        if value.get("d").is_some() {
            return Err(format!(
                "{shown}: keys[{number}] is a private key; take `d` and the like out of it"
            ));
        }
        match key(value) {
            Ok(key) => keys.push(key),
            Err(why) => {
                warnings.push(format!("{shown}: keys[{number}] is left out: {why}"));
                reasons.push(format!("keys[{number}]: {why}"));
            }
        }
    }
    if keys.iter().any(|key| key.public().is_none()) {
        readers.warn(file, warnings);
    }
    if !keys.is_empty() {
        return Ok(keys);
    }
    let more = reasons.len().saturating_sub(REASONS_MAX);
    reasons.truncate(REASONS_MAX);
    let why = match reasons.is_empty() {
        true => ", and none at all".to_owned(),
        false => format!(": {}", reasons.join("; ")),
    };
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    Err(format!("{shown} has no key that can verify tokens{why}{more}"))
}

fn key(value: Value) -> Result<Key, &'static str> {
    let jwk: Jwk = serde_json::from_value(value).map_err(|_| "it is no JSON Web Key")?;
    let common = &jwk.common;
    if common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
        return Err("its use is not `sig`");
    }
    if common.key_operations.as_ref().is_some_and(|it| !it.contains(&KeyOperations::Verify)) {
        return Err("its key_ops have no `verify`");
    }
    let mut key = match &jwk.algorithm {
        AlgorithmParameters::OctetKey(octets) => secret(&octets.value)?,
        _ => {
            let key = DecodingKey::from_jwk(&jwk)
                .map_err(|_| "it is no key of RSA, P-256, P-384 or Ed25519")?;
            match (&jwk.algorithm, Key::of_public(key)) {
                (AlgorithmParameters::EllipticCurve(it), Err(_))
                    if matches!(it.curve, EllipticCurve::P256 | EllipticCurve::P384) =>
                {
                    return Err("its x and y are no point of its curve");
                }
                (_, key) => key?,
            }
        }
    };
    if let Some(named) = common.key_algorithm {
        let algorithm = Algorithm::try_from(named).map_err(|_| "its alg is not known")?;
        key.keep(&[algorithm]);
    }
    if key.algorithms.is_empty() {
        return Err("its alg is not for keys of its kind and length");
    }
    if common.key_id.as_ref().is_some_and(|kid| kid.len() > KID_LEN_MAX) {
        return Err("its kid is longer than 256 bytes");
    }
    key.kid = common.key_id.as_deref().map(Into::into);
    Ok(key)
}

fn secret(text: &str) -> Result<Key, &'static str> {
    let secret = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| "its k is not base64url")?;
    match secret.len() >= SECRET_LEN_MIN {
        true => Ok(Key::of_secret(&secret)),
        false => Err("its k has fewer than 32 bytes"),
    }
}
