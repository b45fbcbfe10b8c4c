//! The simulator's command line: scenarios, the comparison of laws, overload of random servers.

use anyhow::{Context, Result};
use clap::Parser;
use std::path::Path;
use std::process::ExitCode;
use tiergate_sim::compare::{Situation, table};
use tiergate_sim::fault::Source;
use tiergate_sim::laws::LawKind;
use tiergate_sim::scenario::{LimitKind, Scenario};
use tiergate_sim::{files, overload, run};

/// Tiergate in virtual time
#[derive(Parser)]
#[command(name = "tiergate-sim")]
struct Options {
    /// Runs this scenario and prints a table
    #[arg(required_unless_present_any = ["laws", "overload"])]
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
    /// With --laws: only the product's law, without the half hour
    #[arg(long)]
    quick: bool,
    /// Overloads random servers so many times
    #[arg(long, value_name = "TIMES")]
    overload: Option<u64>,
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if options.laws {
        compare_laws(options.seeds, options.quick);
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
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let mut scenario = Scenario::parse(&text).with_context(|| format!("cannot use {file}"))?;
    let base = Path::new(file).parent().unwrap_or(Path::new(""));
    files::read_rates(&mut scenario, Source { file, text: &text }, base)?;
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

fn compare_laws(seeds: u64, quick: bool) {
    let mut laws = vec![("adaptive", LimitKind::Adaptive)];
    if !quick {
        laws.extend(LawKind::NAMED.map(|(name, law)| (name, LimitKind::Law(law))));
    }
    print!("{}", table(&laws, &Situation::ALL[..3], seeds));
    if !quick {
        // Half an hour holds as much as many seeds.
        print!("{}", table(&laws, &[Situation::Lasting], seeds.div_ceil(3)));
    }
}
