//! What an agent answers: the readings of its sensors, as JSON.
//!
//! Moments of the two machines are never compared: a reading says by its number whether it is a new one, and by its age, measured
//! where it was taken, how old it is.

use serde::{Deserialize, Serialize};

/// The readings of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentAnswer {
    /// Which run of the agent this is: drawn at its start.
    pub(crate) agent: String,
    /// Its sensors, in the order of its file.
    pub(crate) readings: Vec<AgentReading>,
}

/// A sensor of an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct AgentReading {
    /// Its name.
    pub(crate) sensor: String,
    /// What it measures, in words.
    #[serde(default)]
    pub(crate) measures: String,
    /// What the number is: `utilization`, `queue_len`, `rate` or `level`.
    pub(crate) quantity: String,
    /// The last reading; `null`: there is none yet.
    pub(crate) value: Option<f64>,
    /// Counts the readings, from 1; 0: there is none yet.
    pub(crate) sequence: u64,
    /// How old the last reading is. Seconds.
    pub(crate) age_seconds: Option<f64>,
    /// How often it is taken. Seconds.
    pub(crate) every_seconds: f64,
    /// Why there is no reading now; absent: there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}
