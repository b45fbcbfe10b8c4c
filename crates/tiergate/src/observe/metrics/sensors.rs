//! Metrics of the sensors.

use super::Readings;
use super::page::Page;
use tiergate_core::sense::Source;

impl Readings<'_> {
    /// Nothing without sensors.
    pub(super) fn sensors(&self, page: &mut Page) {
        let settings = self.sensors.settings();
        if settings.is_empty() {
            return;
        }
        let fresh = |name: &str| -> Option<&Source> {
            let sources = &self.snapshot.sources;
            sources.iter().find(|it| *it.name == *name && !it.is_stale(self.snapshot.at))
        };
        let label = |name| ("sensor", name);
        page.gauge("sensor_value", "Last reading, as long as it holds: a share, a length, a rate")
            .each(settings.iter().filter_map(|it| {
                let quantity = fresh(&it.name)?.quantity;
                let labels = [label(it.name.as_str()), ("quantity", quantity.name())];
                Some((labels, quantity.value()))
            }));
        page.gauge("sensor_up", "Whether the sensor has a reading that holds (1) or is silent (0)")
            .each(
                settings
                    .iter()
                    .map(|it| ([label(it.name.as_str())], u32::from(fresh(&it.name).is_some()))),
            );
        let states = self.sensors.states();
        page.counter("sensor_failures_total", "Readings that failed").each(
            settings
                .iter()
                .zip(&states)
                .map(|(it, state)| ([label(it.name.as_str())], state.failures)),
        );
        let refused: Vec<_> = settings
            .iter()
            .zip(&states)
            .filter_map(|(it, state)| Some(([label(it.name.as_str())], state.refused?)))
            .collect();
        if !refused.is_empty() {
            let about = "Reports of origin servers that were refused: unreadable, or numbers that cannot be";
            page.counter("sensor_reports_refused_total", about).each(refused);
        }
    }
}
