//! What came out of a trial behind each front, for people and for machines.

mod charts;
mod compared;
mod json;
mod offered;
mod svg;
mod sweep;
mod table;

pub use compared::Compared;
pub use json::json;
pub use offered::offered;
pub use svg::svg;
pub use sweep::sweep;
pub use table::table;
