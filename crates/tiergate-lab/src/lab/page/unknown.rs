//! The price of not knowing the capacity: Tiergate's goodput compared with haproxy's best setting.

use super::spread::Spread;
use super::words::{plain, quantity};
use crate::lab::result::{ContenderResult, ExperimentResult, Results, Unit};
use tiergate_draw::Table;

/// The measure that is compared.
const GOODPUT: &str = "goodput";
/// A goodput this close to the best fixed setting's is as good.
const CLOSE: f64 = 0.95;

/// A table of the experiments for which haproxy's setting was searched; empty without any.
pub(super) fn unknown(results: &Results) -> String {
    let rows: Vec<([String; 4], bool)> = results.experiments.iter().filter_map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let close = rows.iter().filter(|(_, close)| *close).count();
    let mut table = Table::new(["<", "Tiergate", "HAProxy, best `maxconn`", "Tiergate / HAProxy"]);
    let total = rows.len();
    rows.into_iter().for_each(|(row, _)| table.row(row));
    format!(
        "## Without a configured capacity\n\nIn each of these experiments, HAProxy's `maxconn` was tuned by \
         trial; Tiergate found its limit by itself, from a cold start, during the run. Tiergate's goodput is \
         within 5 % of that of the best fixed setting in {close} of {total}.\n\n{}\n",
        table.markdown()
    )
}

fn row(experiment: &ExperimentResult) -> Option<([String; 4], bool)> {
    let place = experiment.measures.iter().position(|m| m.name == GOODPUT)?;
    let better = experiment.measures[place].better;
    let median = |c: &ContenderResult| Spread::of_measure(c, place, better)?.median;
    let haproxy = experiment.contender("haproxy").filter(|c| c.setting.is_some())?;
    let (ours, theirs) = (median(experiment.contender("tiergate")?)?, median(haproxy)?);
    let ratio = ours / theirs;
    let bold = if ratio >= CLOSE { "" } else { "**" };
    let row = [
        format!("[{}](#{})", plain(&experiment.title), experiment.name),
        quantity(Some(ours), Unit::Share),
        quantity(Some(theirs), Unit::Share),
        format!("{bold}{ratio:.2}{bold}"),
    ];
    Some((row, ratio >= CLOSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    #[test]
    fn only_searched_settings_are_compared() {
        let mut results = sample::results();
        let experiment = &mut results.experiments[0];
        for contender in &mut experiment.contenders {
            contender.setting = None;
        }
        results.experiments.truncate(1);
        assert_eq!(unknown(&results), "");
        let haproxy = results.experiments[0].contenders.iter_mut().find(|c| c.name == "haproxy");
        haproxy.unwrap().setting = Some("maxconn 16, the best of 16, 24".into());
        let text = unknown(&results);
        assert!(text.contains("in 1 of 1") || text.contains("in 0 of 1"), "{text}");
        assert!(text.contains("(#overload-ramp)"), "{text}");
    }
}
