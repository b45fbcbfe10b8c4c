//! Sensors of other machines: what servers report with their answers (`measure = "orca"`), and what an agent reads (`measure = "agent"`).

use super::kind::{Choice, Text};
use super::place::Place;
use super::pool::Pools;
use crate::orca::Metric;
use crate::secrets::{BearerToken, NamedFile};
use http::uri::Authority;
use serde_json::json;
use tiergate_core::names::PoolId;
use tiergate_core::sense::Quantity;

/// What the number of a reading is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A share of 0 to 1.
    Utilization,
    /// How many wait.
    QueueLen,
    /// Something a second.
    Rate,
    /// Any other number.
    Level,
}

pub(super) const UNIT: Choice<Unit> = Choice(&[
    ("utilization", Unit::Utilization),
    ("queue_len", Unit::QueueLen),
    ("rate", Unit::Rate),
    ("level", Unit::Level),
]);

impl Unit {
    /// The same in the core, of this number; `None`: it is no length of a queue. Lengths are rounded.
    pub fn quantity(self, number: f64) -> Option<Quantity> {
        Some(match self {
            Unit::Utilization => Quantity::Utilization(number),
            Unit::Rate => Quantity::Rate(number),
            Unit::Level => Quantity::Level(number),
            Unit::QueueLen => {
                let is_length = (0.0..=f64::from(u32::MAX)).contains(&number);
                Quantity::QueueLen(is_length.then_some(number.round() as u32)?)
            }
        })
    }

    /// As the policy, status and metrics have it.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Utilization => "utilization",
            Unit::QueueLen => "queue_len",
            Unit::Rate => "rate",
            Unit::Level => "level",
        }
    }
}

/// A metric of a report.
pub(super) const METRIC: Text<Metric> = Text {
    expected: "a metric such as \"application_utilization\" or \"named_metrics.queue\"",
    schema: || json!({ "examples": ["application_utilization", "cpu_utilization", "mem_utilization", "named_metrics.queue"] }),
    parse: |text| Metric::called(text).ok_or(None),
};

/// Where an agent listens: `http://HOST:PORT`, of which the host and port are kept.
pub(super) const AGENT: Text<String> = Text {
    expected: "an address such as \"http://10.0.0.5:9180\"",
    schema: || json!({ "pattern": "^http://.+:[0-9]{1,5}/?$", "examples": ["http://10.0.0.5:9180"] }),
    parse: |text| {
        let authority = text.strip_prefix("http://").ok_or(None)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let parsed: Authority = authority.parse().map_err(|_| None)?;
        let is_whole = parsed.port_u16().is_some_and(|port| port > 0) && !parsed.host().is_empty();
        (is_whole && !authority.contains('@')).then(|| authority.to_owned()).ok_or(None)
    },
};

/// A sensor that reads what the servers of a pool report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrcaSensor {
    /// Which number of their reports.
    pub metric: Metric,
    /// Their pool.
    pub pool: PoolId,
    /// Its name.
    pub pool_name: String,
    /// What the number is.
    pub unit: Unit,
}

/// A sensor that asks an agent.
#[derive(Clone, Debug)]
pub struct AgentSensor {
    /// Host and port of the agent.
    pub address: String,
    /// The name of the sensor there; `None`: the same as here.
    pub reading: Option<String>,
    /// What its number is.
    pub unit: Unit,
    /// The file of the token.
    pub token_file: Option<NamedFile>,
    /// What is in it, read by [`super::load`].
    pub token: Option<BearerToken>,
}

/// By what is asked and how: not by where in the policy it stands, so that a reload that moves it changes nothing.
impl PartialEq for AgentSensor {
    fn eq(&self, other: &Self) -> bool {
        let parts = |it: &Self| (it.address.clone(), it.reading.clone(), it.unit, it.token.clone());
        parts(self) == parts(other)
    }
}

impl Eq for AgentSensor {}

impl AgentSensor {
    /// The sensor of an agent there; reports a missing address.
    pub(super) fn of(
        address: Option<String>,
        reading: Option<String>,
        quantity: Option<Unit>,
        token_file: Option<NamedFile>,
        place: &Place,
    ) -> Option<Self> {
        if address.is_none() && !place.has("agent") {
            place.missing("agent", "write agent = \"http://10.0.0.5:9180\"");
        }
        let unit = quantity.unwrap_or(Unit::Utilization);
        Some(AgentSensor { address: address?, reading, unit, token_file, token: None })
    }

    /// What it reads, in words.
    pub(super) fn words(&self) -> String {
        let token = if self.token_file.is_some() { ", with a token" } else { "" };
        match &self.reading {
            Some(reading) => format!("sensor {reading} of agent http://{}{token}", self.address),
            None => format!("the sensor of this name of agent http://{}{token}", self.address),
        }
    }
}

impl OrcaSensor {
    /// The sensor of what a pool's servers report; reports what is missing, does not exist, or contradicts itself.
    pub(super) fn of(
        metric: Option<Metric>,
        pool: Option<String>,
        quantity: Option<Unit>,
        pools: &Pools,
        place: &Place,
    ) -> Option<Self> {
        if metric.is_none() && !place.has("metric") {
            place.missing("metric", "write metric = \"application_utilization\" or another one");
        }
        let pool_name = pool.unwrap_or_else(|| PoolId::DEFAULT_NAME.to_owned());
        let pool = pools.named(&pool_name, &place.key("pool"));
        let metric = metric?;
        let known = match metric {
            Metric::Named(_) => None,
            Metric::Requests | Metric::Errors => Some(Unit::Rate),
            _ => Some(Unit::Utilization),
        };
        if let Some((known, asked)) = known.zip(quantity)
            && known != asked
        {
            let fault = format!("{metric} is a {}; leave quantity out", known.name());
            place.fault_at("quantity", fault);
        }
        let unit = known.or(quantity).unwrap_or(Unit::Utilization);
        Some(OrcaSensor { metric, pool: pool?, pool_name, unit })
    }

    /// What it reads, in words.
    pub(super) fn words(&self) -> String {
        let Self { metric, pool_name, .. } = self;
        match self.pool {
            PoolId::DEFAULT => format!("{metric} as the origin's servers report it"),
            _ => format!("{metric} as the servers of pool {pool_name} report it"),
        }
    }
}
