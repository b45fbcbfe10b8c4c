//! The configuration in force, and what is new in it.

use super::super::incident::Incident;
use super::super::status::Status;
use maud::{Markup, html};

pub(super) fn config(status: &Status, incident: &Incident) -> Markup {
    let config = &status.config;
    let change = &incident.config;
    html! {
        p {
            (config.path.as_deref().unwrap_or("no file")) ", generation " b { (config.generation) } "; "
            (config.reloads_ok) " reloads, " (config.reloads_failed) " rejected"
            @if let Some(at) = &config.last_reload { "; the last one at " (at) }
        }
        @if let Some(fault) = &config.last_fault {
            p.bad { "The last reload was rejected:" }
            pre { (fault) }
        }
        @match change.former_generation {
            None => p.soft { "No other configuration was in force while this process ran." },
            Some(former) if change.diff.is_empty() => {
                p { "Nothing that is shown here differs from generation " (former) ": if anything does, it is a secret, which is masked." }
            },
            Some(former) => details data-key="diff" {
                summary { "what differs from generation " (former) }
                pre.diff {
                    @for line in change.diff.lines() {
                        @match line.as_bytes().first() {
                            Some(b'+') => ins { (line) },
                            Some(b'-') => del { (line) },
                            _ => span { (line) },
                        }
                        "\n"
                    }
                }
            },
        }
        @if !status.adjustments.is_empty() {
            p.warn { "Changed while running:" }
            ul {
                @for it in &status.adjustments {
                    li { (it.setting) " " (it.of) " = " (it.value) " (policy: " (it.planned) ", by " (it.owner) ")" }
                }
            }
        }
    }
}
