//! Files of secrets, read line by line. Errors name a line and never repeat it.

use crate::files::{self, Streams};
use aws_lc_rs::hmac::{HMAC_SHA256, Key};
use data_encoding::BASE64;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// Longest file of secrets: some hundred thousand keys.
const FILE_LEN_MAX: u64 = 64 << 20;

/// Shortest secret that signs, in bytes: as many as the hash is long (RFC 7518 §3.2).
const SIGNING_LEN_MIN: usize = 32;

/// A file that the policy names and that is read with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedFile {
    /// The file.
    pub path: PathBuf,
    /// The key that names it, such as `key[1].secret_file`.
    pub key: String,
    /// Where in the policy's text, in bytes.
    pub at: usize,
}

/// What is wrong with files that the policy names.
pub type Faults = Vec<(NamedFile, String)>;

impl NamedFile {
    /// What was made of the file's content; notes what is wrong with it.
    pub(crate) fn check<T>(&self, read: Result<T, String>, faults: &mut Faults) -> Option<T> {
        read.map_err(|fault| faults.push((self.clone(), fault))).ok()
    }
}

/// The text of a file of secrets. Warns if it is world-readable.
///
/// # Errors
/// What to do about it.
pub(crate) fn read(named: &NamedFile, warnings: &mut Vec<String>) -> Result<String, String> {
    let (text, readers) = read_public(named, FILE_LEN_MAX, warnings)?;
    readers.warn(named, warnings);
    Ok(text)
}

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Every user.
    World,
    /// Its owner and group at most.
    Few,
}

impl Readers {
    /// Warns if a file with secrets is world-readable.
    pub(crate) fn warn(self, named: &NamedFile, warnings: &mut Vec<String>) {
        if self == Readers::World {
            warnings.push(format!("{} is world-readable: chmod o-r", named.path.display()));
        }
    }
}

/// The text of a file that may have no secrets, of at most `len_max` bytes. Warns if everybody may write it.
///
/// # Errors
/// What to do about it.
pub(crate) fn read_public(
    named: &NamedFile,
    len_max: u64,
    warnings: &mut Vec<String>,
) -> Result<(String, Readers), String> {
    let shown = named.path.display();
    let fault = |cause: std::io::Error| format!("{shown} cannot be read: {cause}");
    let file = files::open(&named.path, Streams::Refused).map_err(fault)?;
    let about = file.metadata().map_err(fault)?;
    let mode = about.permissions().mode();
    if mode & 0o002 != 0 {
        warnings.push(format!("{shown} is world-writable: chmod o-w"));
    }
    let readers = match mode & 0o004 {
        0 => Readers::Few,
        _ => Readers::World,
    };
    let mut text = String::new();
    // The kind of the error alone: its text might show what is not UTF-8.
    file.take(len_max + 1).read_to_string(&mut text).map_err(|cause| match cause.kind() {
        std::io::ErrorKind::InvalidData => format!("{shown} must be UTF-8 text"),
        _ => fault(cause),
    })?;
    if text.len() as u64 > len_max {
        return Err(format!("{shown} must have at most {len_max} bytes"));
    }
    Ok((text, readers))
}

/// The signing secrets of a file, one a line, as text or as `base64:…`; 1 to `count_max` of them.
///
/// # Errors
/// The first line that is wrong, never with its content.
pub(crate) fn signing(
    named: &NamedFile,
    count_max: usize,
    warnings: &mut Vec<String>,
) -> Result<Vec<Key>, String> {
    let text = read(named, warnings)?;
    signing_of(&named.path.display().to_string(), &text, count_max)
}

/// The same from a text; `shown` is its name in messages.
pub(crate) fn signing_of(shown: &str, text: &str, count_max: usize) -> Result<Vec<Key>, String> {
    let secrets = signing_bytes(shown, text, count_max)?;
    Ok(secrets.iter().map(|secret| Key::new(HMAC_SHA256, secret)).collect())
}

/// The same as bytes, for other hashes.
pub(crate) fn signing_bytes(
    shown: &str,
    text: &str,
    count_max: usize,
) -> Result<Vec<Vec<u8>>, String> {
    let mut secrets = Vec::new();
    for (line, content) in lines(text) {
        let secret = match content.strip_prefix("base64:") {
            Some(base64) => BASE64
                .decode(base64.as_bytes())
                .map_err(|_| format!("{shown}:{line}: must be base64 behind `base64:`"))?,
            None => content.as_bytes().to_vec(),
        };
        if secret.len() < SIGNING_LEN_MIN {
            return Err(format!(
                "{shown}:{line}: the secret must have at least {SIGNING_LEN_MIN} bytes; make one by \
                 `openssl rand -hex 32`"
            ));
        }
        secrets.push(secret);
    }
    if secrets.is_empty() || secrets.len() > count_max {
        return Err(format!(
            "{shown} must have 1 to {count_max} secrets, one a line; make one by `openssl rand -hex 32`"
        ));
    }
    Ok(secrets)
}

/// A secret that is sent, as `Authorization: Bearer …`. Never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(String);

impl BearerToken {
    /// The first secret of a file.
    ///
    /// # Errors
    /// What to do about it, never with its content.
    pub(crate) fn load(named: &NamedFile, warnings: &mut Vec<String>) -> Result<Self, String> {
        let text = read(named, warnings)?;
        let shown = named.path.display();
        let first = lines(&text).next();
        let (line, token) = first.ok_or_else(|| format!("{shown} must have a token"))?;
        // What the other side would make of it, so that a poor one is found before it is sent.
        signing_of(&shown.to_string(), token, 1)
            .map_err(|fault| fault.replacen(":1:", &format!(":{line}:"), 1))?;
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("{shown}:{line}: the token must be of visible ASCII letters"));
        }
        Ok(BearerToken(token.to_owned()))
    }

    /// The value of the header that presents it.
    pub(crate) fn header(&self) -> http::HeaderValue {
        let text = format!("Bearer {}", self.0);
        let mut value = http::HeaderValue::try_from(text).expect("visible ASCII letters");
        value.set_sensitive(true);
        value
    }
}

impl std::fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BearerToken(…)")
    }
}

/// The lines that are neither empty nor comments (`#`), each with its number from 1.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}
