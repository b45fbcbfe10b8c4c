//! The servers.

use super::super::status::Status;
use super::rest::table;
use crate::observe::server::{Health, ServerStatus};
use crate::observe::words::harmless;
use maud::{Markup, html};

pub(super) fn origin(status: &Status) -> Markup {
    let row = |it: &ServerStatus| {
        [
            html! {
                (harmless(&it.address))
                @if !it.pool.is_empty() { " (pool " (it.pool) ")" }
            },
            html! {
                @match it.health {
                    Health::Up => "up",
                    other => span.bad { (other.name()) },
                }
            },
            html! { (it.in_progress()) @if let Some(words) = it.limit_words() { " (" (words) ")" } },
            html! { (it.connects + it.reuses) },
            html! { @if it.failures > 0 { span.warn { (it.failures) } } @else { "0" } },
            html! { span.why { (harmless(it.detail.as_deref().unwrap_or("–"))) } },
        ]
    };
    table(
        ["server", "health", "in progress", "requests", "failures", "last error"],
        status.origin.iter().map(row),
    )
}
