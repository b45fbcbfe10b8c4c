//! `/live`: the page's parts as they change, as server-sent events.
//!
//! Bounded: so many watchers, each with a few events that wait for it; one that reads too slowly is disconnected, and one that reads
//! well after two minutes, when its browser connects again. While nobody watches, nothing is rendered.
//!
//! Source: WHATWG HTML, "Server-sent events".

use crate::side_http::{Answer, CONNECTION_LIFE_MAX, HangUp, Pieces, pieces, plain};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use hyper::body::Bytes;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc::error::TrySendError;

/// Pages that are open at once.
pub(super) const WATCHERS_MAX: usize = 16;
/// Events that wait for a watcher: it may be some seconds late.
const WAITING_MAX: usize = 4;
/// How often the page changes. In seconds, this is also how often the state is sampled twice.
pub(super) const INTERVAL: Duration = Duration::from_secs(2);
/// When a watcher has to connect again, before the listener ends its connection.
const WATCH_MAX: Duration = CONNECTION_LIFE_MAX.saturating_sub(Duration::from_secs(10));

/// A part of the page: its id, and what it contains.
pub(super) type Part = (&'static str, String);

/// Those who watch.
#[derive(Debug, Default)]
pub(super) struct Watchers(Mutex<Watching>);

#[derive(Debug, Default)]
struct Watching {
    all: Vec<Watcher>,
    /// The parts that were sent last.
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Watcher {
    pieces: Pieces,
    hang_up: HangUp,
    since: Instant,
}

impl Watchers {
    /// Whether anybody watches.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().all.is_empty()
    }

    /// Begins a stream with the whole page.
    pub(super) fn watch(&self, hang_up: HangUp, parts: Vec<Part>) -> Answer {
        let mut watching = self.lock();
        watching.all.retain(|it| !it.pieces.is_closed());
        if watching.all.len() >= WATCHERS_MAX {
            let text = format!("{WATCHERS_MAX} pages are open already; close one\n");
            return plain(StatusCode::SERVICE_UNAVAILABLE, text);
        }
        let (pieces, content) = pieces(WAITING_MAX);
        // There is room for it: nothing waits yet.
        let _sent = pieces.try_send(event(&parts));
        // A part of which this one has another text than the rest is new to somebody, whatever it is next.
        watching.parts.retain(|part| parts.contains(part));
        watching.all.push(Watcher { pieces, hang_up, since: Instant::now() });
        let mut answer = Response::new(content);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
        headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
        // A proxy in between that is asked to does not keep events back.
        headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
        answer
    }

    /// Sends what has changed since the last time.
    pub(super) fn send(&self, parts: Vec<Part>) {
        let mut watching = self.lock();
        let changed: Vec<Part> =
            parts.iter().filter(|part| !watching.parts.contains(part)).cloned().collect();
        watching.parts = parts;
        let event = event(&changed);
        watching.all.retain(|watcher| match watcher.pieces.try_send(event.clone()) {
            Ok(()) => watcher.since.elapsed() < WATCH_MAX,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(_)) => {
                watcher.hang_up.now();
                false
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watching> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event with parts of the page, by id. JSON without line breaks, so that it is one `data` line.
fn event(parts: &[Part]) -> Bytes {
    let parts: std::collections::BTreeMap<_, _> = parts.iter().map(|(id, it)| (id, it)).collect();
    let json = serde_json::to_string(&parts).expect("plain data with text keys");
    format!("retry: 2000\nevent: parts\ndata: {json}\n\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side_http::Content;
    use http_body_util::BodyExt;

    fn part(text: &str) -> Vec<Part> {
        vec![("a", text.to_owned()), ("b", "same".to_owned())]
    }

    async fn next(content: &mut Content) -> Option<String> {
        let frame = content.frame().await?.expect("infallible");
        let bytes = frame.into_data().expect("data");
        Some(String::from_utf8(bytes.to_vec()).expect("text"))
    }

    #[tokio::test]
    async fn a_watcher_gets_all_and_then_what_changes() {
        let watchers = Watchers::default();
        assert!(watchers.is_empty());
        let mut content = watchers.watch(HangUp::default(), part("1\n<b>")).into_body();
        let first = next(&mut content).await.expect("the whole page");
        assert!(first.contains("event: parts\ndata: {\"a\":\"1\\n<b>\",\"b\":\"same\"}\n\n"));
        watchers.send(part("1"));
        let _whole = next(&mut content).await;
        watchers.send(part("2"));
        let changed = next(&mut content).await.expect("what changed");
        assert!(changed.contains("data: {\"a\":\"2\"}"), "{changed}");
        drop(content);
        watchers.send(part("3"));
        assert!(watchers.is_empty(), "it has left");
    }

    /// One that comes between two events has seen another text than those before it.
    #[tokio::test]
    async fn what_is_as_before_is_sent_to_one_that_saw_it_otherwise() {
        let watchers = Watchers::default();
        let _first = watchers.watch(HangUp::default(), part("well"));
        watchers.send(part("well"));
        let mut content = watchers.watch(HangUp::default(), part("ill")).into_body();
        let _whole = next(&mut content).await;
        watchers.send(part("well"));
        let changed = next(&mut content).await.expect("it is another text for this one");
        assert!(changed.contains("data: {\"a\":\"well\"}"), "{changed}");
    }

    #[tokio::test]
    async fn watchers_are_bounded_and_slow_ones_are_cut_off() {
        let watchers = Watchers::default();
        let open: Vec<_> =
            (0..WATCHERS_MAX).map(|_| watchers.watch(HangUp::default(), part("1"))).collect();
        assert!(open.iter().all(|it| it.status() == 200));
        assert_eq!(watchers.watch(HangUp::default(), part("1")).status(), 503);
        for number in 0..WAITING_MAX {
            watchers.send(part(&number.to_string()));
        }
        assert!(watchers.is_empty(), "none of them has read");
        assert_eq!(watchers.watch(HangUp::default(), part("1")).status(), 200);
        drop(open);
    }
}
