//! What surrounds the lines of a panel: the grid, the marks, time from left to right.

use super::canvas::{Anchor, Area, Canvas, Point, text_width};
use crate::number::short;
use crate::scale::{Scale, steps};
use crate::series::pieces;

/// Size of labels, in pixels.
const LABEL: f64 = 11.0;

/// A panel in which values of a scale are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Axes<'a> {
    /// Where, without the labels.
    pub area: Area,
    /// What is higher is larger.
    pub scale: &'a Scale,
    /// Seconds from the left edge to the right one, in a panel over time.
    pub seconds: f64,
}

impl Axes<'_> {
    /// Draws the lines across and, if `label` says it, what they stand for.
    pub fn grid(&self, canvas: &mut Canvas, label: Option<&dyn Fn(f64) -> String>) {
        for (place, tick) in self.scale.ticks.iter().enumerate() {
            let y = self.y(*tick);
            let class = if place == 0 { "axis" } else { "grid" };
            canvas.line(class, (self.area.x, y), (self.area.right(), y));
            if let Some(label) = label {
                canvas.text(
                    "faint small",
                    (self.area.x - 6.0, y + 4.0),
                    Anchor::End,
                    &label(*tick),
                );
            }
        }
    }

    /// Writes the seconds below.
    pub fn time(&self, canvas: &mut Canvas) {
        let below = self.area.bottom() + 15.0;
        for second in steps(self.seconds, 5.0) {
            let anchor = if second == 0.0 { Anchor::Start } else { Anchor::Middle };
            // The last one would stand in the next panel.
            if self.x(second) + 14.0 < self.area.right() {
                canvas.text("faint small", (self.x(second), below), anchor, &short(second));
            }
        }
        canvas.text("faint small", (self.area.right(), below), Anchor::End, "s");
    }

    /// Where a second is from left to right.
    pub fn x(&self, second: f64) -> f64 {
        self.area.x + (second / self.seconds).min(1.0) * self.area.width
    }

    /// How far down a value is.
    pub fn y(&self, value: f64) -> f64 {
        self.area.bottom() - self.scale.at(value) * self.area.height
    }

    /// Draws values of equal stretches of time, one after another; gaps are not bridged.
    pub fn line(&self, canvas: &mut Canvas, class: &str, values: &[Option<f64>], stretch_s: f64) {
        for (first, piece) in pieces(values) {
            // A value stands in the middle of its stretch.
            let x = |place: usize| self.x(((first + place) as f64 + 0.5) * stretch_s);
            let mut line: Vec<Point> =
                piece.iter().enumerate().map(|(place, value)| (x(place), self.y(*value))).collect();
            if let [(x, y)] = line[..] {
                // Alone between two gaps: as wide as its stretch.
                let half = self.area.width / self.seconds * stretch_s / 2.0;
                line = vec![(x - half, y), (x + half, y)];
            }
            canvas.path(class, &line);
        }
    }
}

/// A label above or below a panel, with the place it is to be centred on.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// What it says.
    pub text: &'a str,
    /// Its middle, in pixels.
    pub x: f64,
}

/// Where labels in a row stand such that none touches another or leaves the area; `None`: no room.
pub fn row(labels: &[Placed<'_>], area: Area) -> Vec<Option<f64>> {
    let mut end = f64::NEG_INFINITY;
    let mut place = |label: &Placed<'_>| {
        let half = text_width(label.text, LABEL) / 2.0;
        // One that is wider than everything is centred.
        let x = label.x.clamp(area.x + half, (area.right() - half).max(area.x + half));
        let free = end + 5.0 <= x - half;
        free.then(|| {
            end = x + half;
            x
        })
    };
    labels.iter().map(&mut place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_do_not_touch() {
        let area = Area { x: 0.0, y: 0.0, width: 200.0, height: 10.0 };
        let at = |x: f64| Placed { text: "12345", x };
        let placed = row(&[at(0.0), at(20.0), at(70.0), at(190.0)], area);
        let half = text_width("12345", LABEL) / 2.0;
        assert_eq!(placed, [Some(half), None, Some(70.0), Some(200.0 - half)]);
    }
}
