//! How refusals look and which clients are blocked after them, as written and as meant.

use super::defaults;
use super::meant::Refusal;
use super::raw;
use super::read::At;
use super::resolve::Resolver;
use super::show;
use super::values::is_token;
use std::path::PathBuf;
use std::time::Duration;
use tiergate_core::admit::block;

/// Flows are blocked to the millisecond.
const LEAST: Duration = Duration::from_millis(1);

impl Resolver<'_> {
    /// How a refusal looks, the file of its page, and which flows are blocked.
    pub(super) fn refusal(
        &mut self,
        raw: raw::Refusal,
    ) -> (Refusal, Option<PathBuf>, Option<block::Settings>) {
        if let Some(header) = raw.reason_header.as_ref().filter(|header| !is_token(&header.value)) {
            let message = format!("must be the name of a header, got {:?}", header.value);
            self.faults.add(&header.place, message);
        }
        let d = defaults::REFUSAL;
        let least = self.time(raw.retry_after, d.retry_after);
        let most_place = raw.retry_after_max.as_ref().map(|most| most.place.clone());
        let most = self.time(raw.retry_after_max, d.retry_after_max.max(least));
        if let Some(place) = most_place.filter(|_| most < least) {
            let message = format!(
                "must be at least retry_after, \"{}\", got \"{}\"",
                show::time(least),
                show::time(most)
            );
            self.faults.add(&place, message);
        }
        let refusal = Refusal {
            connection: raw.connection.map_or(d.connection, |at| at.value.0),
            retry_after: least,
            retry_after_max: most,
            reason_header: raw.reason_header.map(|header| header.value),
            page_html: None,
        };
        let block = raw.block.map(|block| self.block(block));
        (refusal, raw.page_html.map(|file| self.file(file.value)), block)
    }

    fn block(&mut self, At { value: raw, .. }: At<raw::Block>) -> block::Settings {
        let d = defaults::BLOCK;
        let (most, flows_max) = (block::Settings::AFTER_MAX, block::Settings::FLOWS_MAX);
        let times = [&raw.within, &raw.r#for].into_iter().flatten();
        for at in times.filter(|at| !at.value.0.is_zero() && at.value.0 < LEAST) {
            self.faults.add(&at.place, "must be at least \"1ms\"");
        }
        block::Settings {
            after: self.number(raw.after, d.after.into(), 1..=most.into()) as u32,
            within: self.time(raw.within, d.within),
            lasting: self.time(raw.r#for, d.lasting),
            flows_max: self.number(raw.flows_max, d.flows_max.into(), 1..=flows_max.into()) as u32,
        }
    }
}
