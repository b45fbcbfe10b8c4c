//! A phase by a generator that is not ours, beside the same by ours: a table in an experiment's section.

use super::words::{self, plain, quantity};
use crate::lab::result::{Beside, BesideRow, Round};
use tiergate_draw::Table;

/// The sentence and the table in Markdown; `None`: there is nothing to show.
pub(super) fn beside(beside: &Beside) -> Option<String> {
    if beside.rows.is_empty() {
        return None;
    }
    let generator = plain(&beside.generator);
    let columns = beside.measures.iter().flat_map(|measure| {
        let name = plain(&measure.name);
        [name, format!("by {generator}")]
    });
    let mut table = Table::new(["<".to_owned()].into_iter().chain(columns));
    for BesideRow { name, ours, other } in &beside.rows {
        let cells = beside.measures.iter().enumerate().flat_map(|(place, measure)| {
            [ours, other].map(|round| cell(round, place, measure.unit))
        });
        table.row([plain(words::contender(name))].into_iter().chain(cells));
    }
    let (phase, seconds) = (plain(&beside.phase.name), beside.phase.seconds);
    Some(format!(
        "**The same by {generator}**, a generator that is not ours: {phase} for {seconds} s, by each generator in a run of \
         its own, requests evenly spaced, each on a connection of its own.\n\n{}",
        table.markdown()
    ))
}

fn cell(round: &Round, place: usize, unit: crate::lab::result::Unit) -> String {
    match round.void {
        Some(_) => "void".into(),
        None => quantity(round.values.get(place).copied().flatten(), unit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;
    use crate::lab::result::{Better, Measure, Phase, Unit};

    #[test]
    fn both_generators_figures_stand_side_by_side() {
        let round = |values: [Option<f64>; 2], void: Option<&str>| Round {
            values: values.into(),
            void: void.map(Into::into),
            ..sample::results().experiments[0].contenders[0].rounds[0].clone()
        };
        let measure = |name: &str, unit| Measure {
            name: name.into(),
            unit,
            better: Better::Higher,
            judged: true,
        };
        let mut tables = Beside {
            generator: "oha 1.16.0".into(),
            phase: Phase { name: "3x".into(), seconds: 30.0 },
            measures: vec![
                measure("premium answered", Unit::Share),
                measure("premium p99", Unit::Ms),
            ],
            rows: vec![
                BesideRow {
                    name: "tiergate".into(),
                    ours: round([Some(1.0), Some(41.0)], None),
                    other: round([Some(0.999), Some(43.0)], None),
                },
                BesideRow {
                    name: "none".into(),
                    ours: round([Some(0.1), None], None),
                    other: round([Some(0.2), None], Some("late")),
                },
            ],
        };
        let text = beside(&tables).unwrap();
        assert!(
            text.contains("**The same by oha 1.16.0**") && text.contains("3x for 30 s"),
            "{text}"
        );
        let lines: Vec<&str> = text.lines().collect();
        let row = |name: &str| *lines.iter().find(|line| line.contains(name)).unwrap();
        assert!(row("Tiergate").ends_with("100.0 % | 99.9 % | 41.0 ms | 43.0 ms |"), "{text}");
        assert!(row("Nothing").ends_with("10.0 % | void | none | void |"), "{text}");
        tables.rows.clear();
        assert_eq!(beside(&tables), None);
    }
}
