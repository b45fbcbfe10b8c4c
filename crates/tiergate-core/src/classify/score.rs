//! DiffServer's score: a number by who asks and what is asked for.
//!
//! Source: Rao, Ramamurthy: DiffServer (2001), §3.2: `overall priority = DNF × domain priority + FNF ×
//! file priority`, where the most specific entry counts, and 1 where none matches. We depart from it
//! in that clients may be networks too, which count where no name matches, so that a client has a
//! score before its name is known.

use super::networks::{Networks, canonical};
use super::pattern::{HostPattern, Pattern};
use super::texts::{Hosts, Texts};
use crate::class::ClassId;
use crate::request::RequestView;
use ipnet::IpNet;
use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;

/// A priority or a factor, in thousandths, so that what is written is exactly what counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Points(u32);

/// A score in millionths, the product of two [`Points`]; 0 where no score is asked for. Exact: nothing
/// is rounded, and equal products are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score(u64);

/// The tables that give a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScoreTables {
    /// What the client's priority is multiplied by: `DOMAIN_NAME_FACTOR`.
    pub client_factor: Points,
    /// What the path's priority is multiplied by: `FILE_NAME_FACTOR`.
    pub path_factor: Points,
    /// Clients by name or network. Names go before networks, longer ones before shorter ones.
    pub clients: Vec<(ScoreClient, Points)>,
    /// Paths: files ([`Pattern::Exact`]) and directories ([`Pattern::Prefix`]); files go before
    /// directories, longer ones before shorter ones.
    pub paths: Vec<(Pattern, Points)>,
    /// The class of requests of at least this score that no rule gives a class, highest first.
    pub bands: Vec<(Score, ClassId)>,
}

/// Whom a priority is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ScoreClient {
    /// A host, or a domain and all hosts in it ([`HostPattern::Within`]), by the client's verified name.
    Name(HostPattern),
    /// An address or a network.
    Network(IpNet),
}

/// How a score came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scored {
    /// The client's priority and its place in the table; `None`: nothing matches.
    pub client: (Points, Option<u32>),
    /// The path's priority and its place in the table; `None`: nothing matches.
    pub path: (Points, Option<u32>),
    /// The sum of the products.
    pub score: Score,
}

/// The tables, compiled.
#[derive(Clone, Debug)]
pub(super) struct Scoring {
    client_factor: Points,
    path_factor: Points,
    names: Hosts,
    networks: Networks,
    clients: Vec<Points>,
    paths: Texts,
    files: Vec<Points>,
    pub(super) bands: Vec<(Score, ClassId)>,
}

impl Points {
    /// What counts where nothing is said.
    pub const ONE: Points = Points(1000);
    /// The largest.
    pub const MAX: Points = Points(1_000_000);

    /// So many thousandths; `None` beyond [`Points::MAX`].
    pub fn from_thousandths(thousandths: u32) -> Option<Self> {
        (thousandths <= Self::MAX.0).then_some(Points(thousandths))
    }

    /// Reads a decimal number such as `10`, `8.5` or `0.125`: no sign, no exponent, at most three
    /// decimals, at most 1000.
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Zeros at the end say nothing.
        let kept = decimals.trim_end_matches('0');
        if !digits(whole) || !digits(decimals) || kept.len() > 3 {
            return None;
        }
        let thousandths = format!("{kept:0<3}").parse::<u32>().ok()?;
        let whole = whole.parse::<u32>().ok()?.checked_mul(1000)?;
        Self::from_thousandths(whole.checked_add(thousandths)?)
    }

    /// How many thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    fn times(self, other: Points) -> u64 {
        u64::from(self.0) * u64::from(other.0)
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, u64::from(self.0), 3)
    }
}

impl Score {
    /// Where no score is asked for.
    pub const ZERO: Score = Score(0);

    /// So many points, as a rule or a band gives them.
    pub fn of(points: Points) -> Self {
        Score(points.times(Points::ONE))
    }

    /// In millionths, for whoever orders by it.
    pub fn millionths(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        decimal(f, self.0, 6)
    }
}

/// Writes a fixed-point number without needless zeros.
fn decimal(f: &mut fmt::Formatter<'_>, number: u64, decimals: usize) -> fmt::Result {
    let unit = 10u64.pow(decimals as u32);
    let rest = format!("{:0decimals$}", number % unit);
    match rest.trim_end_matches('0') {
        "" => write!(f, "{}", number / unit),
        rest => write!(f, "{}.{rest}", number / unit),
    }
}

impl ScoreTables {
    /// Most entries of each table.
    pub const ENTRIES_MAX: usize = 100_000;

    /// How a request's score comes about, found out by looking at each entry: for explanations, and
    /// the compiled form's measure.
    pub fn score(&self, view: &RequestView<'_>) -> Scored {
        let clients = (0..).zip(&self.clients).filter(|(_, (client, _))| client.holds(view));
        let client = clients.max_by_key(|(_, (client, _))| client.specific());
        let paths = (0..).zip(&self.paths).filter(|(_, (path, _))| path.matches(view.path));
        let path = paths.max_by_key(|(_, (path, _))| match path {
            Pattern::Exact(bytes) => (1, bytes.len()),
            Pattern::Prefix(bytes) => (0, bytes.len()),
            _ => (0, 0),
        });
        let client = client.map_or((Points::ONE, None), |(place, entry)| (entry.1, Some(place)));
        let path = path.map_or((Points::ONE, None), |(place, entry)| (entry.1, Some(place)));
        let score = self.client_factor.times(client.0) + self.path_factor.times(path.0);
        Scored { client, path, score: Score(score) }
    }

    pub(super) fn compile(&self) -> Scoring {
        let mut names = Vec::new();
        let mut networks = Vec::new();
        for (place, (client, _)) in (0..).zip(&self.clients) {
            match client {
                ScoreClient::Name(name) => names.push((name, place)),
                ScoreClient::Network(network) => networks.push((canonical(*network), place)),
            }
        }
        let paths = (0..).zip(&self.paths).map(|(place, (path, _))| (path, place)).collect();
        Scoring {
            client_factor: self.client_factor,
            path_factor: self.path_factor,
            names: Hosts::new(first_of_each(names)),
            networks: Networks::new(first_of_each(networks)),
            clients: self.clients.iter().map(|(_, points)| *points).collect(),
            paths: Texts::new(first_of_each(paths)),
            files: self.paths.iter().map(|(_, points)| *points).collect(),
            bands: self.bands.clone(),
        }
    }
}

/// What stands twice counts where it stands last, as for the naive form.
fn first_of_each<K: Clone + Eq + Hash>(entries: Vec<(K, u32)>) -> Vec<(K, u32)> {
    let mut seen = HashSet::new();
    entries.into_iter().rev().filter(|(key, _)| seen.insert(key.clone())).collect()
}

impl ScoreClient {
    fn holds(&self, view: &RequestView<'_>) -> bool {
        match self {
            ScoreClient::Name(name) => {
                !view.client_name.is_empty() && name.matches(view.client_name)
            }
            ScoreClient::Network(network) => {
                canonical(*network).contains(&view.client.to_canonical())
            }
        }
    }

    /// The greater, the more specific.
    fn specific(&self) -> (u8, usize) {
        match self {
            ScoreClient::Name(name) => (1, name.name_len()),
            ScoreClient::Network(network) => (0, canonical(*network).prefix_len().into()),
        }
    }
}

impl fmt::Display for ScoreClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScoreClient::Name(name) => name.fmt(f),
            ScoreClient::Network(network) => network.fmt(f),
        }
    }
}

impl Scoring {
    /// The request's score. O(length of its path and its client's name).
    pub(super) fn score(&self, view: &RequestView<'_>) -> Score {
        // Tries tell longer keys later, and the exact one last; networks are told from the smallest.
        let mut named = None;
        if !view.client_name.is_empty() {
            self.names.find(view.client_name, |place| named = Some(place));
        }
        let client = named.or_else(|| {
            let mut smallest = None;
            self.networks.find(view.client, |place| smallest = smallest.or(Some(place)));
            smallest
        });
        let mut path = None;
        self.paths.find(view.path, |place| path = Some(place));
        let points = |table: &[Points], place: Option<u32>| {
            place.map_or(Points::ONE, |place| table[place as usize])
        };
        let client = self.client_factor.times(points(&self.clients, client));
        Score(client + self.path_factor.times(points(&self.files, path)))
    }

    /// The class of a score, if a band gives one.
    pub(super) fn class(&self, score: Score) -> Option<ClassId> {
        self.bands.iter().find(|(from, _)| score >= *from).map(|(_, class)| *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_exactly_and_written_as_they_were() {
        for text in ["0", "1", "8.5", "10", "0.125", "1000"] {
            assert_eq!(Points::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Points::parse("7.500000"), Points::parse("7.5"));
        for text in ["", ".5", "5.", "-1", "+1", "1e3", "0.0625", "1000.001", "99999999999", "١"] {
            assert_eq!(Points::parse(text), None, "{text}");
        }
        let points = |text| Points::parse(text).unwrap();
        assert_eq!(Score(points("0.3").times(points("8.5"))).to_string(), "2.55");
        assert_eq!(Score(points("0.001").times(points("0.001"))).to_string(), "0.000001");
        assert_eq!(Score(points("1000").times(points("1000"))).to_string(), "1000000");
    }
}
