//! Plots as SVG files: elements, one palette for light and dark, axes.
//!
//! 420 lines without a dependency. By `cargo tree`, plotters with its SVG backend brings 4 crates and charming 53; both write fixed colours, where
//! these follow the reader's light or dark theme by CSS, as README and docs need it.

mod axes;
mod canvas;
mod marks;
mod style;

pub use axes::{Axes, Placed, row};
pub use canvas::{Anchor, Area, Canvas, Point, text_width};
pub use marks::mark;
pub use style::{COLOURS, band, reach, series, stroke};
