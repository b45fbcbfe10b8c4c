//! The list of the files of a degraded tree: what it was made of, and what was made.
//!
//! A line of JSON for each, written before the file takes its place: whatever there is in the tree is in the list, also after the program
//! was killed. The last line for a path counts.

use super::answer::{Page, Why};
use super::tree::{Stamp, What};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A file, directory or symbolic link that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// What it is.
    pub(super) what: What,
    /// What it was made of.
    pub(super) source: Stamp,
    /// What was made.
    pub(super) made: Stamp,
    /// Settings that it depends on.
    pub(super) how: String,
    /// Why it is the original; `None` if its content is new.
    pub(super) why: Option<Why>,
    /// What was changed in a page.
    pub(super) page: Page,
}

/// All that were made, by their paths below the root.
pub(super) type Entries = BTreeMap<PathBuf, Entry>;

/// Longest line that is read, in bytes: a path of 4,096 bytes of which each is escaped, and the rest.
pub(super) const LINE_LEN_MAX: u64 = 1 << 16;

#[derive(Serialize, Deserialize)]
struct Line<T> {
    path: String,
    #[serde(flatten)]
    entry: T,
}

/// The line of an entry, ended.
pub(super) fn line(path: &Path, entry: &Entry) -> String {
    let line = Line { path: escaped(path), entry };
    serde_json::to_string(&line).expect("it has no maps and no numbers that JSON cannot hold")
        + "\n"
}

/// The entries of a list. A line that was cut off, as when the machine stopped, says nothing.
pub(super) fn entries<'a>(lines: impl Iterator<Item = &'a str>) -> Entries {
    let read = |line: &str| {
        let Line { path, entry } = serde_json::from_str::<Line<Entry>>(line).ok()?;
        Some((unescaped(&path)?, entry))
    };
    lines.filter_map(read).filter(|(path, _)| is_below(path)).collect()
}

/// Whether a path leads to somewhere below where it begins.
fn is_below(path: &Path) -> bool {
    let normal = |part| matches!(part, std::path::Component::Normal(_));
    path.components().next().is_some() && path.components().all(normal)
}

/// A path as text: `%` and bytes that are no UTF-8 as `%` and two digits.
fn escaped(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text += &chunk.valid().replace('%', "%25");
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02x}")));
    }
    text
}

fn unescaped(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.as_bytes().split(|byte| *byte == b'%');
    bytes.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        bytes.extend_from_slice(rest);
    }
    Some(OsString::from_vec(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(len: u64) -> Entry {
        let stamp = Stamp { len, modified: (1, 2), mode: 0o644, inode: 3 };
        Entry {
            what: What::File,
            source: stamp,
            made: stamp,
            how: "1".into(),
            why: Some(Why::Broken("\"x\"\n".into())),
            page: Page::default(),
        }
    }

    #[test]
    fn lines_come_back_whatever_the_path() {
        for name in [&b"a/b c.png"[..], b"100%/\xff\xfe\n\"", "ä/€".as_bytes()] {
            let path = PathBuf::from(OsString::from_vec(name.to_vec()));
            let text = line(&path, &entry(7));
            assert_eq!(text.lines().count(), 1);
            assert_eq!(entries(text.lines()), Entries::from([(path, entry(7))]));
        }
    }

    #[test]
    fn the_last_line_counts_and_half_a_line_does_not() {
        let path = Path::new("a");
        let text = line(path, &entry(1)) + &line(path, &entry(2)) + &line(path, &entry(3))[..50];
        assert_eq!(entries(text.lines()), Entries::from([("a".into(), entry(2))]));
    }

    #[test]
    fn paths_that_lead_elsewhere_are_none() {
        for path in ["../a", "/etc/passwd", "a/../../b", "", "."] {
            let text = line(Path::new(path), &entry(1));
            assert!(entries(text.lines()).is_empty(), "{path}");
        }
    }
}
