//! Processes that take all the processor time that they get, beside the gateway.

use super::experiment::Experiment;
use crate::process::{Program, Running};
use anyhow::Result;
use std::path::Path;

/// Starts as many as the experiment has, on those processors; ended when dropped, and by themselves when a run would be given up.
pub(super) fn start(
    experiment: &Experiment,
    scratch: &Path,
    processors: Option<&str>,
) -> Result<Vec<Running>> {
    let lasting = format!("{:.0}", experiment.patience().as_secs_f64());
    let start = |_| {
        Program::new("a process that takes a processor", "timeout")
            .args([&*lasting, "sh", "-c", "while :; do :; done"])
            .processors(processors)
            .start(&scratch.join("hogs"))
    };
    (0..experiment.hogs).map(start).collect()
}
