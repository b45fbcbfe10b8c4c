//! The course of the limit, as bars.

use super::rates::View;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Sparkline;

/// Points of the last hour from which on it is shown instead of the last minute: two minutes.
const HOUR_POINTS_MIN: usize = 12;

/// The number of slots over the last hour, or minute, from 0 to the highest, with both ends in figures.
pub(super) fn limit(frame: &mut Frame<'_>, area: Rect, view: &View, style: Style) {
    let minute = view.reading.status.limit.course.iter().map(|point| u64::from(point.slots));
    let hour = view.reading.incident.iter().flat_map(|it| &it.hour);
    let hour: Vec<u64> = hour.map(|point| u64::from(point.slots)).collect();
    let (slots, horizon): (Vec<u64>, String) = match hour.len() {
        len if len < HOUR_POINTS_MIN => (minute.collect(), "minute".to_owned()),
        // Ten seconds a point.
        len => (hour, if len >= 360 { "hour".to_owned() } else { format!("{} minutes", len / 6) }),
    };
    let low = slots.iter().min().copied().unwrap_or(0);
    let high = slots.iter().max().copied().unwrap_or(0);
    let label = format!("last {horizon}, {low}–{high} slots  ");
    let width = label.chars().count() as u16;
    let [text, bars] =
        Layout::horizontal([Constraint::Length(width), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Line::raw(label), text);
    let data = fitted(&slots, usize::from(bars.width));
    frame.render_widget(Sparkline::default().data(data).max(high.max(1)).style(style), bars);
}

/// The values in at most so many columns; several in a column show as the highest.
fn fitted(values: &[u64], columns: usize) -> Vec<u64> {
    let a_column = values.len().div_ceil(columns.max(1)).max(1);
    values.rchunks(a_column).rev().map(|it| it.iter().copied().max().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_do_not_fit_show_the_highest() {
        assert_eq!(fitted(&[1, 5, 2, 3, 9], 3), [1, 5, 9]);
        assert_eq!(fitted(&[1, 2], 9), [1, 2]);
        assert!(fitted(&[], 9).is_empty() && fitted(&[1, 7], 0) == [7]);
    }
}
