//! How figures are shown to people: numbers with their units, tables, colours and plots.
//!
//! Everything is a function of its arguments and gives the same bytes for the same figures; only
//! [`Paint::stdout`] and [`Block`] look at the terminal.

mod chart;
pub mod number;
mod paint;
mod scale;
mod series;
pub mod svg;
mod table;
mod terminal;

pub use chart::chart;
pub use paint::{Paint, Tone};
pub use scale::{Scale, steps};
pub use series::{Range, pieces};
pub use table::{Cell, Table};
pub use terminal::{Block, bar, spark};
