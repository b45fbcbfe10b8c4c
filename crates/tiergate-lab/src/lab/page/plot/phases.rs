//! A panel with a value for each phase: one line for each contender, all in one.

use super::look::{AXIS_WIDTH, caption, colour, label, scale};
use super::series::Series;
use crate::lab::result::{Phase, Plot};
use tiergate_draw::svg::{Anchor, Area, Axes, Canvas, Point, mark, reach, stroke, text_width};
use tiergate_draw::{Range, pieces};

/// Size of labels, in pixels.
const LABEL: f64 = 11.0;
/// How steeply long names of phases stand, in degrees.
const STEEP: f64 = -32.0;

/// Part of a phase's width over which the contenders' marks are spread, so that equal ones show …
const SPREAD: f64 = 0.55;

/// … but no further from each other than this, in pixels, or they would not look like one phase.
const ASIDE: f64 = 6.0;

/// Draws the panel into the area, captions and labels included.
pub(super) fn draw(canvas: &mut Canvas, area: Area, plot: &Plot, phases: &[Phase], all: &[Series]) {
    let reaches = all.iter().flat_map(|series| series.points.iter().flatten());
    let scale = scale(plot.unit, reaches.flat_map(|r| [r.min, r.median, r.max]));
    canvas.title((area.x, area.y + 14.0), &plot.title, &caption(&scale, plot.unit));
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
    let axes = Axes { area: inner, scale: &scale, seconds: 0.0 };
    axes.grid(canvas, Some(&|tick| label(tick, plot.unit)));
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
    let spread = (SPREAD * step).min(ASIDE * all.len() as f64);
    let x = |place: usize, at: usize| {
        let aside = ((place as f64 + 0.5) / all.len() as f64 - 0.5) * spread;
        inner.x + (at as f64 + 0.5) * step + aside
    };
    // Tiergate last, over the others.
    let mut order: Vec<(usize, &Series)> = all.iter().enumerate().collect();
    order.sort_by_key(|(_, series)| series.name == "tiergate");
    let mut lines: Vec<Line> = Vec::new();
    for (place, series) in order {
        for (first, piece) in pieces(&series.points) {
            let points = piece.iter().enumerate().map(|(at, range)| (x(place, first + at), *range));
            lines.push((&series.name, points.collect()));
        }
    }
    draw_lines(canvas, &axes, &lines);
}

/// A part of a line without gaps: its contender, and where each point lies across, in pixels.
type Line<'a> = (&'a str, Vec<(f64, Range)>);

/// All lines first, then all marks: a mark must not be hidden by someone else's line.
fn draw_lines(canvas: &mut Canvas, axes: &Axes<'_>, lines: &[Line]) {
    for (name, points) in lines {
        let medians: Vec<Point> = points.iter().map(|(x, r)| (*x, axes.y(r.median))).collect();
        if *name == "tiergate" {
            canvas.path("halo", &medians);
        }
        canvas.path(&stroke(colour(name)), &medians);
    }
    for (name, points) in lines {
        for (x, range) in points {
            canvas.line(&reach(colour(name)), (*x, axes.y(range.min)), (*x, axes.y(range.max)));
        }
        for (x, range) in points {
            mark(canvas, colour(name), (*x, axes.y(range.median)));
        }
    }
}
