//! Lines of Tiergate's own access log, as JSON.

use super::line::Line;
use super::stamp;
use serde::Deserialize;
use std::borrow::Cow;

/// What matters of a line; the rest is left alone.
#[derive(Deserialize)]
struct Entry<'l> {
    #[serde(borrow)]
    time: Cow<'l, str>,
    #[serde(borrow)]
    client: Cow<'l, str>,
    #[serde(borrow, default)]
    method: Cow<'l, str>,
    #[serde(borrow, default)]
    target: Cow<'l, str>,
    #[serde(borrow, default)]
    host: Cow<'l, str>,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    sent_bytes: u64,
    duration_seconds: Option<f64>,
    queue_seconds: Option<f64>,
    first_byte_seconds: Option<f64>,
    #[serde(borrow, default)]
    user_agent: Cow<'l, str>,
    #[serde(borrow, default)]
    referer: Cow<'l, str>,
}

pub(super) fn line(text: &str) -> Result<Line<'_>, &'static str> {
    let entry: Entry<'_> =
        serde_json::from_str(text).map_err(|_| "it is no JSON of Tiergate's access log")?;
    let stamp = stamp::rfc3339(&entry.time).ok_or("its time is none")?;
    if entry.method.is_empty() {
        return Err("it has no request: what came was malformed");
    }
    // Only what the origin answered says how long the origin takes.
    let answered = entry.first_byte_seconds.is_some() && (1..500).contains(&entry.status);
    let took = entry.duration_seconds.map(|took| took - entry.queue_seconds.unwrap_or(0.0));
    Ok(Line {
        stamp,
        client: entry.client,
        method: entry.method,
        target: entry.target,
        host: entry.host,
        user_agent: entry.user_agent,
        referer: entry.referer,
        bytes: entry.sent_bytes,
        took_ns: took.filter(|took| answered && *took > 0.0).map(|took| (took * 1e9) as u64),
    })
}
