//! `make predict`: what `tiergate simulate` says of a policy against what the gateway does with it.
//!
//! One policy, one origin of known service times, the same clients: once in virtual time, once on real
//! sockets. Goodput of each class must agree within 5 %, the 99th percentile of its wait within 20 %.

mod figures;
mod scenario;

use crate::contender::Place;
use crate::load;
use crate::process::{self, Program, free_address};
use anyhow::{Context, Result, ensure};
use figures::Figures;
use scenario::CLASSES;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tiergate_draw::{Cell, Paint, Table, Tone};

/// How far goodput may be from the prediction.
const GOODPUT_WITHIN: f64 = 0.05;
/// How far the 99th percentile of the wait may be.
const WAIT_WITHIN: f64 = 0.2;
/// A prediction takes a second or two; longer, and something is wrong.
const SIMULATION_PATIENCE: Duration = Duration::from_secs(60);
/// How long after the last request the gateway has written its line.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// Command line of `tiergate-lab predict`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Seconds of the real run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..=3600))]
    seconds: u32,
    /// Seed of clients and service times
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Foretells, runs, compares; an error if they do not agree.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let dir = scratch.path();
    let (origin, listen, admin) = (free_address()?, free_address()?, free_address()?);
    let seconds = f64::from(settings.seconds);
    let [policy, scenario, log] =
        ["policy.toml", "scenario.toml", "access.log"].map(|name| dir.join(name));
    let place = Place::new(dir, [listen, admin, origin], None);
    std::fs::write(&policy, scenario::policy(&place, &log)?)?;
    std::fs::write(&scenario, scenario::simulated(seconds, settings.seed))?;
    let predicted = predict(&gateway, &policy, &scenario).await?;
    println!("\n  {} s on real sockets …\n", settings.seconds);
    let mut origin = scenario::origin(origin, settings.seed).start(dir, None).await?;
    let mut front = Program::new("tiergate", &gateway)
        .args([Path::new("run"), &policy])
        .start(&dir.join("tiergate.log"))?;
    front.ready(listen).await?;
    let plan = scenario::clients(listen, Duration::from_secs_f64(seconds), settings.seed);
    let report = load::start(plan)?.report().await?;
    if let Some(why) = front.ended().or_else(|| origin.ended()).or_else(|| report.void()) {
        anyhow::bail!("{why}");
    }
    tokio::time::sleep(LOG_PATIENCE).await;
    // Its end writes what is left of the log.
    drop(front);
    let log = std::fs::read_to_string(&log).context("the gateway wrote no access log")?;
    let found = figures::of_log(&log, &CLASSES, seconds)?;
    let (text, agree) = compare(&predicted, &found, Paint::stdout());
    println!("{text}");
    ensure!(agree, "the run differs from the prediction");
    Ok(())
}

/// What `tiergate simulate` says.
async fn predict(gateway: &Path, policy: &Path, scenario: &Path) -> Result<Vec<Figures>> {
    let words = [Path::new("simulate"), policy, Path::new("--scenario"), scenario];
    let program = Program::new("tiergate simulate", gateway).args(words).args(["--json"]);
    let json = process::output(program, SIMULATION_PATIENCE).await?;
    CLASSES.iter().map(|class| Figures::predicted(&json, class)).collect()
}

/// A table, and whether everything is as near as it must be.
fn compare(predicted: &[Figures], found: &[Figures], paint: Paint) -> (String, bool) {
    let mut table = Table::new(
        "<class|goodput/s predicted|measured|off by|p99 wait predicted|measured|off by".split('|'),
    );
    let mut agree = true;
    for ((class, predicted), found) in CLASSES.iter().zip(predicted).zip(found) {
        let mut row = vec![Cell::from(*class)];
        let pairs = [
            (predicted.goodput, found.goodput, GOODPUT_WITHIN, ""),
            (predicted.wait_p99_ms, found.wait_p99_ms, WAIT_WITHIN, " ms"),
        ];
        for (predicted, found, within, unit) in pairs {
            let off = predicted / found - 1.0;
            // Not a number is not near either.
            let near = off.abs() <= within;
            agree &= near;
            row.push(format!("{predicted:.1}{unit}").into());
            row.push(format!("{found:.1}{unit}").into());
            let tone = if near { Tone::Good } else { Tone::Bad };
            row.push(Cell(format!("{:+.1} %", off * 100.0), tone));
        }
        table.row(row);
    }
    (table.render(paint), agree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_far_off_does_not_agree() {
        let figures = |goodput, wait_p99_ms| vec![Figures { goodput, wait_p99_ms }; CLASSES.len()];
        let agree =
            |predicted: Vec<Figures>| compare(&predicted, &figures(100.0, 50.0), Paint::PLAIN).1;
        assert!(agree(figures(104.0, 59.0)) && agree(figures(96.0, 41.0)));
        assert!(!agree(figures(106.0, 50.0)) && !agree(figures(100.0, 61.0)));
        assert!(!agree(figures(f64::NAN, 50.0)));
    }
}
