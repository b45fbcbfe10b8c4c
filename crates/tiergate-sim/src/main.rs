//! The simulator's command line: scenarios, the comparison of laws, overload of random servers.

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tiergate_draw::{Block, bar};
use tiergate_sim::compare::{Situation, table};
use tiergate_sim::drawn::{self, Contender, Family};
use tiergate_sim::fault::Source;
use tiergate_sim::laws::LawKind;
use tiergate_sim::scenario::{LimitKind, Scenario};
use tiergate_sim::{files, hard, overload, run};

/// Tiergate in virtual time
#[derive(Parser)]
#[command(name = "tiergate-sim")]
struct Options {
    /// Runs this scenario and prints a table
    #[arg(required_unless_present_any = ["laws", "overload", "hard", "drawn"])]
    scenario: Option<String>,
    /// The first seed [default: the scenario's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Compares laws with the best fixed limits of scenarios that are drawn at random, one for each seed
    #[arg(long, value_name = "FAMILY")]
    drawn: Option<FamilyName>,
    /// With --drawn: prints the scenario of the first seed as TOML instead, with the best fixed limit
    #[arg(long, requires = "drawn")]
    toml: bool,
    /// With --drawn: how many of the worst scenarios are listed
    #[arg(long, default_value_t = 6, requires = "drawn")]
    worst: usize,
    /// Prints every change of the limit
    #[arg(long)]
    trace: bool,
    /// Compares the laws of the limit
    #[arg(long)]
    laws: bool,
    /// Only the product's law if no other is named; with --laws also without the half hour
    #[arg(long)]
    quick: bool,
    /// Compares laws with the right number of slots in these scenarios, which say what that is
    #[arg(long, value_name = "SCENARIO", num_args = 1..)]
    hard: Vec<String>,
    /// A law to be compared: adaptive, shared (the product's for one gateway and for several) or another; with --drawn
    /// also tiergate, which is the one of the two that fits [default: with --laws and --drawn all, with --hard adaptive]
    #[arg(long)]
    law: Vec<String>,
    /// Overloads random servers so many times
    #[arg(long, value_name = "TIMES")]
    overload: Option<u64>,
}

/// A family of drawn scenarios.
#[derive(Clone, Copy, ValueEnum)]
enum FamilyName {
    /// To tune laws on
    Open,
    /// To judge laws on
    HeldOut,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if options.laws {
        compare_laws(&options)?;
    } else if let Some(family) = options.drawn {
        judge_drawn(family, &options)?;
    } else if !options.hard.is_empty() {
        for file in &options.hard {
            let scenario = read(file)?;
            let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
            let first = options.seed.unwrap_or(scenario.seed);
            let seeds = first..first + options.seeds;
            print!("{}", hard::table(&name, &scenario, &laws(&options.law, false)?, seeds));
        }
    } else if let Some(times) = options.overload {
        let first = options.seed.unwrap_or(1);
        let seeds = first..first + options.seeds;
        print!("{}", overload::table(times as f64, LimitKind::Adaptive, seeds).0);
    } else if let Some(file) = &options.scenario {
        return run_scenario(file, &options);
    }
    Ok(ExitCode::SUCCESS)
}

fn run_scenario(file: &str, options: &Options) -> Result<ExitCode> {
    let scenario = read(file)?;
    let (classes, first) = (scenario.class_names(), options.seed.unwrap_or(scenario.seed));
    println!("{}", scenario.about);
    let mut met = true;
    for seed in first..first + options.seeds {
        let report = run(&scenario, seed);
        println!("seed {seed}, {} requests", report.requests);
        print!("{}", report.table(&classes));
        for (second, slots) in report.slots.iter().filter(|_| options.trace) {
            println!("{second:>10.3} s {slots:>6} slots");
        }
        for line in report.unmet(&classes, &scenario.expect) {
            println!("  not as expected: {line}");
            met = false;
        }
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(file: &str) -> Result<Scenario> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let mut scenario = Scenario::parse(&text).with_context(|| format!("cannot use {file}"))?;
    let base = Path::new(file).parent().unwrap_or(Path::new(""));
    files::read_rates(&mut scenario, Source { file, text: &text }, base)?;
    Ok(scenario)
}

/// The laws that are named, or, where none is, the product's and perhaps all others.
fn laws(names: &[String], all: bool) -> Result<Vec<(&'static str, LimitKind)>> {
    let others = LawKind::NAMED.map(|(name, law)| (name, LimitKind::Law(law)));
    let own = [("adaptive", LimitKind::Adaptive), ("shared", LimitKind::Shared)];
    let known: Vec<_> = own.into_iter().chain(others).collect();
    if names.is_empty() {
        return Ok(known[..if all { known.len() } else { 1 }].to_vec());
    }
    let find = |name: &String| {
        let law = known.iter().find(|(known, _)| known == name).copied();
        law.with_context(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!("no law is called {name}; there are {}", names.join(", "))
        })
    };
    names.iter().map(find).collect()
}

fn compare_laws(options: &Options) -> Result<()> {
    let laws = laws(&options.law, !options.quick)?;
    let first = options.seed.unwrap_or(1);
    print!("{}", table(&laws, &Situation::ALL[..3], first..first + options.seeds));
    if !options.quick {
        // Half an hour holds as much as many seeds.
        print!("{}", table(&laws, &[Situation::Lasting], first..first + options.seeds.div_ceil(3)));
    }
    Ok(())
}

/// Shorter runs show no progress.
const PATIENCE: Duration = Duration::from_secs(2);

fn judge_drawn(family: FamilyName, options: &Options) -> Result<()> {
    let family = match family {
        FamilyName::Open => Family::Open,
        FamilyName::HeldOut => Family::HeldOut,
    };
    let first = options.seed.unwrap_or(1);
    if options.toml {
        let drawn = drawn::draw(family, first);
        let best = drawn::best(&drawn);
        println!("# The best fixed limits, from change to change of the server: {:?}", best.slots);
        print!("{}", drawn::toml(&drawn, best.slots.last().copied()));
        return Ok(());
    }
    let laws = contenders(options)?;
    let (names, laws): (Vec<&str>, Vec<Contender>) = laws.into_iter().unzip();
    let (began, block) = (Instant::now(), Mutex::new(Block::stderr()));
    let judged = drawn::judge(family, first..first + options.seeds, &laws, &|done| {
        if began.elapsed() > PATIENCE {
            let share = done as f64 / options.seeds as f64;
            let text = format!("  {} {done} of {} scenarios", bar(share, 40), options.seeds);
            block.lock().expect("drawing does not panic").draw(&text);
        }
    });
    block.lock().expect("drawing does not panic").clear();
    print!("{}", drawn::table::laws(&judged, &names));
    if options.seeds >= 20 {
        print!(
            "\n{}: what the scenarios are made of\n{}",
            names[0],
            drawn::table::parts(&judged, 0)
        );
    }
    print!("\n{}\n{}", names[0], drawn::table::worst(&judged, 0, options.worst));
    Ok(())
}

/// The laws that drawn scenarios compare: the product as its docs say comes first.
fn contenders(options: &Options) -> Result<Vec<(&'static str, Contender)>> {
    let documented = ("tiergate", Contender::Documented);
    let is_documented = |name: &String| name == documented.0;
    if options.law.is_empty() && options.quick {
        return Ok(vec![documented]);
    }
    let own = options.law.is_empty() || options.law.iter().any(is_documented);
    let named: Vec<String> =
        options.law.iter().filter(|name| !is_documented(name)).cloned().collect();
    let others = match options.law.is_empty() || !named.is_empty() {
        true => laws(&named, true)?,
        false => vec![],
    };
    let others = others.into_iter().map(|(name, limit)| (name, Contender::Of(limit)));
    Ok(own.then_some(documented).into_iter().chain(others).collect())
}
