//! `make demo`: the same overload on the same origin, first without Tiergate, then with it.

mod scenario;
mod status;
mod verdict;
mod view;

use crate::load::{self, Report};
use crate::process::{Program, Running, free_address};
use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
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
    let lab = Lab { scratch: scratch.path(), paint, stage_lasting };
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
    paint: Paint,
    stage_lasting: Duration,
}

impl Lab<'_> {
    /// One pass over all stages, on a fresh origin; `gateway`: through it.
    async fn pass(&self, title: &str, gateway: Option<&Path>) -> Result<Report> {
        let (origin, capacity, mut origin_process) = self.start_origin().await?;
        let mut front = match gateway {
            Some(program) => Some(self.start_gateway(program, origin).await?),
            None => None,
        };
        let (target, admin) = match &front {
            Some(front) => (front.listen, Some(front.admin)),
            None => (origin, None),
        };
        let plan = scenario::clients(target, capacity, self.stage_lasting);
        let view = View::new(title, &plan, capacity, admin, self.paint);
        let report = view::watch(view, load::start(plan.clone())?).await?;
        // A server that died in between is the cause, whatever the figures say.
        let ended = front.as_mut().and_then(|f| f.process.ended());
        if let Some(why) = ended.or_else(|| origin_process.ended()) {
            bail!("{why}");
        }
        Ok(report)
    }

    async fn start_origin(&self) -> Result<(SocketAddr, f64, Running)> {
        let listen = free_address()?;
        let settings = scenario::origin(listen);
        let mut process = Program::new("the origin", std::env::current_exe()?)
            .args(settings.args())
            .start(&self.scratch.join("origin.log"))?;
        process.ready(listen).await?;
        Ok((listen, settings.capacity(), process))
    }

    async fn start_gateway(&self, program: &Path, origin: SocketAddr) -> Result<Front> {
        let (listen, admin) = (free_address()?, free_address()?);
        let file = self.scratch.join("demo.toml");
        std::fs::write(&file, scenario::policy(listen, origin, admin))?;
        let mut process = Program::new("tiergate", program)
            .args([Path::new("run"), &file])
            .start(&self.scratch.join("tiergate.log"))?;
        process.ready(listen).await?;
        Ok(Front { listen, admin, process })
    }
}

/// The gateway under way.
struct Front {
    listen: SocketAddr,
    admin: SocketAddr,
    process: Running,
}
