//! How many requests a second an origin can serve, where its file does not say so: measured.
//!
//! As many clients as it serves at once ask straight on, with nothing in front, and are counted
//! once they have warmed it up.

use super::experiment::Experiment;
use super::machine::Split;
use super::network::Network;
use super::run::load;
use super::server;
use crate::load::{Plan, Population, Step};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

/// Before counting, and while.
const WARMING: Duration = Duration::from_secs(2);
const COUNTING: Duration = Duration::from_secs(5);
/// More than any origin here can serve; what finds no connection is not sent.
const RATE: f64 = 3000.0;

/// Measures it for what the first of the experiment's clients ask for.
pub(super) async fn measured(experiment: &Experiment) -> Result<f64> {
    let scratch = super::run::scratch()?;
    let network = Network::make(&experiment.link)?;
    let split = Split::new(false);
    let lab = std::env::current_exe()?;
    let place = server::Place {
        lab: &lab,
        scratch: scratch.path(),
        listen: Network::origin(),
        namespace: Some(&network.origin),
        processors: split.origin.as_deref(),
    };
    let origin = experiment.origin.start(&place).await?;
    let clients = experiment.clients.first().context("no clients")?;
    let population = Population {
        name: "capacity".into(),
        paths: clients.paths(&origin.paths),
        zipf: clients.zipf,
        steps: [WARMING, COUNTING].map(|lasting| Step { rate: RATE, lasting }).into(),
        connections_max: experiment.origin.slots() as usize,
        ..Population::default()
    };
    let plan = Plan { target: Network::origin(), seed: 1, populations: vec![population] };
    let patience = WARMING + COUNTING + Duration::from_secs(30);
    let report = load(&plan, scratch.path(), &network, &split, patience).await?;
    drop(origin);
    let counted = report.populations[0].steps[1].answered_in_it as f64 / COUNTING.as_secs_f64();
    ensure!(counted >= 1.0, "the origin answers nobody");
    Ok(counted)
}
