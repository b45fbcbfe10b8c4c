//! `[refusal]`: what a refused client gets.

use super::block::{Block, block as resolve_block};
use super::header_name::OWN_HEADER;
use super::kind::Choice;
use super::place::At;
use super::section::{Kind, section, table};
use super::show;
use super::values::{FileName, TIME};
use std::path::PathBuf;
use std::time::Duration;
use tiergate_core::admit::block;

/// Longest page that is kept in memory for refusals.
pub(super) const PAGE_LEN_MAX: u64 = 256 << 10;

section! {
    /// What a refused client gets.
    pub(super) struct RefusalKeys {
        /// What happens to the connection: `"keep"`: it stays open after the refusal; `"close"`: it is closed after it; `"reset"`: it is reset without a response.
        /// Why: closing costs more than refusing, because a refused client comes back on a new connection.
        connection: RefusalConnection = Choice(&[
            ("keep", RefusalConnection::Keep),
            ("close", RefusalConnection::Close),
            ("reset", RefusalConnection::Reset),
        ]).or("keep");
        /// The smallest `Retry-After`, in whole seconds, rounded up.
        /// Why: the shortest that the header can express; the limit is updated several times a second.
        retry_after: Duration = TIME.or("1s");
        /// The largest `Retry-After` before jitter, which adds up to half as much; not less than
        /// `retry_after`.
        /// Why: longer than any backlog takes to be served; clients do not wait for longer, or ignore the
        /// header.
        retry_after_max: Option<Duration> =
            TIME.optional("`\"30s\"`, or `retry_after` if that is more");
        /// Clients that are blocked for a while because they ignore `Retry-After`.
        /// Why: several clients may share an address.
        block: Option<At<Block>> = table().placed().optional("none");
        /// Name of a response header that carries the reason, such as `queue_full`; JSON bodies then say it, too.
        /// Why: clients need not know why they are refused.
        reason_header: Option<String> = OWN_HEADER.optional("none");
        /// HTML file shown to browsers, at most 256 KiB; JSON and plain text are chosen by `Accept`. Not by rules with `refuse`, which have pages of their own.
        page_html: Option<PathBuf> = FileName.optional("a built-in page");
    }
}

/// What a refused client gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is done with the connection.
    pub connection: RefusalConnection,
    /// The least that `Retry-After` says; rounded up to whole seconds.
    pub retry_after: Duration,
    /// The most that it says, but for half as much more at random; not less than `retry_after`.
    pub retry_after_max: Duration,
    /// Name of a response header that carries the reason, if any.
    pub reason_header: Option<String>,
    /// HTML page shown instead of the built-in one.
    pub page_html: Option<String>,
}

/// What is done with the connection of a refused request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalConnection {
    /// Respond and keep it.
    Keep,
    /// Respond and close it.
    Close,
    /// Reset it without a response.
    Reset,
}

/// What a refused client gets, the file of its page, and which clients are blocked.
pub(super) fn refusal(
    At { value: raw, place }: At<RefusalKeys>,
) -> (Refusal, Option<PathBuf>, Option<block::Settings>) {
    let least = raw.retry_after;
    let most = raw.retry_after_max.unwrap_or(Duration::from_secs(30).max(least));
    if most < least {
        let [least, most] = [least, most].map(show::time);
        let message = format!("must be at least retry_after, \"{least}\", got \"{most}\"");
        place.fault_at("retry_after_max", message);
    }
    let refusal = Refusal {
        connection: raw.connection,
        retry_after: least,
        retry_after_max: most,
        reason_header: raw.reason_header,
        page_html: None,
    };
    (refusal, raw.page_html, raw.block.map(|raw| resolve_block(raw.value)))
}

impl Refusal {
    /// For `tiergate check`; `page`: the file of its page.
    pub(crate) fn words(&self, page: Option<&PathBuf>) -> Vec<String> {
        let page = match page {
            Some(page) => format!("the page {}", page.display()),
            None => "a built-in page".to_owned(),
        };
        let response = format!(
            "503 with Retry-After from {} to {} by the length of the queue, plus up to half as much; {page}, JSON or plain text by Accept",
            show::time(self.retry_after),
            show::time(self.retry_after_max)
        );
        let mut lines = match self.connection {
            RefusalConnection::Keep => vec![response, "the connection is kept".to_owned()],
            RefusalConnection::Close => vec![response, "the connection is closed".to_owned()],
            RefusalConnection::Reset => {
                vec!["the connection is reset without a response".to_owned()]
            }
        };
        lines.extend(self.reason_header.iter().map(|header| format!("{header} says the reason")));
        lines
    }
}
