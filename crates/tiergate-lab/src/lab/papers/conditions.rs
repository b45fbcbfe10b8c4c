//! Under what conditions the paper measured, and the lab.

use super::data::{Condition, Of, OfExperiment, OurCondition};
use crate::lab::experiment::Experiment;
use crate::lab::page::words::{list, plain, quantity};
use crate::lab::result::{Results, Unit};
use tiergate_draw::Table;

/// A table of both, a row for each condition.
pub(super) fn table(
    conditions: &[Condition],
    results: &Results,
    experiments: &[Experiment],
) -> String {
    let mut table = Table::new(["<conditions", "<the paper's", "<ours"]);
    for condition in conditions {
        let ours = match &condition.ours {
            OurCondition::Words(words) => plain(words),
            OurCondition::Of(of) => plain(&words(of, results, experiments)),
        };
        table.row([plain(&condition.what), plain(&condition.paper), ours]);
    }
    table.markdown()
}

/// What results and files say; the results first, since they are what is shown.
fn words(of: &OfExperiment, results: &Results, experiments: &[Experiment]) -> String {
    let result = results.experiments.iter().find(|e| e.name == of.experiment);
    let file = experiments.iter().find(|e| e.name == of.experiment);
    let words = match of.of {
        Of::Capacity => result.map(|result| {
            let capacity = quantity(Some(result.capacity), Unit::Rate);
            capacity.replace(" /s", " requests/s, measured")
        }),
        Of::Phases => {
            let phases = result.map(|r| &r.phases).or(file.map(|f| &f.phases));
            let phase = |p: &crate::lab::result::Phase| format!("{} ({} s)", p.name, p.seconds);
            phases.map(|phases| phases.iter().map(phase).collect::<Vec<_>>().join(", "))
        }
        Of::Rates => file.map(|file| {
            let of = |c: &crate::lab::experiment::Clients| format!("{} at {}", c.name, c.rates());
            list(&file.clients.iter().map(of).collect::<Vec<_>>())
        }),
    };
    words.unwrap_or_else(|| "not measured".into())
}
