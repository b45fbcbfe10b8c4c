//! `tiergate-sim SCENARIO.toml [--seed N] [--seeds N] [--trace]`: runs a scenario, prints a table.
//! `tiergate-sim --laws [--seeds N] [--quick]`: compares the laws of the limit; `--quick` only the
//! product's, without the half hour.
//! `tiergate-sim --overload TIMES [--seed N] [--seeds N]`: overloads random servers so many times.

use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::ExitCode;
use tiergate_sim::compare::{Situation, table};
use tiergate_sim::fault::Source;
use tiergate_sim::laws::LawKind;
use tiergate_sim::scenario::{LimitKind, Scenario};
use tiergate_sim::{files, overload, run};

const USAGE: &str = "usage: tiergate-sim SCENARIO.toml [--seed N] [--seeds N] [--trace]
       tiergate-sim --laws [--seeds N] [--quick]
       tiergate-sim --overload TIMES [--seed N] [--seeds N]";

fn main() -> Result<ExitCode> {
    let (mut file, mut seed, mut seeds, mut trace) = (None, None, 1_u64, false);
    let (mut laws, mut quick, mut overload) = (false, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let text = arguments.next().context(USAGE)?;
            text.parse().with_context(|| format!("`{text}` is no number"))
        };
        match argument.as_str() {
            "--laws" => laws = true,
            "--overload" => overload = Some(number()?),
            "--quick" => quick = true,
            "--seed" => seed = Some(number()?),
            "--seeds" => seeds = number()?,
            "--trace" => trace = true,
            "--help" => {
                println!("{USAGE}");
                return Ok(ExitCode::SUCCESS);
            }
            _ if file.is_none() => file = Some(argument),
            _ => bail!(USAGE),
        }
    }
    if laws {
        compare_laws(seeds, quick);
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(times) = overload {
        let first = seed.unwrap_or(1);
        let limit = LimitKind::Adaptive;
        let (text, _) = overload::table(times as f64, limit, first..first + seeds);
        print!("{text}");
        return Ok(ExitCode::SUCCESS);
    }
    let file = file.context(USAGE)?;
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let mut scenario = Scenario::parse(&text).with_context(|| format!("cannot use {file}"))?;
    let base = Path::new(&file).parent().unwrap_or(Path::new(""));
    files::read_rates(&mut scenario, Source { file: &file, text: &text }, base)?;
    let first = seed.unwrap_or(scenario.seed);
    println!("{}", scenario.about);
    let mut disappointed = 0;
    for seed in first..first + seeds {
        let report = run(&scenario, seed);
        println!("seed {seed}, {} requests", report.requests);
        print!("{}", report.table(&scenario));
        if trace {
            for (second, slots) in &report.slots {
                println!("{second:>10.3} s {slots:>6} slots");
            }
        }
        for line in report.disappointments(&scenario) {
            println!("  not as expected: {line}");
            disappointed += 1;
        }
    }
    Ok(ExitCode::from(u8::from(disappointed > 0)))
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
