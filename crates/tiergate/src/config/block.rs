//! `[refusal.block]`: clients that ignore `Retry-After` are blocked for a while.

use super::section::{Kind, section};
use super::show;
use super::values::{TIME_IN_MS, whole};
use std::time::Duration;
use tiergate_core::admit::block::Settings;

section! {
    /// Clients that are refused again and again are blocked for a while: refused at once with 429, and
    /// their connections closed.
    pub(super) struct Block {
        /// Refusals after which a flow is blocked.
        /// Why: a client that heeds `Retry-After` is refused at most once a second; the six or more
        /// connections of one page may be refused together.
        after: u32 = whole(1..=Settings::AFTER_MAX.into()).or(10);
        /// The period in which they must occur, counted from the first; at least `"1ms"`.
        within: Duration = TIME_IN_MS.or("10s");
        /// How long it is blocked; at least `"1ms"`.
        /// Why: about as long as a person waits before trying again.
        r#for: Duration = TIME_IN_MS.or("5s");
        /// How many flows with refusals are tracked at once. Refusals of further flows are not counted, so
        /// those flows are not blocked.
        /// Why: at 24 bytes each 2.4 MB.
        flows_max: u32 = whole(1..=Settings::FLOWS_MAX.into()).or(100_000);
    }
}

pub(super) fn block(raw: Block) -> Settings {
    let Block { after, within, r#for: lasting, flows_max } = raw;
    Settings { after, within, lasting, flows_max }
}

/// For `tiergate check`.
pub(crate) fn words(settings: &Settings) -> String {
    format!(
        "a client refused {} times within {} is blocked for {}; {} flows, {}",
        settings.after,
        show::time(settings.within),
        show::time(settings.lasting),
        settings.flows_max,
        show::bytes(24 * u64::from(settings.flows_max))
    )
}
