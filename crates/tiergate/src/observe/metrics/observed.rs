//! Metrics of a policy that is observed.

use super::Readings;
use super::page::Page;
use tiergate_core::reason::Reason;

impl Readings<'_> {
    /// Nothing if none is.
    pub(super) fn observed(&self, page: &mut Page) {
        let Some(observed) = &self.snapshot.observed else { return };
        let classes = &observed.classes;
        let outcomes = classes.iter().flat_map(|it| {
            let tally = &it.tally;
            [
                ("both_admit", tally.both_admit),
                ("both_refuse", tally.both_refuse),
                ("would_admit", tally.would_admit),
                ("would_refuse", tally.would_refuse_total()),
                ("left", tally.left),
            ]
            .map(|(outcome, count)| ([("class", it.name.as_str()), ("outcome", outcome)], count))
        });
        page.counter(
            "observed_requests_total",
            "Requests by what the policy in force did and the observed one would have done",
        )
        .each(outcomes);
        let refused = classes.iter().flat_map(|it| {
            let of = move |reason: Reason| {
                ([("class", it.name.as_str()), ("reason", reason.name())], it.refused(reason))
            };
            Reason::ALL.into_iter().map(of).filter(|(_, count)| *count > 0)
        });
        page.counter(
            "observed_refused_total",
            "Requests that the observed policy would have refused, by reason",
        )
        .each(refused);
        page.gauge("observed_waiting", "Requests that would wait under the observed policy")
            .each(classes.iter().map(|it| ([("class", it.name.as_str())], it.waiting)));
        page.counter("observed_untracked_total", "Requests that were too many to be observed")
            .value(observed.untracked);
    }
}
