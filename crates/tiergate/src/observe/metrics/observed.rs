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
        page.counter(
            "observed_rule_hits_total",
            "Requests whose class the rule would have decided, by name or else number; the first 500 rules",
        )
        .each(observed.rule_hits.iter().map(|(rule, hits)| ([("rule", rule.as_str())], hits)));
        self.observed_policers(page);
        let levels = observed.adaptations.iter().flat_map(|(name, levels)| {
            let of = move |(level, count): (usize, &u64)| {
                ([("adaptation", name.clone()), ("level", level.to_string())], *count)
            };
            levels.iter().enumerate().map(of)
        });
        page.counter(
            "observed_adaptation_requests_total",
            "Requests by the level that they would have been answered at; 0: refused for it",
        )
        .each(levels);
    }

    fn observed_policers(&self, page: &mut Page) {
        let policers = self.snapshot.observed.iter().flat_map(|it| &it.policers);
        let by_policer = || policers.clone().map(|(name, it)| ([("policer", name.as_str())], it));
        page.counter("observed_policer_passed_total", "Requests that would have taken a token")
            .each(by_policer().map(|(labels, it)| (labels, it.counts.passed)));
        page.counter(
            "observed_policer_refused_total",
            "Requests that would have been refused for want of a token",
        )
        .each(by_policer().map(|(labels, it)| (labels, it.counts.refused)));
        page.gauge("observed_policer_tokens_per_second", "The rate that would be in force")
            .each(by_policer().map(|(labels, it)| (labels, it.rate.tokens_per_second())));
    }
}
