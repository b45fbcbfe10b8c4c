//! What became of the requests of an origin.

use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::oneshot;

/// What became of the requests.
#[derive(Default)]
pub(crate) struct Counts {
    /// Requests whose client got the answer.
    pub(super) served: AtomicU64,
    /// Requests whose client had left before the answer was ready.
    pub(super) wasted: AtomicU64,
}

impl Counts {
    /// Tells the client that its request has been served, and counts whether it was still there.
    pub(super) fn ended(&self, client: oneshot::Sender<()>) {
        let counter = if client.send(()).is_ok() { &self.served } else { &self.wasted };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// The last line that an origin prints.
    pub(super) fn line(&self) -> String {
        let [served, wasted] = [&self.served, &self.wasted].map(|c| c.load(Ordering::Relaxed));
        serde_json::json!({ "served": served, "wasted": wasted }).to_string()
    }
}
