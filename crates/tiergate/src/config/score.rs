//! `[score]`: a number by who asks and what for.

use super::error::shortened;
use super::kind::{Named, list};
use super::lookup::{Classes, class_name};
use super::place::At;
use super::section::{Kind, section, table};
use super::values::{NETWORK_TEXT, POINTS, TEXT};
use std::collections::HashMap;
use std::hash::Hash;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::score::{Points, Score, ScoreClient, ScoreTables};
use tiergate_core::plan::Plan;

section! {
    /// A request's score: client_factor x the client's priority + path_factor x the path's priority.
    pub(super) struct ScoreKeys {
        /// What the client's priority is multiplied by (the paper's `DOMAIN_NAME_FACTOR`).
        client_factor: Points = POINTS.or(1);
        /// What the path's priority is multiplied by (the paper's `FILE_NAME_FACTOR`).
        path_factor: Points = POINTS.or(1);
        /// Priorities by client: `client."NAME"` for a host name or domain (`"andes.unl.edu"`, `"edu"`),
        /// matched with the client's verified name; or for an address or network (`"10.0.0.0/8"`), used where
        /// no name matches or the name is not known. The most specific entry counts.
        client: Vec<(String, At<Points>)> = Named(POINTS).or_none("1 for all");
        /// Priorities by path: `path."/PATH"` for a file (`"/index.html"`), or a directory and everything in
        /// it (`"/images/"`); normalised, without wildcards. The most specific entry counts.
        path: Vec<(String, At<Points>)> = Named(POINTS).or_none("1 for all");
        /// Classes by score, for requests whose class no rule sets: the highest band reached counts.
        band: Vec<At<Band>> =
            list(table(), usize::MAX, "bands").or_none("none: the default class");
    }
}

section! {
    /// The class of requests of at least a score.
    pub(super) struct Band {
        /// The lowest score of the band.
        from: Option<Points> = POINTS.required("write from = 8");
        /// The class.
        class: Option<String> = TEXT.required("write class = \"…\"");
    }
}

pub(super) fn score(raw: ScoreKeys, classes: &Classes) -> ScoreTables {
    let mut bands = Vec::new();
    for At { value: Band { from, class }, place } in raw.band {
        let Some((from, class)) = from.zip(class) else { continue };
        let score = Score::of(from);
        if bands.iter().any(|(other, _)| *other == score) {
            place.fault_at("from", format!("another band begins at {score} already"));
        }
        let class = classes.named(&class, &place.key("class"));
        bands.extend(class.map(|class| (score, class)));
    }
    // The highest that a score reaches counts.
    bands.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    ScoreTables {
        client_factor: raw.client_factor,
        path_factor: raw.path_factor,
        clients: entries(raw.client, client),
        paths: entries(raw.path, path),
        bands,
    }
}

/// The entries of a table; reports two that mean the same.
fn entries<K: Clone + Eq + Hash>(
    mut raw: Vec<(String, At<Points>)>,
    parse: fn(&str) -> Result<K, String>,
) -> Vec<(K, Points)> {
    // The table gives them by name; of two, the later one is the fault.
    raw.sort_by_key(|(_, at)| at.place.at);
    if let Some((_, at)) = raw.get(ScoreTables::ENTRIES_MAX) {
        at.place.fault(format!("there may be at most {} entries", ScoreTables::ENTRIES_MAX));
    }
    let mut seen: HashMap<K, String> = HashMap::new();
    let mut entries = Vec::new();
    for (text, At { value: points, place }) in raw {
        match parse(&text) {
            Ok(key) => {
                if let Some(other) = seen.insert(key.clone(), text) {
                    place.fault(format!("means the same as {:?}", shortened(&other)));
                }
                entries.push((key, points));
            }
            Err(fault) => place.fault(format!("{fault}, got {:?}", shortened(&text))),
        }
    }
    entries
}

/// Which clients an entry is for: an address, a network, or a host or domain.
pub(crate) fn client(text: &str) -> Result<ScoreClient, String> {
    if let Ok(network) = (NETWORK_TEXT.parse)(text) {
        return Ok(ScoreClient::Network(network.trunc()));
    }
    let looks_like_address =
        text.bytes().all(|byte| byte.is_ascii_digit() || b"./".contains(&byte));
    if looks_like_address {
        return Err(
            "must be a host, a domain, an address or a network such as \"10.0.0.0/8\"".into()
        );
    }
    HostPattern::domain(text).map(ScoreClient::Name).map_err(|fault| fault.to_string())
}

/// What an entry is for: a file, or a directory and all below it.
pub(crate) fn path(text: &str) -> Result<Pattern, String> {
    if !text.starts_with('/') {
        return Err("must begin with `/`".to_owned());
    }
    // Wildcards would make it unclear which entry is the more specific one.
    let literal = text.replace('\\', "\\\\").replace('*', "\\*").replace('?', "\\?");
    let exact = match Pattern::path(&literal) {
        Ok(Pattern::Exact(bytes)) => bytes,
        Ok(_) => unreachable!("a path without wildcards is exact"),
        Err(fault) => return Err(fault.to_string()),
    };
    Ok(match exact.ends_with(b"/") {
        true => Pattern::Prefix(exact),
        false => Pattern::Exact(exact),
    })
}

/// For `tiergate check`: the score's factors, tables and bands.
pub(crate) fn words(tables: &ScoreTables, plan: &Plan) -> Vec<String> {
    let mut lines = vec![format!(
        "{} x the client's priority (of {}) + {} x the path's priority (of {}), 1 where none matches",
        tables.client_factor,
        tables.clients.len(),
        tables.path_factor,
        tables.paths.len()
    )];
    lines.extend(tables.bands.iter().map(|(from, class)| {
        let class = class_name(plan, *class);
        format!("from {from} on: {class}, unless a rule says otherwise")
    }));
    lines
}
