//! Metrics of the link that answers leave by.

use super::Readings;
use super::page::Page;

impl Readings<'_> {
    /// Nothing where no class has a part of it, and no interface says what it carries.
    pub(super) fn link(&self, page: &mut Page) {
        if let Some(capacity) = &self.snapshot.link_capacity {
            page.gauge(
                "link_capacity_bits_per_second",
                "What the link carries: as its interface said last, or as estimated",
            )
            .value(capacity.bits_per_second);
            if capacity.interface.is_some() {
                page.counter("link_capacity_failures_total", "Readings of that which failed")
                    .value(capacity.failures);
            }
        }
        let parts = &self.snapshot.link;
        if parts.is_empty() {
            return;
        }
        page.counter(
            "link_sent_bytes_total",
            "Bytes on the wire that classes have had in their turns on the link",
        )
        .each(parts.iter().map(|it| ([("class", it.class.clone())], it.sent_bytes)));
        page.gauge("link_reserved_ratio", "The part of the link that a class has reserved")
            .each(parts.iter().map(|it| ([("class", it.class.clone())], it.reserved)));
    }
}
