//! Charts as SVG: shapes stretch with the page, texts do not.

use maud::{Markup, html};
use std::fmt::Write;

/// Columns of a chart: ten seconds each, or half a minute.
pub(super) const COLUMNS: usize = 120;
/// Height of the shapes' own coordinates.
const HEIGHT: f64 = 100.0;

/// What is drawn one above the other: the name of its style, and a value for each column.
pub(super) struct Layer {
    pub(super) style: &'static str,
    pub(super) values: Vec<f64>,
}

/// A numbered mark at a column.
pub(super) struct Mark {
    pub(super) column: f64,
    pub(super) number: usize,
}

/// A chart of the last hour, or of the last twenty minutes.
pub(super) struct Chart {
    /// What it shows, for those who do not see it.
    pub(super) label: String,
    /// Stacked, from below.
    pub(super) stack: Vec<Layer>,
    /// Lines; a column without a value breaks one.
    pub(super) lines: Vec<(&'static str, Vec<Option<f64>>)>,
    pub(super) marks: Vec<Mark>,
    /// The highest value.
    pub(super) max: f64,
    /// The style of its height.
    pub(super) size: &'static str,
}

impl Chart {
    pub(super) fn draw(&self) -> Markup {
        let y = |value: f64| HEIGHT - (value / self.max.max(1e-9)).clamp(0.0, 1.0) * HEIGHT;
        let mut below = vec![0.0; COLUMNS];
        let areas: Vec<(&str, String)> = self
            .stack
            .iter()
            .map(|layer| {
                let mut path = String::new();
                for (column, value) in layer.values.iter().enumerate().filter(|(_, it)| **it > 0.0)
                {
                    let (low, high) = (y(below[column]), y(below[column] + value));
                    let _infallible = write!(path, "M{column} {low:.1}V{high:.1}h1V{low:.1}z");
                    below[column] += value;
                }
                (layer.style, path)
            })
            .collect();
        let lines = self.lines.iter().map(|(style, values)| {
            let mut path = String::new();
            let mut pen = 'M';
            for (column, value) in values.iter().enumerate() {
                match value {
                    Some(value) => {
                        let _infallible = write!(path, "{pen}{column} {:.1}h1", y(*value));
                        pen = 'L';
                    }
                    None => pen = 'M',
                }
            }
            (*style, path)
        });
        let percent = |column: f64| format!("{:.1}%", column / COLUMNS as f64 * 100.0);
        html! {
            svg class={ "chart " (self.size) } role="img" aria-label=(self.label) {
                svg viewBox={ "0 0 " (COLUMNS) " " (HEIGHT) } preserveAspectRatio="none"
                    width="100%" height="100%" {
                    @for (style, path) in &areas {
                        path class=(style) d=(path) {}
                    }
                    @for (style, path) in lines {
                        path class={ "line " (style) } d=(path) {}
                    }
                }
                @for mark in &self.marks {
                    line class="mark" x1=(percent(mark.column)) x2=(percent(mark.column)) y1="12" y2="100%" {}
                    text class="mark" x=(percent(mark.column)) y="10" { (mark.number) }
                }
            }
        }
    }
}

/// The times below a chart of so many points of ten seconds a column.
pub(super) fn axis(points_a_column: usize) -> Markup {
    let (begin, middle) =
        if points_a_column == 1 { ("20 min ago", "10 min") } else { ("1 h ago", "30 min") };
    html! { div.axis aria-hidden="true" { span { (begin) } span { (middle) } span { "now" } } }
}
