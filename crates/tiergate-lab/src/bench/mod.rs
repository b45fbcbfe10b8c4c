//! `make bench`: how much processor time does a request cost in Tiergate, HAProxy and nginx?
//!
//! The three run with one thread each, all on one processor, and forward to the same origin, which
//! shares the other processors with the load. In each round every proxy is loaded in turn, and the
//! order rotates, so that what changes on the machine meets all alike. The time is what the
//! scheduler has charged to the proxy's threads, divided by the answers: unlike a rate, it does
//! not depend on how fast the load is.

mod matrix;
mod peer;
mod result;
pub(crate) mod tool;

use crate::cpu::Ticks;
use crate::origin;
use crate::process::{free_address, scratch};
use anyhow::{Context, Result, ensure};
use tiergate_draw::{Paint, Tone};

use crate::contender::Contender;
use matrix::Row;
use peer::{Entry, Peer};
use result::{Measurement, Rounds, RowResult};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;
use tool::Tools;

/// Command line of `tiergate-lab bench`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// The gateway's program [default: `tiergate` beside this one]
    #[arg(long)]
    gateway: Option<PathBuf>,
    /// Another build of the gateway, measured in the same rounds
    #[arg(long)]
    against: Option<PathBuf>,
    /// HAProxy's program [default: the one installed]
    #[arg(long)]
    haproxy: Option<PathBuf>,
    /// nginx's program [default: the one installed]
    #[arg(long)]
    nginx: Option<PathBuf>,
    /// Fewer rows, fewer and shorter rounds: a rough answer within a minute
    #[arg(long)]
    quick: bool,
    /// Only rows whose name contains this, or one of several parts set apart by commas
    #[arg(long)]
    only: Option<String>,
    /// Rounds [default: 5; quick: 2]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100))]
    rounds: Option<u64>,
    /// Seconds of load on each proxy in each round [default: 3; quick: 1]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: Option<u64>,
    /// Directory for the result in JSON
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

/// Measures the chosen rows, prints the table and writes the JSON.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let rows = matrix::chosen(settings.only.as_deref(), settings.quick);
    let names = || matrix::ROWS.map(|row| row.name).join(", ");
    ensure!(!rows.is_empty(), "no such row; there are: {}", names());
    let rounds = settings.rounds.unwrap_or(if settings.quick { 2 } else { 5 });
    let seconds = settings.seconds.unwrap_or(if settings.quick { 1 } else { 3 });
    let scratch = scratch()?;
    peer::make_certificate(scratch.path()).await?;
    let split = Split::of_machine();
    // It answers at once, as fast as one processor lets it.
    let (listen, service) = (free_address()?, Duration::ZERO);
    let origin = origin::Settings { listen, service, ..origin::Settings::default() };
    let _running = origin.start(scratch.path(), split.load.as_deref()).await?;
    let entries = entries(&settings);
    let mut peers = Vec::new();
    for entry in &entries {
        let peer = Peer::start(entry, scratch.path(), listen, split.proxy.as_deref()).await;
        peers.push(peer.map_err(|error| format!("{error:#}")));
    }
    print_versions(&entries, &peers);
    let bench = Bench { tools: Tools::find(split.load.as_deref()), split, rounds, seconds };
    let mut results = Vec::new();
    for (number, row) in rows.into_iter().enumerate() {
        // In the first row of all, or of every row where there is time for it: a second in which
        // connections to the origin open and the limit is found.
        if number == 0 || !settings.quick {
            bench.warm_up(&row, &mut peers).await;
        }
        let result = bench.row(row, &mut peers).await;
        println!("{}", result.line(&entries));
        results.push(result);
    }
    println!("\n{}", result::table(&entries, &results, Paint::stdout()));
    let version = |peer: &Result<Peer, String>| {
        peer.as_ref().map_or_else(Clone::clone, |peer| peer.front.version.clone())
    };
    let versions = entries.iter().zip(&peers).map(|(it, peer)| (it.name, version(peer)));
    let versions: BTreeMap<_, _> = versions.collect();
    let document = json!({
        "what": "processor time of the proxy per answered request, in microseconds",
        "versions": versions, "rounds": rounds, "seconds": seconds,
        "processors": { "proxy": bench.split.proxy, "load_and_origin": bench.split.load },
        "rows": result::to_json(&entries, &results),
    });
    let file = settings.out.join(if settings.quick { "quick.json" } else { "full.json" });
    std::fs::create_dir_all(&settings.out)?;
    std::fs::write(&file, format!("{document:#}\n"))
        .with_context(|| format!("cannot write {}", file.display()))?;
    println!("  written to {}", file.display());
    Ok(())
}

/// Which processors belong to whom, in the words of `taskset`; `None`: the machine has only one.
struct Split {
    proxy: Option<String>,
    load: Option<String>,
}

impl Split {
    fn of_machine() -> Self {
        match std::thread::available_parallelism().map_or(1, usize::from) {
            1 => Self { proxy: None, load: None },
            2 => Self { proxy: Some("0".into()), load: Some("1".into()) },
            n => Self { proxy: Some("0".into()), load: Some(format!("1-{}", n - 1)) },
        }
    }
}

struct Bench {
    tools: Tools,
    split: Split,
    rounds: u64,
    seconds: u64,
}

impl Bench {
    async fn warm_up(&self, row: &Row, peers: &mut [Result<Peer, String>]) {
        for peer in peers.iter_mut().flatten() {
            // What fails here fails again when it is measured, and is told there.
            let _ = self.measure(row, peer, 1).await;
        }
    }

    /// All rounds of a row. A proxy that fails in it is left out of the rest of the row.
    async fn row(&self, row: Row, peers: &mut [Result<Peer, String>]) -> RowResult {
        let mut results: Vec<Rounds> = peers
            .iter()
            .map(|peer| peer.as_ref().map(|_| Vec::new()).map_err(Clone::clone))
            .collect();
        for round in 0..self.rounds as usize {
            for turn in 0..peers.len() {
                let place = (round + turn) % peers.len();
                let (Ok(peer), Ok(rounds)) = (&mut peers[place], &mut results[place]) else {
                    continue;
                };
                match self.measure(&row, peer, self.seconds).await {
                    Ok(measurement) => rounds.push(measurement),
                    Err(error) => {
                        let why = peer.front.ended().unwrap_or_else(|| format!("{error:#}"));
                        results[place] = Err(why);
                    }
                }
            }
        }
        RowResult { row, peers: results }
    }

    async fn measure(&self, row: &Row, peer: &Peer, seconds: u64) -> Result<Measurement> {
        let target = if row.tool.tls() { peer.tls } else { peer.plain };
        let ticks = || {
            let of = |list: &Option<String>| Ticks::now(list.as_deref().unwrap_or("0"));
            (of(&self.split.proxy), of(&self.split.load))
        };
        let begun = std::time::Instant::now();
        let (busy_before, used_before) = (ticks(), peer.front.used()?);
        let driven = self.tools.drive(row, target, seconds).await?;
        let (used, busy) = (peer.front.used()?, ticks());
        let (used, took) = ((used - used_before).as_secs_f64(), begun.elapsed().as_secs_f64());
        tool::check(row, &driven)?;
        let proxy_busy = busy.0.busy_since(busy_before.0);
        Ok(Measurement {
            cpu_us: used * 1e6 / driven.answers() as f64,
            per_second: driven.per_second,
            proxy_busy,
            foreign_busy: (proxy_busy - used / took).max(0.0),
            load_busy: busy.1.busy_since(busy_before.1),
        })
    }
}

/// Who takes part, in the order of the result.
fn entries(settings: &Settings) -> Vec<Entry> {
    let entry =
        |name, kind, program: &Option<PathBuf>| Entry { name, kind, program: program.clone() };
    let mut entries = vec![entry("tiergate", Contender::Tiergate, &settings.gateway)];
    if settings.against.is_some() {
        entries.push(entry("other build", Contender::Tiergate, &settings.against));
    }
    entries.push(entry("haproxy", Contender::Haproxy, &settings.haproxy));
    entries.push(entry("nginx", Contender::Nginx, &settings.nginx));
    entries
}

fn print_versions(entries: &[Entry], peers: &[Result<Peer, String>]) {
    let paint = Paint::stdout();
    println!();
    for (entry, peer) in entries.iter().zip(peers) {
        let line = match peer {
            Ok(peer) => format!("{} {}", entry.name, peer.front.version),
            Err(why) => paint.tone(Tone::Bad, &format!("{} is left out: {why}", entry.name)),
        };
        println!("  {line}");
    }
    println!();
}
