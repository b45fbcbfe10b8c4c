//! Public keys in PEM (RFC 7468).

use super::key::{FILE_LEN_MAX, KEYS_MAX, Key};
use crate::secrets::{self, NamedFile};
use jsonwebtoken::DecodingKey;

/// The public keys of a file.
///
/// # Errors
/// The first key that is wrong, by its line.
pub(super) fn read(file: &NamedFile, warnings: &mut Vec<String>) -> Result<Vec<Key>, String> {
    let (text, _) = secrets::read_public(file, FILE_LEN_MAX, warnings)?;
    let shown = file.path.display();
    let mut keys = Vec::new();
    for Block { line, label, text } in blocks(&text) {
        let key = public(label, text).map_err(|fault| format!("{shown}:{line}: {fault}"))?;
        keys.push(key);
    }
    match keys.len() {
        1..=KEYS_MAX => Ok(keys),
        _ => Err(format!("{shown} must have 1 to {KEYS_MAX} public keys in PEM")),
    }
}

fn public(label: &str, text: &str) -> Result<Key, String> {
    let text = text.as_bytes();
    let key = match label {
        "PUBLIC KEY" => DecodingKey::from_rsa_pem(text)
            .or_else(|_| DecodingKey::from_ec_pem(text))
            .or_else(|_| DecodingKey::from_ed_pem(text)),
        "RSA PUBLIC KEY" => DecodingKey::from_rsa_pem(text),
        _ if label.ends_with("PRIVATE KEY") => {
            return Err("is a private key; keep the public one here: \
                        `openssl pkey -in KEY -pubout`"
                .to_owned());
        }
        "CERTIFICATE" => {
            return Err("is a certificate; take the public key out of it: \
                        `openssl x509 -in CERTIFICATE -noout -pubkey`"
                .to_owned());
        }
        _ => return Err("must be a PUBLIC KEY or an RSA PUBLIC KEY".to_owned()),
    };
    let key = key.map_err(|_| "must be a public key of RSA, P-256, P-384 or Ed25519")?;
    Ok(Key::of_public(key)?)
}

/// A block of a PEM file.
struct Block<'t> {
    /// The line where it begins, from 1.
    line: usize,
    /// What its first line calls it.
    label: &'t str,
    /// All its lines, to the end of the file if the last one is missing.
    text: &'t str,
}

/// The blocks of a text; what is between them is a comment.
fn blocks(text: &str) -> impl Iterator<Item = Block<'_>> {
    let starts = text.match_indices("-----BEGIN ").map(|(at, _)| at);
    starts.filter_map(|at| {
        let (before, rest) = text.split_at(at);
        let (label, after) = rest["-----BEGIN ".len()..].split_once("-----")?;
        let ends = format!("-----END {label}-----");
        let len =
            after.find(&ends).map_or(rest.len(), |end| rest.len() - after.len() + end + ends.len());
        Some(Block { line: before.matches('\n').count() + 1, label, text: &rest[..len] })
    })
}
