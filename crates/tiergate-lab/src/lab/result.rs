//! What experiments came to, in the form in which it is kept, compared and shown.
//!
//! A [`Results`] is one JSON document. It holds figures only, none of the programs' own output, and
//! everything that a page needs: no other file has to be there to show it.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Where: the latest sitting.
    pub(crate) machine: Machine,
    /// What each program says its version is: the latest sitting.
    pub(crate) versions: BTreeMap<String, String>,
    /// In the order of the page.
    pub(crate) experiments: Vec<ExperimentResult>,
}

/// The machine that it was measured on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) processor: String,
    /// How many of them.
    pub(crate) processors: usize,
    /// Memory in MiB.
    pub(crate) memory_mib: u64,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// TCP's congestion control; empty: the one that the machine had set, before it was recorded.
    #[serde(default)]
    pub(crate) congestion: String,
    /// How many runs there were at a time.
    #[serde(default)]
    pub(crate) runs_at_a_time: usize,
    /// The day, as 2026-11-21.
    pub(crate) day: String,
}

/// What the runs of an experiment have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sitting {
    /// Where, and on which day.
    pub(crate) machine: Machine,
    /// What each program says its version is.
    pub(crate) versions: BTreeMap<String, String>,
}

/// One experiment with all its contenders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExperimentResult {
    /// The name of its file: what `EXP=` calls it.
    pub(crate) name: String,
    /// Heading.
    pub(crate) title: String,
    /// What was asked and done, for a reader who has not read the papers.
    pub(crate) asks: String,
    /// Sentences that the experiment's author adds to rows, by contender.
    pub(crate) remarks: BTreeMap<String, String>,
    /// Requests a second that the origin can serve.
    pub(crate) capacity: f64,
    /// Where and when, and with which programs, if not with those of [`Results`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sitting: Option<Sitting>,
    /// Its phases, in order.
    pub(crate) phases: Vec<Phase>,
    /// What is measured; the values of a round are in this order.
    pub(crate) measures: Vec<Measure>,
    /// What is drawn; the lines of a round are in this order.
    pub(crate) plots: Vec<Plot>,
    /// Who took part.
    pub(crate) contenders: Vec<ContenderResult>,
    /// One of its phases by a generator that is not ours; `None`: the experiment asks for none, or it was not there.
    #[serde(default)]
    pub(crate) beside: Option<Beside>,
}

/// A phase of an experiment by our generator and by another, each in a run of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Beside {
    /// The other generator with its version, for example `oha 1.16.0`.
    pub(crate) generator: String,
    /// The phase.
    pub(crate) phase: Phase,
    /// What is measured; the values of a run are in this order.
    pub(crate) measures: Vec<Measure>,
    /// A row for each contender that has both runs.
    pub(crate) rows: Vec<BesideRow>,
}

/// One contender by both generators.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct BesideRow {
    /// `none`, `tiergate`, `haproxy`, …
    pub(crate) name: String,
    /// By our generator.
    pub(crate) ours: Round,
    /// By the other.
    pub(crate) other: Round,
}

impl ExperimentResult {
    /// The contender of that name, if it is among them.
    pub(crate) fn contender(&self, name: &str) -> Option<&ContenderResult> {
        self.contenders.iter().find(|contender| contender.name == name)
    }
}

/// A part of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Phase {
    /// What it is called, for example `3x` or `spike`.
    pub(crate) name: String,
    /// How long.
    pub(crate) seconds: f64,
}

/// A figure that is taken from every round.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Measure {
    /// What the table calls it, for example `premium answered`.
    pub(crate) name: String,
    /// What the value is in.
    pub(crate) unit: Unit,
    /// Which values are better.
    pub(crate) better: Better,
    /// Whether being ahead is judged by it; otherwise it is only shown.
    pub(crate) judged: bool,
}

/// What a value is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Unit {
    /// 0.0 to 1.0 (goodput may be a little more), shown in per cent.
    Share,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
    /// Microseconds.
    Us,
    /// Something a second.
    Rate,
    /// Megabits a second.
    Megabits,
    /// A factor.
    Ratio,
}

/// Which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// Large ones.
    Higher,
    /// Small ones.
    Lower,
}

impl Better {
    /// The best of some values.
    pub(crate) fn best(self, values: impl Iterator<Item = f64>) -> Option<f64> {
        match self {
            Self::Higher => values.reduce(f64::max),
            Self::Lower => values.reduce(f64::min),
        }
    }
}

/// A drawing: one line for each contender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plot {
    /// Its caption, for example `premium requests answered`.
    pub(crate) title: String,
    /// What the values are in.
    pub(crate) unit: Unit,
    /// What runs along the horizontal axis.
    pub(crate) along: Along,
}

/// What runs along the horizontal axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Along {
    /// A value for each phase, labelled with its name.
    Phases,
    /// A value for each second; the phases are marked.
    Time,
}

/// How one contender did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContenderResult {
    /// `none`, `tiergate`, `haproxy`, …
    pub(crate) name: String,
    /// What it is, in one line.
    pub(crate) about: String,
    /// Why it did not take part; then there are no rounds.
    pub(crate) left_out: Option<String>,
    /// A setting that was searched for, for example `maxconn 24: the best of 8, 12, 16, 24, 32`.
    pub(crate) setting: Option<String>,
    /// Every round, void ones too.
    pub(crate) rounds: Vec<Round>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Round {
    /// Seed of the sending times.
    pub(crate) seed: u64,
    /// When it began, as `2026-11-26 10:56` (UTC); `None` in results from before this was kept.
    #[serde(default)]
    pub(crate) at: Option<String>,
    /// Why its figures say nothing; `None`: they do.
    pub(crate) void: Option<String>,
    /// By measure; `None`: there was nothing to take it from, for example no answer.
    pub(crate) values: Vec<Option<f64>>,
    /// By plot, then by phase or second.
    pub(crate) lines: Vec<Vec<Option<f64>>>,
    /// Share of one processor that the load generators used.
    pub(crate) generator_cpu: f64,
    /// 99 % of requests were sent no later than this after they were due, in milliseconds.
    pub(crate) lateness_ms: f64,
    /// Processor time of the contender, in seconds.
    pub(crate) front_cpu_s: f64,
}
