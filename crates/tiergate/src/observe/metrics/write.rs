//! Every metric: its name, its meaning, its labels, its value.

use super::Readings;
use super::page::Page;
use crate::names::Ended;
use crate::observe::counters::{BAD_STATUSES, Protocol, STATUS_CLASSES, ServerCounters};
use crate::observe::origin::ServerStatus;
use crate::observe::snapshot::ClassSnapshot;
use crate::tokens::Proof;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::registry::Unit;
use std::fmt::Error;
use std::time::{Duration, SystemTime};
use tiergate_core::admit::policer::Counts;
use tiergate_core::histogram::Histogram;
use tiergate_core::outcome::End;
use tiergate_core::reason::Reason;

type ClassCount = fn(&ClassSnapshot) -> u64;
type ClassHistogram = fn(&ClassSnapshot) -> &Histogram;
type PolicerCount = fn(&Counts) -> u64;
type ServerCount = fn(&ServerCounters) -> u64;
type ServerLevel = fn(&ServerStatus) -> u32;

impl Collector for Readings {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut page = Page::new(encoder);
        self.process(&mut page)?;
        self.classes(&mut page)?;
        self.durations(&mut page)?;
        self.shedding(&mut page)?;
        self.limit(&mut page)?;
        self.sessions(&mut page)?;
        self.rules(&mut page)?;
        self.policers(&mut page)?;
        self.clients(&mut page)?;
        self.origin(&mut page)?;
        self.names(&mut page)?;
        self.house(&mut page)
    }
}

impl Readings {
    fn process(&self, page: &mut Page<'_>) -> Result<(), Error> {
        page.gauges(
            "tiergate_build_info",
            "The build that runs; always 1",
            [([("version", self.version)], 1u32)],
        )?;
        page.gauge("tiergate_uptime_seconds", "Time since the process started", {
            self.now.duration_since(self.started).unwrap_or_default().as_secs_f64()
        })?;
        let start = epoch_seconds(self.started);
        page.gauge("process_start_time_seconds", "When the process started, as UNIX time", start)?;
        let usage = self.process;
        if let Some(seconds) = usage.cpu_seconds {
            let help = "User and system CPU time of all threads";
            page.counter_of("process_cpu", &Unit::Seconds, help, seconds)?;
        }
        if let Some(bytes) = usage.resident_bytes {
            page.gauge("process_resident_memory_bytes", "Memory in use", bytes)?;
        }
        if let Some(fds) = usage.open_fds {
            page.gauge("process_open_fds", "Open file descriptors", fds)?;
        }
        if let Some(fds) = usage.fds_max {
            page.gauge("process_max_fds", "File descriptors that may be open", fds)?;
        }
        Ok(())
    }

    fn classes(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let counts: [(&str, &str, ClassCount); 4] = [
            ("requests_arrived", "Requests that came to the gate", |class| class.account.arrived),
            ("requests_admitted_at_once", "Requests that got a slot on arrival", |class| {
                class.account.admitted_at_once
            }),
            ("requests_queued", "Requests that had to wait for a slot", |class| {
                class.account.queued
            }),
            (
                "requests_cancelled_waiting",
                "Requests whose client left while they waited",
                |class| class.account.cancelled_waiting,
            ),
        ];
        for (name, help, count) in counts {
            let rows = self.each_class(count);
            page.counters(&format!("tiergate_{name}"), help, rows)?;
        }
        let refused = self.snapshot.classes.iter().flat_map(|class| {
            let row = |reason: &Reason| {
                let labels = [("class", class.name.as_str()), ("reason", reason.name())];
                (labels, class.account.refused[reason.index()])
            };
            Reason::ALL.iter().map(row).collect::<Vec<_>>()
        });
        page.counters("tiergate_requests_refused", "Requests refused, by reason", refused)?;
        let finished = self.snapshot.classes.iter().flat_map(|class| {
            let row = |end: &End| {
                let labels = [("class", class.name.as_str()), ("end", end.name())];
                (labels, class.account.finished[end.index()])
            };
            End::ALL.iter().map(row).collect::<Vec<_>>()
        });
        let help = "Requests that gave their slot back, by how they ended; served is goodput";
        page.counters("tiergate_requests_finished", help, finished)?;

        let rows = self.each_class(|class| class.state.waiting);
        page.gauges("tiergate_requests_waiting", "Requests that wait for a slot now", rows)?;
        let rows = self.each_class(|class| class.state.running);
        page.gauges("tiergate_requests_running", "Slots that the class holds now", rows)?;
        let rows = self.each_class(|class| class.state.streams);
        page.gauges("tiergate_streams", "Streams (SSE, gRPC) open now that hold no slot", rows)?;
        let rows = self.snapshot.classes.iter().map(|class| {
            let labels = [("class", &*class.name), ("site", &*class.site), ("order", class.order)];
            (labels, 1u32)
        });
        page.gauges("tiergate_class_info", "The class's site and order; always 1", rows)?;
        let rows = self.each_class(|class| class.share);
        let help = "Its share of its site's slots, where they are shared or fixed";
        page.gauges("tiergate_share_ratio", help, rows)?;
        let rows = self.each_class(|class| class.queue_len_max);
        page.gauges("tiergate_queue_length_max", "Bound on the class's queue", rows)?;
        let rows = self.each_class(|class| class.minimum);
        page.gauges("tiergate_minimum_share_ratio", "Share of the slots it is sure of", rows)
    }

    fn durations(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let histograms: [(&str, &str, ClassHistogram); 3] = [
            ("tiergate_queue_wait", "Time in the queue of requests that got a slot", |class| {
                &class.account.wait
            }),
            ("tiergate_first_byte", "From the slot to the origin's first byte", |class| {
                &class.account.first_byte
            }),
            ("tiergate_service", "From the slot to the last byte", |class| &class.account.service),
        ];
        for (name, help, histogram) in histograms {
            page.histograms(name, help, self.each_class(histogram))?;
        }
        Ok(())
    }

    fn shedding(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let Some(shedding) = self.snapshot.shedding else {
            return Ok(());
        };
        let help = "Fraction of requests that is shed, the least important first";
        page.gauge("tiergate_shed_fraction", help, shedding.fraction)?;
        let help = "How overloaded the origin is by the delay of the queue; 0.5 is aimed at";
        page.gauge("tiergate_shed_overload", help, shedding.overload)
    }

    fn limit(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let gate = &self.snapshot;
        page.gauge("tiergate_slots", "Requests that the origin may work on at once", gate.slots)?;
        page.gauge("tiergate_slots_running", "Slots held by all classes", gate.running)?;
        let help = "Whether the number of slots is found while running (1) or fixed (0)";
        page.gauge("tiergate_slots_adaptive", help, u32::from(gate.adaptive))?;
        let Some((at, step)) = gate.last_step else {
            return Ok(());
        };
        let help = "Number of slots that the last change set, by its cause";
        let rows = [([("cause", step.cause.name())], step.slots)];
        page.gauges("tiergate_slots_last_step", help, rows)?;
        let changed = epoch_seconds(self.now) - gate.at.since(at).as_secs_f64();
        let help = "When the number of slots last changed, as UNIX time";
        page.gauge("tiergate_slots_last_step_timestamp_seconds", help, changed)
    }

    fn rules(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let gate = &self.snapshot;
        let hits = gate.rule_hits.iter();
        let rows = hits.map(|(rule, hits)| ([("rule", rule.as_str())], *hits));
        let help = "Requests whose class the rule decided, by its name or else its number; the first 500 only";
        page.counters("tiergate_rule_hits", help, rows)?;
        page.counter("tiergate_rule_unmatched", "Requests that no rule matched", gate.unmatched)?;
        let rules = gate.rules as u64;
        page.gauge("tiergate_rules", "Rules of the policy", rules)?;
        let shown = gate.rule_hits.len() as u64;
        page.gauge("tiergate_rules_shown", "Rules whose hits are shown", shown)
    }

    fn policers(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let counts: [(&str, &str, PolicerCount); 4] = [
            ("passed", "Requests that took a token", |counts| counts.passed),
            ("overflow", "Of them, those whose token was of the overflow bucket", |counts| {
                counts.overflow
            }),
            ("refused", "Requests refused for want of a token", |counts| counts.refused),
            ("untracked", "Requests let through because the table of flows was full", |counts| {
                counts.untracked
            }),
        ];
        let policers = &self.snapshot.policers;
        for (name, help, count) in counts {
            let rows = policers.iter();
            let rows = rows.map(|it| ([("policer", it.name.as_str())], count(&it.state.counts)));
            page.counters(&format!("tiergate_policer_{name}"), help, rows)?;
        }
        let rows = policers.iter();
        let rows =
            rows.map(|it| ([("policer", it.name.as_str())], it.state.rate.tokens_per_second()));
        page.gauges("tiergate_policer_tokens_per_second", "Rate in force", rows)?;
        let rows = policers.iter();
        let rows = rows.map(|it| ([("policer", it.name.as_str())], it.state.flows as u64));
        page.gauges("tiergate_policer_flows", "Flows that are not at rest now, about", rows)
    }

    fn clients(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let totals = &self.totals;
        let counts = [
            ("connections_accepted", "Client connections accepted", totals.connections_accepted),
            ("connections_closed", "Client connections ended", totals.connections_closed),
            ("tls_handshakes_failed", "TLS handshakes failed or late", totals.tls_failed),
            ("proxy_headers_failed", "PROXY protocol headers missing or bad", totals.proxy_failed),
            ("tunnels_opened", "Connections upgraded (WebSocket)", totals.tunnels_opened),
        ];
        for (name, help, count) in counts {
            page.counter(&format!("tiergate_{name}"), help, count)?;
        }
        let active = totals.connections_active();
        page.gauge("tiergate_connections_active", "Client connections open now", active)?;
        let active = totals.tunnels_active();
        page.gauge("tiergate_tunnels_active", "Upgraded connections open now", active)?;
        let (help, unit) = ("Memory kept for slow clients now", Some(&Unit::Bytes));
        page.gauge_of("tiergate_buffered", unit, help, totals.buffered_bytes)?;
        let bytes = [
            ("tiergate_received", "Bytes read from clients", totals.received_bytes),
            ("tiergate_sent", "Bytes written to clients", totals.sent_bytes),
        ];
        for (name, help, count) in bytes {
            page.counter_of(name, &Unit::Bytes, help, count)?;
        }
        let rows = Protocol::ALL.iter().zip(totals.requests);
        let rows = rows.map(|(protocol, count)| ([("protocol", protocol.name())], count));
        page.counters("tiergate_http_requests", "Requests read, by protocol", rows)?;
        let rows = STATUS_CLASSES.iter().zip(totals.responses);
        let rows = rows.map(|(class, count)| ([("code_class", *class)], count));
        page.counters("tiergate_http_responses", "Responses sent, by class of status", rows)?;
        let statuses = BAD_STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
        let rows = statuses.zip(totals.bad_requests);
        let rows = rows.map(|(status, count)| ([("code", status)], count));
        let help = "Requests that were malformed, too large or too slow, by the status given";
        page.counters("tiergate_bad_requests", help, rows)
    }

    fn origin(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let counts: [(&str, &str, ServerCount); 4] = [
            ("connects", "Connections opened to the server", |server| server.connects.total()),
            ("reuses", "Requests sent on a kept connection", |server| server.reuses.total()),
            ("failures", "Attempts that failed", |server| server.failures.total()),
            ("retries", "Requests sent again after a kept connection was found closed", |server| {
                server.retries.total()
            }),
        ];
        for (name, help, count) in counts {
            let servers = self.servers.iter();
            let rows = servers.map(|server| ([("server", server.address.as_str())], count(server)));
            page.counters(&format!("tiergate_origin_{name}"), help, rows)?;
        }
        let help = "Retries that would have been too many of the requests";
        page.counter("tiergate_origin_retries_denied", help, self.retries_denied)?;
        let gauges: [(&str, &str, ServerLevel); 2] = [
            (
                "tiergate_origin_up",
                "Whether the server gets requests (1) or is left out (0)",
                |it| u32::from(it.health.usable()),
            ),
            ("tiergate_origin_outstanding", "Requests in progress at the server", |it| {
                it.outstanding
            }),
        ];
        for (name, help, value) in gauges {
            let servers = self.origin.servers.iter();
            let rows = servers.map(|server| ([("server", server.address.as_str())], value(server)));
            page.gauges(name, help, rows)?;
        }
        Ok(())
    }

    fn names(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let rows = Proof::ALL.iter().zip(self.totals.credentials);
        let rows = rows.map(|(proof, count)| ([("result", proof.name())], count));
        page.counters("tiergate_credentials", "Keys and tokens looked at, by result", rows)?;
        let rows = Ended::ALL.iter().zip(self.names.ended);
        let rows = rows.map(|(ended, count)| ([("result", ended.name())], count));
        page.counters("tiergate_name_lookups", "Look-ups of clients' names, by result", rows)?;
        let rows = ["queue", "network"].iter().zip(self.names.dropped);
        let rows = rows.map(|(bound, count)| ([("bound", *bound)], count));
        let help = "Look-ups of clients' names that were put off, by the bound that was met";
        page.counters("tiergate_name_lookups_dropped", help, rows)?;
        let help = "Client addresses whose name is known or being looked up";
        page.gauge("tiergate_name_addresses", help, self.names.known)
    }

    fn house(&self, page: &mut Page<'_>) -> Result<(), Error> {
        let names = ["lines", "lines_dropped", "errors"];
        let help = [
            "Access log lines written",
            "Access log lines dropped because the writer was behind",
            "Writes or reopens of the access log that failed",
        ];
        for ((name, help), count) in names.iter().zip(help).zip(self.log) {
            page.counter(&format!("tiergate_access_log_{name}"), help, count)?;
        }
        let rows = ["ok", "failed"].iter().zip(self.reloads);
        let rows = rows.map(|(result, count)| ([("result", *result)], count));
        page.counters("tiergate_reloads", "Reloads of the configuration, by result", rows)?;
        let help = "Whether the latest reload, if any, put its configuration in force";
        let ok = u32::from(!self.reload_failed);
        page.gauge("tiergate_config_last_reload_successful", help, ok)?;
        let generation = self.reloads[0] + 1;
        page.gauge("tiergate_config_generation", "Number of the configuration", generation)?;
        let help = "Refusals missing from the list of recent ones because it was in use";
        page.counter("tiergate_refusal_records_skipped", help, self.refusals_skipped)
    }

    fn each_class<'a, V: 'a>(
        &'a self,
        value: impl Fn(&'a ClassSnapshot) -> V + 'a,
    ) -> impl Iterator<Item = ([(&'static str, &'a str); 1], V)> + 'a {
        let classes = self.snapshot.classes.iter();
        classes.map(move |class| ([("class", class.name.as_str())], value(class)))
    }
}

fn epoch_seconds(at: SystemTime) -> f64 {
    let since = at.duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs_f64()
}
