//! Metrics of what is short: buffers of load, bounds, certificates; and of whole answers.

use super::Readings;
use super::page::Page;
use super::process;

impl Readings<'_> {
    pub(super) fn answers(&self, page: &mut Page) {
        let classes = &self.snapshot.default.classes;
        let answers: Vec<_> = classes
            .iter()
            .map(|it| (it.class.name.as_str(), self.counters.answers(it.id)))
            .collect();
        page.histogram(
            "request_seconds",
            "From a request's head to the last byte of its answer, of those that were not refused",
        )
        .native_durations(answers.iter().map(|(class, it)| ([("class", *class)], &it.took)));
        let statuses = answers.iter().flat_map(|(class, it)| {
            it.statuses()
                .map(|(code, count)| ([("class", (*class).to_owned()), ("code", code)], count))
        });
        page.counter("responses_total", "Answers to clients, by status").each(statuses);
    }

    pub(super) fn bounds(&self, page: &mut Page) {
        let buffers = &self.buffers;
        page.gauge(
            "success_buffer_ratio",
            "How much load may grow until the class is shed; below 0: it is being shed",
        )
        .each(buffers.success.iter().map(|(pool, class, buffer)| {
            ([("class", class.as_str()), ("pool", pool.as_str())], buffer)
        }));
        page.gauge(
            "failure_buffer_ratio",
            "How much load may grow until goodput falls, by what is short then",
        )
        .each(buffers.failure.iter().map(|(pool, bound, buffer)| {
            ([("bound", bound.name()), ("pool", pool.as_str())], buffer)
        }));
        let bounds = self.in_force.bounds;
        for (name, help, bytes) in [
            (
                "buffered_max_bytes",
                "Bound of buffered_bytes: limits.buffers_max",
                bounds.buffers_max,
            ),
            ("spooled_max_bytes", "Bound of spooled_bytes: limits.spool_max", bounds.spool_max),
            ("stored_max_bytes", "Bound of stored_bytes: limits.stored_max", bounds.stored_max),
        ] {
            page.gauge(name, help).value(bytes);
        }
        if let Some(bytes) = process::usage().memory_max {
            page.gauge("memory_max_bytes", "Memory that the process may have by its control group")
                .value(bytes);
        }
        let certificates = &self.in_force.certificates;
        if !certificates.is_empty() {
            page.gauge("certificate_expiry_timestamp_seconds", "UNIX time when it expires").each(
                certificates.iter().map(|it| {
                    (
                        [("file", it.file.as_str()), ("name", it.name.as_str())],
                        it.expires_at_seconds,
                    )
                }),
            );
        }
    }
}
