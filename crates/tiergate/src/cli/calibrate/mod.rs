//! `tiergate calibrate`: how much an origin can do, and what bounds it.

mod json;
mod progress;
mod report;
mod result;
mod values;

use crate::calibrate::target::{self, Target, is_private};
use crate::calibrate::watch::{Place, Watch};
use crate::calibrate::{Sending, carry_out, policy, probe};
use crate::cli::bits::bits;
use crate::cli::stdout::print;
use anyhow::{Context, Result, bail, ensure};
use http::{HeaderName, HeaderValue};
use progress::Progress;
use result::{Measured, Results};
use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};
use std::pin::pin;
use std::time::{Duration, Instant};
use tiergate_core::calibrate::Settings;
use tiergate_draw::Paint;
use tokio::signal::unix::{SignalKind, signal};

/// What else there is to know.
const BOUNDS: &str = "\
What it does:
  Sends GET requests to an idle origin (staging, or off-peak): one at a time, then 2, 4, 8, …, each replaced when its
  answer is complete. Stops when throughput no longer grows, at the first failures, where the origin refuses, at a
  bound, and on Ctrl-C. Measures processors, memory, disks and the link of this machine meanwhile.

Exit status:
  0  the capacity was found, or a bound was reached first and the capacity is at least what is reported
  1  the origin did not answer properly, or failed before a capacity was found; or interrupted
  2  the command line was not understood";

/// Command line of `tiergate calibrate`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = BOUNDS)]
pub struct Options {
    /// Resources of one origin: http://HOST:PORT/PATH; after the first, paths will do. Several of different sizes give the
    /// time of a request and of a MiB
    #[arg(value_name = "ORIGIN", required = true)]
    origins: Vec<String>,
    /// Longest time for each resource
    #[arg(long, default_value = "2m", value_parser = values::time)]
    time: Duration,
    /// Most requests in progress
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "NUMBER")]
    concurrency: u32,
    /// Most requests a second
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), value_name = "NUMBER")]
    rate: u32,
    /// Most requests to each resource
    #[arg(long, default_value_t = 200_000, value_parser = clap::value_parser!(u64).range(1..), value_name = "NUMBER")]
    requests: u64,
    /// Longest time for an answer; a request that takes longer has failed
    #[arg(long, default_value = "10s", value_parser = values::time)]
    timeout: Duration,
    /// Header field of every request, such as 'Cookie: session=1'
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = values::header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Processor time of the origin: of the process whose number is in this file, and its descendants [default: of who
    /// listens at the address]
    #[arg(long, value_name = "FILE", conflicts_with = "cgroup")]
    pid_file: Option<PathBuf>,
    /// Processor time and memory of the origin: of this control group, such as /system.slice/apache2.service
    #[arg(long, value_name = "PATH", value_parser = group)]
    cgroup: Option<PathBuf>,
    /// Address that the origin listens on, for its listen queue, if it is not the one that is asked
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen_queue: Option<SocketAddr>,
    /// Network interface through which the origin is reached [default: by the routing table]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// Bits a second that the link can carry, such as 100mbit, where a shaper or the provider bounds it [default: the
    /// interface's speed]
    #[arg(long, value_name = "RATE", value_parser = bits)]
    link_capacity: Option<u64>,
    /// The origin runs on this machine, although its address is another one's, as in a container
    #[arg(long)]
    same_machine: bool,
    /// Load an origin whose address is neither loopback nor private
    #[arg(long)]
    yes: bool,
    /// Write a first policy into a new file
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

fn group(text: &str) -> Result<PathBuf, String> {
    let below = Path::new(text).strip_prefix("/").unwrap_or(Path::new(text));
    let inside = below.components().all(|part| matches!(part, Component::Normal(_)));
    match inside && !below.as_os_str().is_empty() {
        true => Ok(below.into()),
        false => {
            Err("must be the path of a control group, such as /system.slice/web.service".into())
        }
    }
}

/// Calibrates, and prints what came out.
///
/// # Errors
/// When an address is wrong, the origin does not answer as it should or fails before its capacity is known, the file of the policy
/// exists, or Ctrl-C was pressed.
pub fn run(options: &Options) -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(calibrate(options))
}

async fn calibrate(options: &Options) -> Result<()> {
    let targets = target::targets(&options.origins).await?;
    let address = targets[0].address;
    ensure!(
        options.yes || is_private(address.ip()),
        "{address} is neither loopback nor private: this would load it until it is saturated; add --yes if it is yours, and \
         idle"
    );
    if let Some(file) = &options.write {
        let name = file.display();
        ensure!(!file.exists(), "{name} exists; calibrate never overwrites a policy");
        // To be told now, not after minutes of load.
        let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
        let is_there = folder.is_none_or(Path::is_dir);
        ensure!(is_there, "{name} cannot be written: its folder does not exist");
    }
    let mut interrupted = pin!(interruption()?);
    eprint!("{}", announcement(options, &targets));
    let watch = Watch::start(address, &options.place(address));
    let begun = Instant::now();
    let mut results = options.results(address);
    let mut progress = Progress::new();
    let sending = options.sending();
    // All of them before any load: a wrong one is to be told now, not after minutes.
    let mut answers = Vec::with_capacity(targets.len());
    for target in &targets {
        answers.push(tokio::select! {
            biased;
            () = &mut interrupted => bail!("interrupted"),
            answer = probe(target, &sending) => answer?,
        });
    }
    // The readings of a machine that has nothing to do, for comparison.
    tokio::select! {
        () = &mut interrupted => bail!("interrupted"),
        () = tokio::time::sleep(IDLE) => results.idle = watch.usage(),
    }
    for (number, (target, answer)) in targets.iter().zip(answers).enumerate() {
        // What the resources before have left is not for this one, and what the first requests took is not on top.
        let until = begun + options.time * (number as u32 + 1);
        let left = until.saturating_duration_since(Instant::now());
        let settings = options.settings(left.min(options.time));
        let on_slice = |ramp: &_, usage: &_| progress.draw(target, ramp, usage, &settings);
        let carried =
            carry_out(target, &sending, settings, &watch, &mut interrupted, on_slice).await;
        let is_last = carried.end.is_none_or(|end| !end.goes_on());
        results.all.push(Measured::new(
            target.clone(),
            answer,
            carried,
            &results.origin,
            &results.idle,
        ));
        if is_last {
            break;
        }
    }
    progress.clear();
    results.watched = watch.watched();
    drop(watch);
    show(options, &results)
}

/// The load that other programs make is looked at for so long first.
const IDLE: Duration = Duration::from_millis(800);

/// A step is at least as long: two looks.
const STEP_MIN: Duration = Duration::from_millis(500);

fn show(options: &Options, results: &Results) -> Result<()> {
    match options.json {
        true => print(Ok::<_, anyhow::Error>(format!("{:#}\n", json::of(results))))?,
        false => print(Ok::<_, anyhow::Error>(report::text(results, Paint::stdout())))?,
    }
    if let Some(fault) = results.fault() {
        bail!(fault);
    }
    match &options.write {
        Some(file) => write(file, options, results),
        None => Ok(()),
    }
}

fn write(path: &Path, options: &Options, results: &Results) -> Result<()> {
    let first = results.all.first().context("nothing was measured")?;
    let measured = report::lines(results);
    let place = options.place(first.target.address);
    let text = policy::text(&policy::Found {
        authority: &first.target.authority,
        address: first.target.address,
        place: &place,
        interface: results.watched.interface.as_deref(),
        bottleneck: first.finding.what,
        measured: &measured,
    });
    let name = path.display();
    // What is written is what `tiergate check` accepts.
    crate::config::parse(&text, &name.to_string())?;
    let file = File::create_new(path).with_context(|| format!("{name} cannot be written"))?;
    { file }.write_all(text.as_bytes()).with_context(|| format!("{name} cannot be written"))?;
    eprintln!("wrote {name}; next: tiergate check {name}");
    Ok(())
}

/// What is about to be done, and how much of it at most.
fn announcement(options: &Options, targets: &[Target]) -> String {
    let list: Vec<String> = targets.iter().map(Target::to_string).collect();
    let longest = values::words(options.time * targets.len() as u32);
    format!(
        "GET {} ({}), with a load that rises until it is saturated.\n\
         At most {} requests at once, {} a second, {} in all; at most {longest}. Ctrl-C stops it.\n",
        list.join(", "),
        targets[0].address,
        options.concurrency,
        tiergate_draw::number::thousands(options.rate.into()),
        tiergate_draw::number::thousands(options.requests.saturating_mul(targets.len() as u64)),
    )
}

/// Ready when a signal asks to end.
fn interruption() -> Result<impl Future<Output = ()>> {
    let [mut interrupt, mut terminate] =
        [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    Ok(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    })
}

impl Options {
    fn place(&self, address: SocketAddr) -> Place {
        Place {
            pid_file: self.pid_file.clone(),
            cgroup: self.cgroup.clone(),
            listen_queue: self.listen_queue,
            interface: self.interface.clone(),
            link_capacity: self.link_capacity,
            is_here: self.is_here(address),
            is_loopback: target::is_here(address),
        }
    }

    /// Whether the origin runs on this machine: its address says so, or the operator does.
    fn is_here(&self, address: SocketAddr) -> bool {
        let is_said = self.same_machine || self.pid_file.is_some() || self.cgroup.is_some();
        is_said || target::is_here(address)
    }

    fn results(&self, address: SocketAddr) -> Results {
        // Of the machine, not those that this process may use: its share is compared with the use of all.
        let here = || std::thread::available_parallelism().map_or(1, |it| it.get() as u32);
        let processors = crate::sensors::machine_processors().unwrap_or_else(here);
        Results::new(self.is_here(address), processors)
    }

    fn sending(&self) -> Sending {
        Sending { timeout: self.timeout, headers: self.headers.clone() }
    }

    fn settings(&self, time_max: Duration) -> Settings {
        let usual = Settings::default();
        // Where there is less time, for shorter and less exact steps.
        let part = (self.time.as_secs_f64() / usual.time_max.as_secs_f64()).min(1.0);
        let of = |usual: Duration| usual.mul_f64(part).max(STEP_MIN);
        Settings {
            concurrency_max: self.concurrency,
            warm_up: of(usual.warm_up),
            step: (of(usual.step.0), of(usual.step.1)),
            rate_max: self.rate.into(),
            requests_max: self.requests,
            time_max,
            ..usual
        }
    }
}
