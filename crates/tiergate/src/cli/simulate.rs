//! `tiergate simulate`: a policy tried on simulated clients and a simulated server.

mod values;

use super::progress::Progress;
use crate::config::load;
use crate::config::meant::Policy;
use crate::simulate::{Log, Pace, Sorter, gateway, replay};
use anyhow::{Context, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tiergate_draw::Paint;
use tiergate_draw::number::percent;
use tiergate_sim::distribution::Distribution;
use tiergate_sim::fault::Source;
use tiergate_sim::files::read_rates;
use tiergate_sim::log::Took;
use tiergate_sim::log::replay::Within;
use tiergate_sim::run_trial;
use tiergate_sim::scenario::{Expectation, Scenario};
use tiergate_sim::server::Shape;
use tiergate_sim::show::{Compared, json, offered, svg, sweep, table};
use tiergate_sim::trial::{Front, Trial};
use values::{Speeds, two_digits};

/// Command line of `tiergate simulate`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("requests").required(true).multiple(true).args(["scenario", "log"]))]
pub struct Options {
    /// The policy file
    policy: PathBuf,
    /// A scenario: server, clients, duration
    #[arg(long, value_name = "FILE")]
    scenario: Option<PathBuf>,
    /// An access log to replay (common, combined or Tiergate's own; plain or gzip)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Replay speed, relative to the log; a range (1x..10x) tries eight speeds
    #[arg(long, default_value = "1x", value_parser = values::speeds, requires = "log")]
    speed: Speeds,
    /// How requests that the log places in the same second are spread within it
    #[arg(long, value_enum, default_value_t = Spread::Random, requires = "log")]
    within: Spread,
    /// Unit of the service time at the end of a line of the log
    #[arg(long, value_enum, default_value_t = Unit::Guess, requires = "log", value_name = "UNIT")]
    took: Unit,
    /// Service time where neither log nor scenario has one: 20ms, exponential:20ms,
    /// uniform:10ms:30ms, lognormal:20ms:1.5, bimodal:5ms:200ms:0.1
    #[arg(long, default_value = "exponential:20ms", value_parser = values::service)]
    #[arg(conflicts_with = "scenario")]
    service: Distribution,
    /// Additional service time for each MiB of the response
    #[arg(long, default_value = "0ms", value_parser = values::time, value_name = "TIME")]
    per_mib: Duration,
    /// Concurrent requests of the simulated server, where no scenario has one
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    #[arg(conflicts_with = "scenario", value_name = "NUMBER")]
    workers: u32,
    /// How long the clients of a log wait for a response
    #[arg(long, default_value = "8s", value_parser = values::time, requires = "log")]
    patience: Duration,
    /// Random seed [default: the scenario's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write an SVG drawing
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Write report.txt, report.json and plot.svg into a directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Offered less than this share of its capacity, a server shows nothing of a policy.
const IDLE: f64 = 0.5;

/// How requests of one second are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Spread {
    Random,
    Even,
}

/// What a number of a log is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Unit {
    /// An integer is microseconds (%D of Apache), a number with decimals seconds ($request_time of nginx)
    Guess,
    /// Microseconds
    Us,
    /// Milliseconds
    Ms,
    /// Seconds
    S,
    /// Not a service time
    Ignore,
}

/// Simulates, and shows what came out. The program ends with 1 if something is not as the scenario
/// expects.
///
/// # Errors
/// When a file cannot be read or has faults, or what was expected did not come out.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let policy = load(&options.policy)?;
    let prepared = Prepared::of(&policy, options)?;
    let speeds = options.speed.all();
    let mut progress = Progress::new(speeds.len() * Front::ALL.len());
    let mut compared = Vec::with_capacity(speeds.len());
    for &speed in &speeds {
        let trial = prepared.trial(speed);
        let mut reports = Vec::with_capacity(Front::ALL.len());
        for front in Front::ALL {
            let report = run_trial(&trial, front, prepared.seed, &mut |share| progress.is(share));
            progress.next();
            reports.push((front, report));
        }
        let classes = policy.plan.classes.iter().map(|class| class.name.clone()).collect();
        let about = prepared.about(&policy, &trial, speed, reports[0].1.requests);
        let title = prepared.title.clone();
        compared.push((speed, Compared { title, about, classes, reports }));
    }
    drop(progress);
    let (_, last) = compared.last().expect("at least one speed is tried");
    show(options, &compared, last)?;
    let names: Vec<&str> = last.classes.iter().map(String::as_str).collect();
    let wrong = last.policy().unmet(&names, &prepared.expect);
    ensure!(wrong.is_empty(), "not as the scenario expects:\n  {}", wrong.join("\n  "));
    Ok(())
}

/// Everything that was read.
struct Prepared {
    title: String,
    trial: Trial,
    log: Option<(Log, PathBuf)>,
    pace: Pace,
    seed: u64,
    expect: Vec<Expectation>,
    words: Vec<String>,
}

impl Prepared {
    fn of(policy: &Policy, options: &Options) -> anyhow::Result<Self> {
        let mut sorter = Sorter::new(policy);
        let pace = Pace {
            took: match options.took {
                Unit::Guess => Took::Guess,
                Unit::Us => Took::Micros,
                Unit::Ms => Took::Millis,
                Unit::S => Took::Seconds,
                Unit::Ignore => Took::Ignore,
            },
            byte_ns: options.per_mib.as_nanos() as f64 / f64::from(1 << 20),
            within: match options.within {
                Spread::Random => Within::Random,
                Spread::Even => Within::Even,
            },
            patience_ms: options.patience.as_secs_f64() * 1e3,
        };
        ensure!(pace.patience_ms > 0.0, "--patience must be more than 0");
        let (scenario, trial) = match &options.scenario {
            Some(path) => {
                let (scenario, trial) = scenario(path, policy, &mut sorter, options.log.is_some())?;
                (Some((scenario, path)), trial)
            }
            None => (None, plain(policy, options)),
        };
        let log = match &options.log {
            Some(path) => Some((Log::read(path, &pace, &mut sorter)?, path.clone())),
            None => None,
        };
        let mut title = name(&options.policy);
        let (mut expect, mut words, mut seed) = (Vec::new(), Vec::new(), 1);
        if let Some((scenario, path)) = scenario {
            title += &format!(" on {}", name(path));
            expect = scenario.expect;
            seed = scenario.seed;
            words.extend((!scenario.about.is_empty()).then_some(scenario.about));
        }
        if let Some((_, path)) = &log {
            title += &format!(" on {}", name(path));
        }
        let seed = options.seed.unwrap_or(seed);
        Ok(Prepared { title, trial, log, pace, seed, expect, words })
    }

    fn trial(&self, speed: f64) -> Trial {
        let mut trial = self.trial.clone();
        if let Some((log, _)) = &self.log {
            replay(&mut trial, log, &self.pace, speed, self.seed);
        }
        trial
    }

    /// What the run was, in lines.
    fn about(&self, policy: &Policy, trial: &Trial, speed: f64, requests: u64) -> Vec<String> {
        let mut lines = self.words.clone();
        if let Some((Log { counts, .. }, path)) = &self.log {
            let mut line = format!("{}: {} requests, {speed}x as fast", name(path), counts.used);
            if let (left_out @ 1.., Some((at, why))) = (counts.left_out(), &counts.malformed) {
                line += &format!("; {left_out} lines left out, the first is line {at}: {why}");
            }
            lines.push(line);
            lines.push(match counts.timed {
                0 => {
                    "the log does not say how long requests took: they take what --service or the \
                     scenario's server says"
                        .to_owned()
                }
                timed => format!("{timed} of them say how long they took"),
            });
        }
        lines.push(format!(
            "{:.1} s of virtual time, {requests} requests behind the policy, seed {}",
            trial.seconds, self.seed
        ));
        let slots = match &policy.plan.slots {
            tiergate_core::control::Slots::Fixed(slots) => format!("at most {slots} at once"),
            tiergate_core::control::Slots::Adaptive(_) => "a limit that adapts".to_owned(),
            tiergate_core::control::Slots::Shared(_) => {
                "a limit that adapts and is shared with other gateways".to_owned()
            }
        };
        if policy.plan.slots_per_server {
            let line = "limits by server are not simulated: every request goes to one server, by one limit";
            lines.push(line.to_owned());
        }
        if !policy.plan.pools.is_empty() {
            let line = "pools are not simulated: every request goes to one server, by the limit of [origin]";
            lines.push(line.to_owned());
        }
        if !policy.plan.resources.is_empty() && trial.server.resource.is_empty() {
            let line = "resources have their limits, but the simulated server has none: nothing is slow there but itself";
            lines.push(line.to_owned());
        }
        if !policy.plan.adaptations.is_empty() {
            let line = "adaptations are not simulated: every answer is of full quality";
            lines.push(line.to_owned());
        }
        let share = offered(trial);
        let load = share.map_or(String::new(), |share| {
            format!("; offered load {} of its capacity", percent(share))
        });
        let server = values::server(&trial.server);
        lines.push(format!("server: {server}; policy and FIFO: {slots}{load}"));
        if let (Some(share), Some(_)) = (share.filter(|share| *share < IDLE), &self.log) {
            let full = two_digits(speed / share);
            lines.push(format!(
                "the server has little to do: --speed {full}x would offer its whole capacity"
            ));
        }
        lines
    }
}

/// A scenario file and the trial of it.
fn scenario(
    path: &Path,
    policy: &Policy,
    sorter: &mut Sorter<'_>,
    replays: bool,
) -> anyhow::Result<(Scenario, Trial)> {
    let file = path.to_string_lossy();
    let text = fs::read_to_string(path).with_context(|| format!("{file}: cannot be read"))?;
    let source = Source { file: &file, text: &text };
    let mut scenario = Scenario::read(source)?;
    let classes: Vec<&str> = policy.plan.classes.iter().map(|class| class.name.as_str()).collect();
    scenario.check_for_policy(source, &classes, replays)?;
    read_rates(&mut scenario, source, path.parent().unwrap_or(Path::new("")))?;
    let trial = scenario.for_policy(source, gateway(policy), &mut |told| sorter.sort(told))?;
    Ok((scenario, trial))
}

/// A trial without clients, before a server of which only workers and times are known.
fn plain(policy: &Policy, options: &Options) -> Trial {
    let gateway = gateway(policy);
    Trial {
        seconds: 0.0,
        cuts_s: Vec::new(),
        plan: gateway.plan,
        law: None,
        sessions: gateway.sessions,
        origin_timeout: Some(gateway.origin_timeout),
        on_cancel: gateway.on_cancel,
        gateways: Vec::new(),
        server: Shape::workers(options.workers, options.service),
        populations: Vec::new(),
        mixes: Vec::new(),
        demands: Vec::new(),
        replay: Vec::new(),
    }
}

fn show(options: &Options, compared: &[(f64, Compared)], last: &Compared) -> anyhow::Result<()> {
    let text = |paint: Paint| {
        let several = if compared.len() > 1 { sweep(compared, paint) } else { String::new() };
        several + &table(last, paint)
    };
    if let Some(directory) = &options.out {
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot make the directory {}", directory.display()))?;
        write_file(&directory.join("report.txt"), &text(Paint::PLAIN))?;
        write_file(&directory.join("report.json"), &json(last))?;
        write_file(&directory.join("plot.svg"), &svg(last))?;
    }
    if let Some(file) = &options.plot {
        write_file(file, &svg(last))?;
    }
    let shown = if options.json { json(last) } else { text(Paint::stdout()) };
    super::stdout::print(Ok::<_, anyhow::Error>(shown))
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
