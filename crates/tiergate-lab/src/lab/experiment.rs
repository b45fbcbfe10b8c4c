//! An experiment, as its file says it.
//!
//! One experiment is one TOML file: what is asked, the origin, who asks for what in which phase,
//! what is measured, what is drawn, and what must never be lost.

use super::dns::Names;
use super::flood::Flood;
use super::measure::{Line, Taken};
use super::network::{CLIENT_ADDRESSES, Links, Network};
use super::promise::Promise;
use super::result::{ExperimentResult, Phase};
use super::server::Server;
use super::settings::Settings;
use crate::contender::{Contender, Off};
use crate::load::population::{Retry, Session, Upload};
use crate::load::trace::Trace;
use crate::load::{Arrivals, Population, Step};
use crate::units::{self, parse_duration};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time that starting and stopping may add to a run.
const SLACK: Duration = Duration::from_secs(30);

/// How often a search looks closer around the best that it has found, with two runs at most each time.
pub(super) const CLOSER: usize = 2;

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Experiment {
    /// The name of its file.
    #[serde(skip)]
    pub(super) name: String,
    /// The file without what only the page says: what a run depends on.
    #[serde(skip)]
    pub(super) essence: String,
    /// Heading.
    pub(super) title: String,
    /// What was asked and done, in a few sentences.
    pub(super) asks: String,
    /// Where on the page; `None`: last.
    pub(super) order: Option<u32>,
    /// `NAME TIME`, for example `3x 5s`.
    #[serde(deserialize_with = "phases")]
    pub(super) phases: Vec<Phase>,
    /// The server.
    pub(super) origin: Server,
    /// The links.
    #[serde(default)]
    pub(super) link: Links,
    /// Names of the clients by DNS, by domain; none: there is no DNS server.
    #[serde(default)]
    pub(super) names: Names,
    /// So many processes on the gateway's machine take all of its processors' time that they get.
    #[serde(default)]
    pub(super) hogs: usize,
    /// SYNs from forged addresses at the same time.
    #[serde(default, rename = "flood")]
    pub(super) floods: Vec<Flood>,
    /// Who asks.
    pub(super) clients: Vec<Clients>,
    /// What sends their requests.
    #[serde(default)]
    pub(super) generator: Generator,
    /// A phase that is also driven by a generator that is not ours ([`super::beside`]).
    pub(super) beside: Option<String>,
    /// Who takes part; none: all.
    #[serde(default)]
    pub(super) contenders: Vec<Contender>,
    /// What is tried as haproxy's maxconn, as parts of what the origin works on at once; nothing: it
    /// is that. Where Tiergate with fixed rates takes part, those are tried, as parts of what its policy has.
    #[serde(default)]
    pub(super) search: Vec<f64>,
    /// Policies other than the lab's own, by contender: a file in the lab's directory.
    #[serde(default)]
    pub(super) policy: BTreeMap<String, String>,
    /// What is measured.
    pub(super) measure: Vec<Taken>,
    /// What is drawn.
    #[serde(default)]
    pub(super) plot: Vec<Line>,
    /// What must never be lost.
    #[serde(default)]
    pub(super) promise: Vec<Promise>,
    /// Its promises are left to the weekly check, because it takes long.
    #[serde(default)]
    pub(super) weekly: bool,
    /// What is switched off to see whether its promises need it; `None`: the limit, so that every request is
    /// forwarded at once.
    pub(super) off: Option<Off>,
    /// Why a row is as it is, by contender.
    #[serde(default)]
    pub(super) remarks: BTreeMap<String, String>,
}

/// What sends the requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Generator {
    /// Our own: open loop.
    #[default]
    Load,
    /// The papers' own tool.
    Httperf,
    /// oha, a public one: open loop.
    Oha,
}

/// A population of clients.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Clients {
    /// What measures call it.
    pub(super) name: String,
    /// What it asks for; several: by popularity. See [`Clients::paths`].
    #[serde(deserialize_with = "one_or_many")]
    pub(super) path: Vec<String>,
    /// Exponent of the popularity.
    #[serde(default)]
    zipf: f64,
    /// `Name: value`.
    #[serde(default)]
    headers: Vec<String>,
    /// Arrivals a second (`80`) or as a multiple of the capacity (`0.2x`), for all phases or each.
    #[serde(deserialize_with = "one_or_many")]
    pub(super) rate: Vec<String>,
    /// How they are spread.
    #[serde(default)]
    pub(super) arrivals: Arrivals,
    /// How long a client waits.
    #[serde(default = "second", with = "units::text")]
    patience: Duration,
    /// Connections at most.
    #[serde(default = "many")]
    connections: usize,
    /// A connection for each request.
    #[serde(default)]
    pub(super) close: bool,
    /// Whether a program of its own sends its requests, so that it does not wait behind those of the others.
    #[serde(default)]
    pub(super) apart: bool,
    /// Which of the clients' addresses it uses: first and how many; none: all alike.
    addresses: Option<(u8, u8)>,
    /// Every arrival is a session of so many requests, with a pause of this mean in between.
    session: Option<Session>,
    /// A request that comes to nothing is asked again.
    retry: Option<Retry>,
    /// Every request carries a body, sent at a speed.
    upload: Option<Upload>,
    /// How the rate changes over time.
    trace: Option<TraceText>,
    /// The client takes the answer no faster.
    read_bytes_per_second: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceText {
    /// Within the lab's directory.
    file: PathBuf,
    seconds: f64,
}

impl Experiment {
    /// Reads an experiment's file.
    pub(super) fn read(name: &str, text: &str) -> Result<Self> {
        let mut experiment: Self =
            toml::from_str(text).with_context(|| format!("experiment {name}"))?;
        experiment.name = name.into();
        experiment.essence = essence(text)?;
        experiment.validate().with_context(|| format!("experiment {name}"))?;
        Ok(experiment)
    }

    fn validate(&self) -> Result<()> {
        ensure!(!self.phases.is_empty(), "phases: at least one");
        for clients in &self.clients {
            let (name, rates, phases) = (&clients.name, clients.rate.len(), self.phases.len());
            let fitting = rates == 1 || rates == phases;
            ensure!(fitting, "clients {name}: {rates} rates for {phases} phases");
            clients.population(&self.phases, 1.0, &["/file".into()])?;
        }
        self.floods.iter().try_for_each(|flood| flood.check(&self.phases))?;
        self.link.check(self.phases.len())?;
        let names: Vec<&str> = self.clients.iter().map(|c| c.name.as_str()).collect();
        for wanted in self.measure.iter().flat_map(|m| m.clients.iter().chain(&m.over_clients)) {
            ensure!(names.contains(&wanted.as_str()), "measure: no clients {wanted:?}");
        }
        ensure!(
            self.measure.iter().all(Taken::has_its_target)
                && self.plot.iter().all(Line::can_be_drawn),
            "measure: overshoot and settling have a `target`, and no other does; nor are they drawn"
        );
        ensure!(
            self.measure.iter().all(Taken::may_be_of_what_is_left),
            "measure: `left_of` is for `received`, of named clients, and without `over`"
        );
        let is_endless = |c: &Clients| c.session.as_ref().is_some_and(|it| it.requests.is_none());
        ensure!(
            self.generator == Generator::Load
                || !self.clients.iter().any(is_endless)
                    && !self.measure.iter().any(Taken::is_received)
                    && !self.plot.iter().any(Line::is_received),
            "clients: only the lab's own generator has sessions without end and counts what is received"
        );
        for wanted in self.plot.iter().flat_map(|p| &p.clients) {
            ensure!(names.contains(&wanted.as_str()), "plot: no clients {wanted:?}");
        }
        for wanted in self.measure.iter().flat_map(|m| m.phases.iter().chain(&m.over)) {
            ensure!(self.phase(wanted).is_some(), "measure: no phase {wanted:?}");
        }
        if let Some(wanted) = &self.beside {
            ensure!(self.phase(wanted).is_some(), "beside: no phase {wanted:?}");
        }
        for promise in &self.promise {
            promise.check(self.measure.iter().any(|m| m.name == promise.measure))?;
        }
        Ok(())
    }

    /// Whether results have all that it measures and draws now, and nothing else.
    pub(super) fn has_measures_of(&self, result: &ExperimentResult) -> bool {
        self.measure.iter().map(Taken::measure).eq(result.measures.iter().cloned())
            && self.plot.iter().map(Line::plot).eq(result.plots.iter().cloned())
    }

    /// Number of the phase of that name.
    pub(super) fn phase(&self, name: &str) -> Option<usize> {
        self.phases.iter().position(|phase| phase.name == name)
    }

    /// From the first request to the end of the last phase.
    pub(super) fn lasting(&self) -> Duration {
        Duration::from_secs_f64(self.phases.iter().map(|p| p.seconds).sum())
    }

    /// How long a run may take before it is given up: its phases, and the slowest client.
    pub(super) fn patience(&self) -> Duration {
        let longest = self.clients.iter().map(Clients::patience_in_all).max();
        self.lasting() + longest.unwrap_or_default() + SLACK
    }

    /// Whose best setting is searched, if any's.
    pub(super) fn searched(&self, contenders: &[Contender]) -> Option<Contender> {
        let searched = [Contender::Fixed, Contender::Haproxy];
        searched.into_iter().find(|it| contenders.contains(it)).filter(|_| !self.search.is_empty())
    }

    /// Runs that the search for the best setting takes at most.
    pub(super) fn searched_max(&self) -> usize {
        self.search.len() + 2 * CLOSER
    }

    /// Who takes part, of those that the lab is asked for.
    pub(super) fn contenders(&self, settings: &Settings) -> Vec<Contender> {
        let chosen = [&self.contenders, &settings.contenders];
        let named = |c: &Contender| chosen.iter().any(|of| of.contains(c));
        let wanted = |c: &Contender| {
            let all = chosen.iter().all(|of| of.is_empty() || of.contains(c));
            all && (!c.is_variant() || named(c))
        };
        Contender::ALL.iter().copied().filter(wanted).collect()
    }

    /// The clients, for an origin of that capacity with those static files.
    pub(super) fn populations(&self, capacity: f64, site: &[String]) -> Result<Vec<Population>> {
        self.clients.iter().map(|c| c.population(&self.phases, capacity, site)).collect()
    }
}

/// The file's text without what no run depends on.
fn essence(text: &str) -> Result<String> {
    let mut table: toml::Table = text.parse()?;
    for words in [
        "title",
        "asks",
        "order",
        "remarks",
        "promise",
        "weekly",
        "contenders",
        "search",
        "off",
        "beside",
    ] {
        table.remove(words);
    }
    Ok(toml::to_string(&table)?)
}

impl TraceText {
    fn read(&self) -> Result<Trace> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(&self.file);
        let text = std::fs::read_to_string(&file)
            .with_context(|| format!("cannot read the trace {}", file.display()))?;
        Trace::read(&text, Duration::from_secs_f64(self.seconds)).map_err(anyhow::Error::msg)
    }
}

impl Clients {
    /// Its rates in words, as the file has them: one for all phases, or one for each.
    pub(super) fn rates(&self) -> String {
        self.rate.join(", ")
    }

    fn steps(&self, phases: &[Phase], capacity: f64) -> Result<Vec<Step>> {
        let step = |(number, phase): (usize, &Phase)| {
            let text = self.rate.get(number).unwrap_or(&self.rate[0]);
            let (number, factor) = match text.strip_suffix('x') {
                Some(multiple) => (multiple, capacity),
                None => (text.as_str(), 1.0),
            };
            let rate: f64 = number
                .parse()
                .with_context(|| format!("rate: expected 80 or 0.2x, got {text:?}"))?;
            Ok(Step { rate: rate * factor, lasting: Duration::from_secs_f64(phase.seconds) })
        };
        phases.iter().enumerate().map(step).collect()
    }

    /// What it asks for, the most popular first. `/browse@site`: every static file, below `/browse`.
    pub(super) fn paths(&self, site: &[String]) -> Vec<String> {
        let paths = self.path.iter().flat_map(|path| match path.strip_suffix("@site") {
            Some(below) => site.iter().map(|file| format!("{below}{file}")).collect(),
            None => vec![path.clone()],
        });
        paths.collect()
    }

    fn population(&self, phases: &[Phase], capacity: f64, site: &[String]) -> Result<Population> {
        let header = |header: &String| {
            let (name, value) = header
                .split_once(':')
                .with_context(|| format!("headers: expected `Name: value`, got {header:?}"))?;
            Ok((name.trim().into(), value.trim().into()))
        };
        let (first, count) = self.addresses.unwrap_or((0, CLIENT_ADDRESSES));
        let population = Population {
            name: self.name.clone(),
            paths: self.paths(site),
            zipf: self.zipf,
            headers: self.headers.iter().map(header).collect::<Result<_>>()?,
            steps: self.steps(phases, capacity)?,
            arrivals: self.arrivals,
            patience: self.patience,
            connections_max: self.connections,
            keep_alive: !self.close,
            addresses: (first..first.saturating_add(count)).map(Network::client).collect(),
            session: self.session.clone(),
            retry: self.retry,
            upload: self.upload,
            trace: self.trace.as_ref().map(TraceText::read).transpose()?,
            read_bytes_per_second: self.read_bytes_per_second,
            ..Population::default()
        };
        population.check().map_err(anyhow::Error::msg)?;
        Ok(population)
    }

    /// How long a client waits for an answer, with all its attempts.
    fn patience_in_all(&self) -> Duration {
        let attempts = self.retry.as_ref().map_or(1, |retry| retry.attempts);
        // A session without end has one request under way when the last phase ends.
        let requests = self.session.as_ref().and_then(|session| session.requests).unwrap_or(1);
        self.patience * attempts * requests
    }
}

fn second() -> Duration {
    Duration::from_secs(1)
}

/// More than ten times the usual capacity for a whole patience: no client waits for a connection.
fn many() -> usize {
    5000
}

fn one_or_many<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Either::deserialize(from)? {
        Either::One(text) => vec![text],
        Either::Many(texts) => texts,
    })
}

fn phases<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Phase>, D::Error> {
    let read = |text: String| {
        let wrong = || serde::de::Error::custom(format!("expected `NAME TIME`, got {text:?}"));
        let (name, time) = text.rsplit_once(' ').ok_or_else(wrong)?;
        let lasting = parse_duration(time).map_err(serde::de::Error::custom)?;
        Ok(Phase { name: name.into(), seconds: lasting.as_secs_f64() })
    };
    Vec::<String>::deserialize(from)?.into_iter().map(read).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::lab) fn all() -> Vec<Experiment> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("experiments");
        let files = std::fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path());
        let read = |file: PathBuf| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            Experiment::read(&name, &std::fs::read_to_string(file).unwrap()).unwrap()
        };
        files.map(read).collect()
    }

    #[test]
    fn every_experiment_can_be_read_and_ends_soon() {
        let all = all();
        assert!(all.len() >= 15);
        for experiment in all {
            let name = &experiment.name;
            // An experiment of the weekly check may have phases of half a minute.
            let most = if experiment.weekly { 120 } else { 60 };
            assert!(experiment.lasting() < Duration::from_secs(most), "{name}");
            assert!(experiment.asks.len() > 100, "{name} says too little");
            assert!(!experiment.promise.is_empty(), "{name} promises nothing");
            let goodput = experiment.measure.iter().any(|m| m.name == "goodput");
            assert!(goodput != experiment.search.is_empty(), "{name}: a search is for goodput");
            for file in experiment.policy.values() {
                assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(file).is_file(), "{file}");
            }
        }
    }

    #[test]
    fn what_is_switched_off_leaves_a_whole_policy() {
        let addresses =
            [8080, 8081, 8082].map(|port| std::net::SocketAddr::from(([127, 0, 0, 1], port)));
        let dir = Path::new("/scratch");
        let place = crate::contender::Place::new(dir, addresses, None);
        for experiment in all() {
            let own = experiment.policy.get(Contender::Tiergate.name()).map(|file| {
                std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
            });
            let template = own.as_deref().unwrap_or(Contender::Tiergate.template());
            let text = place.configuration(template, dir).unwrap();
            for part in super::super::check::by_feature(&experiment) {
                let off = part.off.unwrap_or_default();
                let what = format!("{}: {}", experiment.name, off.words());
                let text = off.applied(&text).unwrap_or_else(|error| panic!("{what}: {error}"));
                let read = tiergate::config::parse(&text, &experiment.name);
                read.map(drop).unwrap_or_else(|errors| panic!("{what}: {errors}\n{text}"));
            }
        }
    }

    #[test]
    fn words_for_the_page_change_no_run() {
        let text = include_str!("../../experiments/overload-ramp.toml");
        let changed = text.replacen("title = \"", "title = \"New: ", 1);
        let changed = changed.replace("at_least = 0.97", "at_least = 0.9");
        assert_ne!(text, changed);
        let essence = |text: &str| Experiment::read("x", text).unwrap().essence;
        assert_eq!(essence(text), essence(&changed));
        assert_ne!(essence(text), essence(&text.replace("40ms", "41ms")));
    }

    #[test]
    fn rates_are_of_the_capacity_or_by_the_second() {
        let text = include_str!("../../experiments/slow-clients.toml");
        let populations = Experiment::read("x", text).unwrap().populations(400.0, &[]).unwrap();
        let rates = |n: usize| populations[n].steps.iter().map(|s| s.rate).collect::<Vec<_>>();
        assert_eq!((rates(0), rates(2)), (vec![80.0, 80.0], vec![0.0, 60.0]));
    }
}
