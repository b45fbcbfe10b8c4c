//! The quality of an answer: what its level does on the way to the origin, and what is said of it on the way back.

use arrayvec::ArrayString;
use std::fmt::Write;
use tiergate_core::adapt::{Adaptation, LevelNumber};
use tiergate_core::gate::Arrival;
use tiergate_core::plan::Plan;

/// What caches are told of an answer of less than full quality, browsers' caches, too: validators do not tell the levels apart. What else
/// the answer says of them is bounded by it; for those that go by a field of their own (RFC 9213), that says the same.
pub(crate) const CACHE_CONTROL: &str = "private, no-store";
/// The field of RFC 9213, in lower case.
pub(crate) const CDN_CACHE_CONTROL: &str = "cdn-cache-control";

/// The level of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality<'p> {
    settings: &'p Adaptation,
    level: LevelNumber,
}

impl<'p> Quality<'p> {
    /// That of a request; `None`: nothing decides about it, and it is full.
    pub(crate) fn of(plan: &'p Plan, arrival: &Arrival) -> Option<Self> {
        let adapted = arrival.adapted?;
        let settings = plan.adaptation(adapted.adaptation)?;
        // A reload may have taken levels away.
        Some(Quality { settings, level: adapted.level.min(settings.highest()) })
    }

    /// As the origin is told, and logs say: `2/3`; `None`: nothing is said of it, because the adaptation is only observed.
    pub(crate) fn text(&self) -> Option<ArrayString<8>> {
        let mut text = ArrayString::new();
        write!(text, "{}/{}", self.level, self.settings.highest())
            .expect("two numbers of three digits fit");
        Some(text).filter(|_| self.settings.acts)
    }

    /// Whether it is less than full.
    pub(crate) fn is_less(&self) -> bool {
        self.level < self.settings.highest()
    }

    /// The path in the level's tree; `None`: it stays as it is.
    pub(super) fn path(&self, path: &[u8]) -> Option<Vec<u8>> {
        let tree = self.settings.level(self.level)?.tree.as_deref()?.as_bytes();
        match path {
            [] => Some([tree, b"/"].concat()),
            [b'/', ..] => Some([tree, path].concat()),
            // `*`, which is no path.
            _ => None,
        }
    }

    /// A `Location` of the origin without the tree of a level; `None`: it stays as it is. `host` is that of the request: what leads to another
    /// one is not ours.
    pub(crate) fn location(&self, value: &[u8], host: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        let mut trees = self.settings.levels.iter().filter_map(|level| level.tree.as_deref());
        let start = match value {
            [b'/', next, ..] if *next != b'/' => 0,
            b"/" => return None,
            _ => {
                let schemes: [(&[u8], &[u8]); 3] =
                    [(b"http://", b":80"), (b"https://", b":443"), (b"//", b"")];
                let (scheme, port) = schemes.into_iter().find(|(scheme, _)| {
                    let begin = value.get(..scheme.len());
                    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
                })?;
                let rest = &value[scheme.len()..];
                let len = rest.iter().position(|byte| b"/?#".contains(byte))?;
                let plain = |host: &[u8]| {
                    let host = host.strip_suffix(port).unwrap_or(host);
                    host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
                };
                if plain(&rest[..len]) != plain(&host()) {
                    return None;
                }
                scheme.len() + len
            }
        };
        let (before, path) = value.split_at(start);
        let rest = trees.find_map(|tree| {
            let rest = path.strip_prefix(tree.as_bytes())?;
            matches!(rest, [] | [b'/' | b'?' | b'#', ..]).then_some(rest)
        })?;
        match rest {
            // Without what stands before, that would lead to another host.
            [b'/', b'/' | b'\\', ..] => None,
            [b'/', ..] => Some([before, rest].concat()),
            _ => Some([before, b"/", rest].concat()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::adapt::Level;
    use tiergate_core::admit::inbound::Reference;
    use tiergate_core::classify::flow::Flow;

    fn settings(trees: [Option<&str>; 2]) -> Adaptation {
        Adaptation {
            name: "pages".to_owned(),
            acts: true,
            source: "cpu".into(),
            reference: Reference::Utilization(8000),
            also: Vec::new(),
            levels: trees.map(|tree| Level { tree: tree.map(Into::into), pool: None }).to_vec(),
            refuses: true,
            by: Flow::CLIENT,
            costs: None,
            sites: Vec::new(),
            gain_margin: 10.0,
        }
    }

    fn text(bytes: Option<Vec<u8>>) -> Option<String> {
        bytes.map(|bytes| String::from_utf8(bytes).expect("it is text"))
    }

    #[test]
    fn a_path_is_put_into_the_tree() {
        let settings = settings([Some("/low"), None]);
        let low = Quality { settings: &settings, level: 1 };
        let path = |path: &str| text(low.path(path.as_bytes()));
        assert_eq!(path("/a/b.html").as_deref(), Some("/low/a/b.html"));
        assert_eq!(path("").as_deref(), Some("/low/"));
        assert_eq!(path("*"), None);
        assert_eq!(Quality { level: 2, ..low }.path(b"/a"), None);
        assert_eq!(Quality { level: 0, ..low }.path(b"/a"), None);
        let said = |level| Quality { level, ..low }.text();
        assert_eq!((said(1).as_deref(), said(0).as_deref()), (Some("1/2"), Some("0/2")));
    }

    #[test]
    fn a_location_comes_back_without_the_trees_and_leads_nowhere_else() {
        let settings = settings([Some("/low"), Some("/full")]);
        let low = Quality { settings: &settings, level: 1 };
        let location =
            |value: &str| text(low.location(value.as_bytes(), || b"example.com:80".to_vec()));
        for (value, expected) in [
            ("/low/dir/", "/dir/"),
            ("/full/dir/?x=/low/y", "/dir/?x=/low/y"),
            ("/low", "/"),
            ("/low?x", "/?x"),
            ("http://example.com:80/low/dir/", "http://example.com:80/dir/"),
            ("HTTPS://EXAMPLE.com:80/low", "HTTPS://EXAMPLE.com:80/"),
            ("http://example.com/low/x", "http://example.com/x"),
            ("http://example.com./low/x", "http://example.com./x"),
            ("//example.com:80/low/x", "//example.com:80/x"),
        ] {
            assert_eq!(location(value).as_deref(), Some(expected), "{value}");
        }
        for other in [
            "/lower/dir/",
            "/dir/low/",
            "dir/",
            "http://low",
            "",
            "/",
            "//low/x",
            "//evil.example/low/x",
            "/low//evil.example",
            "/low/\\evil.example",
            "https://example.com/low/x",
            "https://cdn.example/low/x",
            "login?next=http://example.com:80/low/x",
            "http://example.com:80?u=/low/x",
            "ftp://example.com:80/low/x",
        ] {
            assert_eq!(location(other), None, "{other}");
        }
    }
}
