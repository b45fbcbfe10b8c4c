//! The table of an experiment: a row for each contender with figures, a column for each measure.

use super::judge::{FAR_FEWER, is_latency, lead};
use super::spread::{Spread, valid};
use super::words;
use crate::lab::result::{Better, ContenderResult, ExperimentResult, Measure, Unit};
use tiergate_draw::Table;

/// The table in Markdown; `None`: no contender has a valid round.
pub(super) fn table(experiment: &ExperimentResult) -> Option<String> {
    let rows: Vec<&ContenderResult> =
        experiment.contenders.iter().filter(|c| valid(c).next().is_some()).collect();
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![names(&rows)];
    let few = answered_far_fewer(experiment, &rows);
    for (place, measure) in experiment.measures.iter().enumerate() {
        columns.push(column(measure, &spreads(&rows, place, measure), &few));
    }
    columns.push(processor_time(&rows));
    columns.push(rounds(&rows));
    let line = |line: usize| columns.iter().map(move |column| column[line].as_str());
    let mut table = Table::new(line(0));
    (1..=rows.len()).for_each(|row| table.row(line(row)));
    Some(table.markdown())
}

/// Heading and cells, one under the other.
type Column = Vec<String>;

fn names(rows: &[&ContenderResult]) -> Column {
    let name = |row: &&ContenderResult| match words::plain(words::contender(&row.name)) {
        name if row.name == "tiergate" => format!("**{name}**"),
        name => name,
    };
    let names = rows.iter().map(name);
    std::iter::once("<".to_owned()).chain(names).collect()
}

/// One measure of each contender, all of which have a valid round.
fn spreads(rows: &[&ContenderResult], place: usize, measure: &Measure) -> Vec<Spread> {
    let spread = |row: &&ContenderResult| Spread::of_measure(row, place, measure.better);
    rows.iter().filter_map(spread).collect()
}

fn column(measure: &Measure, spreads: &[Spread], few: &[bool]) -> Column {
    let best = best(measure, spreads, few);
    let heading = format!("{} ({})", words::plain(&measure.name), words::unit(measure.unit));
    let heading = if measure.judged { heading } else { format!("*{heading}*") };
    let cells = spreads.iter().map(|spread| cell(spread, measure.unit, best.as_deref()));
    std::iter::once(heading).chain(cells).collect()
}

/// `**99.8** ±0.1`, where the best is bold; `none in 2 of 3` where rounds have no value.
fn cell(spread: &Spread, unit: Unit, best: Option<&str>) -> String {
    let (median, half) = words::median_and_half(spread, unit);
    let median = match median {
        Some(median) if Some(median.as_str()) == best => format!("**{median}**"),
        Some(median) => median,
        None => "–".into(),
    };
    let half = half.map(|half| format!("<sub>{half}</sub>"));
    let missing = (spread.missing > 0)
        .then(|| format!("<sub>none in {} of {}</sub>", spread.missing, spread.rounds));
    let parts = [Some(median), half, missing];
    // Not to be broken in between.
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ").replace(' ', "&nbsp;")
}

/// The best median as it is shown: among latencies, only of those who answered about as many as
/// the one who answered most. `None`: all are the same, so that none is best.
fn best(measure: &Measure, spreads: &[Spread], few: &[bool]) -> Option<String> {
    let counts = |few: bool| !(few && is_latency(measure.unit));
    let medians = spreads.iter().zip(few).filter(|(_, few)| counts(**few));
    let best = measure.better.best(medians.filter_map(|(spread, _)| spread.median))?;
    let shown = |median| words::number(median, measure.unit);
    let all_same = spreads.iter().all(|s| s.median.is_some_and(|m| shown(m) == shown(best)));
    (!all_same).then(|| shown(best))
}

/// Who is far behind the best in the first judged share.
fn answered_far_fewer(experiment: &ExperimentResult, rows: &[&ContenderResult]) -> Vec<bool> {
    let first = experiment.measures.iter().enumerate().find(|(_, measure)| measure.judged);
    let Some((place, measure)) = first.filter(|(_, measure)| measure.unit == Unit::Share) else {
        return vec![false; rows.len()];
    };
    let spreads = spreads(rows, place, measure);
    let best = measure.better.best(spreads.iter().filter_map(|spread| spread.median));
    spreads.iter().map(|s| lead(measure.better, best, s.median) > FAR_FEWER).collect()
}

/// What the contender itself cost; never judged.
fn processor_time(rows: &[&ContenderResult]) -> Column {
    let cell = |row: &&ContenderResult| {
        if row.name == "none" {
            return "–".into();
        }
        let used: Vec<_> = valid(row).map(|round| Some(round.front_cpu_s)).collect();
        let used = Spread::of(&used, Better::Lower).expect("every row has a valid round");
        cell(&used, Unit::S, None)
    };
    std::iter::once("*processor time (s)*".into()).chain(rows.iter().map(cell)).collect()
}

fn rounds(rows: &[&ContenderResult]) -> Column {
    let cell = |row: &&ContenderResult| {
        let valid = valid(row).count();
        match row.rounds.len() - valid {
            0 => valid.to_string(),
            void => format!("{valid}&nbsp;<sub>+{void}&nbsp;void</sub>"),
        }
    };
    std::iter::once("rounds".into()).chain(rows.iter().map(cell)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    /// A cell of the sample's overload, by the contender's row and the column's heading.
    fn cell_of(contender: &str, column: &str) -> String {
        let results = sample::results();
        let table = table(&results.experiments[0]).unwrap();
        let cells = |line: &str| -> Vec<String> {
            line.trim_matches('|').split('|').map(|c| c.trim().to_string()).collect()
        };
        let mut lines = table.lines();
        let heading = cells(lines.next().unwrap());
        let column = heading.iter().position(|h| h.trim_matches('*') == column).expect("a column");
        let row =
            lines.map(cells).find(|row| row[0].trim_matches('*') == contender).expect("a row");
        row[column].clone()
    }

    #[test]
    fn the_best_is_bold_and_the_spread_stands_beside_it() {
        assert_eq!(cell_of("Tiergate", "premium answered (%)"), "**99.8**&nbsp;<sub>±0.2</sub>");
        assert_eq!(cell_of("HAProxy", "premium answered (%)"), "98.6&nbsp;<sub>±0.2</sub>");
    }

    #[test]
    fn a_short_latency_of_few_is_not_best() {
        // nginx refuses most, and answers the rest the soonest.
        assert_eq!(cell_of("nginx", "premium p99 (ms)"), "97.0&nbsp;<sub>±2.0</sub>");
        assert!(cell_of("Tiergate", "premium p99 (ms)").starts_with("**"));
    }

    #[test]
    fn what_is_missing_says_so() {
        let none = cell_of("Nothing in front", "recovery (s)");
        assert_eq!(none, "–&nbsp;<sub>none&nbsp;in&nbsp;3&nbsp;of&nbsp;3</sub>");
        assert_eq!(cell_of("Envoy", "rounds"), "2&nbsp;<sub>+1&nbsp;void</sub>");
        assert_eq!(cell_of("Nothing in front", "processor time (s)"), "–");
        assert!(!table(&sample::results().experiments[0]).unwrap().contains("mod"));
    }
}
