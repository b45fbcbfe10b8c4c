//! Metrics of the adaptations.

use super::Readings;
use super::page::Page;
use crate::observe::snapshot::AdaptationSnapshot;
use tiergate_core::gate::Adapts;

impl Readings<'_> {
    /// Nothing without adaptations.
    pub(super) fn adaptations(&self, page: &mut Page) {
        let all = &self.snapshot.adaptations;
        if all.is_empty() {
            return;
        }
        let label = |it: &AdaptationSnapshot| ("adaptation", it.state.settings.name.clone());
        let set_points = all.iter().flat_map(|it| {
            let of = move |(class, set_point): &(String, f64)| {
                ([label(it), ("class", class.clone())], *set_point)
            };
            it.set_points.iter().map(of)
        });
        page.gauge(
            "adaptation_set_point",
            "The level of the class's clients; a part as large as its fraction has the next one",
        )
        .each(set_points);
        page.gauge("adaptation_levels", "The highest level, full quality")
            .each(all.iter().map(|it| ([label(it)], it.state.settings.highest())));
        let answered = all.iter().flat_map(|it| {
            let of = move |(level, count): (usize, &u64)| {
                ([label(it), ("level", level.to_string())], *count)
            };
            it.state.answered.iter().enumerate().map(of)
        });
        page.counter(
            "adaptation_requests_total",
            "Requests by the level that they were answered at; 0: refused for it",
        )
        .each(answered);
        page.gauge("adaptation_reading", "What the levels follow, if it is known")
            .each(all.iter().filter_map(|it| Some(([label(it)], it.state.reading?))));
        page.gauge("adaptation_reference", "Where that is to stay")
            .each(all.iter().map(|it| ([label(it)], it.state.settings.reference.value())));
        let states = all.iter().flat_map(|it| {
            Adapts::ALL.map(|state| {
                let is = u8::from(it.state.state == state);
                ([label(it), ("state", state.name().to_owned())], is)
            })
        });
        page.gauge("adaptation_state", "What the adaptation is doing (1)").each(states);
    }
}
