//! A population as written on the command line.

use super::population::{CONNECTIONS_MAX, Population};
use super::schedule::{Arrivals, Step};
use crate::units::parse_duration;
use clap::ValueEnum;

/// What can be written of a population.
const KEYS: &str = "name, path, rate, header, patience, connections, arrivals";

impl Population {
    /// Reads "name=premium,path=/buy,rate=80x10s+400x10s,header=Cookie:a=b,patience=1s,
    /// arrivals=constant,connections=256".
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut population = Self::default();
        for item in text.split(',') {
            let (key, value) =
                item.split_once('=').ok_or_else(|| format!("expected key=value, got {item:?}"))?;
            let wrong = |what: &str| format!("{key}: expected {what}, got {value:?}");
            match key {
                "name" => population.name = value.into(),
                "path" => population.paths = vec![value.into()],
                "rate" => population.steps = parse_steps(value)?,
                "header" => population.headers.push(parse_header(value)?),
                "patience" => population.patience = parse_duration(value)?,
                "connections" => {
                    let number = value.parse().ok().filter(|n| (1..=CONNECTIONS_MAX).contains(n));
                    population.connections_max = number.ok_or_else(|| wrong("1 to 60000"))?;
                }
                "arrivals" => {
                    let arrivals = Arrivals::from_str(value, false);
                    population.arrivals = arrivals.map_err(|_| wrong("poisson or constant"))?;
                }
                _ => return Err(format!("unknown key {key:?}; known: {KEYS}")),
            }
        }
        if population.steps.is_empty() {
            return Err("rate is missing, for example rate=80x10s".into());
        }
        population.check()?;
        Ok(population)
    }
}

/// Reads "80x10s+400x10s".
fn parse_steps(text: &str) -> Result<Vec<Step>, String> {
    let parse = |step: &str| {
        let wrong = || format!("rate: expected RATExTIME such as 80x10s, got {step:?}");
        let (rate, lasting) = step.split_once('x').ok_or_else(wrong)?;
        let rate: f64 = rate.parse().map_err(|_| wrong())?;
        Ok(Step { rate, lasting: parse_duration(lasting)? })
    };
    text.split('+').map(parse).collect()
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) =
        text.split_once(':').ok_or_else(|| format!("header: expected Name:value, got {text:?}"))?;
    Ok((name.into(), value.trim().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_population_is_read_whole() {
        let population = Population::parse(
            "name=premium,path=/buy?x=1,rate=80x10s+400x500ms,header=Cookie:tier=gold,\
             patience=250ms,arrivals=constant,connections=9",
        )
        .unwrap();
        assert_eq!(population.name, "premium");
        assert_eq!(population.paths, ["/buy?x=1"]);
        assert_eq!(population.headers, [("Cookie".into(), "tier=gold".into())]);
        assert_eq!(population.steps[1].rate, 400.0);
        assert_eq!(population.lasting(), Duration::from_millis(10_500));
        assert_eq!(population.patience, Duration::from_millis(250));
        assert_eq!(population.arrivals, Arrivals::Constant);
        assert_eq!(population.connections_max, 9);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, expected) in [
            ("name=a", "rate is missing"),
            ("rate=80", "expected RATExTIME"),
            ("rate=-1x1s", "from 0 to 1000000"),
            ("rate=infx1s", "from 0 to 1000000"),
            ("rate=1x1s,pth=/", "unknown key \"pth\""),
            ("rate=1x1s,path=buy", "expected a path"),
            ("rate=1x1s,connections=0", "expected 1 to 60000"),
            ("rate=1x1s,header=x", "expected Name:value"),
            ("rate=1x1s,header=a b:x", "expected a name and a value"),
            ("rate", "expected key=value"),
        ] {
            let error = Population::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
