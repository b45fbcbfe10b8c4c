//! How many requests a second an origin can serve, where its file does not say so: measured.
//!
//! As many clients as it serves at once ask without pause (wrk), with nothing in front, and are
//! counted once they have warmed it up.

use super::experiment::Experiment;
use super::machine::Split;
use super::network::Network;
use super::{server, surge};
use crate::bench::tool::read_wrk;
use crate::process::{Program, find, output, scratch};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Before counting, and while, in seconds.
const WARMING_S: u64 = 1;
const COUNTING_S: u64 = 6;
/// Requests drawn for a site; wrk goes through them again and again.
const REQUESTS: usize = 5000;

/// Measures it for what the first of the experiment's clients ask for.
pub(super) async fn measured(experiment: &Experiment) -> Result<f64> {
    let scratch = scratch()?;
    let network = Network::make(&experiment.link)?;
    let split = Split::new(experiment.origin.computes(), 0, 1);
    let (listen, processors) = (Network::ORIGIN, split.origin.as_deref());
    let namespace = Some(network.origin.as_str());
    let place = server::Place { scratch: scratch.path(), listen, namespace, processors };
    let origin = experiment.origin.start(&place).await?;
    let clients = experiment.clients.first().context("no clients")?;
    let script = script(&clients.paths(&origin.paths), scratch.path())?;
    let wrk = find("wrk").context("wrk is not installed; run scripts/setup.sh")?;
    let mut rate = 0.0;
    for seconds in [WARMING_S, COUNTING_S] {
        let program = Program::new("wrk", &wrk)
            .args(["-t1", "--timeout=20s", &format!("-c{}", experiment.origin.slots())])
            .args([&format!("-d{seconds}s"), "-s"])
            .args([&script])
            .args([format!("http://{}/", Network::ORIGIN)])
            .namespace(Some(&network.clients))
            .processors(split.load.as_deref());
        let said = output(program, Duration::from_secs(seconds + 30)).await?;
        let driven = read_wrk(&said).with_context(|| format!("wrk said:\n{said}"))?;
        rate = driven.good as f64 / (driven.good + driven.other).max(1) as f64 * driven.per_second;
    }
    ensure!(rate >= 1.0, "the origin answers no request");
    Ok(rate)
}

/// What wrk asks for.
fn script(paths: &[String], scratch: &Path) -> Result<PathBuf> {
    let drawn = surge::requests(paths, if paths.len() > 1 { REQUESTS } else { 1 }, 1);
    ensure!(!drawn.iter().any(|path| path.contains(['"', '\\'])), "a path that Lua cannot have");
    let list = drawn.iter().map(|path| format!("\"{path}\"")).collect::<Vec<_>>().join(",\n");
    let text = format!(
        "local paths = {{\n{list}\n}}\nlocal next = 0\n\
         request = function()\n  next = next % #paths + 1\n  \
         return wrk.format(nil, paths[next])\nend\n"
    );
    let file = scratch.join("paths.lua");
    std::fs::write(&file, text)?;
    Ok(file)
}
