//! An open-loop load generator.
//!
//! Requests are sent when they are due, whether or not earlier ones have been answered, and their
//! latency counts from that moment. A slow server therefore cannot slow its clients down and so
//! hide how slow it is ("coordinated omission", G. Tene). The generator measures its own lateness
//! too: where that is large, the run says nothing and is called void.

mod ask;
mod client;
pub(crate) mod figures;
mod live;
mod meter;
mod paths;
pub(crate) mod population;
pub(crate) mod report;
mod schedule;
mod seconds;
mod series;
pub(crate) mod tally;
pub(crate) mod trace;
mod words;

pub(crate) use live::Live;
pub(crate) use meter::Usage;
pub(crate) use paths::Ranks;
pub(crate) use population::Population;
pub(crate) use report::Report;
pub(crate) use schedule::{Arrivals, Step, exponential};
pub(crate) use tally::Tally;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::oneshot;

/// A run: who asks whom. In a file, JSON, times in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The server's address.
    pub(crate) target: SocketAddr,
    /// Who asks.
    pub(crate) populations: Vec<Population>,
    /// Seed of the sending times and of everything else that is drawn.
    pub(crate) seed: u64,
}

/// Populations that a plan may have.
const POPULATIONS_MAX: usize = 1000;

impl Plan {
    /// Whether it can be run; an error says what cannot.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(1..=POPULATIONS_MAX).contains(&self.populations.len()) {
            return Err("populations: 1 to 1000 are needed".into());
        }
        for population in &self.populations {
            population.check()?;
            if population.addresses.iter().any(|ip| ip.is_ipv4() != self.target.is_ipv4()) {
                return Err(format!(
                    "population {:?}: addresses: of the target's family",
                    population.name
                ));
            }
        }
        Ok(())
    }

    /// Reads a plan file.
    fn read(file: &Path) -> Result<Self> {
        let name = file.display();
        let text = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
        serde_json::from_slice(&text).with_context(|| format!("{name} is no plan"))
    }
}

/// Command line of `tiergate-lab load`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Address of the server
    #[arg(long, default_value = "127.0.0.1:8080", conflicts_with = "plan")]
    target: SocketAddr,
    /// Clients: name=premium,path=/buy,rate=80x10s+400x10s,header=Cookie:a=b,patience=1s,
    /// arrivals=poisson|constant,connections=1024. May be repeated
    #[arg(long = "population", value_parser = Population::parse)]
    #[arg(required_unless_present = "plan", conflicts_with = "plan")]
    populations: Vec<Population>,
    /// Seed of the sending times
    #[arg(long, default_value_t = 1, conflicts_with = "plan")]
    seed: u64,
    /// Everything above and more from a JSON file
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write JSON to a file and print nothing; a void run is told there and is no failure
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,
}

/// Runs the load and tells what became of it.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let Settings { target, populations, seed, .. } = settings;
    let plan = match &settings.plan {
        Some(file) => Plan::read(file)?,
        None => Plan { target, populations, seed },
    };
    let report = start(plan)?.report().await?;
    if let Some(file) = &settings.out {
        let text = serde_json::to_vec(&report.figures())?;
        return std::fs::write(file, text)
            .with_context(|| format!("cannot write {}", file.display()));
    }
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report.figures())?);
    } else {
        print!("{}", report.table(crate::text::Palette::of_stdout()));
    }
    if let Some(why) = report.void() {
        bail!("{why}");
    }
    Ok(())
}

/// A run under way on a thread of its own; dropped, it stops.
pub(crate) struct Started {
    /// What has happened so far.
    pub(crate) live: Arc<Live>,
    _stop: oneshot::Sender<()>,
    done: oneshot::Receiver<Report>,
}

impl Started {
    /// Waits for the end.
    pub(crate) async fn report(&mut self) -> Result<Report> {
        (&mut self.done).await.context("the load generator's thread ended early")
    }
}

/// Starts a run on a thread of its own, so that nothing else delays what is due.
pub(crate) fn start(plan: Plan) -> Result<Started> {
    plan.check().map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let live = Arc::new(Live::new(&plan));
    let (report, done) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let written = Arc::clone(&live);
    std::thread::Builder::new().name("load".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = ask::generate(&plan, &written) => {
                    // Nobody waits for it any more if the experiment has been given up.
                    let _ = report.send(Report::new(&plan, &written));
                }
                _ = stopped => {}
            }
        });
    })?;
    Ok(Started { live, _stop: stop, done })
}

#[cfg(test)]
mod tests {
    use super::population::{Marked, Retry, Session, Upload};
    use super::*;
    use std::time::Duration;

    fn plan() -> Plan {
        let everything = Population {
            name: "all".into(),
            method: "PUT".into(),
            paths: vec!["/a".into(), "/b?c=d".into()],
            zipf: 0.8,
            headers: vec![("Sec-Purpose".into(), "prefetch".into())],
            steps: vec![
                Step { rate: 0.0, lasting: Duration::from_millis(1500) },
                Step { rate: 12.5, lasting: Duration::from_secs(60) },
            ],
            arrivals: Arrivals::Constant,
            patience: Duration::from_millis(750),
            connections_max: 7,
            keep_alive: false,
            addresses: vec!["127.0.0.2".parse().unwrap()],
            session: Some(Session {
                requests: 5,
                think: Duration::from_millis(200),
                marked: Some(Marked { cookie: "basket=full".into(), from: 2 }),
            }),
            retry: Some(Retry { attempts: 3, pause: Duration::from_millis(50) }),
            trace: Some(trace::Trace { rates: vec![1.0, 2.0], lasting: Duration::from_secs(2) }),
            upload: Some(Upload { bytes: 1000, bytes_per_second: 100 }),
            read_bytes_per_second: Some(2000),
        };
        let target = "127.0.0.1:8080".parse().unwrap();
        Plan { target, seed: 7, populations: vec![everything, Population::default()] }
    }

    #[test]
    fn a_plan_survives_its_file() {
        let text = serde_json::to_string(&plan()).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan());
    }

    #[test]
    fn a_file_says_what_differs_from_the_defaults_in_seconds() {
        let text = r#"{"target": "127.0.0.1:1", "seed": 1, "populations": [
            {"steps": [{"rate": 2, "lasting": 0.5}], "patience": 0.25, "arrivals": "constant",
             "headers": [["A", "b"]], "session": {"requests": 2, "think": 0}}]}"#;
        let plan: Plan = serde_json::from_str(text).unwrap();
        let expected = Population {
            steps: vec![Step { rate: 2.0, lasting: Duration::from_millis(500) }],
            patience: Duration::from_millis(250),
            arrivals: Arrivals::Constant,
            headers: vec![("A".into(), "b".into())],
            session: Some(Session { requests: 2, think: Duration::ZERO, marked: None }),
            ..Population::default()
        };
        assert_eq!(plan.populations, [expected]);
        assert_eq!(plan.check(), Ok(()));
        for wrong in [text.replace("rate", "rat"), text.replace("0.25", "-1")] {
            assert!(serde_json::from_str::<Plan>(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plan_that_cannot_be_run_is_refused_before_it_begins() {
        let mut plan = plan();
        let error = plan.check().unwrap_err();
        assert!(error.contains("steps"), "the second population has none: {error}");
        plan.populations.pop();
        assert_eq!(plan.check(), Ok(()));
        plan.target = "[::1]:8080".parse().unwrap();
        assert!(plan.check().unwrap_err().contains("addresses"));
        plan.populations.clear();
        assert!(start(plan).is_err());
    }
}
