//! `server_name`: the hosts that a server is asked for.

use super::super::draft::Draft;
use super::grammar::Directive;
use super::listen::Place;
use std::net::Ipv6Addr;

/// The names of a server.
#[derive(Debug, Default)]
pub(super) struct Names {
    exact: Vec<String>,
    /// `*.example.com`.
    wild: Vec<String>,
    /// Whether it takes requests without a host.
    pub(super) is_empty: bool,
}

impl Names {
    pub(super) fn read(block: &Directive, draft: &mut Draft) -> Self {
        let mut names = Names::default();
        let lines = block.block.iter().filter(|it| it.name == "server_name");
        let all: Vec<_> =
            lines.flat_map(|line| line.arguments.iter().map(move |it| (it, line))).collect();
        // Without any, a server is called by the empty one.
        names.is_empty = all.is_empty() || all.iter().any(|(it, _)| it.is_empty());
        for (text, line) in all.into_iter().filter(|(it, _)| !it.is_empty()) {
            let below = text.strip_prefix("*.");
            let within = text.strip_prefix('.');
            match host(below.or(within).unwrap_or(text)) {
                Some(name) => {
                    if below.is_none() {
                        names.exact.push(name.clone());
                    }
                    if below.or(within).is_some() {
                        names.wild.push(format!("*.{name}"));
                    }
                }
                None => draft.less_safe(&line.from, &format!("{text}: hosts are names or *.name, and these get the rules of the default server: write [[rule]] with host by hand")),
            }
        }
        names
    }
}

/// A host as requests name it, in lower case; `None` if none is called so.
pub(super) fn host(text: &str) -> Option<String> {
    let fits = |it: u8| it.is_ascii_alphanumeric() || b"-._".contains(&it);
    let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let is_host = match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => !text.is_empty() && !text.ends_with('.') && text.bytes().all(fits),
    };
    is_host.then(|| text.to_ascii_lowercase())
}

/// The servers of places with the hosts that they are asked for, none for all others, and the places where that is so; in the order in which nginx
/// chooses.
pub(super) fn heads<'p>(
    names: &[Names],
    places: &[&'p Place],
) -> Vec<(usize, Vec<String>, Vec<&'p Place>)> {
    // Rank, then the longest names first, then the order of the file: of two servers of one name the first has it.
    let mut heads = Vec::new();
    for (index, names) in names.iter().enumerate() {
        let here: Vec<&Place> =
            places.iter().copied().filter(|it| it.servers.contains(&index)).collect();
        let default: Vec<&Place> = here.iter().copied().filter(|it| it.default == index).collect();
        let is_default = default.len() == here.len();
        // What people write for a default server.
        let exact: Vec<String> =
            names.exact.iter().filter(|it| *it != "_" || !is_default).cloned().collect();
        if here.is_empty() {
            continue;
        }
        if !exact.is_empty() {
            heads.push(((0, 0, index), exact, here.clone()));
        }
        for name in &names.wild {
            heads.push(((1, usize::MAX - name.len(), index), vec![name.clone()], here.clone()));
        }
        if !default.is_empty() {
            heads.push(((2, 0, index), Vec::new(), default));
        }
    }
    heads.sort_by_key(|it| it.0);
    heads.into_iter().map(|((_, _, index), hosts, places)| (index, hosts, places)).collect()
}
