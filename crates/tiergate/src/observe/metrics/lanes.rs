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
        page.gauge(
            "lane_priority_in_force",
            "Whether its threads have their priority (1), or the right to set it is missing (0)",
        )
        .each(lanes.iter().map(|it| ([("lane", it.name.as_str())], u32::from(it.nice.is_some()))));
    }
}
