//! The simulator's command line: scenarios, the comparison of laws, overload of random servers.

use anyhow::{Context, Result};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;
use tiergate_sim::compare::{Situation, table};
use tiergate_sim::fault::Source;
use tiergate_sim::laws::LawKind;
use tiergate_sim::scenario::{LimitKind, Scenario};
use tiergate_sim::{files, hard, overload, run};

/// Tiergate in virtual time
#[derive(Parser)]
#[command(name = "tiergate-sim")]
struct Options {
    /// Runs this scenario and prints a table
    #[arg(required_unless_present_any = ["laws", "overload", "hard"])]
    scenario: Option<String>,
    /// The first seed [default: the scenario's, or 1]
    #[arg(long)]
    seed: Option<u64>,
    /// How many seeds, one after another
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Prints every change of the limit
    #[arg(long)]
    trace: bool,
    /// Compares the laws of the limit
    #[arg(long)]
    laws: bool,
    /// With --laws: without the half hour, and only the product's law if no other is named
    #[arg(long)]
    quick: bool,
    /// Compares laws with the right number of slots in these scenarios, which say what that is
    #[arg(long, value_name = "SCENARIO", num_args = 1..)]
    hard: Vec<String>,
    /// A law to be compared: adaptive, shared (the product's for one gateway and for several) or another [default: with
    /// --laws all, with --hard adaptive]
    #[arg(long)]
    law: Vec<String>,
    /// Overloads random servers so many times
    #[arg(long, value_name = "TIMES")]
    overload: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if options.laws {
        compare_laws(&options)?;
    } else if !options.hard.is_empty() {
        for file in &options.hard {
            let scenario = read(file)?;
            let name = Path::new(file).file_stem().unwrap_or_default().to_string_lossy();
            let first = options.seed.unwrap_or(scenario.seed);
            let seeds = first..first + options.seeds;
            print!("{}", hard::table(&name, &scenario, &laws(&options, false)?, seeds));
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
fn laws(options: &Options, all: bool) -> Result<Vec<(&'static str, LimitKind)>> {
    let others = LawKind::NAMED.map(|(name, law)| (name, LimitKind::Law(law)));
    let own = [("adaptive", LimitKind::Adaptive), ("shared", LimitKind::Shared)];
    let known: Vec<_> = own.into_iter().chain(others).collect();
    if options.law.is_empty() {
        return Ok(known[..if all { known.len() } else { 1 }].to_vec());
    }
    let find = |name: &String| {
        let law = known.iter().find(|(known, _)| known == name).copied();
        law.with_context(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!("no law is called {name}; there are {}", names.join(", "))
        })
    };
    options.law.iter().map(find).collect()
}

fn compare_laws(options: &Options) -> Result<()> {
    let laws = laws(options, !options.quick)?;
    let first = options.seed.unwrap_or(1);
    print!("{}", table(&laws, &Situation::ALL[..3], first..first + options.seeds));
    if !options.quick {
        // Half an hour holds as much as many seeds.
        print!("{}", table(&laws, &[Situation::Lasting], first..first + options.seeds.div_ceil(3)));
    }
    Ok(())
}
