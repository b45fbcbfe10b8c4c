//! `make demo`: the same overload on the same origin, first without Tiergate, then with it.

mod scenario;
mod status;
mod verdict;
mod view;

use crate::contender::{Contender, Place};
use crate::load::{self, Report};
use crate::process::free_address;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tiergate_draw::{Paint, Tone};
use verdict::Passes;
use view::View;

/// Command line of `tiergate-lab demo`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Shorter stages: half a minute in all, rougher figures
    #[arg(long)]
    quick: bool,
    /// Fail unless the figures are as promised
    #[arg(long)]
    strict: bool,
}

/// Runs both passes and prints the table and the verdict.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    let paint = Paint::stdout();
    let stage_lasting = Duration::from_secs(if settings.quick { 3 } else { 8 });
    let scratch = tempfile::tempdir().context("cannot make a temporary directory")?;
    let lab = Lab { scratch: scratch.path(), stage_lasting };
    let capacity = scenario::origin(free_address()?).capacity();
    println!(
        "\n  An origin that can serve {capacity:.0} requests/s; premium clients send 80/s, basic \
         clients 100 to {:.0}/s.\n",
        scenario::STAGES.iter().map(|s| s.load).fold(0.0, f64::max) * capacity - 80.0
    );
    let without = lab.pass("without Tiergate", None).await?;
    let with = lab.pass("with Tiergate   ", Some(&gateway)).await?;
    let passes = Passes { without, with, capacity, stage_lasting };
    let (kept, line) = passes.verdict();
    println!("\n{}", passes.table(paint));
    println!("  {}\n", paint.tone(if kept { Tone::Good } else { Tone::Bad }, &line));
    if settings.strict && !kept {
        bail!("the figures are not as promised");
    }
    Ok(())
}

struct Lab<'a> {
    scratch: &'a Path,
    stage_lasting: Duration,
}

impl Lab<'_> {
    /// One pass over all stages, on a fresh origin; `gateway`: through it.
    async fn pass(&self, title: &str, gateway: Option<&Path>) -> Result<Report> {
        let settings = scenario::origin(free_address()?);
        let (capacity, mut origin) =
            (settings.capacity(), settings.start(self.scratch, None).await?);
        let (listen, admin) = (free_address()?, free_address()?);
        let place = Place {
            template: Some(scenario::POLICY),
            ..Place::new(self.scratch, [listen, admin, settings.listen], gateway)
        };
        let (contender, target) = match gateway {
            Some(_) => (Contender::Tiergate, listen),
            None => (Contender::None, settings.listen),
        };
        let mut front = contender.start(&place).await?;
        let plan = scenario::clients(target, capacity, self.stage_lasting);
        let view = View::new(title, &plan, capacity, gateway.map(|_| admin));
        let report = view::watch(view, load::start(plan.clone())?).await?;
        // A server that died in between is the cause, whatever the figures say.
        if let Some(why) = front.ended().or_else(|| origin.ended()) {
            bail!("{why}");
        }
        Ok(report)
    }
}
