//! Metrics of the gate: classes, the limit, rules, policers, sessions.

use super::Readings;
use super::page::{Page, Rows};
use crate::observe::snapshot::{ClassSnapshot, PoolSnapshot, ResourceSnapshot};
use std::time::SystemTime;
use tiergate_core::admit::policer::PolicerState;
use tiergate_core::admit::session::{SessionAccount, SessionEnd};
use tiergate_core::control::TargetState;
use tiergate_core::gate::SteerState;
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;
use tiergate_core::stored::Instead;

impl Readings<'_> {
    pub(super) fn classes(&self, page: &mut Page) {
        page.counter("requests_arrived_total", "Requests that came to the gate")
            .each(self.by_class(|it| it.account.arrived));
        page.counter("requests_admitted_at_once_total", "Requests that got a slot on arrival")
            .each(self.by_class(|it| it.account.admitted_at_once));
        page.counter("requests_queued_total", "Requests that waited for a slot")
            .each(self.by_class(|it| it.account.queued));
        page.counter("requests_cancelled_waiting_total", "Requests whose client left the queue")
            .each(self.by_class(|it| it.account.cancelled_waiting));
        let refused =
            self.by_class(|it| &it.account.refused).flat_map(|([class, pool], refused)| {
                Reason::ALL.map(|why| ([class, pool, ("reason", why.name())], refused[why.index()]))
            });
        page.counter("requests_refused_total", "Requests refused, by reason").each(refused);
        let stored = self.by_class(|it| &it.account.stored).flat_map(|([class, pool], stored)| {
            Instead::ALL.map(|it| ([class, pool, ("instead_of", it.name())], stored[it.index()]))
        });
        page.counter(
            "requests_stored_total",
            "Requests that got a stored copy, by what it was served instead of",
        )
        .each(stored);
        let finished =
            self.by_class(|it| &it.account.finished).flat_map(|([class, pool], finished)| {
                End::ALL.map(|end| ([class, pool, ("end", end.name())], finished[end.index()]))
            });
        page.counter(
            "requests_finished_total",
            "Requests that held a slot, by end; `served` is goodput",
        )
        .each(finished);
        page.gauge("requests_waiting", "Requests in the queue")
            .each(self.by_class(|it| it.state.waiting));
        page.gauge("requests_running", "Slots in use").each(self.by_class(|it| it.state.running));
        page.gauge("streams", "Open streams (SSE, gRPC) that hold no slot")
            .each(self.by_class(|it| it.state.streams));
        page.gauge("patience_seconds", "After how long clients leave, as far as that is known")
            .each(
                self.by_class(|it| it.state.patience)
                    .filter_map(|(labels, patience)| Some((labels, patience?.as_secs_f64()))),
            );
        self.service_targets(page);
        page.gauge("class_info", "The site and order of a class; always 1").each(
            self.planned_classes().map(|it| {
                let labels = [("class", &*it.class.name), ("site", &*it.site), ("order", it.order)];
                (labels, 1)
            }),
        );
        page.gauge("share_ratio", "Share of the site's slots, where slots are shared or fixed")
            .each(self.by_planned_class(|it| it.class.share));
        page.gauge("queue_length_max", "Bound on the queue")
            .each(self.by_planned_class(|it| it.class.queue_len_max));
        page.gauge("guaranteed_share_ratio", "Guaranteed share of the slots")
            .each(self.by_planned_class(|it| it.class.minimum));
        let cpu = |it: &ClassSnapshot| self.counters.cpu.of(it.id);
        page.counter(
            "gateway_cpu_measured_seconds_total",
            "Processor time that the gateway spent on those requests that were measured, one in 64 at random",
        )
        .each(self.by_own_class(|it| cpu(it).time.as_secs_f64()));
        page.counter("gateway_cpu_measured_requests_total", "Requests that were measured")
            .each(self.by_own_class(|it| cpu(it).requests));
        page.counter("origin_bytes_total", "Bytes of answers that came from the origin")
            .each(self.by_class(|it| it.account.origin_bytes));
        page.histogram("queue_wait_seconds", "Time in the queue of requests that got a slot")
            .durations(self.by_class(|it| &it.account.wait));
        page.histogram("first_byte_seconds", "From the slot to the origin's first byte")
            .durations(self.by_class(|it| &it.account.first_byte));
        page.histogram("service_seconds", "From the slot to the origin's last byte")
            .durations(self.by_class(|it| &it.account.service));
    }

    /// Nothing without a target, or where the number of slots is given.
    fn service_targets(&self, page: &mut Page) {
        let targets = || {
            self.by_class(|it| it.state.target)
                .filter_map(|(labels, target)| Some((labels, target?)))
        };
        if targets().next().is_none() {
            return;
        }
        page.gauge("service_target_seconds", "Time that the origin may take, by quantile").each(
            targets().map(|([class, pool], TargetState { target, .. })| {
                let quantile = ("quantile", target.quantile.name());
                ([class, pool, quantile], target.time.as_secs_f64())
            }),
        );
        page.gauge("service_target_slots", "Most slots by the service target, if it bounds them")
            .each(targets().filter_map(|(labels, it)| Some((labels, it.slots?))));
        page.gauge("service_target_missed", "Whether it is missed and fewer slots do not help (1)")
            .each(targets().map(|(labels, it)| (labels, u32::from(it.is_missed))));
        page.counter("service_target_answers_total", "Answers compared with the service target")
            .each(targets().map(|(labels, it)| (labels, it.answers)));
        page.counter("service_target_late_total", "Those that took longer")
            .each(targets().map(|(labels, it)| (labels, it.late)));
    }

    pub(super) fn limit(&self, page: &mut Page) {
        page.gauge("slots", "Concurrent requests that the origin gets at most")
            .each(self.by_pool(|it| it.slots));
        page.gauge("slots_running", "Slots in use by all classes")
            .each(self.by_pool(|it| it.running));
        page.gauge(
            "slots_lent",
            "Requests in progress without a slot: it is lent, or they wait for another server's",
        )
        .each(self.by_pool(|it| it.lent));
        page.gauge("slots_adaptive", "Whether the number of slots is adaptive (1) or fixed (0)")
            .each(self.by_pool(|it| u32::from(it.adaptive)));
        page.gauge(
            "slots_shared",
            "Whether the number of slots is found together with other gateways (1)",
        )
        .each(self.by_pool(|it| u32::from(it.shared)));
        let steps = self.by_pool(|it| it.last_step);
        let steps = steps.filter_map(|(labels, step)| Some((labels, step?)));
        if steps.clone().next().is_some() {
            page.gauge("slots_last_change", "Number of slots since the last change, by its cause")
                .each(
                    steps.clone().map(|([pool], (_, step))| {
                        ([("cause", step.cause.name()), pool], step.slots)
                    }),
                );
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let at = |at| now.as_secs_f64() - self.snapshot.at.since(at).as_secs_f64();
            page.gauge("slots_last_change_timestamp_seconds", "UNIX time of the last change")
                .each(steps.map(|(labels, (changed, _))| (labels, at(changed))));
        }
        self.resources(page);
        self.background(page);
        let shedding = self.by_pool(|it| it.shedding);
        let shedding = shedding.filter_map(|(labels, shedding)| Some((labels, shedding?)));
        if shedding.clone().next().is_some() {
            page.gauge("shed_fraction", "Fraction of requests shed, the least important first")
                .each(shedding.clone().map(|(labels, it)| (labels, it.fraction)));
            page.gauge("shed_overload", "Queue delay against its target; 0.5 at the target")
                .each(shedding.map(|(labels, it)| (labels, it.overload)));
        }
    }

    /// Nothing without background classes.
    fn background(&self, page: &mut Page) {
        let rows = self.by_pool(|it| it.background);
        let rows = rows.filter_map(|(labels, background)| Some((labels, background?)));
        if rows.clone().next().is_none() {
            return;
        }
        page.gauge(
            "background_slots",
            "Background requests that may be in progress while others come, on average",
        )
        .each(rows.clone().map(|(labels, it)| (labels, it.most)));
        page.gauge("background_running", "Background requests in progress")
            .each(rows.clone().map(|(labels, it)| (labels, it.running)));
        page.gauge(
            "background_felt_ratio",
            "By how much each background request makes others longer",
        )
        .each(rows.clone().map(|(labels, it)| (labels, it.felt.each.exp_m1())));
        page.gauge("background_felt_error", "Standard error of background_felt_ratio")
            .each(rows.map(|(labels, it)| (labels, it.felt.error)));
    }

    /// Nothing without resources.
    fn resources(&self, page: &mut Page) {
        if self.by_resource(|_| ()).next().is_none() {
            return;
        }
        page.gauge("resource_slots", "Concurrent requests that may use the resource")
            .each(self.by_resource(|it| it.slots));
        page.gauge("resource_slots_running", "Slots of the resource in use")
            .each(self.by_resource(|it| it.running));
        page.gauge("resource_slots_adaptive", "Whether their number is adaptive (1) or fixed (0)")
            .each(self.by_resource(|it| u32::from(it.adaptive)));
        page.gauge("resource_waiting", "Requests in the queue that need the resource")
            .each(self.by_resource(|it| it.waiting));
        page.gauge("requests_held_up", "Requests in the queue whose resource has no free slot")
            .each(self.by_class(|it| it.state.held_up));
    }

    pub(super) fn rules(&self, page: &mut Page) {
        let gate = &self.snapshot;
        page.counter(
            "rule_hits_total",
            "Requests whose class the rule decided, by name or else number; the first 500 rules",
        )
        .each(gate.rule_hits.iter().map(|(rule, hits)| ([("rule", rule.as_str())], hits)));
        page.counter("rule_unmatched_total", "Requests that no rule matched").value(gate.unmatched);
        page.gauge("rules", "Rules of the policy").value(gate.rules);
        page.gauge("rules_shown", "Rules whose hits are shown").value(gate.rule_hits.len());
    }

    pub(super) fn policers(&self, page: &mut Page) {
        page.counter("policer_passed_total", "Requests that took a token")
            .each(self.by_policer(|it| it.counts.passed));
        page.counter("policer_overflow_total", "Requests that took one of the overflow bucket")
            .each(self.by_policer(|it| it.counts.overflow));
        page.counter("policer_refused_total", "Requests refused for want of a token")
            .each(self.by_policer(|it| it.counts.refused));
        page.counter("policer_untracked_total", "Requests passed because the table was full")
            .each(self.by_policer(|it| it.counts.untracked));
        page.gauge("policer_tokens_per_second", "Rate in force")
            .each(self.by_policer(|it| it.rate.tokens_per_second()));
        page.gauge("policer_flows", "Flows whose bucket is not full, approximately")
            .each(self.by_policer(|it| it.flows));
        let steered = &self.snapshot.steered;
        if steered.is_empty() {
            return;
        }
        let label = |it: &'_ SteerState| ("policer", it.policer.clone());
        page.gauge("policer_control_reading", "What the policer's rate follows, if it is known")
            .each(steered.iter().filter_map(|it| Some(([label(it)], it.reading?))));
        page.gauge("policer_control_reference", "Where that is to stay")
            .each(steered.iter().map(|it| ([label(it)], it.reference.value())));
        page.gauge("policer_control_state", "What the control is doing; always 1")
            .each(steered.iter().map(|it| ([label(it), ("state", it.state.name().to_owned())], 1)));
    }

    /// Nothing but the number in the table without `[session]`: no class has an account then.
    pub(super) fn sessions(&self, page: &mut Page) {
        page.gauge("sessions_running", "Sessions in the table").value(self.sessions.running);
        page.counter("sessions_started_total", "Sessions begun: a first request succeeded")
            .each(self.by_session_class(|it| it.started));
        page.counter("sessions_resumed_total", "Sessions proven by a signature, not in the table")
            .each(self.by_session_class(|it| it.resumed));
        page.counter("sessions_broken_total", "Sessions over whose last request was refused")
            .each(self.by_session_class(|it| it.broken));
        page.counter("sessions_refused_new_total", "Refused requests of no running session")
            .each(self.by_session_class(|it| it.refused_new));
        page.counter("sessions_refused_running_total", "Refused requests of a running session")
            .each(self.by_session_class(|it| it.refused_running));
        let ended = self.by_session_class(|it| it.ended).flat_map(|([class], ended)| {
            SessionEnd::ALL.map(|end| ([class, ("end", end.name())], ended[end as usize]))
        });
        page.counter("sessions_ended_total", "Sessions over, by how they ended").each(ended);
        page.histogram("session_requests", "Requests answered of each session that is over")
            .lengths(self.by_session_class(|it| &it.lengths));
    }

    fn by_pool<'a, V>(
        &'a self,
        value: impl Fn(&'a PoolSnapshot) -> V + Clone,
    ) -> impl Rows<'a, V, 1> + Clone {
        self.snapshot.pools().map(move |it| ([("pool", it.name.as_str())], value(it)))
    }

    fn by_resource<'a, V>(
        &'a self,
        value: impl Fn(&'a ResourceSnapshot) -> V,
    ) -> impl Rows<'a, V, 2> {
        let all = |pool: &'a PoolSnapshot| pool.resources.iter().map(move |it| (pool, it));
        self.snapshot.pools().flat_map(all).map(move |(pool, it)| {
            ([("resource", it.name.as_str()), ("pool", pool.name.as_str())], value(it))
        })
    }

    fn by_class<'a, V>(&'a self, value: impl Fn(&'a ClassSnapshot) -> V) -> impl Rows<'a, V, 2> {
        let classes = |pool: &'a PoolSnapshot| pool.classes.iter().map(move |it| (pool, it));
        self.snapshot.pools().flat_map(classes).map(move |(pool, it)| {
            ([("class", it.class.name.as_str()), ("pool", pool.name.as_str())], value(it))
        })
    }

    /// Those that the policy has, whatever the pool: of one that is gone, nothing is in force.
    fn planned_classes(&self) -> impl Iterator<Item = &ClassSnapshot> + Clone {
        self.snapshot.default.classes.iter().filter(|it| it.is_planned)
    }

    /// All that were ever counted, also those that are gone, whatever the pool.
    fn by_own_class<'a, V>(
        &'a self,
        value: impl Fn(&'a ClassSnapshot) -> V,
    ) -> impl Rows<'a, V, 1> {
        let classes = self.snapshot.default.classes.iter();
        classes.map(move |it| ([("class", it.class.name.as_str())], value(it)))
    }

    fn by_planned_class<'a, V>(
        &'a self,
        value: impl Fn(&'a ClassSnapshot) -> V,
    ) -> impl Rows<'a, V, 1> {
        self.planned_classes().map(move |it| ([("class", it.class.name.as_str())], value(it)))
    }

    fn by_policer<'a, V>(&'a self, value: impl Fn(&'a PolicerState) -> V) -> impl Rows<'a, V, 1> {
        let policers = self.snapshot.policers.iter();
        policers.map(move |(name, state)| ([("policer", name.as_str())], value(state)))
    }

    fn by_session_class<'a, V>(
        &'a self,
        value: impl Fn(&'a SessionAccount) -> V,
    ) -> impl Rows<'a, V, 1> {
        const NONE: &SessionAccount = &SessionAccount::NONE;
        let accounts = &self.sessions.classes;
        // Without `[session]` there are none.
        let classes = self.snapshot.default.classes.iter().filter(|_| !accounts.is_empty());
        classes.map(move |it| {
            let account = accounts.get(it.id.index()).unwrap_or(NONE);
            ([("class", it.class.name.as_str())], value(account))
        })
    }
}
