//! A panel with a value for each phase: one line for each contender, all in one.

use super::frame::{AXIS_WIDTH, LABEL, grid, height};
use super::palette::{mark, stroke};
use super::scale::Scale;
use super::series::{Series, pieces};
use super::svg::{Anchor, Area, Canvas, Point, text_width};
use crate::lab::result::{Phase, Plot};

/// How steeply long names of phases stand, in degrees.
const STEEP: f64 = -32.0;

/// Part of a phase's width over which the contenders' marks are spread, so that equal ones show.
const SPREAD: f64 = 0.55;

/// Draws the panel into the area, captions and labels included.
pub(super) fn draw(canvas: &mut Canvas, area: Area, plot: &Plot, phases: &[Phase], all: &[Series]) {
    let reaches = all.iter().flat_map(|series| series.points.iter().flatten());
    let scale = Scale::of(plot.unit, reaches.flat_map(|r| [r.min, r.median, r.max]));
    canvas.text("title", (area.x, area.y + 14.0), Anchor::Start, &plot.title);
    let after = area.x + text_width(&plot.title, 13.0) * 1.04 + 6.0;
    canvas.text("faint small", (after, area.y + 14.0), Anchor::Start, &scale.caption(plot.unit));
    let step = (area.width - AXIS_WIDTH - 8.0) / phases.len().max(1) as f64;
    let widest = phases.iter().map(|p| text_width(&p.name, LABEL)).fold(0.0, f64::max);
    let steep = widest > step - 4.0;
    let below = if steep { 16.0 + widest * 0.53 } else { 22.0 };
    let inner = Area {
        x: area.x + AXIS_WIDTH,
        y: area.y + 30.0,
        width: area.width - AXIS_WIDTH - 8.0,
        height: area.height - 30.0 - below,
    };
    grid(canvas, inner, &scale, plot.unit, true);
    for (place, phase) in phases.iter().enumerate() {
        let x = inner.x + (place as f64 + 0.5) * step;
        if steep {
            let at = (x + 4.0, inner.bottom() + 13.0);
            canvas.turned_text("faint small", at, Anchor::End, STEEP, &phase.name);
        } else {
            let at = (x, inner.bottom() + 16.0);
            canvas.text("faint small", at, Anchor::Middle, &phase.name);
        }
    }
    let order = all.iter().enumerate().filter(|(_, s)| s.name != "tiergate");
    // Tiergate last, over the others.
    let order = order.chain(all.iter().enumerate().filter(|(_, s)| s.name == "tiergate"));
    for (place, series) in order {
        let aside = ((place as f64 + 0.5) / all.len() as f64 - 0.5) * SPREAD * step;
        let x = |at: usize| inner.x + (at as f64 + 0.5) * step + aside;
        let y = |value: f64| height(inner, &scale, value);
        draw_line(canvas, series, &x, &y);
    }
}

fn draw_line(
    canvas: &mut Canvas,
    series: &Series,
    x: &dyn Fn(usize) -> f64,
    y: &dyn Fn(f64) -> f64,
) {
    for (first, piece) in pieces(&series.points) {
        let at = |place: usize| x(first + place);
        let line: Vec<Point> =
            piece.iter().enumerate().map(|(n, r)| (at(n), y(r.median))).collect();
        for (place, reach) in piece.iter().enumerate() {
            let class = stroke(&series.name).replacen('l', "r", 1);
            canvas.line(&class, (at(place), y(reach.min)), (at(place), y(reach.max)));
        }
        if series.name == "tiergate" {
            canvas.path("halo", &line);
        }
        canvas.path(&stroke(&series.name), &line);
        for point in line {
            mark(canvas, &series.name, point);
        }
    }
}
