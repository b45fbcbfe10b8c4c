//! What an experiment promises, as its file says it.

use crate::contender::{Contender, Off};
use anyhow::{Result, ensure};
use serde::Deserialize;

/// A figure that must not be lost; asserted by `--check`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Promise {
    /// A measure's name.
    pub(super) measure: String,
    /// Tiergate's value is at least this.
    pub(super) at_least: Option<f64>,
    /// Tiergate's value is at most this.
    pub(super) at_most: Option<f64>,
    /// Tiergate's value is at least `times` that of this contender, or at most `at_most_times`.
    pub(super) of: Option<Contender>,
    /// See `of`.
    pub(super) times: Option<f64>,
    /// See `of`.
    pub(super) at_most_times: Option<f64>,
    /// Its own feature, if the experiment's is not the one that it is about.
    pub(super) off: Option<Off>,
    /// It bounds what a feature costs: without the feature it holds, too.
    #[serde(default)]
    pub(super) cost: bool,
}

impl Promise {
    /// Whether it can be judged; `known`: its measure is one of the experiment's.
    pub(super) fn check(&self, known: bool) -> Result<()> {
        ensure!(known, "promise: no measure {:?}", self.measure);
        let compares = self.times.or(self.at_most_times).is_some();
        ensure!(
            self.of.is_some() == compares,
            "promise {:?}: `of` needs `times` or `at_most_times`, and these need `of`",
            self.measure
        );
        Ok(())
    }
}
