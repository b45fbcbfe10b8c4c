//! What becomes of each class as requests come faster.

use super::compared::Compared;
use crate::trial::Front;
use tiergate_draw::number::{figure, percent, time_ms};
use tiergate_draw::{Paint, Table, Tone};

/// A table for each class: a row for each speed.
pub fn sweep(trials: &[(f64, Compared)], paint: Paint) -> String {
    let (_, first) = &trials[0];
    let what = "good answers a second, and their share of the offered requests, by speed";
    let mut text = String::new();
    for (class, name) in first.classes.iter().enumerate() {
        if trials.iter().all(|(_, it)| it.policy().class(class).arrived == 0) {
            continue;
        }
        let mut columns = vec!["<speed", "offered/s"];
        for (front, _) in &first.reports {
            columns.extend([front.title(), "good"]);
            columns.extend((*front != Front::Nothing).then_some("p99 wait"));
        }
        let mut table = Table::new(columns);
        for (speed, it) in trials {
            let rate = |count: u64| figure(count as f64 / it.seconds());
            let mut row = vec![format!("{speed}x"), rate(it.policy().class(class).arrived)];
            for (front, report) in &it.reports {
                let of = report.class(class);
                row.extend([rate(of.good), percent(of.good as f64 / of.arrived.max(1) as f64)]);
                if *front != Front::Nothing {
                    row.push(time_ms(of.wait.quantile_ms(0.99)));
                }
            }
            table.row(row);
        }
        let name = paint.tone(Tone::Series(class), name);
        let what = paint.tone(Tone::Faint, what);
        text += &format!("{name} {what}\n{}\n", table.render(paint));
    }
    text
}
