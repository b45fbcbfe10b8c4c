//! The keys that tokens are verified by: shared secrets, public keys in PEM, key sets (JWKS, RFC 7517).
//!
//! Keys are read, and signatures of public keys checked, by the crate jsonwebtoken. Each key is for the algorithms of its own
//! kind alone, so that no token can have a public key taken for a secret (RFC 8725 §2.1).

mod jwks;
mod key;
mod pem;

use super::super::settings::Token;
use crate::secrets::{self, Faults, NamedFile};
use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::crypto;
use jsonwebtoken::{Algorithm, AlgorithmFamily};
use key::{KEYS_MAX, Key};

/// Public keys that a token is tried with: each costs up to 0.4 ms (`ES384`), at a client's wish.
const TRIES_MAX: usize = 4;

/// Longest signature as text: of an RSA key of 8192 bits.
const SIGNATURE_LEN_MAX: usize = 1366;

/// Bytes that the longest HMAC has.
const TAG_LEN_MAX: usize = 64;

/// The keys of a policy.
#[derive(Default)]
pub(super) struct Keyring(Vec<Key>);

impl Keyring {
    /// Reads the files of keys; `faults` gets what is wrong with them.
    pub(super) fn load(
        settings: &Token,
        warnings: &mut Vec<String>,
        faults: &mut Faults,
    ) -> Keyring {
        let mut keys = Vec::new();
        for (file, read) in [
            (&settings.secrets, secret_keys as Read),
            (&settings.public_keys, pem::read),
            (&settings.jwks, jwks::read),
        ] {
            let Some(file) = file else { continue };
            let read = read(file, warnings).and_then(|keys| settings.wanted(file, keys));
            keys.extend(file.check(read, faults).unwrap_or_default());
        }
        let keyring = Keyring(keys);
        warnings.extend(keyring.beyond_tries());
        keyring
    }

    /// What to say of public keys that no token is tried with, because too many others have no name either.
    fn beyond_tries(&self) -> Option<String> {
        let nameless = || self.0.iter().filter(|key| key.kid.is_none() && key.public().is_some());
        let mut algorithms = nameless().flat_map(|key| &key.algorithms);
        algorithms
            .find(|it| nameless().filter(|key| key.algorithms.contains(it)).count() > TRIES_MAX)
            .map(|it| format!("token: more than {TRIES_MAX} public keys without a name (kid) are for {it:?}, and a token is tried with the first {TRIES_MAX} only: name them in a key set (token.jwks_file)"))
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the signature is by a key for that algorithm; with `kid` by one of that name, else by one without a name. Keys come in
    /// the order of the files, and at most 4 public ones and 16 secrets are tried.
    pub(super) fn verify(
        &self,
        algorithm: Algorithm,
        kid: Option<&str>,
        signed: &[u8],
        signature: &[u8],
    ) -> bool {
        if signature.len() > SIGNATURE_LEN_MAX {
            return false;
        }
        let fits = |key: &&Key| key.algorithms.contains(&algorithm);
        let named = |key: &&Key| kid.is_some() && key.kid.as_deref() == kid;
        let others = |key: &&Key| kid.is_none() || key.kid.is_none();
        let first = self.0.iter().filter(fits).filter(named);
        let keys = first.chain(self.0.iter().filter(fits).filter(others));
        match algorithm.family() {
            AlgorithmFamily::Hmac => {
                let mut room = [0; TAG_LEN_MAX];
                let Some(tag) = tag(signature, &mut room) else { return false };
                keys.filter_map(|key| key.secret(algorithm))
                    .take(KEYS_MAX)
                    .any(|secret| hmac::verify(secret, signed, tag).is_ok())
            }
            _ => {
                let Ok(signature) = std::str::from_utf8(signature) else { return false };
                let mut keys = keys.filter_map(Key::public).take(TRIES_MAX);
                keys.any(|key| crypto::verify(signature, signed, key, algorithm).unwrap_or(false))
            }
        }
    }

    /// Secrets without a name.
    #[cfg(test)]
    pub(super) fn of_secrets(secrets: &[&[u8]]) -> Keyring {
        Keyring(secrets.iter().map(|secret| Key::of_secret(secret)).collect())
    }
}

type Read = fn(&NamedFile, &mut Vec<String>) -> Result<Vec<Key>, String>;

impl Token {
    /// The keys of a file with the algorithms that the policy allows.
    fn wanted(&self, file: &NamedFile, mut keys: Vec<Key>) -> Result<Vec<Key>, String> {
        if !self.algorithms.is_empty() {
            keys.iter_mut().for_each(|key| key.keep(&self.algorithms));
            keys.retain(|key| !key.algorithms.is_empty());
        }
        match keys.is_empty() {
            true => Err(format!("{} has no key for token.algorithms", file.path.display())),
            false => Ok(keys),
        }
    }
}

/// The secrets of a file, one a line.
fn secret_keys(file: &NamedFile, warnings: &mut Vec<String>) -> Result<Vec<Key>, String> {
    let text = secrets::read(file, warnings)?;
    let shown = file.path.display().to_string();
    if text.contains("-----BEGIN ") {
        // Its lines would be taken for secrets, which anybody may know.
        return Err(format!("{shown} is a PEM file: name it as token.public_key_file"));
    }
    if text.trim_start().starts_with(['{', '[']) {
        // Issuers publish it.
        return Err(format!("{shown} is JSON: name a key set as token.jwks_file"));
    }
    let secrets = secrets::signing_bytes(&shown, &text, KEYS_MAX)?;
    Ok(secrets.iter().map(|secret| Key::of_secret(secret)).collect())
}

/// The tag of an HMAC.
fn tag<'r>(text: &[u8], room: &'r mut [u8; TAG_LEN_MAX]) -> Option<&'r [u8]> {
    let len = BASE64URL_NOPAD.decode_len(text.len()).ok()?;
    let tag = room.get_mut(..len)?;
    BASE64URL_NOPAD.decode_mut(text, tag).ok()?;
    Some(tag)
}
