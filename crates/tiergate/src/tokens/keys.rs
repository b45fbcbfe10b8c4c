//! Tables of keys: the subject of a request is the name of the key that it presents.

use super::settings::KeyTable;
use crate::secrets;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use data_encoding::HEXLOWER_PERMISSIVE;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

/// Keys of a table: 100 bytes each, and the name.
const KEYS_MAX: usize = 1_000_000;

/// Shortest key, so that it cannot be guessed: 16 random letters and digits have 95 bits.
const KEY_LEN_MIN: usize = 16;

/// Longest key.
const KEY_LEN_MAX: usize = 1024;

/// Longest name.
const NAME_LEN_MAX: usize = 128;

/// The hash of a key. The keys themselves are not kept.
type Hash = [u8; SHA256_OUTPUT_LEN];

/// A table of keys.
pub(super) struct Keys {
    /// The header that carries the key, lower case.
    pub(super) header: String,
    /// By the first half of the key's hash. The hash of a guess reveals nothing about a key, so the time
    /// of the search does not either; the whole hash is compared in constant time.
    names: HashMap<u128, (Hash, Box<str>)>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({} in {})", self.names.len(), self.header)
    }
}

impl Keys {
    /// Reads the table's file: `name:key` or `name:sha256:hex` a line.
    ///
    /// # Errors
    /// The first line that is wrong, never with its content.
    pub(super) fn load(table: &KeyTable, warnings: &mut Vec<String>) -> Result<Self, String> {
        let text = secrets::read(&table.file, warnings)?;
        let mut names = HashMap::new();
        for (line, content) in secrets::lines(&text) {
            let fault = |what: &str| Err(format!("{}:{line}: {what}", table.file.path.display()));
            let Some((name, key)) = content.split_once(':') else {
                return fault("must be name:key or name:sha256:hash");
            };
            let plain = |byte: u8| byte.is_ascii_graphic();
            if name.is_empty() || name.len() > NAME_LEN_MAX || !name.bytes().all(plain) {
                return fault("the name must be 1 to 128 visible ASCII characters");
            }
            let hash = match key.strip_prefix("sha256:") {
                Some(hex) => match HEXLOWER_PERMISSIVE.decode(hex.as_bytes()) {
                    Ok(hash) if hash.len() == SHA256_OUTPUT_LEN => {
                        hash.try_into().expect("its length was looked at")
                    }
                    _ => return fault("the hash must be 64 hexadecimal digits"),
                },
                None if key.len() < KEY_LEN_MIN || key.len() > KEY_LEN_MAX => {
                    return fault("the key must have 16 to 1024 characters");
                }
                None if !key.bytes().all(plain) => {
                    return fault("the key must be of visible ASCII characters");
                }
                None => hashed(key.as_bytes()),
            };
            match names.entry(place(&hash)) {
                Entry::Vacant(entry) => drop(entry.insert((hash, name.into()))),
                Entry::Occupied(_) => return fault("duplicate key"),
            }
            if names.len() > KEYS_MAX {
                return fault("there must be at most 1000000 keys");
            }
        }
        if names.is_empty() {
            warnings.push(format!("there are no keys in {}", table.file.path.display()));
        }
        Ok(Keys { header: table.header.clone(), names })
    }

    /// The name of a key; `None`: it is unknown. Costs one SHA-256 and one lookup.
    pub(super) fn subject(&self, key: &[u8]) -> Option<&[u8]> {
        if key.len() > KEY_LEN_MAX {
            return None;
        }
        let hash = hashed(key);
        let (known, name) = self.names.get(&place(&hash))?;
        verify_slices_are_equal(known, &hash).ok()?;
        Some(name.as_bytes())
    }
}

fn hashed(key: &[u8]) -> Hash {
    digest(&SHA256, key).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn place(hash: &Hash) -> u128 {
    u128::from_le_bytes(*hash.first_chunk().expect("a hash is longer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::NamedFile;
    use std::os::unix::fs::PermissionsExt;
    use tempfile::TempDir;

    fn table(folder: &TempDir, text: &str) -> KeyTable {
        let path = folder.path().join("keys");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        let file = NamedFile { path, ..NamedFile::default() };
        KeyTable { name: "t".into(), header: "x-api-key".into(), file }
    }

    fn load(text: &str) -> (Result<Keys, String>, Vec<String>) {
        let folder = TempDir::new().unwrap();
        let mut warnings = Vec::new();
        let keys = Keys::load(&table(&folder, text), &mut warnings);
        (keys, warnings)
    }

    #[test]
    fn keys_stand_for_their_names_and_nothing_else_does() {
        let hash = HEXLOWER_PERMISSIVE.encode(&hashed(b"a key that is kept hashed"));
        let text = format!(
            "# partners\n\nalice:0123456789abcdef\r\n  alice:fedcba9876543210  \n\
             bob:with:colons:in:it\ncarol:sha256:{hash}\n"
        );
        let keys = load(&text).0.unwrap();
        let subject = |key: &str| keys.subject(key.as_bytes()).map(<[u8]>::to_vec);
        assert_eq!(subject("0123456789abcdef").unwrap(), b"alice");
        assert_eq!(subject("fedcba9876543210").unwrap(), b"alice");
        assert_eq!(subject("with:colons:in:it").unwrap(), b"bob");
        assert_eq!(subject("a key that is kept hashed").unwrap(), b"carol");
        for wrong in
            ["", "alice", "0123456789abcde", "0123456789abcdef0", "0123456789abcdeF", &hash]
        {
            assert_eq!(subject(wrong), None, "{wrong}");
        }
        assert_eq!(subject(&"x".repeat(KEY_LEN_MAX + 1)), None);
    }

    #[test]
    fn a_hundred_thousand_keys_are_each_found() {
        let text: String =
            (0..100_000).map(|number| format!("n{number}:key-number-{number:010}\n")).collect();
        let keys = load(&text).0.unwrap();
        for number in 0..100_000 {
            let key = format!("key-number-{number:010}");
            assert_eq!(keys.subject(key.as_bytes()), Some(format!("n{number}").as_bytes()));
        }
        assert_eq!(keys.subject(b"key-number-0000100000"), None);
    }

    #[test]
    fn faults_name_the_line_and_never_repeat_it() {
        for (text, expected) in [
            ("\nSECRETSECRETSECRET", "keys:2: must be name:key or name:sha256:hash"),
            (":SECRETSECRETSECRET", "keys:1: the name must be"),
            ("a b:SECRETSECRETSECRET", "keys:1: the name must be"),
            ("a:SECRET", "keys:1: the key must have 16 to 1024 characters"),
            ("a:SECRET SECRETSECRET", "keys:1: the key must be of visible"),
            ("a:sha256:SECRET", "keys:1: the hash must be 64"),
            ("a:SECRETSECRETSECRET\nb:SECRETSECRETSECRET", "keys:2: duplicate key"),
        ] {
            let fault = load(text).0.unwrap_err();
            assert!(fault.contains(expected), "{fault}");
            assert!(!fault.contains("SECRET"), "{fault}");
        }
    }

    #[test]
    fn nothing_is_shown_and_what_everybody_reads_is_warned_of() {
        let folder = TempDir::new().unwrap();
        let table = table(&folder, "alice:0123456789abcdef");
        let mut warnings = Vec::new();
        let keys = Keys::load(&table, &mut warnings).unwrap();
        assert_eq!(warnings, [""; 0]);
        assert_eq!(format!("{keys:?}"), "Keys(1 in x-api-key)");
        let all = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&table.file.path, all).unwrap();
        Keys::load(&table, &mut warnings).unwrap();
        assert!(warnings[0].contains(" is world-readable"), "{warnings:?}");
    }
}
