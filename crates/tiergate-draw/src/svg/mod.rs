//! Plots as SVG files: elements, one palette for light and dark, axes.

mod axes;
mod canvas;
mod marks;
mod style;

pub use axes::{Axes, Placed, row};
pub use canvas::{Anchor, Area, Canvas, Point, text_width};
pub use marks::mark;
pub use style::{COLOURS, band, reach, series, stroke};
