//! Named locations (`location @app`), and what goes on at one.

use super::super::draft::Draft;
use super::grammar::Directive;
use super::inherited::Inherited;

/// A named location of a server (`location @app`), with what it inherits there.
pub(super) struct Named<'d> {
    pub(super) location: &'d Directive,
    pub(super) inherited: Inherited<'d>,
    /// Whether `try_files` goes on there.
    pub(super) is_used: bool,
}

impl<'d> Named<'d> {
    /// The named locations of a server that inherit this from it.
    pub(super) fn all(list: &'d [Directive], inherited: &Inherited<'d>) -> Vec<Self> {
        let named = list.iter().filter(|it| is_named(it));
        let with = |location: &'d Directive| Named {
            location,
            inherited: inherited.within(&location.block),
            is_used: false,
        };
        named.map(with).collect()
    }

    /// Lists it if nothing that the policy has goes on there.
    pub(super) fn note(&self, draft: &mut Draft) {
        if !self.is_used {
            draft.note(
                &self.location.from,
                "a named location: errors of servers are answered by Tiergate itself",
            );
        }
    }
}

/// Whether it is a named location.
pub(super) fn is_named(it: &Directive) -> bool {
    it.name == "location" && it.argument(0).starts_with('@')
}

/// A named location that has a `proxy_pass`.
pub(super) fn named(list: &[Directive]) -> Option<&Directive> {
    let proxies = |it: &Directive| it.block.iter().any(|it| it.name == "proxy_pass");
    let own = list.iter().find(|it| is_named(it) && proxies(it));
    own.or_else(|| list.iter().find_map(|it| named(&it.block)))
}

/// The named location at which a `try_files` goes on if it finds no file.
pub(super) fn goes_on(line: &Directive) -> Option<&str> {
    let last = line.arguments.last().filter(|_| line.name == "try_files");
    last.map(String::as_str).filter(|it| it.starts_with('@'))
}
