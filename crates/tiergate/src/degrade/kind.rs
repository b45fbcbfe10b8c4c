//! What a file is, by its name and by its content.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a server says that a file is. By the name, as servers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    /// `.jpg`, `.jpeg`, `.jpe`, `.jfif`.
    Jpeg,
    /// `.png`.
    Png,
    /// `.webp`.
    WebP,
    /// `.gif`.
    Gif,
    /// `.html`, `.htm`. Not XHTML, which browsers read by other rules, nor templates.
    Html,
    /// Everything else, which is copied.
    Other,
}

impl Kind {
    /// All, as reports list them.
    pub(super) const ALL: [Kind; 6] =
        [Kind::Jpeg, Kind::Png, Kind::WebP, Kind::Gif, Kind::Html, Kind::Other];

    /// The kind of a file of this name.
    pub(super) fn of(path: &Path) -> Self {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.as_bytes() {
            b"jpg" | b"jpeg" | b"jpe" | b"jfif" => Kind::Jpeg,
            b"png" => Kind::Png,
            b"webp" => Kind::WebP,
            b"gif" => Kind::Gif,
            b"html" | b"htm" => Kind::Html,
            _ => Kind::Other,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Jpeg => "JPEG",
            Kind::Png => "PNG",
            Kind::WebP => "WebP",
            Kind::Gif => "GIF",
            Kind::Html => "HTML",
            Kind::Other => "other",
        }
    }

    /// Whether content may be of this kind, by its first bytes.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Kind::Jpeg => bytes.starts_with(b"\xff\xd8\xff"),
            Kind::Png => bytes.starts_with(b"\x89PNG\r\n\x1a\n"),
            Kind::WebP => bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP"),
            Kind::Gif => bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a"),
            Kind::Html | Kind::Other => true,
        }
    }
}

/// The file of which this one is the compressed copy that servers send in its place (`page.html.gz`).
pub(super) fn compressed_of(path: &Path) -> Option<PathBuf> {
    let extension = path.extension()?.to_ascii_lowercase();
    let compressed = ["gz", "br", "zst"].iter().any(|it| extension == OsStr::new(it));
    compressed.then(|| path.with_extension(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_go_by_the_last_extension() {
        for (name, kind) in [
            ("a/b.JPG", Kind::Jpeg),
            ("b.jpeg", Kind::Jpeg),
            ("photo.jpg.webp", Kind::WebP),
            ("index.htm", Kind::Html),
            ("index.xhtml", Kind::Other),
            ("index.html.gz", Kind::Other),
            ("png", Kind::Other),
            (".png", Kind::Other),
        ] {
            assert_eq!(Kind::of(Path::new(name)), kind, "{name}");
        }
    }

    #[test]
    fn a_compressed_copy_names_its_original() {
        let of = |name: &str| compressed_of(Path::new(name));
        assert_eq!(of("a/page.html.gz"), Some("a/page.html".into()));
        assert_eq!(of("page.html.BR"), Some("page.html".into()));
        assert_eq!(of("page.html"), None);
        assert_eq!(of(".gz"), None);
    }
}
