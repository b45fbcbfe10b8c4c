//! A value for each second: seven lines that change every second cannot be told apart in one panel,
//! so each contender has one, with Tiergate in all of them.

use super::frame::{AXIS_WIDTH, Placed, grid, height, row};
use super::palette::{band, stroke};
use super::scale::{Scale, label, steps};
use super::series::{Series, pieces};
use super::svg::{Anchor, Area, Canvas, Point};
use crate::lab::page::words;
use crate::lab::result::{Phase, Plot, Unit};

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
    let scale = Scale::of(plot.unit, reaches.flat_map(|r| [r.min, r.median, r.max]));
    canvas.title((area.x, area.y + 14.0), &plot.title, &scale.caption(plot.unit));
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
        let panel = Panel { inner, scale: &scale, seconds };
        let name = (inner.x, inner.y - 20.0);
        canvas.text("strong", name, Anchor::Start, words::contender(&series.name));
        panel.surround(canvas, phases, plot.unit, column == 0);
        let tiergate = all.iter().find(|s| s.name == "tiergate" && s.name != series.name);
        for series in [Some(series), tiergate].into_iter().flatten() {
            panel.line(canvas, series);
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

struct Panel<'a> {
    inner: Area,
    scale: &'a Scale,
    seconds: f64,
}

impl Panel<'_> {
    fn x(&self, second: f64) -> f64 {
        self.inner.x + (second / self.seconds).min(1.0) * self.inner.width
    }

    /// The grid, the seconds, and where phases begin.
    fn surround(&self, canvas: &mut Canvas, phases: &[Phase], unit: Unit, labelled: bool) {
        grid(canvas, self.inner, self.scale, unit, labelled);
        let below = self.inner.bottom() + 15.0;
        for second in steps(self.seconds, 5.0) {
            let anchor = if second == 0.0 { Anchor::Start } else { Anchor::Middle };
            // The last one would stand in the next panel.
            if self.x(second) + 14.0 < self.inner.right() {
                let text = label(second, Unit::S);
                canvas.text("faint small", (self.x(second), below), anchor, &text);
            }
        }
        canvas.text("faint small", (self.inner.right(), below), Anchor::End, "s");
        let mut begin = 0.0;
        let mut names = Vec::new();
        for phase in phases {
            if begin > 0.0 {
                let x = self.x(begin);
                canvas.line("phase", (x, self.inner.y), (x, self.inner.bottom()));
            }
            names.push(Placed { text: &phase.name, x: self.x(begin + phase.seconds / 2.0) });
            begin += phase.seconds;
        }
        for (name, x) in names.iter().zip(row(&names, self.inner)) {
            if let Some(x) = x {
                canvas.text("faint small", (x, self.inner.y - 5.0), Anchor::Middle, name.text);
            }
        }
    }

    fn line(&self, canvas: &mut Canvas, series: &Series) {
        for (first, piece) in pieces(&series.points) {
            // The value of a second stands in its middle.
            let x = |place: usize| self.x((first + place) as f64 + 0.5);
            let y = |value: f64| height(self.inner, self.scale, value);
            let along = |value: &dyn Fn(usize) -> f64| -> Vec<Point> {
                (0..piece.len()).map(|place| (x(place), y(value(place)))).collect()
            };
            let mut area = along(&|n| piece[n].max);
            area.extend(along(&|n| piece[n].min).into_iter().rev());
            canvas.shape(&band(&series.name), &area);
            let mut line = along(&|n| piece[n].median);
            if let [(x, y)] = line[..] {
                // Alone between two gaps: as wide as its second.
                let half = self.inner.width / self.seconds / 2.0;
                line = vec![(x - half, y), (x + half, y)];
            }
            canvas.path(&stroke(&series.name), &line);
        }
    }
}
