//! Our own generator, as a program on the clients' machine; and one more for each population that is not to wait behind the others.

use super::machine::Split;
use super::network::Network;
use crate::load::Plan;
use crate::load::figures::RunFigures;
use crate::process::{Program, output};
use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use std::path::Path;
use std::time::Duration;

/// Where it runs.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    /// A directory for its files.
    pub(super) scratch: &'a Path,
    /// The clients' machine.
    pub(super) network: &'a Network,
    /// The processors that it may use.
    pub(super) split: &'a Split,
}

/// Runs the plan; which of its populations have a program of their own, `apart` says. The report is one.
pub(super) async fn load(
    plan: &Plan,
    apart: &[bool],
    place: Place<'_>,
    patience: Duration,
) -> Result<RunFigures> {
    let all = 0..plan.populations.len();
    let is_apart = |number: &usize| apart.get(*number) == Some(&true);
    let (alone, together): (Vec<usize>, Vec<usize>) = all.partition(is_apart);
    let groups = [together].into_iter().chain(alone.into_iter().map(|number| vec![number]));
    let groups: Vec<Vec<usize>> = groups.filter(|group| !group.is_empty()).collect();
    let run = |(place_in, group): (usize, &Vec<usize>)| {
        let populations = group.iter().map(|number| plan.populations[*number].clone()).collect();
        // Of one seed, the first of each would come at the same moments.
        let seed = plan.seed.wrapping_add(place_in as u64 * 7919);
        let part = Plan { populations, seed, ..plan.clone() };
        async move { one(&part, place_in, place, patience).await }
    };
    let reports = try_join_all(groups.iter().enumerate().map(run)).await?;
    Ok(joined(&groups, reports))
}

/// The reports as one, with the populations in the plan's order.
fn joined(groups: &[Vec<usize>], reports: Vec<RunFigures>) -> RunFigures {
    let mut all = RunFigures::default();
    let mut populations = Vec::new();
    for (group, report) in groups.iter().zip(reports) {
        populations.extend(group.iter().copied().zip(report.populations));
        all.lateness_p99_ms = all.lateness_p99_ms.max(report.lateness_p99_ms);
        all.cpu = all.cpu.max(report.cpu);
        all.cpu_peak = all.cpu_peak.max(report.cpu_peak);
        all.void = all.void.or(report.void);
    }
    populations.sort_by_key(|(number, _)| *number);
    all.populations = populations.into_iter().map(|(_, population)| population).collect();
    all
}

async fn one(
    plan: &Plan,
    number: usize,
    place: Place<'_>,
    patience: Duration,
) -> Result<RunFigures> {
    let file = |name: &str| place.scratch.join(format!("{name}-{number}.json"));
    let (plan_file, report_file) = (file("plan"), file("report"));
    std::fs::write(&plan_file, serde_json::to_vec(plan)?)?;
    let program = Program::new("the load generator", std::env::current_exe()?)
        .args([Path::new("load"), Path::new("--plan"), &plan_file])
        .args([Path::new("--out"), &report_file])
        .namespace(Some(&place.network.clients))
        .processors(place.split.load.as_deref());
    output(program, patience).await?;
    let text = std::fs::read(&report_file).context("the load generator wrote no report")?;
    serde_json::from_slice(&text).context("the load generator's report cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::figures::PopulationFigures;

    #[test]
    fn reports_are_joined_in_the_order_of_the_plan() {
        let report = |names: &[&str], cpu: f64, void: Option<&str>| RunFigures {
            populations: names
                .iter()
                .map(|name| PopulationFigures { name: (*name).into(), ..Default::default() })
                .collect(),
            cpu,
            void: void.map(Into::into),
            ..RunFigures::default()
        };
        let groups = [vec![0, 2], vec![1]];
        let reports = vec![report(&["a", "c"], 0.2, None), report(&["b"], 0.5, Some("late"))];
        let all = joined(&groups, reports);
        let names: Vec<&str> = all.populations.iter().map(|it| it.name.as_str()).collect();
        assert_eq!((names, all.cpu, all.void.as_deref()), (vec!["a", "b", "c"], 0.5, Some("late")));
    }
}
