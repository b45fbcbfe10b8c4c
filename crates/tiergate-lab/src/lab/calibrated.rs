//! `make calibrate`: what `tiergate calibrate` says of three unlike servers, against what wrk finds.
//!
//! Apache with a page that computes, nginx behind a link that is narrower than its interface, gunicorn with a page that sleeps. The
//! capacity must be within a tenth of what wrk gets with many connections, and the bottleneck must be the one that the server was
//! made to have. wrk measures before and after: where its figures differ, the machine was not quiet, and the round does not count.

use super::network::{Links, Network};
use super::server::{Apache, Gunicorn, Nginx, Place, Server};
use crate::process::{Program, find, free_address, output, scratch};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tiergate_draw::number::percent;
use tiergate_draw::{Cell, Paint, Table, Tone};

/// How far the capacity may be from wrk's.
const WITHIN: f64 = 0.1;
/// How far wrk's figures before and after may be apart.
const QUIET: f64 = 0.06;
/// Rounds of a server until one is quiet.
const ROUNDS: u32 = 4;
/// Time of each of wrk's measurements.
const WRK: &str = "10s";
/// A calibration takes two minutes at most.
const PATIENCE: Duration = Duration::from_secs(180);
/// The link in front of nginx.
const LINK: &str = "100mbit";
/// The file that nginx serves.
const FILE_BYTES: usize = 256 << 10;
/// A page that sleeps: eight at once, 50 ms each, are 160 a second.
const SLEEPER: &str = "import time\n\n\ndef app(environ, start_response):\n    time.sleep(0.05)\n    \
    start_response('200 OK', [('Content-Length', '2')])\n    return [b'ok']\n";

/// Command line of `tiergate-lab calibrate`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Only the server of that name: apache, nginx or gunicorn
    #[arg(long)]
    only: Option<String>,
}

/// A server, what is asked of it, and what must come out.
struct Case {
    name: &'static str,
    what: &'static str,
    path: &'static str,
    /// Bits a second of the link to it, in the words of `tc`; none: loopback.
    link: Option<&'static str>,
    bottleneck: &'static str,
    /// Connections of wrk: enough to saturate it, and so few that those that are cut off at the end do not matter.
    connections: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "apache",
        what: "Apache, CGI of 5 ms",
        path: "/cgi-bin/page?us=5000&bytes=2000",
        link: None,
        bottleneck: "processors",
        connections: "32",
    },
    Case {
        name: "nginx",
        what: "nginx, 256 KiB over 100 Mbit/s",
        path: "/checkout/large",
        link: Some(LINK),
        bottleneck: "link",
        connections: "8",
    },
    Case {
        name: "gunicorn",
        what: "gunicorn, 8 threads asleep",
        path: "/",
        link: None,
        bottleneck: "concurrency",
        connections: "24",
    },
];

/// What came out.
struct Outcome {
    truth: f64,
    capacity: f64,
    knee: u64,
    bottleneck: String,
}

/// Calibrates all servers; an error if a capacity or a bottleneck is wrong.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let gateway = crate::gateway_program(settings.gateway.as_deref())?;
    let is_asked = |case: &&Case| settings.only.as_deref().is_none_or(|only| only == case.name);
    let mut table = Table::new("<server|wrk/s|calibrate/s|off by|at once|<bottleneck".split('|'));
    let (mut fine, mut count) = (true, 0);
    for case in CASES.iter().filter(is_asked) {
        let outcome = quiet_round(case, &gateway).await?;
        let off = outcome.capacity / outcome.truth - 1.0;
        let (is_near, is_right) = (off.abs() <= WITHIN, outcome.bottleneck == case.bottleneck);
        (fine, count) = (fine && is_near && is_right, count + 1);
        let tone = |fine| if fine { Tone::Good } else { Tone::Bad };
        table.row([
            Cell::from(case.what),
            format!("{:.1}", outcome.truth).into(),
            format!("{:.1}", outcome.capacity).into(),
            Cell(format!("{:+.1} %", off * 100.0), tone(is_near)),
            outcome.knee.to_string().into(),
            Cell(outcome.bottleneck, tone(is_right)),
        ]);
    }
    ensure!(count > 0, "there is no such server");
    println!("\n{}", table.render(Paint::stdout()));
    ensure!(fine, "a capacity is further off than {}, or a bottleneck is wrong", percent(WITHIN));
    Ok(())
}

/// Rounds until one is quiet.
async fn quiet_round(case: &Case, gateway: &Path) -> Result<Outcome> {
    for _ in 0..ROUNDS {
        let (before, outcome, after) = round(case, gateway).await?;
        let apart = (before / after - 1.0).abs();
        if apart <= QUIET {
            return Ok(outcome);
        }
        println!("  {}: wrk got {before:.0}/s before and {after:.0}/s after; again", case.what);
    }
    bail!("{}: the machine was not quiet in any of {ROUNDS} rounds", case.what)
}

async fn round(case: &Case, gateway: &Path) -> Result<(f64, Outcome, f64)> {
    let scratch = scratch()?;
    let network = match case.link {
        Some(rate) => {
            Some(Network::make(&Links { origin: Some(rate.to_owned()), ..Links::default() })?)
        }
        None => None,
    };
    let listen = if network.is_some() { Network::ORIGIN } else { free_address()? };
    let namespace = network.as_ref().map(|it| it.origin.as_str());
    let place = Place { scratch: scratch.path(), listen, namespace, processors: None };
    let dir = scratch.path().join("origin");
    std::fs::create_dir_all(&dir)?;
    let pid_file = dir.join("calibrated.pid");
    let started = start(case, &place).await?;
    std::fs::write(&pid_file, started.pid.to_string())?;
    let client = network.as_ref().map(|it| it.gateway.as_str());
    let url = format!("http://{listen}{}", case.path);
    let before = wrk(case, &url, client).await?;
    let outcome = calibrate(case, gateway, &url, &pid_file, client).await?;
    let after = wrk(case, &url, client).await?;
    drop(started);
    let truth = (before + after) / 2.0;
    Ok((before, Outcome { truth, ..outcome }, after))
}

/// A server under way, ended when dropped.
struct Started {
    pid: u32,
    _running: Box<dyn std::any::Any>,
}

async fn start(case: &Case, place: &Place<'_>) -> Result<Started> {
    let of_server = |started: super::server::Started| {
        let pid = started.pids()[0];
        Started { pid, _running: Box::new(started) }
    };
    Ok(match case.name {
        "apache" => of_server(Server::Apache(Apache::default()).start(place).await?),
        "nginx" => {
            let started =
                Server::Nginx(Nginx { files: 1, ..Nginx::default() }).start(place).await?;
            let file = place.scratch.join("origin/files/large");
            std::fs::write(file, "x".repeat(FILE_BYTES))?;
            of_server(started)
        }
        _ => {
            let running = Gunicorn { workers: 1, threads: 8 }.run(place, SLEEPER, None).await?;
            Started { pid: running.pid(), _running: Box::new(running) }
        }
    })
}

/// Answers a second that wrk gets with many connections.
async fn wrk(case: &Case, url: &str, namespace: Option<&str>) -> Result<f64> {
    let path = find("wrk").context("wrk is not installed; run scripts/setup.sh")?;
    let words = ["-t", "1", "-c", case.connections, "-d", WRK, "--timeout", "10s", url];
    let program = Program::new("wrk", path).namespace(namespace).args(words);
    let said = output(program, PATIENCE).await?;
    ensure!(!said.contains("Non-2xx"), "wrk got errors: {said}");
    let rate =
        said.lines().find_map(|line| line.strip_prefix("Requests/sec:")?.trim().parse().ok());
    rate.with_context(|| format!("wrk said no rate: {said}"))
}

async fn calibrate(
    case: &Case,
    gateway: &Path,
    url: &str,
    pid_file: &Path,
    namespace: Option<&str>,
) -> Result<Outcome> {
    let mut words = vec!["calibrate", url, "--json", "--pid-file"];
    let pid_file = pid_file.display().to_string();
    words.push(&pid_file);
    if let Some(rate) = case.link {
        words.extend(["--same-machine", "--link-capacity", rate]);
    }
    let program = Program::new("tiergate calibrate", gateway).namespace(namespace).args(words);
    let said = output(program, PATIENCE).await?;
    let json: Value = serde_json::from_str(&said).context("it is not JSON")?;
    let found = &json["resources"][0];
    ensure!(found["is_capacity"] == true, "{}: no capacity was found: {found:#}", case.what);
    Ok(Outcome {
        truth: 0.0,
        capacity: found["capacity"]["rate"]["value"].as_f64().context("a rate")?,
        knee: found["capacity"]["knee"]["concurrency"].as_u64().context("a knee")?,
        bottleneck: found["bottleneck"].as_str().context("a bottleneck")?.to_owned(),
    })
}
