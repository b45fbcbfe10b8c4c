//! Our own session cookie: a signed token, so that no state is needed to check it.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | version, 1 |
//! | 4 | when the session began, UNIX time, big endian |
//! | 4 | when the token was made |
//! | 11 | the session's random name |
//! | 16 | HMAC-SHA256 of the bytes before and the host, truncated to 128 bits (RFC 2104 §5) |
//!
//! Encoded as base64url: 48 characters. It carries neither class nor importance, which the policy decides
//! for each request, so there is nothing to forge. The signature covers the host, so that a token of one
//! site is invalid at another.

use crate::secrets::{self, NamedFile};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::{hmac, rand};
use data_encoding::BASE64URL_NOPAD as BASE64;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Most secrets of a file: the current one and its predecessors.
pub const SECRETS_MAX: usize = 4;
/// Characters of a token.
pub const TEXT_LEN: usize = 48;

const VERSION: u8 = 1;
const NAME_LEN: usize = 11;
const SIGNED_LEN: usize = 1 + 4 + 4 + NAME_LEN;
const MAC_LEN: usize = 16;
/// Domain separation: nothing else signed with the same secret begins with this.
const PURPOSE: &[u8] = b"tiergate session 1\0";
/// By how much another gateway's clock may be ahead, in seconds.
const AHEAD_MAX: u32 = 60;

/// The secrets of tokens: the first one signs, all of them verify.
#[derive(Clone)]
pub struct Secrets(Arc<[hmac::Key]>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secrets({})", self.0.len())
    }
}

impl Secrets {
    /// The secrets of a file, one a line, the current one first. Warns if it is world-readable.
    ///
    /// # Errors
    /// What is wrong with the file, without repeating any of it.
    pub fn load(file: &NamedFile, warnings: &mut Vec<String>) -> Result<Secrets, String> {
        secrets::signing(file, SECRETS_MAX, warnings).map(|keys| Secrets(keys.into()))
    }

    /// The same from the file's text.
    ///
    /// # Errors
    /// As those of [`Secrets::load`].
    pub fn read(text: &str) -> Result<Secrets, String> {
        secrets::signing_of("the text", text, SECRETS_MAX).map(|keys| Secrets(keys.into()))
    }

    /// A random secret of this process.
    pub fn of_process() -> Secrets {
        static SECRETS: OnceLock<Secrets> = OnceLock::new();
        let make = || {
            let mut secret = [0; 32];
            rand::fill(&mut secret).expect("the system has random numbers");
            Secrets(Arc::new([hmac::Key::new(hmac::HMAC_SHA256, &secret)]))
        };
        SECRETS.get_or_init(make).clone()
    }

    fn sign(key: &hmac::Key, signed: &[u8], host: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(key);
        context.update(PURPOSE);
        context.update(signed);
        for part in host.chunks(64) {
            let mut lower = [0; 64];
            let lower = &mut lower[..part.len()];
            lower.copy_from_slice(part);
            lower.make_ascii_lowercase();
            context.update(lower);
        }
        context.sign()
    }
}

/// The content of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// When the session began, UNIX time in seconds.
    pub begun: u32,
    /// When the token was made.
    pub made: u32,
    /// The session's random name.
    pub name: [u8; NAME_LEN],
}

impl Token {
    /// A token of a new session.
    pub fn new(now: u32) -> Token {
        let mut name = [0; NAME_LEN];
        rand::fill(&mut name).expect("the system has random numbers");
        Token { begun: now, made: now, name }
    }

    /// The token as text, for this host.
    pub fn write(&self, secrets: &Secrets, host: &[u8]) -> String {
        let mut bytes = [0; SIGNED_LEN + MAC_LEN];
        bytes[0] = VERSION;
        bytes[1..5].copy_from_slice(&self.begun.to_be_bytes());
        bytes[5..9].copy_from_slice(&self.made.to_be_bytes());
        bytes[9..SIGNED_LEN].copy_from_slice(&self.name);
        let mac = Secrets::sign(&secrets.0[0], &bytes[..SIGNED_LEN], host);
        bytes[SIGNED_LEN..].copy_from_slice(&mac.as_ref()[..MAC_LEN]);
        BASE64.encode(&bytes)
    }

    /// Verifies a token: signed by one of the secrets for this host, within the session's lifetime and
    /// idle time. About 1 µs a secret.
    pub fn read(
        text: &[u8],
        secrets: &Secrets,
        host: &[u8],
        now: u32,
        idle: Duration,
        lifetime: Duration,
    ) -> Option<Token> {
        if text.len() != TEXT_LEN {
            return None;
        }
        let mut bytes = [0; SIGNED_LEN + MAC_LEN];
        // The encoding is canonical: the length leaves no spare bits.
        BASE64.decode_mut(text, &mut bytes).ok()?;
        let (signed, mac) = bytes.split_at(SIGNED_LEN);
        let is_signed = secrets.0.iter().any(|key| {
            let right = Secrets::sign(key, signed, host);
            verify_slices_are_equal(&right.as_ref()[..MAC_LEN], mac).is_ok()
        });
        if !is_signed || signed[0] != VERSION {
            return None;
        }
        let number = |at: usize| {
            u32::from_be_bytes(signed[at..at + 4].try_into().expect("four bytes are four"))
        };
        let name = signed[9..].try_into().expect("the rest is the name");
        let token = Token { begun: number(1), made: number(5), name };
        let within = |then: u32, bound: Duration| {
            then <= now.saturating_add(AHEAD_MAX)
                && u64::from(now.saturating_sub(then)) < bound.as_secs()
        };
        (within(token.begun, lifetime) && within(token.made, idle)).then_some(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u32 = 1_800_000_000;
    const IDLE: Duration = Duration::from_secs(1800);
    const LIFETIME: Duration = Duration::from_secs(43_200);

    fn secrets(text: &str) -> Secrets {
        Secrets::read(text).expect("good secrets")
    }

    fn ours() -> Secrets {
        secrets("0123456789abcdef0123456789abcdef")
    }

    fn read(text: &str, now: u32) -> Option<Token> {
        Token::read(text.as_bytes(), &ours(), b"shop.example", now, IDLE, LIFETIME)
    }

    #[test]
    fn a_token_is_known_again_by_whoever_has_the_secret() {
        let token = Token::new(NOW);
        let text = token.write(&ours(), b"Shop.Example");
        assert_eq!(text.len(), TEXT_LEN);
        assert_eq!(read(&text, NOW + 5), Some(token));
        assert_eq!(read(&text, NOW - 30), Some(token), "another gateway's clock may be ahead");
    }

    #[test]
    fn no_altered_token_is_believed() {
        let text = Token::new(NOW).write(&ours(), b"shop.example");
        let bytes = BASE64.decode(text.as_bytes()).expect("ours");
        for bit in 0..bytes.len() * 8 {
            let mut altered = bytes.clone();
            altered[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read(&BASE64.encode(&altered), NOW), None, "bit {bit}");
        }
        assert_eq!(read(&text[..47], NOW), None);
        assert_eq!(read(&format!("{text}A"), NOW), None);
        assert_eq!(read(&"A".repeat(48), NOW), None);
        assert_eq!(read("", NOW), None);
    }

    #[test]
    fn an_expired_token_is_none() {
        let token = Token { begun: NOW, made: NOW, name: [7; NAME_LEN] };
        let text = token.write(&ours(), b"shop.example");
        assert!(read(&text, NOW + 1799).is_some());
        assert!(read(&text, NOW + 1800).is_none(), "idle");
        let renewed = Token { made: NOW + 43_100, ..token }.write(&ours(), b"shop.example");
        assert!(read(&renewed, NOW + 43_199).is_some());
        assert!(read(&renewed, NOW + 43_200).is_none(), "too old, however busy");
        let future = Token::new(NOW + 3600).write(&ours(), b"shop.example");
        assert!(read(&future, NOW).is_none(), "made in the future");
    }

    #[test]
    fn another_key_s_and_another_site_s_tokens_are_none() {
        let token = Token::new(NOW);
        let other = secrets("fedcba9876543210fedcba9876543210");
        assert_eq!(read(&token.write(&other, b"shop.example"), NOW), None);
        assert_eq!(read(&token.write(&ours(), b"blog.example"), NOW), None);
        assert_eq!(read(&token.write(&Secrets::of_process(), b"shop.example"), NOW), None);
    }

    #[test]
    fn a_secret_is_replaced_without_ending_sessions() {
        let text = Token::new(NOW).write(&ours(), b"a");
        let both =
            secrets("fedcba9876543210fedcba9876543210\n\n0123456789abcdef0123456789abcdef\n");
        let token = Token::read(text.as_bytes(), &both, b"a", NOW, IDLE, LIFETIME);
        assert!(token.is_some());
    }

    #[test]
    fn a_bad_file_of_secrets_is_refused_without_showing_it() {
        let too_many = [&*"x".repeat(40); 5].join("\n");
        for text in ["", "\n \n", "short", &"a".repeat(31), &too_many] {
            let fault = Secrets::read(text).expect_err(text);
            assert!(fault.contains("openssl") && !fault.contains("xxxx"), "{fault}");
        }
        assert_eq!(format!("{:?}", ours()), "Secrets(1)");
    }
}
