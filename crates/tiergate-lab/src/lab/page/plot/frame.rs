//! What surrounds the lines of a panel.

use super::scale::{Scale, label};
use super::svg::{Anchor, Area, Canvas, text_width};
use crate::lab::result::Unit;

/// Room for the labels of a vertical axis, in pixels.
pub(super) const AXIS_WIDTH: f64 = 46.0;

/// Size of labels, in pixels.
pub(super) const LABEL: f64 = 11.0;

/// Draws the lines across and, if asked to, what they stand for.
pub(super) fn grid(canvas: &mut Canvas, area: Area, scale: &Scale, unit: Unit, labelled: bool) {
    for (place, tick) in scale.ticks.iter().enumerate() {
        let y = height(area, scale, *tick);
        let class = if place == 0 { "axis" } else { "grid" };
        canvas.line(class, (area.x, y), (area.right(), y));
        if labelled {
            let text = label(*tick, unit);
            canvas.text("faint small", (area.x - 6.0, y + 4.0), Anchor::End, &text);
        }
    }
}

/// How far down a value is.
pub(super) fn height(area: Area, scale: &Scale, value: f64) -> f64 {
    area.bottom() - scale.at(value) * area.height
}

/// A label above or below a panel, with the place it is to be centred on.
pub(super) struct Placed<'a> {
    pub(super) text: &'a str,
    pub(super) x: f64,
}

/// Where labels in a row stand such that none touches another or leaves the area; `None`: no room.
pub(super) fn row(labels: &[Placed], area: Area) -> Vec<Option<f64>> {
    let mut end = f64::NEG_INFINITY;
    let mut place = |label: &Placed| {
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
