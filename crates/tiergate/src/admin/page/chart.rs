//! Charts as SVG: shapes stretch with the page, texts do not.

use maud::{Markup, html};
use std::fmt::Write;

/// The most columns of a chart: ten seconds each, or half a minute.
pub(super) const COLUMNS: usize = 120;
/// Marks that are nearer to a later one than this part of the width have no number of their own to be read.
const NUMBERS_APART: f64 = 0.025;
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

/// A chart of the last hour, or of the last minutes.
pub(super) struct Chart {
    /// How many there are: of each layer and line.
    pub(super) columns: usize,
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
        let mut below = vec![0.0; self.columns];
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
        let percent = |column: f64| format!("{:.1}%", column / self.columns as f64 * 100.0);
        html! {
            svg class={ "chart " (self.size) } role="img" aria-label=(self.label) {
                svg viewBox={ "0 0 " (self.columns) " " (HEIGHT) } preserveAspectRatio="none"
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
                    @if self.has_room(mark) {
                        text class="mark" x=(percent(mark.column)) y="10" { (mark.number) }
                    }
                }
            }
        }
    }

    /// Whether the number of a mark can be read: the latest of several at one place has one.
    fn has_room(&self, mark: &Mark) -> bool {
        let apart = NUMBERS_APART * self.columns as f64;
        !self
            .marks
            .iter()
            .any(|it| it.number < mark.number && (it.column - mark.column).abs() < apart)
    }
}

/// How many columns there are for so many points: a process that is young has fewer, so that what it did fills them.
pub(super) fn columns(points: usize) -> usize {
    [12, 36].into_iter().find(|it| points <= *it).unwrap_or(COLUMNS)
}

/// The times below a chart of so many columns, with so many points of ten seconds in each.
pub(super) fn axis(columns: usize, points_a_column: usize) -> Markup {
    let minutes = columns * points_a_column / 6;
    let (begin, middle) = match minutes {
        60 => ("1 h ago".to_owned(), "30 min".to_owned()),
        minutes => (format!("{minutes} min ago"), format!("{} min", minutes / 2)),
    };
    html! { div.axis aria-hidden="true" { span { (begin) } span { (middle) } span { "now" } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_fits_what_there_is() {
        let said = |points: usize, each| axis(columns(points), each).into_string();
        assert!(said(4, 1).contains("2 min ago"));
        assert!(said(13, 1).contains("6 min ago"));
        assert!(said(120, 1).contains("20 min ago"));
        assert!(said(360, 3).contains("1 h ago"));
    }

    #[test]
    fn numbers_that_would_lie_on_each_other_are_left_out() {
        let marks = [11.0, 10.9, 5.0].into_iter().zip(1..);
        let chart = Chart {
            columns: 12,
            label: String::new(),
            stack: Vec::new(),
            lines: Vec::new(),
            marks: marks.map(|(column, number)| Mark { column, number }).collect(),
            max: 1.0,
            size: "tall",
        };
        let drawn = chart.draw().into_string();
        assert_eq!(drawn.matches("<line").count(), 3);
        assert!(drawn.contains(">1</text>") && drawn.contains(">3</text>"), "{drawn}");
        assert!(!drawn.contains(">2</text>"), "{drawn}");
    }
}
