//! A load generator that is not ours: [oha](https://github.com/hatoo/oha), as an open loop.
//!
//! One process for each kind of clients sends its requests evenly spaced (`-q`), each on a connection of its own, and counts
//! latency from the moment a request was due, even if no connection was free then (`--latency-correction`). There are
//! as many connections as can be waiting at once, so that none has to be free.
//!
//! Know of oha: it takes the moment at which it came to a request for the one at which the request was due; what it
//! says has no series of seconds.

mod figures;

pub(super) use figures::Driven;

use crate::contender::built;
use crate::load::{Population, Step};
use crate::process::{Program, output};
use anyhow::{Context, Result, ensure};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Connections that can be waiting at once: what a process may have open.
const CONNECTIONS_MAX: f64 = 18_000.0;
/// Connections beyond those that can be waiting by the rate and the patience.
const SPARE: f64 = 16.0;
/// How much longer than its requests oha may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Where its processes run.
pub(super) struct Place<'a> {
    /// Whom they ask.
    pub(super) target: SocketAddr,
    /// Their network namespace; `None`: ours.
    pub(super) namespace: Option<&'a str>,
    /// Their processors, in the words of `taskset`; `None`: all.
    pub(super) processors: Option<&'a str>,
}

/// Its program; an error says how to get it.
pub(super) fn program() -> Result<PathBuf> {
    built("oha").context("oha is not there; run scripts/applications.sh")
}

/// Its name and version.
pub(super) async fn version() -> Result<String> {
    let said = output(Program::new("oha", program()?).args(["--version"]), PATIENCE).await?;
    Ok(said.trim().to_owned())
}

/// Runs one step of each population at the same time, each to its end, and returns their figures in the same order.
/// Cancel safe: dropped, every oha is killed.
pub(super) async fn run(
    populations: &[(&Population, Step)],
    place: &Place<'_>,
) -> Result<Vec<Driven>> {
    let one = async |(population, step): &(&Population, Step)| {
        let patience = step.lasting + population.patience + PATIENCE;
        let program = Program::new("oha", program()?)
            .args(args(population, step, place.target)?)
            .namespace(place.namespace)
            .processors(place.processors);
        let said = output(program, patience).await?;
        let driven = figures::read(&said, requests(step));
        driven.with_context(|| format!("oha printed something else than expected:\n{said}"))
    };
    futures_util::future::try_join_all(populations.iter().map(one)).await
}

/// Requests that are sent in a step.
fn requests(step: &Step) -> u64 {
    (step.rate * step.lasting.as_secs_f64()).round() as u64
}

fn args(population: &Population, step: &Step, target: SocketAddr) -> Result<Vec<String>> {
    let Population { name, patience, .. } = population;
    let [path] = &population.paths[..] else {
        anyhow::bail!("{name}: oha asks for one path, not for {}", population.paths.len());
    };
    let plain = population.session.is_none()
        && population.retry.is_none()
        && population.upload.is_none()
        && population.trace.is_none()
        && population.read_bytes_per_second.is_none();
    ensure!(plain, "{name}: oha has single requests without bodies, retries and traces");
    ensure!(requests(step) > 0, "{name}: no request in {:?}", step.lasting);
    let open = (step.rate * patience.as_secs_f64() + SPARE).ceil();
    ensure!(open <= CONNECTIONS_MAX, "{name}: oha would need {open} connections; lower the rate");
    let mut args: Vec<String> = ["--no-tui", "--output-format", "json"].map(Into::into).into();
    args.extend(["--stats-success-breakdown", "--latency-correction"].map(Into::into));
    args.push("--disable-keepalive".into());
    args.extend(["-q".into(), step.rate.to_string(), "-n".into(), requests(step).to_string()]);
    args.extend([
        "-c".into(),
        open.to_string(),
        "-t".into(),
        format!("{}ms", patience.as_millis()),
    ]);
    for (header, value) in &population.headers {
        args.extend(["-H".into(), format!("{header}: {value}")]);
    }
    args.push(format!("http://{target}{path}"));
    Ok(args)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(rate: f64) -> Step {
        Step { rate, lasting: Duration::from_secs(30) }
    }

    #[test]
    fn it_is_told_the_rate_the_patience_and_enough_connections() {
        let population = Population {
            paths: vec!["/checkout".into()],
            headers: vec![("Cookie".into(), "a=b".into())],
            patience: Duration::from_secs(3),
            ..Population::default()
        };
        let target = "10.77.0.1:80".parse().unwrap();
        let said = args(&population, &step(50.5), target).unwrap().join(" ");
        let expected = "--latency-correction --disable-keepalive -q 50.5 -n 1515 -c 168 -t 3000ms \
                        -H Cookie: a=b http://10.77.0.1:80/checkout";
        assert!(said.ends_with(expected), "{said}");
        let several = Population { paths: vec!["/a".into(), "/b".into()], ..population.clone() };
        for (population, rate, why) in [
            (&several, 1.0, "one path"),
            (&population, 0.0, "no request"),
            (&population, 1e5, "need"),
        ] {
            let error = args(population, &step(rate), target).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
