//! A link that changes from phase to phase, as an experiment's file says it.

use super::experiment::Experiment;
use super::network::{ClientsLink, Network};
use super::result::Phase;
use anyhow::Result;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

/// Changes under way; dropped, they end.
pub(super) struct Changes(JoinHandle<Result<()>>);

impl Changes {
    /// Starts them; the first phase begins when this returns.
    pub(super) fn start(experiment: &Experiment, network: &Network) -> Self {
        let link = network.clients_link(&experiment.link);
        let steps = steps(&experiment.phases, &experiment.link.changes);
        Self(tokio::spawn(change(link, Instant::now(), steps)))
    }

    /// After the last phase.
    ///
    /// # Errors
    /// The link could not be changed.
    pub(super) async fn end(mut self) -> Result<()> {
        (&mut self.0).await?
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn change(link: ClientsLink, begun: Instant, steps: Vec<(Duration, String)>) -> Result<()> {
    for (after, rate) in steps {
        sleep_until(begun + after).await;
        let link = link.clone();
        spawn_blocking(move || link.change(&rate)).await??;
    }
    Ok(())
}

/// When the link gets which rate; it has that of the first phase already.
fn steps(phases: &[Phase], rates: &[String]) -> Vec<(Duration, String)> {
    let begins = phases.iter().scan(0.0, |end, phase| {
        let begin = *end;
        *end += phase.seconds;
        Some(Duration::from_secs_f64(begin))
    });
    let pairs = rates.iter().zip(rates.iter().skip(1));
    let changes = begins.skip(1).zip(pairs).filter(|(_, (former, rate))| former != rate);
    changes.map(|(at, (_, rate))| (at, rate.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_changes_where_a_phase_has_another_rate() {
        let phases = [2.0, 10.0, 1.5, 4.0].map(|seconds| Phase { name: String::new(), seconds });
        let rates = ["40mbit", "40mbit", "10mbit", "40mbit"].map(String::from);
        let at = |seconds, rate: &str| (Duration::from_secs_f64(seconds), rate.to_owned());
        assert_eq!(steps(&phases, &rates), [at(12.0, "10mbit"), at(13.5, "40mbit")]);
        assert_eq!(steps(&phases, &[]), []);
    }
}
