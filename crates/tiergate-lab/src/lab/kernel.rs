//! What Tiergate had the kernel refuse, as its metrics have it at the end of a run.

use super::experiment::Experiment;
use super::measure::Taken;
use super::network::Network;
use crate::contender::Contender;
use crate::process::{Program, output};
use anyhow::Result;
use std::time::Duration;

/// How long the gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Dropped SYNs, and first requests; for want of a token.
const COUNTERS: [&str; 2] =
    ["tiergate_kernel_syns_dropped_total", "tiergate_kernel_requests_refused_total"];

/// How many SYNs and first requests there were until about now: Tiergate looks once a second. `None`: it is not Tiergate, or no measure asks for it.
pub(super) async fn refused(
    experiment: &Experiment,
    network: &Network,
    contender: Contender,
) -> Result<Option<u64>> {
    if !contender.is_ours() || !experiment.measure.iter().any(Taken::is_of_the_kernel) {
        return Ok(None);
    }
    let page = format!("http://{}/metrics", Network::ADMIN);
    let program = Program::new("the metrics", "curl").namespace(Some(&network.gateway));
    let page = output(program.args(["-sSf", &page]), PATIENCE).await?;
    Ok(Some(sum(&page)))
}

/// Of all policers and classes; 0 where nothing is said of the kernel.
fn sum(page: &str) -> u64 {
    let value = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let name = series.split('{').next()?;
        COUNTERS.contains(&name).then(|| value.parse::<u64>().ok())?
    };
    page.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syns_and_requests_are_added_up() {
        let page = "# HELP tiergate_kernel_syns_dropped_total SYNs\n\
                    # TYPE tiergate_kernel_syns_dropped_total counter\n\
                    tiergate_kernel_syns_dropped_total{policer=\"a\",class=\"\"} 30\n\
                    tiergate_kernel_syns_dropped_total{policer=\"a\",class=\"x\"} 4\n\
                    tiergate_kernel_syns_passed_total{policer=\"a\",class=\"\"} 500\n\
                    tiergate_kernel_requests_refused_total{policer=\"b c\"} 6\n";
        assert_eq!(sum(page), 40);
        assert_eq!(sum("tiergate_slots 7\n"), 0);
    }
}
