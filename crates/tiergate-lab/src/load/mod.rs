//! An open-loop load generator.
//!
//! Requests are sent when they are due, whether or not earlier ones have been answered, and their
//! latency counts from that moment. A slow server therefore cannot slow its clients down and so
//! hide how slow it is ("coordinated omission", G. Tene). The generator measures its own lateness
//! too: where that is large, the run says nothing and is called void.

mod ask;
mod client;
pub(crate) mod counts;
pub(crate) mod figures;
mod live;
pub(crate) mod meter;
mod paths;
mod plan;
pub(crate) mod population;
pub(crate) mod report;
mod run;
mod schedule;
mod series;
pub(crate) mod tally;
pub(crate) mod trace;
mod words;

pub(crate) use live::Live;
pub(crate) use paths::Ranks;
pub(crate) use plan::Plan;
pub(crate) use population::Population;
pub(crate) use report::Report;
pub(crate) use run::{Started, start};
pub(crate) use schedule::{Arrivals, Step, exponential};
pub(crate) use tally::Tally;

use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Write JSON to a file and print nothing; a void run is reported there and is not a failure
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,
}

/// Runs the load and reports what became of it.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let Settings { target, populations, seed, .. } = settings;
    let plan = match &settings.plan {
        Some(file) => Plan::read(file)?,
        None => Plan { target, populations, seed },
    };
    let report = start(plan)?.report().await?;
    if let Some(file) = &settings.out {
        let written = std::fs::write(file, serde_json::to_vec(&report.figures())?);
        return written.with_context(|| format!("cannot write {}", file.display()));
    }
    if settings.json {
        println!("{}", serde_json::to_string_pretty(&report.figures())?);
    } else {
        print!("{}", report.table(tiergate_draw::Paint::stdout()));
    }
    if let Some(why) = report.void() {
        bail!("{why}");
    }
    Ok(())
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
                requests: Some(5),
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
        let population = serde_json::json!({
            "steps": [{"rate": 2, "lasting": 0.5}], "patience": 0.25, "arrivals": "constant",
            "headers": [["A", "b"]], "session": {"requests": 2, "think": 0},
        });
        let plan = serde_json::json!({
            "target": "127.0.0.1:1", "seed": 1, "populations": [population],
        });
        let text = plan.to_string();
        let plan: Plan = serde_json::from_str(&text).unwrap();
        let expected = Population {
            steps: vec![Step { rate: 2.0, lasting: Duration::from_millis(500) }],
            patience: Duration::from_millis(250),
            arrivals: Arrivals::Constant,
            headers: vec![("A".into(), "b".into())],
            session: Some(Session { requests: Some(2), think: Duration::ZERO, marked: None }),
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
