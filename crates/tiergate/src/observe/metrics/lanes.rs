//! Metrics of lanes.

use super::Readings;
use super::page::Page;

impl Readings<'_> {
    /// Nothing without lanes.
    pub(super) fn lanes(&self, page: &mut Page) {
        let lanes = &self.snapshot.lanes;
        if lanes.is_empty() {
            return;
        }
        page.gauge("lane_connections", "Open connections of the lane")
            .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], it.connections)));
        page.counter("lane_turned_away_total", "Connections that the lane had no room for")
            .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], it.turned_away)));
        let over = "Connections of the lane that another thread had accepted";
        page.counter("lane_handed_over_total", over)
            .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], it.handed_over)));
        let on = "Connections that threads of the lane had accepted, and that are not of it";
        page.counter("lane_handed_on_total", on)
            .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], it.handed_on)));
        page.gauge(
            "lane_priority_in_force",
            "Whether its threads have their priority (1), or the right to set it is missing (0)",
        )
        .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], u32::from(it.nice.is_some()))));
    }
}
