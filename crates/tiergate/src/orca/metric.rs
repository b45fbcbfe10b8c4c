//! Which number of a report is meant.

use std::fmt;

/// A metric of a report, by its name as in the text form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// `cpu_utilization`.
    Cpu,
    /// `mem_utilization`.
    Memory,
    /// `application_utilization`.
    Application,
    /// `rps_fractional`: requests a second.
    Requests,
    /// `eps`: errors a second.
    Errors,
    /// `utilization.NAME`.
    Utilization(String),
    /// `named_metrics.NAME`.
    Named(String),
}

/// Prefixes of the metrics whose names are the application's.
const UTILIZATION: &str = "utilization.";
const NAMED: &str = "named_metrics.";

impl Metric {
    /// The metric of that name; `None`: reports have none.
    pub fn called(name: &str) -> Option<Self> {
        let own = |prefix| name.strip_prefix(prefix).filter(|own| !own.is_empty());
        Some(match name {
            "cpu_utilization" => Metric::Cpu,
            "mem_utilization" => Metric::Memory,
            "application_utilization" => Metric::Application,
            "rps_fractional" => Metric::Requests,
            "eps" => Metric::Errors,
            _ => match (own(UTILIZATION), own(NAMED)) {
                (Some(own), _) => Metric::Utilization(own.to_owned()),
                (_, Some(own)) => Metric::Named(own.to_owned()),
                _ => return None,
            },
        })
    }

    /// Whether it has this name in the text form. Does not allocate.
    pub(super) fn is_called(&self, name: &[u8]) -> bool {
        match self {
            Metric::Utilization(own) => {
                name.strip_prefix(UTILIZATION.as_bytes()) == Some(own.as_bytes())
            }
            Metric::Named(own) => name.strip_prefix(NAMED.as_bytes()) == Some(own.as_bytes()),
            known => name == known.field().0.as_bytes(),
        }
    }

    /// The field of the message: its names in JSON, as the message has it and as JSON usually does, and its number.
    pub(super) const fn field(&self) -> (&'static str, &'static str, u64) {
        match self {
            Metric::Cpu => ("cpu_utilization", "cpuUtilization", 1),
            Metric::Memory => ("mem_utilization", "memUtilization", 2),
            Metric::Utilization(_) => ("utilization", "utilization", 5),
            Metric::Requests => ("rps_fractional", "rpsFractional", 6),
            Metric::Errors => ("eps", "eps", 7),
            Metric::Named(_) => ("named_metrics", "namedMetrics", 8),
            Metric::Application => ("application_utilization", "applicationUtilization", 9),
        }
    }

    /// Its key in the field, if that is a map.
    pub(super) fn key(&self) -> Option<&str> {
        match self {
            Metric::Utilization(own) | Metric::Named(own) => Some(own),
            _ => None,
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Utilization(own) => write!(f, "{UTILIZATION}{own}"),
            Metric::Named(own) => write!(f, "{NAMED}{own}"),
            known => f.write_str(known.field().0),
        }
    }
}
