//! The keys that tokens are verified by: shared secrets, public keys in PEM, key sets (JWKS, RFC 7517).
//!
//! Keys are read, and signatures of public keys checked, by the crate jsonwebtoken. Each key is for the algorithms of its own
//! kind alone, so that no token can have a public key taken for a secret (RFC 8725 §2.1).

mod jwks;
mod pem;

use super::super::settings::Token;
use crate::secrets::{self, Faults, NamedFile};
use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::crypto;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};

/// Most secrets, and most public keys of a PEM file: during a rotation the old and the new one are valid.
const KEYS_MAX: usize = 16;

/// Longest file of public keys.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Public keys that a token is tried with: each costs up to 0.4 ms (`ES384`), at a client's wish.
const TRIES_MAX: usize = 4;

/// Longest signature as text: of an RSA key of 8192 bits.
const SIGNATURE_LEN_MAX: usize = 1366;

/// Bytes that the longest HMAC has.
const TAG_LEN_MAX: usize = 64;

/// The keys of a policy.
#[derive(Default)]
pub(super) struct Keyring(Vec<Key>);

/// A key, and what it is for.
struct Key {
    /// Its name in tokens; `None`: tokens need not name it.
    kid: Option<Box<str>>,
    /// What it may verify.
    algorithms: Vec<Algorithm>,
    by: By,
}

enum By {
    /// A secret, prepared for each of the algorithms.
    ///
    /// By a few lines over aws-lc-rs: jsonwebtoken prepares the secret for each token anew, so that its signature alone takes as long as all of a
    /// token here (2.1 and 1.7 µs in one run of `examples/token_cost.rs`).
    Secret(Vec<hmac::Key>),
    /// A public key.
    Public(DecodingKey),
}

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
        Keyring(keys)
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the signature is by a key for that algorithm; with `kid` by one of that name, or one without a name. Keys come in
    /// the order of the files, and at most 4 public ones are tried.
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
        let named = |key: &&Key| kid.is_none() || key.kid.is_none() || key.kid.as_deref() == kid;
        let keys = self.0.iter().filter(|key| key.algorithms.contains(&algorithm)).filter(named);
        match algorithm.family() {
            AlgorithmFamily::Hmac => {
                let mut room = [0; TAG_LEN_MAX];
                let Some(tag) = tag(signature, &mut room) else { return false };
                keys.filter_map(|key| key.secret(algorithm))
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

impl Key {
    fn of_secret(secret: &[u8]) -> Key {
        const HASHES: [(Algorithm, hmac::Algorithm, usize); 3] = [
            (Algorithm::HS256, hmac::HMAC_SHA256, 0),
            (Algorithm::HS384, hmac::HMAC_SHA384, 48),
            (Algorithm::HS512, hmac::HMAC_SHA512, 64),
        ];
        // A secret must be as long as the hash (RFC 7518 §3.2).
        let fitting = HASHES.iter().filter(|(_, _, len_min)| secret.len() >= *len_min);
        let (algorithms, keys) =
            fitting.map(|(algorithm, hash, _)| (*algorithm, hmac::Key::new(*hash, secret))).unzip();
        Key { kid: None, algorithms, by: By::Secret(keys) }
    }

    /// A public key.
    ///
    /// # Errors
    /// Its kind or its length does not serve.
    fn of_public(key: DecodingKey) -> Result<Key, &'static str> {
        let algorithms = match key.family() {
            AlgorithmFamily::Rsa
                if rsa_bits(&key).is_some_and(|it| (2048..=8192).contains(&it)) =>
            {
                AlgorithmFamily::Rsa.algorithms().to_vec()
            }
            AlgorithmFamily::Rsa => return Err("an RSA key must have 2048 to 8192 bits"),
            AlgorithmFamily::Ec => {
                let point = key.try_get_as_bytes().unwrap_or_default();
                if ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).is_ok() {
                    vec![Algorithm::ES256]
                } else if ParsedPublicKey::new(&ECDSA_P384_SHA384_FIXED, point).is_ok() {
                    vec![Algorithm::ES384]
                } else {
                    return Err("an elliptic curve key must be of P-256 or P-384");
                }
            }
            AlgorithmFamily::Ed => {
                let point = key.try_get_as_bytes().unwrap_or_default();
                ParsedPublicKey::new(&ED25519, point)
                    .map_err(|_| "an Edwards curve key must be of Ed25519")?;
                vec![Algorithm::EdDSA]
            }
            AlgorithmFamily::Hmac => return Err("must be a public key"),
        };
        Ok(Key { kid: None, algorithms, by: By::Public(key) })
    }

    /// Leaves only these algorithms.
    fn keep(&mut self, wanted: &[Algorithm]) {
        if let By::Secret(keys) = &mut self.by {
            let mut kept = self.algorithms.iter().map(|it| wanted.contains(it));
            keys.retain(|_| kept.next().unwrap_or(false));
        }
        self.algorithms.retain(|it| wanted.contains(it));
    }

    fn secret(&self, algorithm: Algorithm) -> Option<&hmac::Key> {
        let By::Secret(keys) = &self.by else { return None };
        let place = self.algorithms.iter().position(|it| *it == algorithm)?;
        keys.get(place)
    }

    fn public(&self) -> Option<&DecodingKey> {
        match &self.by {
            By::Public(key) => Some(key),
            By::Secret(_) => None,
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
    let secrets = secrets::signing_bytes(&shown, &text, KEYS_MAX)?;
    Ok(secrets.iter().map(|secret| Key::of_secret(secret)).collect())
}

fn rsa_bits(key: &DecodingKey) -> Option<usize> {
    let parsed = match key.kind() {
        DecodingKeyKind::SecretOrDer(der) => ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, der),
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        }
    };
    let der = parsed.ok()?.as_der().ok()?;
    PublicEncryptingKey::from_der(der.as_ref()).ok().map(|key| key.key_size_bits())
}

/// The tag of an HMAC.
fn tag<'r>(text: &[u8], room: &'r mut [u8; TAG_LEN_MAX]) -> Option<&'r [u8]> {
    let len = BASE64URL_NOPAD.decode_len(text.len()).ok()?;
    let tag = room.get_mut(..len)?;
    BASE64URL_NOPAD.decode_mut(text, tag).ok()?;
    Some(tag)
}
