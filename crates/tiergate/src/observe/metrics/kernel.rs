//! Metrics of what the kernel refuses.

use super::Readings;
use super::page::Page;

impl Readings<'_> {
    /// Nothing where the policy asks for nothing of it.
    pub(super) fn kernel(&self, page: &mut Page) {
        let Some(kernel) = &self.snapshot.kernel else { return };
        let interfaces = kernel.interfaces.iter();
        page.gauge(
            "kernel_interface_in_force",
            "Whether the program in the kernel is at the interface",
        )
        .each(
            interfaces.map(|it| ([("interface", it.name.as_str())], u32::from(it.way.is_some()))),
        );
        let mechanisms = ["ebpf", "nftables", "none"];
        page.gauge("kernel_mechanism", "What polices SYNs in the kernel")
            .each(mechanisms.map(|it| ([("mechanism", it)], u32::from(kernel.mechanism == it))));
        page.gauge("kernel_policing", "Whether the kernel polices SYNs now")
            .value(u32::from(kernel.policing));
        page.counter("kernel_syns_total", "SYNs to our listeners while the kernel refused any")
            .value(kernel.seen);
        page.counter("kernel_syns_let_in_total", "SYNs of clients that were let in")
            .value(kernel.let_in);
        page.counter("kernel_syns_blocked_total", "SYNs of blocked clients, which were dropped")
            .value(kernel.blocked);
        let by = kernel
            .policers
            .iter()
            .map(|it| ([("policer", it.policer.as_str()), ("class", it.class.as_str())], it));
        page.counter("kernel_syns_passed_total", "SYNs that passed a policer in the kernel")
            .each(by.clone().map(|(labels, it)| (labels, it.passed)));
        page.counter(
            "kernel_syns_overflow_total",
            "Of them, those that took a token of the overflow",
        )
        .each(by.clone().map(|(labels, it)| (labels, it.overflow)));
        page.counter("kernel_syns_dropped_total", "SYNs that a policer in the kernel dropped")
            .each(by.map(|(labels, it)| (labels, it.dropped)));
        let by = kernel.requests.iter().map(|it| ([("policer", it.policer.as_str())], it));
        page.counter(
            "kernel_requests_passed_total",
            "First requests that passed a policer in the kernel",
        )
        .each(by.clone().map(|(labels, it)| (labels, it.passed)));
        page.counter("kernel_requests_refused_total", "First requests that the kernel refused")
            .each(by.map(|(labels, it)| (labels, it.refused)));
    }
}
