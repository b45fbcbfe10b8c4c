//! A population of clients, as written on the command line.

use super::schedule::{Arrivals, Step};
use crate::units::parse_duration;
use http::{HeaderName, HeaderValue, Uri};
use std::time::Duration;

/// Clients that behave alike.
#[derive(Clone, Debug)]
pub(crate) struct Population {
    /// What reports call it.
    pub(crate) name: String,
    /// What it asks for.
    pub(crate) path: Uri,
    /// What it adds to each request.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    /// How often it asks, one step after another.
    pub(crate) steps: Vec<Step>,
    /// How its requests are spread.
    pub(crate) arrivals: Arrivals,
    /// How long a client waits for the whole answer before it gives up and closes.
    pub(crate) patience: Duration,
    /// Connections open at once; a request that finds none free waits for one.
    pub(crate) connections_max: usize,
}

/// Steps that a population may have.
const STEPS_MAX: usize = 100;

impl Population {
    /// A population that asks for `path`, with the defaults of the command line.
    pub(crate) fn new(name: &str, path: Uri, steps: Vec<Step>) -> Self {
        Self {
            name: name.into(),
            path,
            headers: Vec::new(),
            steps,
            arrivals: Arrivals::Poisson,
            patience: Duration::from_secs(1),
            connections_max: 1024,
        }
    }

    /// Reads "name=premium,path=/buy,rate=80x10s+400x10s,header=Cookie:a=b,patience=1s,
    /// arrivals=constant,connections=256".
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut population = Self::new("clients", Uri::from_static("/"), Vec::new());
        for item in text.split(',') {
            let (key, value) =
                item.split_once('=').ok_or_else(|| format!("expected key=value, got {item:?}"))?;
            let wrong = |what: &str| format!("{key}: expected {what}, got {value:?}");
            match key {
                "name" => population.name = value.into(),
                "path" => {
                    population.path = value
                        .parse()
                        .ok()
                        .filter(|uri: &Uri| value.starts_with('/') && uri.authority().is_none())
                        .ok_or_else(|| wrong("a path such as /buy"))?;
                }
                "rate" => population.steps = parse_steps(value)?,
                "header" => population.headers.push(parse_header(value)?),
                "patience" => population.patience = parse_duration(value)?,
                "connections" => {
                    population.connections_max = value
                        .parse()
                        .ok()
                        .filter(|n| (1..=60_000).contains(n))
                        .ok_or_else(|| wrong("1 to 60000"))?;
                }
                "arrivals" => {
                    population.arrivals = match value {
                        "poisson" => Arrivals::Poisson,
                        "constant" => Arrivals::Constant,
                        _ => return Err(wrong("poisson or constant")),
                    }
                }
                _ => {
                    return Err(format!(
                        "unknown key {key:?}; known: name, path, rate, header, patience, \
                         connections, arrivals"
                    ));
                }
            }
        }
        if population.steps.is_empty() {
            return Err("rate is missing, for example rate=80x10s".into());
        }
        Ok(population)
    }

    /// From the first intended request to the end of the last step.
    pub(crate) fn lasting(&self) -> Duration {
        self.steps.iter().map(|step| step.lasting).sum()
    }
}

/// Reads "80x10s+400x10s".
fn parse_steps(text: &str) -> Result<Vec<Step>, String> {
    let steps: Result<Vec<Step>, String> = text
        .split('+')
        .map(|step| {
            let wrong = || format!("rate: expected RATExTIME such as 80x10s, got {step:?}");
            let (rate, lasting) = step.split_once('x').ok_or_else(wrong)?;
            let rate: f64 = rate.parse().map_err(|_| wrong())?;
            if !(0.0..=1e6).contains(&rate) {
                return Err(wrong());
            }
            Ok(Step { rate, lasting: parse_duration(lasting)? })
        })
        .collect();
    steps.and_then(|steps| {
        let fits = steps.len() <= STEPS_MAX;
        fits.then_some(steps).ok_or_else(|| format!("rate: at most {STEPS_MAX} steps"))
    })
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let wrong = || format!("header: expected Name:value, got {text:?}");
    let (name, value) = text.split_once(':').ok_or_else(wrong)?;
    let name = name.parse().map_err(|_| wrong())?;
    let value = value.trim().parse().map_err(|_| wrong())?;
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_population_is_read_whole() {
        let population = Population::parse(
            "name=premium,path=/buy?x=1,rate=80x10s+400x500ms,header=Cookie:tier=gold,\
             patience=250ms,arrivals=constant,connections=9",
        )
        .unwrap();
        assert_eq!(population.name, "premium");
        assert_eq!(population.path.path_and_query().unwrap(), "/buy?x=1");
        assert_eq!(population.headers[0].1, "tier=gold");
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
            ("rate=-1x1s", "expected RATExTIME"),
            ("rate=infx1s", "expected RATExTIME"),
            ("rate=1x1s,pth=/", "unknown key \"pth\""),
            ("rate=1x1s,path=buy", "expected a path"),
            ("rate=1x1s,connections=0", "expected 1 to 60000"),
            ("rate=1x1s,header=x", "expected Name:value"),
            ("rate", "expected key=value"),
        ] {
            let error = Population::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
