//! Signed tokens, written by hand so that they can be wrong in every way.

use aws_lc_rs::hmac;
use data_encoding::BASE64URL_NOPAD;
use std::time::{SystemTime, UNIX_EPOCH};

/// The header of a good token.
pub const HS256: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

/// Seconds of UNIX time, `ahead` of now.
pub fn at(ahead: i64) -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_secs() as i64 + ahead
}

/// A token of any header and claims, signed by a secret.
pub fn sign(secret: &str, header: &str, claims: &str) -> String {
    let text = |bytes: &[u8]| BASE64URL_NOPAD.encode(bytes);
    let signed = format!("{}.{}", text(header.as_bytes()), text(claims.as_bytes()));
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, signed.as_bytes());
    format!("{signed}.{}", text(tag.as_ref()))
}

/// The claims of a good token that stands for `subject` for an hour.
pub fn claims(subject: &str) -> String {
    format!(r#"{{"sub":"{subject}","exp":{}}}"#, at(3600))
}
