//! What is refused most; what is in use, and of how much.

use super::super::incident::{Incident, Use, unix_seconds};
use super::words;
use crate::observe::hour::TopEntry;
use crate::observe::words::harmless;
use maud::{Markup, html};

/// Days before a certificate expires from which on it is marked.
const CERTIFICATE_NEAR_DAYS: i64 = 14;

pub(super) fn refused(incident: &Incident) -> Markup {
    let most = &incident.refused_most;
    html! {
        @if most.clients.is_empty() {
            p.soft { "Nothing was refused lately." }
        } @else {
            div.cards {
                (list("clients", &most.clients))
                (list("paths", &most.paths))
                (list("rules and reasons", &most.rules))
            }
            p.soft {
                "Part of all refusals lately: those of five minutes ago count half. Where more than 256 come a second, estimated from the latest."
            }
        }
    }
}

fn list(title: &str, entries: &[TopEntry]) -> Markup {
    html! {
        article {
            h3 { (title) }
            table.pairs {
                tbody {
                    @for entry in entries {
                        tr {
                            th scope="row" { (harmless(&entry.what)) }
                            td { (words::percent(entry.share)) }
                        }
                    }
                }
            }
        }
    }
}

pub(super) fn limits(incident: &Incident) -> Markup {
    html! {
        table.pairs.uses {
            tbody {
                @for it in &incident.limits { (usage(it)) }
            }
        }
        p {
            "Load may grow until "
            @for (place, (bound, buffer)) in incident.failure_buffers.iter().enumerate() {
                @if place > 0 { ", " }
                (words_of(bound)) ": "
                @match buffer {
                    Some(buffer) if *buffer < 0.2 => b.warn { (words::buffer(*buffer)) },
                    Some(buffer) => b { (words::buffer(*buffer)) },
                    None => span.soft { "not known" },
                }
            }
            "."
        }
        @if !incident.certificates.is_empty() {
            table.pairs {
                tbody {
                    @for it in &incident.certificates {
                        @let days = (it.expires_at_seconds - unix_seconds()).div_euclid(86_400);
                        tr {
                            th scope="row" { "certificate of " (harmless(&it.name)) }
                            td {
                                @if days < 0 { span.bad { "expired " (words::date(it.expires_at_seconds)) } }
                                @else if days < CERTIFICATE_NEAR_DAYS {
                                    span.warn { "expires in " (days) " days" }
                                } @else { "expires " (words::date(it.expires_at_seconds)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn words_of(bound: &str) -> &str {
    match bound {
        "slots" => "the most important class is shed",
        "connections" => "client connections are short",
        "descriptors" => "descriptors are short",
        "processors" => "processors of this machine are busy",
        other => other,
    }
}

fn usage(it: &Use) -> Markup {
    let shown = |value: f64| match it.is_bytes {
        true => words::bytes(value),
        false => format!("{value:.0}"),
    };
    html! {
        tr {
            th scope="row" { (it.what) }
            td {
                (shown(it.used))
                @if let Some(max) = it.max { " of " (shown(max)) }
            }
            td.bar {
                @if let Some(max) = it.max.filter(|max| *max > 0.0) {
                    meter min="0" max=(max) high=(max * 0.9) value=(it.used) aria-label=(it.what) {}
                }
            }
        }
    }
}
