//! The page at `/`: what is going on, for the one who was woken up.
//!
//! It is rendered whole, and works without scripts (then it reloads itself). With them, its parts are replaced as they change:
//! [`super::live`]. Everything in it is of this program: one style, one script, both allowed by their hashes and nothing else. `maud`
//! escapes every text; `PreEscaped` is only used for what is compiled in.

mod chart;
mod classes;
mod config;
mod limits;
mod origin;
mod rest;
mod slots;
mod words;

use super::incident::Incident;
use super::live::Part;
use super::status::Status;
use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::BASE64;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::sync::LazyLock;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// What can be read here, and what it is.
pub(super) const ENDPOINTS: [(&str, &str); 10] = [
    ("/", "this page"),
    ("/incident", "what is on this page, as JSON"),
    ("/live", "the parts of this page as they change: server-sent events"),
    ("/status", "everything as JSON; tiergate top reads it"),
    ("/metrics", "for Prometheus"),
    ("/refusals", "the latest refusals, with reasons"),
    ("/config", "the configuration in force"),
    ("/settings", "what was changed while running; PATCH changes it"),
    ("/readyz", "200 when requests can be served"),
    ("/healthz", "200 when the process is alive"),
];

/// What browsers may do with the page: use its own style and script, and connect to where it came from.
pub(super) static CONTENT_SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let hash = |text: &str| BASE64.encode(digest(&SHA256, text.as_bytes()).as_ref());
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
});

/// The whole page.
pub(super) fn page(status: &Status, incident: &Incident) -> String {
    let parts = parts(status, incident);
    let part = |id: &str| {
        let (_, text) = parts.iter().find(|it| it.0 == id).expect("it is one of the parts");
        // Rendered below, by maud.
        PreEscaped(text.as_str())
    };
    let sections = [
        ("classes", "Classes, most important first"),
        ("slots", "Slots of the origin"),
        ("refused", "Refused most"),
        ("origin", "Servers"),
        ("limits", "Limits"),
        ("config", "Configuration"),
        ("rest", "More"),
    ];
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                title { "Tiergate" }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                link rel="icon" href="data:,";
                noscript { meta http-equiv="refresh" content="5"; }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    div.top {
                        span.brand { "Tiergate" }
                        span #live { "not live" }
                    }
                    h1 #verdict aria-live="polite" { (part("verdict")) }
                    div #facts { (part("facts")) }
                }
                main {
                    @for (id, title) in sections {
                        section aria-labelledby={ "of-" (id) } {
                            h2 id={ "of-" (id) } { (title) }
                            div id=(id) { (part(id)) }
                        }
                    }
                }
                footer { (endpoints()) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// The parts that change, by id.
pub(super) fn parts(status: &Status, incident: &Incident) -> Vec<Part> {
    [
        ("verdict", verdict(incident)),
        ("facts", facts(status)),
        ("classes", classes::classes(status, incident)),
        ("slots", slots::slots(status, incident)),
        ("refused", limits::refused(incident)),
        ("origin", origin::origin(status)),
        ("limits", limits::limits(incident)),
        ("config", config::config(status, incident)),
        ("rest", rest::rest(status)),
    ]
    .map(|(id, markup)| (id, markup.into_string()))
    .into()
}

fn verdict(incident: &Incident) -> Markup {
    let word = match incident.urgency.as_str() {
        "calm" => "ok",
        other => other,
    };
    html! {
        span class={ "word " (word) } { (word.to_uppercase()) }
        " "
        span #sentence { (incident.sentence) }
    }
}

/// What changes seldom, or does not matter at once.
fn facts(status: &Status) -> Markup {
    html! {
        p {
            @match &status.unready {
                Some(why) => span.bad { "not ready: " (why) },
                None => "ready",
            }
            " · " (words::phase(status.phase)) " · up " (words::coarse(status.uptime_seconds))
            " · generation " (status.config.generation) " · version " (status.version)
            " · " (status.listeners.join(", "))
        }
    }
}

fn endpoints() -> Markup {
    html! {
        dl {
            @for (path, what) in ENDPOINTS {
                dt { a href=(path) { (path) } }
                dd { (what) }
            }
        }
        p { "Reload: " code { "curl -X POST http://…/reload" } " or SIGHUP. Drain: SIGTERM." }
    }
}
