//! Goodput and waits over time in a terminal, by class, behind the policy and behind a plain queue.

use super::compared::Compared;
use crate::trial::Front;
use tiergate_draw::number::{figure, time_ms};
use tiergate_draw::{Paint, Scale, Tone, chart};

/// Waits below this, in milliseconds, are drawn as if they were as long.
pub(super) const WAIT_MS_MIN: f64 = 0.1;

pub(super) fn charts(it: &Compared, paint: Paint) -> String {
    let active = it.active();
    let names = active
        .iter()
        .map(|class| paint.tone(Tone::Series(*class), &format!("━ {}", it.classes[*class])));
    let names = names.collect::<Vec<_>>().join("  ");
    let mut text = String::new();
    for (front, report) in it.reports.iter().filter(|(front, _)| *front != Front::Nothing) {
        // Fewer points than dots, or a line would be a thicket.
        let series = report.series.coarser(3);
        let lines = |of: &dyn Fn(usize) -> Vec<Option<f64>>| -> Vec<_> {
            let line = |class| if active.contains(&class) { of(class) } else { Vec::new() };
            (0..it.classes.len()).map(line).collect()
        };
        let goodput = lines(&|class| series.goodput(class).into_iter().map(Some).collect());
        let wait = lines(&|class| series.wait_p99_ms(class));
        let rates = goodput.iter().flatten().flatten().copied().fold(0.0, f64::max);
        let rates = Scale::linear(rates);
        let waits = wait.iter().flatten().flatten().map(|ms| ms.max(WAIT_MS_MIN));
        let waits = Scale::logarithmic(waits);
        type Label<'l> = &'l dyn Fn(f64) -> String;
        let rate: Label<'_> = &|rate| format!("{}/s", figure(rate));
        for (what, lines, scale, label) in [
            ("good answers a second", goodput, rates, rate),
            ("99th percentile of the wait", wait, waits, &time_ms),
        ] {
            let title = paint.tone(Tone::Strong, front.title());
            let what = paint.tone(Tone::Faint, what);
            text += &format!("\n{title} {what}  {names}\n");
            let end = format!("{}s", figure(report.seconds()));
            text += &chart(&lines, &scale, label, &end, paint);
        }
    }
    text
}
