//! A key that verifies tokens, and what it is for.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicEncryptingKey;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};

/// Most secrets, and most public keys of a PEM file: during a rotation the old and the new one are valid.
pub(super) const KEYS_MAX: usize = 16;

/// Longest file of public keys.
pub(super) const FILE_LEN_MAX: u64 = 1 << 20;

/// A key, and what it is for.
pub(super) struct Key {
    /// Its name in tokens; `None`: tokens need not name it.
    pub(super) kid: Option<Box<str>>,
    /// What it may verify.
    pub(super) algorithms: Vec<Algorithm>,
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

impl Key {
    pub(super) fn of_secret(secret: &[u8]) -> Key {
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
    pub(super) fn of_public(key: DecodingKey) -> Result<Key, &'static str> {
        let algorithms = match key.family() {
            AlgorithmFamily::Rsa
                if rsa_bits(&key).is_some_and(|it| (2048..=8192).contains(&it)) =>
            {
                AlgorithmFamily::Rsa.algorithms().to_vec()
            }
            AlgorithmFamily::Rsa => {
                return Err(
                    "an RSA key must have 2048 to 8192 bits, and n and e without leading zero bytes",
                );
            }
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
    pub(super) fn keep(&mut self, wanted: &[Algorithm]) {
        if let By::Secret(keys) = &mut self.by {
            let mut kept = self.algorithms.iter().map(|it| wanted.contains(it));
            keys.retain(|_| kept.next().unwrap_or(false));
        }
        self.algorithms.retain(|it| wanted.contains(it));
    }

    pub(super) fn secret(&self, algorithm: Algorithm) -> Option<&hmac::Key> {
        let By::Secret(keys) = &self.by else { return None };
        let place = self.algorithms.iter().position(|it| *it == algorithm)?;
        keys.get(place)
    }

    pub(super) fn public(&self) -> Option<&DecodingKey> {
        match &self.by {
            By::Public(key) => Some(key),
            By::Secret(_) => None,
        }
    }
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
