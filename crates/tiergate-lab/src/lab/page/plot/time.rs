//! A value for each second: seven lines that change every second cannot be told apart in one panel,
//! so each contender has one, with Tiergate in all of them.

use super::look::{AXIS_WIDTH, caption, colour, label, scale};
use super::series::Series;
use crate::lab::page::words;
use crate::lab::result::{Phase, Plot, Unit};
use tiergate_draw::pieces;
use tiergate_draw::svg::{Anchor, Area, Axes, Canvas, Placed, Point, band, row, stroke};

const GAP: f64 = 14.0;
const TITLE: f64 = 24.0;
const PANEL: f64 = 160.0;

/// How high the panels of so many series become.
pub(super) fn height_of(all: &[Series]) -> f64 {
    TITLE + panels(all).len().div_ceil(columns(all)) as f64 * PANEL
}

/// Draws the panels into the area, captions and labels included.
pub(super) fn draw(canvas: &mut Canvas, area: Area, plot: &Plot, phases: &[Phase], all: &[Series]) {
    let reaches = all.iter().flat_map(|series| series.points.iter().flatten());
    let scale = scale(plot.unit, reaches.flat_map(|r| [r.min, r.median, r.max]));
    canvas.title((area.x, area.y + 14.0), &plot.title, &caption(&scale, plot.unit));
    let columns = columns(all);
    let width = (area.width - AXIS_WIDTH - (columns - 1) as f64 * GAP - 6.0) / columns as f64;
    let seconds = phases.iter().map(|p| p.seconds).sum::<f64>().max(1.0);
    for (place, series) in panels(all).into_iter().enumerate() {
        let (column, row) = (place % columns, place / columns);
        let inner = Area {
            x: area.x + AXIS_WIDTH + column as f64 * (width + GAP),
            y: area.y + TITLE + row as f64 * PANEL + 34.0,
            width,
            height: PANEL - 34.0 - 28.0,
        };
        let axes = Axes { area: inner, scale: &scale, seconds };
        let name = (inner.x, inner.y - 20.0);
        canvas.text("strong", name, Anchor::Start, words::contender(&series.name));
        surround(canvas, &axes, phases, plot.unit, column == 0);
        let tiergate = all.iter().find(|s| s.name == "tiergate" && s.name != series.name);
        for series in [Some(series), tiergate].into_iter().flatten() {
            line(canvas, &axes, series);
        }
    }
}

/// Who has a panel: all but Tiergate, or Tiergate if it is alone.
fn panels(all: &[Series]) -> Vec<&Series> {
    let others: Vec<_> = all.iter().filter(|series| series.name != "tiergate").collect();
    if others.is_empty() { all.iter().collect() } else { others }
}

fn columns(all: &[Series]) -> usize {
    panels(all).len().clamp(1, 3)
}

/// The grid, the seconds, and where phases begin.
fn surround(canvas: &mut Canvas, axes: &Axes<'_>, phases: &[Phase], unit: Unit, labelled: bool) {
    let label = |tick| label(tick, unit);
    axes.grid(canvas, labelled.then_some(&label));
    axes.time(canvas);
    let mut begin = 0.0;
    let mut names = Vec::new();
    for phase in phases {
        if begin > 0.0 {
            let x = axes.x(begin);
            canvas.line("phase", (x, axes.area.y), (x, axes.area.bottom()));
        }
        names.push(Placed { text: &phase.name, x: axes.x(begin + phase.seconds / 2.0) });
        begin += phase.seconds;
    }
    for (name, x) in names.iter().zip(row(&names, axes.area)) {
        if let Some(x) = x {
            canvas.text("faint small", (x, axes.area.y - 5.0), Anchor::Middle, name.text);
        }
    }
}

/// The medians over the area from the smallest to the largest value of each second.
fn line(canvas: &mut Canvas, axes: &Axes<'_>, series: &Series) {
    for (first, piece) in pieces(&series.points) {
        let along = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
            // The value of a second stands in its middle.
            let x = |place: usize| axes.x((first + place) as f64 + 0.5);
            (0..piece.len()).map(|place| (x(place), axes.y(value(place)))).collect()
        };
        let mut area = along(&|n| piece[n].max);
        area.extend(along(&|n| piece[n].min).into_iter().rev());
        canvas.shape(&band(colour(&series.name)), &area);
    }
    let medians: Vec<_> = series.points.iter().map(|p| p.map(|range| range.median)).collect();
    axes.line(canvas, &stroke(colour(&series.name)), &medians, 1.0);
}
