//! The papers' files, as they are written.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

/// All of them.
pub(super) struct Papers {
    /// Those with experiments, in the order of the page.
    pub(super) measured: Vec<Paper>,
    /// The rest.
    pub(super) others: Vec<Other>,
}

/// A system that has no experiments yet.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Other {
    /// Its short name.
    pub(super) name: String,
    /// Where it is described.
    pub(super) document: String,
}

/// A system, and what its paper claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Paper {
    /// Its short name.
    pub(super) name: String,
    /// Place on the page.
    order: u32,
    /// Where it is described.
    pub(super) document: String,
    /// How it works, in two or three sentences.
    pub(super) mechanism: String,
    /// Which machines and tools the paper used.
    pub(super) machines: String,
    /// Where it is in Tiergate.
    pub(super) code: Vec<Place>,
    /// Policies that are like it, from the root of the repository.
    pub(super) policies: Vec<Place>,
    /// Experiments that are like the paper's.
    pub(super) experiments: Vec<String>,
    /// Under what conditions was measured.
    #[serde(default, rename = "condition")]
    pub(super) conditions: Vec<Condition>,
    /// What it claims.
    #[serde(rename = "claim")]
    pub(super) claims: Vec<Claim>,
}

/// A file, and what is there.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    /// From the root of the repository.
    pub(super) path: String,
    /// In a few words.
    pub(super) what: String,
}

/// A condition of the measurement: a load, a size, a share.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Condition {
    /// What it is.
    pub(super) what: String,
    /// The paper's.
    pub(super) paper: String,
    /// Ours.
    pub(super) ours: OurCondition,
}

/// Our side of a condition.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OurCondition {
    /// Words, without measured figures.
    Words(String),
    /// What an experiment's file or its results say.
    Of(OfExperiment),
}

/// What an experiment's file or its results say.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OfExperiment {
    /// The name of its file.
    pub(super) experiment: String,
    /// What of it.
    pub(super) of: Of,
}

/// A part of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Of {
    /// The origin's capacity, as measured.
    Capacity,
    /// Names and lengths of the phases.
    Phases,
    /// The rates of all clients, as multiples of the capacity.
    Rates,
}

/// A claim of a paper.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Claim {
    /// Figure, table or section of the paper.
    pub(super) place: String,
    /// What is claimed.
    pub(super) says: String,
    /// The paper's value, with its load.
    pub(super) paper: String,
    /// The value was read off a plot.
    #[serde(default)]
    pub(super) plot: bool,
    /// Our value, which is judged; none: not measured.
    pub(super) ours: Option<Value>,
    /// Our other values, which are shown.
    #[serde(default)]
    pub(super) beside: Vec<Value>,
    /// Within it, the claim is reproduced.
    #[serde(default)]
    pub(super) reproduced: Bounds,
    /// Within it, the claim is reproduced in direction.
    #[serde(default)]
    pub(super) direction: Bounds,
    /// What has to be known about it.
    pub(super) note: Option<String>,
}

/// Bounds of a value; both ends belong to it. Without any, nothing is within it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bounds {
    pub(super) at_least: Option<f64>,
    pub(super) at_most: Option<f64>,
}

/// Where a value of ours is to be found.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Value {
    /// What it is, if the claim does not say so.
    pub(super) label: Option<String>,
    /// Where it is.
    pub(super) of: Source,
    /// It is compared with this one, which takes from `of` what it does not name itself.
    pub(super) over: Option<Source>,
    /// How it is shown and judged.
    #[serde(default)]
    pub(super) shown: Shown,
}

/// A measure of a contender in an experiment, or the phases of a plot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// The name of its file.
    pub(super) experiment: Option<String>,
    /// `tiergate` unless it says otherwise.
    pub(super) contender: Option<String>,
    /// Which measure.
    pub(super) measure: Option<String>,
    /// Which plot, if it is no measure.
    pub(super) plot: Option<String>,
    /// Which phases of the plot.
    #[serde(default)]
    pub(super) phases: Vec<String>,
}

/// How a value is shown and judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shown {
    /// As it is; a share is judged as 0 to 1.
    #[default]
    Value,
    /// As a multiple of the other.
    Multiple,
    /// As the change from the other: −0.5 is half of it.
    Change,
}

impl Papers {
    /// Reads all files of a directory; `others.toml` has the systems without experiments.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let (mut measured, mut others) = (Vec::new(), Vec::new());
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("no papers in {}", directory.display()))?;
        for entry in entries {
            let file = entry?.path();
            let text = std::fs::read_to_string(&file)?;
            let wrong = || file.display().to_string();
            if file.file_name().is_some_and(|name| name == "others.toml") {
                others = toml::from_str::<Others>(&text).with_context(wrong)?.system;
            } else {
                measured.push(toml::from_str::<Paper>(&text).with_context(wrong)?);
            }
        }
        measured.sort_by_key(|paper| paper.order);
        Ok(Self { measured, others })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Others {
    system: Vec<Other>,
}

impl Paper {
    /// The anchor of its section.
    pub(super) fn anchor(&self) -> String {
        self.name.to_lowercase().replace(' ', "-")
    }
}

impl Bounds {
    /// Whether a value is within them.
    pub(super) fn hold(&self, value: f64) -> bool {
        let some = self.at_least.or(self.at_most).is_some();
        let least = self.at_least.is_none_or(|least| value >= least);
        some && least && self.at_most.is_none_or(|most| value <= most)
    }
}

impl Source {
    /// What it names, and for the rest what the other names.
    pub(super) fn or(&self, other: &Self) -> Self {
        let either = |own: &Option<String>, other: &Option<String>| own.clone().or(other.clone());
        let named = self.measure.is_some() || self.plot.is_some();
        Self {
            experiment: either(&self.experiment, &other.experiment),
            contender: either(&self.contender, &other.contender),
            measure: if named { self.measure.clone() } else { other.measure.clone() },
            plot: if named { self.plot.clone() } else { other.plot.clone() },
            phases: if self.phases.is_empty() { &other.phases } else { &self.phases }.clone(),
        }
    }

    /// The contender's name.
    pub(super) fn contender(&self) -> &str {
        self.contender.as_deref().unwrap_or("tiergate")
    }
}
