//! Metrics of the adaptations.

use super::Readings;
use super::page::Page;
use crate::observe::snapshot::AdaptationSnapshot;
use tiergate_core::gate::{Adapts, GuaranteeState, WatchState};

impl Readings<'_> {
    /// Nothing without adaptations.
    pub(super) fn adaptations(&self, page: &mut Page) {
        let all = &self.snapshot.adaptations;
        if all.is_empty() {
            return;
        }
        let label = |it: &AdaptationSnapshot| ("adaptation", it.state.settings.name.clone());
        let sensor = |it: &WatchState| ("sensor", it.watched.source.to_string());
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
        let readings = || {
            all.iter().flat_map(|it| {
                let of = move |reading| ([label(it), sensor(reading)], reading);
                it.state.readings.iter().map(of)
            })
        };
        page.gauge("adaptation_reading", "What the levels follow, if it is known")
            .each(readings().filter_map(|(labels, it)| Some((labels, it.reading?))));
        page.gauge("adaptation_reference", "Where that is to stay")
            .each(readings().map(|(labels, it)| (labels, it.watched.reference.value())));
        let states = all.iter().flat_map(|it| {
            Adapts::ALL.map(|state| {
                let is = u8::from(it.state.state == state);
                ([label(it), ("state", state.name().to_owned())], is)
            })
        });
        page.gauge("adaptation_state", "What the adaptation is doing (1)").each(states);
        self.guarantees(page);
    }

    /// Nothing without guarantees.
    fn guarantees(&self, page: &mut Page) {
        let all = self.snapshot.adaptations.iter().filter(|it| !it.guarantees.is_empty());
        let name = |it: &AdaptationSnapshot| ("adaptation", it.state.settings.name.clone());
        let sites = |of: fn(&GuaranteeState) -> f64| {
            all.clone().flat_map(move |it| {
                let label = move |(site, state): &(String, GuaranteeState)| {
                    ([name(it), ("site", site.clone())], of(state))
                };
                it.guarantees.iter().map(label)
            })
        };
        if all.clone().next().is_none() {
            return;
        }
        page.gauge(
            "guarantee_ratio",
            "Share of what the sensor measures that the site can rely on",
        )
        .each(sites(|it| it.guaranteed));
        page.gauge("guarantee_used_ratio", "Share that it uses, by the policy's costs")
            .each(sites(|it| it.used));
        page.gauge("guarantee_kept_ratio", "The part of the guarantees that is kept")
            .each(all.clone().map(|it| ([name(it)], it.state.kept)));
    }
}
