//! `[refusal.block]`: clients that ignore `Retry-After` are blocked for a while.

use super::section::{Kind, section};
use super::show;
use super::values::{TIME_IN_MS, whole};
use std::time::Duration;
use tiergate_core::admit::block::Settings;

section! {
    /// Clients that are refused again and again are blocked for a while: refused at once with 429, and
    /// their connections closed.
    #[derive(Clone, Debug)]
    pub(super) struct Block {
        /// Refusals after which a flow is blocked.
        /// Why: a client that heeds `Retry-After` is refused once a second at most; a page's own six or more
        /// connections may be refused together once.
        after: u32 = whole(1..=Settings::AFTER_MAX.into()).or(10);
        /// The time in which they must come, from the first on; at least `"1ms"`.
        within: Duration = TIME_IN_MS.or("10s");
        /// How long it is blocked; at least `"1ms"`.
        /// Why: the patience of a person who presses the button again.
        r#for: Duration = TIME_IN_MS.or("5s");
        /// Flows with refusals that are tracked at once. A further one is not counted, and refused
        /// like any other.
        /// Why: 24 bytes each: 2.4 MB.
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
