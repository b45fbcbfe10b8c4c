//! A run's result as it is written to a file and read again. Latencies in milliseconds, of good
//! answers only, from the moment a request was due.

use super::counts::Counts;
use serde::{Deserialize, Serialize};

/// The whole result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunFigures {
    /// In the order of the plan.
    pub(crate) populations: Vec<PopulationFigures>,
    /// How late requests were sent: what 99 % did not exceed.
    pub(crate) lateness_p99_ms: f64,
    /// The generator's thread: processor time as a part of the run's time.
    pub(crate) cpu: f64,
    /// The same in the busiest five seconds.
    pub(crate) cpu_peak: f64,
    /// Why the figures say nothing about the server; `None`: they do.
    pub(crate) void: Option<String>,
}

/// A population's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PopulationFigures {
    /// As in the plan.
    pub(crate) name: String,
    /// By the step in which requests were due; those of sessions that were due after the last step
    /// count to it.
    pub(crate) steps: Vec<StepFigures>,
    /// All steps together.
    pub(crate) overall: Figures,
    /// By the step in which sessions were due; empty for a population without sessions.
    pub(crate) sessions_by_step: Vec<SessionFigures>,
    /// By second since the beginning, until the last request ended, at most 600.
    pub(crate) series: Vec<Second>,
}

/// One step's part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StepFigures {
    /// Requests (sessions) a second, as in the plan.
    pub(crate) rate: f64,
    /// How long it lasted.
    pub(crate) seconds: f64,
    /// Good answers that came in it, whenever their requests were due.
    pub(crate) answered_in_it: u64,
    /// Bytes of answers that came in it, heads included, whatever became of the answers; 0: the generator does not tell.
    #[serde(default)]
    pub(crate) received_in_it: u64,
    /// The requests that were due in it.
    #[serde(flatten)]
    pub(crate) figures: Figures,
}

/// Numbers and latencies of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// The numbers.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Attempts at them, retries included.
    pub(crate) attempts: u64,
    /// Bytes of the bodies of good answers.
    pub(crate) bytes: u64,
    /// Mean latency.
    pub(crate) mean_ms: Option<f64>,
    /// Latency that a quarter did not exceed.
    pub(crate) p25_ms: Option<f64>,
    /// Median latency.
    pub(crate) p50_ms: Option<f64>,
    /// Latency that three quarters did not exceed.
    pub(crate) p75_ms: Option<f64>,
    /// Latency that 90 % did not exceed.
    pub(crate) p90_ms: Option<f64>,
    /// Latency that 99 % did not exceed.
    pub(crate) p99_ms: Option<f64>,
}

/// Sessions of a step. Durations are those of completed sessions, thinking apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SessionFigures {
    /// That were due to begin.
    pub(crate) begun: u64,
    /// Whose first request ended well; httperf does not tell.
    #[serde(default)]
    pub(crate) started: u64,
    /// All of whose requests ended well.
    pub(crate) completed: u64,
    /// That were completed in it, whenever they were due. What is completed after the last step counts
    /// nowhere: it shows how much was left over, not how much was done.
    pub(crate) completed_in_it: u64,
    /// Mean duration.
    pub(crate) mean_ms: Option<f64>,
    /// Median duration.
    pub(crate) p50_ms: Option<f64>,
    /// Duration that 99 % did not exceed.
    pub(crate) p99_ms: Option<f64>,
}

/// One second of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Second {
    /// Requests that were due in it, and those that ended in it.
    #[serde(flatten)]
    pub(crate) counts: Counts,
    /// Bytes of answers that came in it, heads included.
    #[serde(default)]
    pub(crate) received: u64,
    /// Median latency of those that ended well in it.
    pub(crate) p50_ms: Option<f64>,
    /// Latency that 99 % of those did not exceed.
    pub(crate) p99_ms: Option<f64>,
}
