//! A line on a terminal while the load rises.

use super::report::{milliseconds, shares};
use super::values;
use crate::calibrate::target::Target;
use std::time::Duration;
use tiergate_core::calibrate::{Ramp, Settings, Step, Usage};
use tiergate_draw::number::figure;
use tiergate_draw::{Block, spark};

/// What is under way; taken away when dropped.
pub(super) struct Progress(Block);

impl Progress {
    pub(super) fn new() -> Self {
        Progress(Block::stderr())
    }

    pub(super) fn draw(
        &mut self,
        target: &Target,
        ramp: &Ramp,
        usage: &Usage,
        settings: &Settings,
    ) {
        if !self.0.is_terminal() {
            return;
        }
        let step = ramp.step();
        let rates = || ramp.steps().iter().chain([step]).map(Step::rate);
        let most = rates().fold(1e-9, f64::max);
        let now = match step.time {
            Duration::ZERO => "settling".to_owned(),
            _ => {
                let median = step.latency(0.5).map(milliseconds).unwrap_or_default();
                format!("{}/s, median {median}", figure(step.rate()))
            }
        };
        let busy: Vec<String> =
            shares(usage).into_iter().map(|(name, share)| format!("{name} {share}")).collect();
        self.0.draw(&format!(
            "  {target}  {} at once: {now}\n  {}  {}\n  {} of at most {}",
            step.concurrency,
            spark(rates(), most),
            busy.join(", "),
            values::words(ramp.elapsed()),
            values::words(settings.time_max),
        ));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
