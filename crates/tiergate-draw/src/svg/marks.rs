//! Marks of points: one shape a colour.

use super::canvas::{Canvas, Point};

/// Draws a colour's mark.
pub fn mark(canvas: &mut Canvas, colour: usize, (x, y): Point) {
    let class = format!("m f{colour}");
    let polygon = |r: f64, corners: &[(f64, f64)]| -> Vec<Point> {
        corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect()
    };
    let square = [(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)];
    let diamond = [(0.0, -1.0), (1.0, 0.0), (0.0, 1.0), (-1.0, 0.0)];
    let up = [(0.0, -1.0), (1.0, 0.8), (-1.0, 0.8)];
    let down = [(0.0, 1.0), (1.0, -0.8), (-1.0, -0.8)];
    match colour {
        0 => canvas.circle(&class, (x, y), 4.5),
        1 => canvas.circle(&format!("o s{colour}"), (x, y), 2.6),
        2 => canvas.shape(&class, &polygon(3.2, &square)),
        3 => canvas.shape(&class, &polygon(4.2, &up)),
        4 => canvas.shape(&class, &polygon(4.4, &diamond)),
        5 => canvas.shape(&class, &polygon(4.2, &down)),
        6 => canvas.circle(&class, (x, y), 3.4),
        _ => canvas.shape(&format!("o s{colour}"), &polygon(2.8, &square)),
    }
}
