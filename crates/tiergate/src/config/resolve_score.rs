//! From the score's tables as written to tables as meant.

use super::error::{Faults, Place, shortened};
use super::raw;
use super::read::{At, Named};
use super::resolve::at_most;
use super::resolve_rules::class_named;
use super::rule_values::PointsNumber;
use ipnet::IpNet;
use std::net::IpAddr;
use tiergate_core::class::Class;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::score::{Points, Score, ScoreClient, ScoreTables};

/// The tables of `[score]`.
pub(super) fn score(raw: At<raw::Score>, classes: &[Class], faults: &mut Faults) -> ScoreTables {
    let raw = raw.value;
    let points = |at: Option<At<PointsNumber>>| at.map_or(Points::ONE, |at| at.value.0);
    let mut bands = Vec::new();
    for At { value: band, place } in raw.band.into_iter().flat_map(|bands| bands.value) {
        let Some(from) = band.from else {
            faults.missing(&place, "from", "write from = 8");
            continue;
        };
        let Some(class) = band.class else {
            faults.missing(&place, "class", "write class = \"…\"");
            continue;
        };
        let score = Score::of(from.value.0);
        if bands.iter().any(|(other, _)| *other == score) {
            faults.add(&from.place, format!("another band begins at {score} already"));
        }
        bands.extend(class_named(&class, classes, faults).map(|class| (score, class)));
    }
    // The highest that a score reaches counts.
    bands.sort_by_key(|(from, _)| std::cmp::Reverse(*from));
    ScoreTables {
        client_factor: points(raw.client_factor),
        path_factor: points(raw.path_factor),
        clients: entries(raw.client, client, faults),
        paths: entries(raw.path, path, faults),
        bands,
    }
}

/// The entries of a table; what two texts mean alike is told.
fn entries<K: PartialEq + Clone + Eq + std::hash::Hash>(
    raw: Option<At<Named<PointsNumber>>>,
    read: fn(&str) -> Result<K, String>,
    faults: &mut Faults,
) -> Vec<(K, Points)> {
    let Some(At { value: mut raw, place }) = raw else {
        return Vec::new();
    };
    // The table gives them by name; what stands twice is the later one.
    raw.0.sort_by_key(|(_, at)| at.place.span.start);
    at_most(&place, raw.0.len(), ScoreTables::ENTRIES_MAX, "entries", faults);
    let mut seen: std::collections::HashMap<K, String> = Default::default();
    let mut entries = Vec::new();
    for (text, At { value: points, place }) in raw.0 {
        match read(&text) {
            Ok(key) => {
                if let Some(other) = seen.insert(key.clone(), text.clone()) {
                    let other = shortened(&other);
                    faults.add(&place, format!("{other:?} stands for the same already"));
                }
                entries.push((key, points.0));
            }
            Err(fault) => told(&place, &text, &fault, faults),
        }
    }
    entries
}

fn told(place: &Place, text: &str, fault: &str, faults: &mut Faults) {
    faults.add(place, format!("{fault}, got {:?}", shortened(text)));
}

/// Whom an entry is for: an address, a network, or a host or domain.
pub(crate) fn client(text: &str) -> Result<ScoreClient, String> {
    let address = || text.parse::<IpAddr>().ok().map(IpNet::from);
    if let Some(network) = text.parse::<IpNet>().ok().or_else(address) {
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
