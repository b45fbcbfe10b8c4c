//! What becomes of each class as requests come faster.

use super::Compared;
use super::text::{Paint, Tone, columns, figure, share, time_ms};
use crate::trial::Front;

/// A table for each class: a row for each speed.
pub fn sweep(trials: &[(f64, Compared)], paint: Paint) -> String {
    let (_, first) = &trials[0];
    let head = [
        "speed",
        "asked/s",
        "policy",
        "good",
        "p99 wait",
        "FIFO",
        "good",
        "p99 wait",
        "no gateway",
        "good",
    ];
    let mut text = String::new();
    for (class, name) in first.classes.iter().enumerate() {
        if trials.iter().all(|(_, it)| it.policy().class(class).arrived == 0) {
            continue;
        }
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (speed, it) in trials {
            let seconds = it.policy().seconds();
            let asked = it.policy().class(class).arrived as f64 / seconds;
            let mut row = vec![format!("{speed}x"), figure(asked)];
            for (front, report) in &it.reports {
                let of = report.class(class);
                row.push(figure(of.good as f64 / seconds));
                row.push(share(of.good as f64 / of.arrived.max(1) as f64));
                if *front != Front::Nothing {
                    row.push(time_ms(of.wait.quantile_ms(0.99)));
                }
            }
            rows.push(row);
        }
        let what =
            paint.tone(Tone::Faint, "good answers a second and of what was asked for, by speed");
        text += &format!("{} {what}\n", paint.tone(Tone::Class(class), name));
        text += &columns(&rows, &|_, cell| cell.to_owned());
        text.push('\n');
    }
    text
}
