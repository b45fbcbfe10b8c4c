//! The report as a drawing: goodput and waits of each class over time, behind each front, on the same
//! scales.

use super::charts::WAIT_MS_MIN;
use super::compared::Compared;
use crate::report::Report;
use tiergate_draw::Scale;
use tiergate_draw::number::{figure, short};
use tiergate_draw::svg::{Anchor, Area, Axes, Canvas, series, stroke, text_width};

/// Pixels: a panel, and the room around it.
const PANEL: (f64, f64) = (300.0, 170.0);
const LEFT: f64 = 62.0;
const GAP: f64 = 22.0;
const TOP: f64 = 128.0;
const BETWEEN: f64 = 86.0;

/// A class's values over time.
type Values = fn(&Report, usize) -> Vec<Option<f64>>;

/// A whole SVG file.
pub fn svg(it: &Compared) -> String {
    let active = it.active();
    let mut canvas = Canvas::default();
    canvas.title((16.0, 26.0), &it.title, "");
    legend(&mut canvas, it, &active);
    let goodput: Values =
        |report, class| report.series.coarser(2).goodput(class).into_iter().map(Some).collect();
    let wait: Values = |report, class| report.series.coarser(2).wait_p99_ms(class);
    let all = |values: Values| {
        let of = |report| active.iter().flat_map(move |class| values(report, *class)).flatten();
        it.reports.iter().flat_map(|(_, report)| of(report)).collect::<Vec<f64>>()
    };
    let rates = Scale::linear(all(goodput).into_iter().fold(0.0, f64::max));
    let waits = Scale::logarithmic(all(wait).into_iter().map(|ms| ms.max(WAIT_MS_MIN)));
    for (row, (what, unit, values, scale)) in [
        ("Good answers", "(requests/s)", goodput, rates),
        ("99th percentile of the wait until the server begins", "(ms, logarithmic)", wait, waits),
    ]
    .into_iter()
    .enumerate()
    {
        let y = TOP + row as f64 * (PANEL.1 + BETWEEN);
        canvas.title((16.0, y - 32.0), what, unit);
        for (column, (front, report)) in it.reports.iter().enumerate() {
            let x = LEFT + column as f64 * (PANEL.0 + GAP);
            canvas.text("name", (x, y - 10.0), Anchor::Start, front.title());
            let area = Area { x, y, width: PANEL.0, height: PANEL.1 };
            let axes = Axes { area, scale: &scale, seconds: report.seconds() };
            axes.grid(&mut canvas, (column == 0).then_some(&short));
            axes.time(&mut canvas);
            for class in active.iter().rev() {
                let values = values(report, *class);
                let stretch_s = report.seconds() / values.len() as f64;
                axes.line(&mut canvas, &stroke(series(*class)), &values, stretch_s);
            }
        }
    }
    let columns = it.reports.len() as f64;
    let width = LEFT + columns * PANEL.0 + (columns - 1.0) * GAP + 20.0;
    canvas.finish(width, TOP + 2.0 * PANEL.1 + BETWEEN + 46.0, &it.title)
}

/// What each colour is, and what became of the class: goodput of the policy and of the others.
fn legend(canvas: &mut Canvas, it: &Compared, active: &[usize]) {
    let mut x = 16.0;
    for &class in active {
        let good = it
            .reports
            .iter()
            .map(|(_, report)| figure(report.class(class).good as f64 / report.seconds()));
        let good = good.collect::<Vec<_>>().join(" · ");
        let words = format!("{}  {good}/s", it.classes[class]);
        canvas.path(&stroke(series(class)), &[(x, 46.0), (x + 22.0, 46.0)]);
        canvas.text("name", (x + 28.0, 50.0), Anchor::Start, &words);
        x += 28.0 + text_width(&words, 12.0) + 26.0;
    }
    let fronts: Vec<&str> = it.reports.iter().map(|(front, _)| front.title()).collect();
    let what = format!("good answers over the whole run: {}", fronts.join(" · "));
    canvas.text("faint", (16.0, 68.0), Anchor::Start, &what);
}
