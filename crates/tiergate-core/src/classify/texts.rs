//! Many patterns over one text: which of them match.

use super::glob::Glob;
use super::pattern::{HostPattern, Pattern, without_final_dot};
use super::trie::{Backwards, Key, Trie};

/// Marks an entry of a trie as the place of a glob that is still to be tried.
const GLOB: u32 = 1 << 31;

/// A set of patterns, each with the number of the fact that it establishes.
///
/// Exact texts and prefixes are found by one walk through a trie. A glob hangs at its literal
/// beginning, or at its literal end in a second trie when that is longer, and is tried only on texts
/// that have it.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    any: Vec<u32>,
    forwards: Trie,
    backwards: Trie,
    globs: Vec<(Box<Glob>, u32)>,
}

impl Texts {
    /// A set of distinct patterns.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = (&'p Pattern, u32)>) -> Self {
        let mut texts = Texts::default();
        let mut forwards = Vec::new();
        let mut backwards = Vec::new();
        for (pattern, fact) in patterns {
            let key = |bytes: &[u8], here, entry| Key { bytes: bytes.to_vec(), here, entry };
            match pattern {
                Pattern::Any => texts.any.push(fact),
                Pattern::Exact(bytes) => forwards.push(key(bytes, true, fact)),
                Pattern::Prefix(bytes) => forwards.push(key(bytes, false, fact)),
                Pattern::Glob(glob) => {
                    let entry = GLOB | texts.globs.len() as u32;
                    texts.globs.push((glob.clone(), fact));
                    if glob.suffix().len() > glob.prefix().len() {
                        let mut end = glob.suffix().to_vec();
                        end.reverse();
                        backwards.push(key(&end, false, entry));
                    } else {
                        forwards.push(key(glob.prefix(), false, entry));
                    }
                }
            }
        }
        texts.forwards = Trie::new(forwards);
        texts.backwards = Trie::new(backwards);
        texts
    }

    /// Calls `emit` with the fact of every pattern that matches.
    #[inline(always)]
    pub(super) fn find(&self, text: &[u8], mut emit: impl FnMut(u32)) {
        for fact in &self.any {
            emit(*fact);
        }
        let mut found = |entry: u32| {
            if entry & GLOB == 0 {
                emit(entry);
            } else {
                let (glob, fact) = &self.globs[(entry & !GLOB) as usize];
                if glob.matches(text) {
                    emit(*fact);
                }
            }
        };
        self.forwards.walk(text, &mut found);
        self.backwards.walk(Backwards::<false>(text), &mut found);
    }
}

/// A set of host patterns, in a trie of hosts written backwards.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    backwards: Trie,
}

impl Hosts {
    /// A set of distinct patterns.
    pub(super) fn new<'p>(patterns: impl IntoIterator<Item = (&'p HostPattern, u32)>) -> Self {
        let key =
            |name: &str, here, entry| Key { bytes: name.bytes().rev().collect(), here, entry };
        let mut keys = Vec::new();
        for (pattern, fact) in patterns {
            match pattern {
                HostPattern::Exact(name) => keys.push(key(name, true, fact)),
                HostPattern::Below(end) => keys.push(key(end, false, fact)),
                HostPattern::Within(name) => {
                    keys.push(key(name, true, fact));
                    keys.push(key(&format!(".{name}"), false, fact));
                }
            }
        }
        Hosts { backwards: Trie::new(keys) }
    }

    /// Calls `emit` with the fact of every pattern that matches.
    #[inline(always)]
    pub(super) fn find(&self, host: &[u8], emit: impl FnMut(u32)) {
        self.backwards.walk(Backwards::<true>(without_final_dot(host)), emit);
    }
}
