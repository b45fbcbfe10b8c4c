//! `tiergate-sim SCENARIO.toml [--seed N] [--seeds N] [--trace]`: runs a scenario, prints a table.

use anyhow::{Context, Result, bail};
use std::process::ExitCode;
use tiergate_sim::{run, scenario::Scenario};

const USAGE: &str = "usage: tiergate-sim SCENARIO.toml [--seed N] [--seeds N] [--trace]";

fn main() -> Result<ExitCode> {
    let (mut file, mut seed, mut seeds, mut trace) = (None, None, 1_u64, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64> {
            let text = arguments.next().context(USAGE)?;
            text.parse()
                .with_context(|| format!("`{text}` is no number"))
        };
        match argument.as_str() {
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
    let file = file.context(USAGE)?;
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let scenario = Scenario::parse(&text).with_context(|| format!("cannot use {file}"))?;
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
