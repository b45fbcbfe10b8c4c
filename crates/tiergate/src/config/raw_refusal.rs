//! Refusals as written.

use super::error::{Faults, Place};
use super::read::{At, Read, read_at, table, unknown, wrong};
use super::values::{Connection, File, Time};

table! {
    /// How a refusal looks.
    struct Refusal {
        /// What is done with the connection: "keep" (the default), "close", or "reset" without an answer.
        connection: Connection,
        /// The least in `Retry-After`, which says how long the queue takes. Default "1s".
        retry_after: Time,
        /// The most in `Retry-After`, but for half as much more at random. Default "30s".
        retry_after_max: Time,
        /// Which clients are blocked for a while. Without it: none.
        block: Block,
        /// Name of a response header that carries the reason. By default there is none.
        reason_header: String,
        /// HTML file shown instead of the built-in page.
        page_html: File,
    }
}

table! {
    /// Flows that are refused again and again are refused at once for a while (429), and their
    /// connections closed.
    struct Block {
        /// After so many refusals. Default 10.
        #[schemars(range(min = 1, max = 10_000))]
        after: u64,
        /// In this time. Default "10s".
        within: Time,
        /// For this time. Default "5s".
        r#for: Time,
        /// How many flows are told apart at once, 24 bytes each. Default 100000.
        #[schemars(range(min = 1, max = 10_000_000))]
        flows_max: u64,
    }
}
