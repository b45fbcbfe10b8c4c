//! Metrics of the gateway around the gate: the process, clients, the origin, identity, internals.

use super::Readings;
use super::page::{Page, Rows};
use super::process;
use crate::observe::counters::{Abandoned, BAD_STATUSES, Protocol, STATUS_CLASSES, SpoolFault};
use crate::observe::program_log;
use crate::observe::server::ServerStatus;
use crate::reverse_dns::LookupResult;
use crate::tally::Tally;
use crate::tls::origin::TlsFault;
use crate::tokens::Proof;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

impl Readings<'_> {
    pub(super) fn process(&self, page: &mut Page) {
        let started = self.counters.started();
        page.gauge("build_info", "The version that runs; always 1")
            .each([([("version", self.version)], 1)]);
        page.gauge("uptime_seconds", "Time since the process started")
            .value(started.elapsed().unwrap_or_default().as_secs_f64());
        let start = started.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        page.gauge("process_start_time_seconds", "UNIX time when the process started")
            .value(start.as_secs_f64());
        let usage = process::usage();
        if let Some(seconds) = usage.cpu_seconds {
            page.counter("process_cpu_seconds_total", "User and system CPU time of all threads")
                .value(seconds);
        }
        for (name, help, number) in [
            ("process_resident_memory_bytes", "Memory in use", usage.resident_bytes),
            ("process_open_fds", "Open file descriptors", usage.open_fds),
            ("process_max_fds", "File descriptors that may be open", usage.fds_max),
        ] {
            number.into_iter().for_each(|number| page.gauge(name, help).value(number));
        }
    }

    pub(super) fn clients(&self, page: &mut Page) {
        let counters = self.counters;
        page.counter("connections_accepted_total", "Client connections accepted")
            .value(counters.sum(|it| &it.connections_accepted));
        page.counter("connections_closed_total", "Client connections closed")
            .value(counters.sum(|it| &it.connections_closed));
        page.counter(
            "connections_evicted_total",
            "Client connections, idle or with an incomplete request, closed to make room",
        )
        .value(counters.sum(|it| &it.connections_evicted));
        page.counter(
            "connections_turned_away_total",
            "Client connections closed as they came: their clients had others, and none made room",
        )
        .value(counters.sum(|it| &it.connections_turned_away));
        page.counter(
            "connections_not_accepted_total",
            "Attempts to accept a connection that failed",
        )
        .value(counters.sum(|it| &it.connections_not_accepted));
        page.gauge("connections_active", "Open client connections")
            .value(counters.connections.used());
        page.gauge("connections_max", "Most client connections: limits.connections_max")
            .value(counters.connections_max.load(Ordering::Relaxed));
        for (name, help, count) in [
            (
                "answer_marks_changed_total",
                "Changes of the code point of a client connection's packets",
                counters.sum(|it| &it.marks_changed),
            ),
            (
                "answer_marks_failed_total",
                "Changes of the code point that the system refused",
                counters.sum(|it| &it.marks_failed),
            ),
        ] {
            page.counter(name, help).value(count);
        }
        page.counter("tls_handshakes_failed_total", "TLS handshakes that failed or timed out")
            .value(counters.sum(|it| &it.tls_failed));
        page.counter(
            "quic_retries_total",
            "QUIC clients asked to prove their address first (Retry)",
        )
        .value(counters.sum(|it| &it.quic_retries));
        page.counter("proxy_headers_failed_total", "PROXY headers missing, malformed or late")
            .value(counters.sum(|it| &it.proxy_failed));
        page.counter("protocol_errors_total", "Connections and requests that broke the protocol")
            .each(by(
                "protocol",
                [Protocol::Http2, Protocol::Http3].map(Protocol::name),
                counters.sums(|it| &it.protocol_errors),
            ));
        page.counter("tunnels_opened_total", "Upgraded connections (WebSocket)")
            .value(counters.sum(|it| &it.tunnels_opened));
        page.gauge("tunnels_active", "Open upgraded connections").value(counters.tunnels_active());
        page.gauge("buffered_bytes", "Memory that buffers bodies for slow clients")
            .value(counters.buffered.used());
        page.gauge("spooled_bytes", "Request bodies in files, in bytes")
            .value(counters.spool.bytes.used());
        page.counter("spooled_requests_total", "Requests whose body was written to a file")
            .value(counters.spool.requests.total());
        let (copies, bytes) = counters.store.size();
        page.gauge("stored_targets", "Targets of which there are stored copies").value(copies);
        page.gauge("stored_bytes", "Memory of stored copies").value(bytes);
        page.gauge("stored_making_bytes", "Memory of copies that are being made")
            .value(counters.store.making.used());
        page.counter("stored_kept_total", "Answers that were stored")
            .value(counters.store.kept.total());
        page.counter(
            "stored_dropped_total",
            "Targets whose copies were dropped: they have changed",
        )
        .value(counters.store.dropped.total());
        page.counter(
            "spool_faults_total",
            "Bodies that were not spooled to the end, by what was lacking or failed",
        )
        .each(by(
            "fault",
            SpoolFault::ALL.map(SpoolFault::name),
            counters.spool.faults.each_ref().map(Tally::total),
        ));
        page.counter("received_bytes_total", "Bytes read from clients")
            .value(counters.sum(|it| &it.received_bytes));
        page.counter("sent_bytes_total", "Bytes written to clients")
            .value(counters.sum(|it| &it.sent_bytes));
        let requests = Protocol::ALL.map(Protocol::name).into_iter();
        page.counter("http_requests_total", "Requests read, by protocol").each(by(
            "protocol",
            requests,
            counters.sums(|it| &it.requests),
        ));
        page.counter("http_responses_total", "Responses sent, by class of status").each(by(
            "code_class",
            STATUS_CLASSES,
            counters.sums(|it| &it.responses),
        ));
        let statuses = BAD_STATUSES.iter().map(u16::to_string).chain(["other".to_owned()]);
        page.counter("bad_requests_total", "Malformed, too large or too slow requests, by status")
            .each(by("code", statuses, counters.sums(|it| &it.bad_requests)));
    }

    pub(super) fn origin(&self, page: &mut Page) {
        page.counter("origin_connects_total", "Connections opened to the server")
            .each(self.by_server(|it| it.connects));
        page.counter("origin_reuses_total", "Requests sent on a kept connection")
            .each(self.by_server(|it| it.reuses));
        page.counter("origin_failures_total", "Attempts that failed")
            .each(self.by_server(|it| it.failures));
        page.counter("origin_retries_total", "Requests retried after a kept connection was closed")
            .each(self.by_server(|it| it.retries));
        page.counter("origin_retries_denied_total", "Retries beyond the retry budget")
            .value(self.counters.retries_denied.total());
        let tls = &self.counters.origin_tls;
        page.counter("origin_tls_handshakes_total", "TLS handshakes with servers, by kind")
            .each(by("kind", ["full", "resumed"], [tls.full.total(), tls.resumed.total()]));
        page.counter(
            "origin_tls_failures_total",
            "TLS handshakes with servers that failed, by cause",
        )
        .each(by(
            "cause",
            TlsFault::ALL.map(TlsFault::name),
            tls.failed.each_ref().map(Tally::total),
        ));
        page.counter(
            "origin_abandoned_total",
            "Requests whose client left before the origin was done",
        )
        .each(by(
            "result",
            Abandoned::ALL.map(Abandoned::name),
            self.counters.sums(|it| &it.abandoned),
        ));
        page.gauge("origin_up", "Whether the server gets requests (1) or not (0)")
            .each(self.by_server(|it| u32::from(it.health.usable())));
        page.gauge("origin_outstanding", "Requests in progress at the server")
            .each(self.by_server(|it| it.outstanding));
        let servers = self.servers.iter().filter_map(|it| {
            Some(([("server", it.address.as_str()), ("pool", it.pool.as_str())], it.slots?))
        });
        page.gauge("origin_slots", "Slots of the server, where each server has a limit of its own")
            .each(servers);
        let sources = self.servers.iter().filter_map(|it| {
            let source = ("source", it.slots_from?.name());
            Some(([("server", it.address.as_str()), ("pool", it.pool.as_str()), source], 1))
        });
        page.gauge(
            "origin_slots_info",
            "Where the number of the server's slots comes from; always 1",
        )
        .each(sources);
    }

    pub(super) fn identity(&self, page: &mut Page) {
        let proofs = self.counters.sums(|it| &it.credentials);
        page.counter("credentials_total", "Keys and tokens checked, by result").each(by(
            "result",
            Proof::ALL.map(Proof::name),
            proofs,
        ));
        let dns = &self.counters.reverse_dns;
        page.counter("reverse_dns_lookups_total", "Reverse DNS lookups of clients, by result")
            .each(by("result", LookupResult::ALL.map(LookupResult::name), dns.results()));
        let dropped = [dns.dropped_queue.total(), dns.dropped_network.total()];
        page.counter("reverse_dns_lookups_dropped_total", "Lookups dropped, by the bound met")
            .each(by("bound", ["queue", "network"], dropped));
        page.gauge("reverse_dns_cache_entries", "Client addresses in the cache of names")
            .value(dns.entries());
    }

    pub(super) fn internals(&self, page: &mut Page) {
        let log = &self.counters.access_log;
        page.counter("access_log_lines_total", "Access log lines written")
            .value(log.written.total());
        page.counter("access_log_lines_dropped_total", "Lines dropped: the writer was behind")
            .value(log.dropped.total());
        page.counter(
            "access_log_refusals_left_out_total",
            "Refused requests without a line, as refused_one_in has it",
        )
        .value(log.left_out.total());
        page.counter(
            "access_log_bad_left_out_total",
            "What never became a request and has no line, as bad_per_second has it",
        )
        .value(log.bad_left_out.total());
        let traces = &self.counters.traces;
        page.counter("spans_exported_total", "Spans that the collector has taken")
            .value(traces.exported.total());
        let dropped = [traces.dropped_queue.total(), traces.dropped_collector.total()];
        page.counter("spans_dropped_total", "Spans dropped, by what did not take them").each(by(
            "by",
            ["queue", "collector"],
            dropped,
        ));
        page.counter("access_log_errors_total", "Writes or reopens of the access log that failed")
            .value(log.errors.total());
        page.counter(
            "log_lines_dropped_total",
            "Lines of the program's log dropped: nobody reads them",
        )
        .value(program_log::dropped());
        let reloads = [self.counters.reloads_ok.total(), self.counters.reloads_failed.total()];
        page.counter("reloads_total", "Reloads of the configuration, by result").each(by(
            "result",
            ["ok", "failed"],
            reloads,
        ));
        page.gauge("config_last_reload_successful", "Whether the latest reload, if any, succeeded")
            .value(u32::from(self.counters.last_reload().fault.is_none()));
        page.gauge("config_generation", "Number of the configuration in force")
            .value(reloads[0] + 1);
        page.counter("refusal_records_skipped_total", "Refusals missing from `/refusals`")
            .value(self.refusals.skipped());
    }

    fn by_server<'a, V>(&'a self, value: impl Fn(&'a ServerStatus) -> V) -> impl Rows<'a, V, 2> {
        self.servers.iter().map(move |it| {
            ([("server", it.address.as_str()), ("pool", it.pool.as_str())], value(it))
        })
    }
}

/// Rows of one label.
fn by<L>(
    label: &'static str,
    values: impl IntoIterator<Item = L>,
    counts: impl IntoIterator<Item = u64>,
) -> impl Iterator<Item = ([(&'static str, L); 1], u64)> {
    values.into_iter().zip(counts).map(move |(value, count)| ([(label, value)], count))
}
