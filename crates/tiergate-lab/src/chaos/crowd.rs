//! Clients of the basic class: more of them than the origin can serve.

use super::ask::{Ask, Client, Outcome, Way};
use super::origin::Say;
use super::timeline::Timeline;
use fastrand::Rng;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// Pause of a client after each answer, whatever it says: ten requests a second of each at most.
const PAUSE_MS: u64 = 100;

/// What all of them share.
pub(super) struct Crowd {
    pub(super) asked: AtomicU64,
    pub(super) answered: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) mixed: AtomicU64,
    timeline: Arc<Timeline>,
}

impl Crowd {
    pub(super) fn new(timeline: Arc<Timeline>) -> Arc<Self> {
        let [asked, answered, refused, failed, mixed] = Default::default();
        Arc::new(Self { asked, answered, refused, failed, mixed, timeline })
    }

    /// Counts an outcome.
    pub(super) fn count(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Answered => &self.answered,
            Outcome::Status(429 | 503) => &self.refused,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes an answer that belongs to another request.
    pub(super) fn mixed(&self, what: String) {
        self.mixed.fetch_add(1, Ordering::Relaxed);
        self.timeline.note(&format!("MIXED UP: {what}"));
    }

    /// One client that asks again and again.
    pub(super) async fn ask(self: Arc<Self>, way: Way, mut random: Rng, pause: bool) {
        let from: IpAddr = Ipv4Addr::new(127, 2, 0, random.u8(1..=40)).into();
        let mut client = Client::new(way, from);
        loop {
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let ask = Ask {
                class: "basic",
                id: format!("b{number}"),
                bytes: [0, 500, 4000][random.usize(..3)],
                upload: [0, 0, 0, 0, 2000][random.usize(..5)],
                say: Say::Ok,
                chunked: false,
            };
            let outcome = client.ask(&ask).await;
            self.count(&outcome);
            let answered = outcome == Outcome::Answered;
            if let Outcome::Mixed(what) = outcome {
                self.mixed(what);
            }
            if pause || !answered {
                sleep(Duration::from_millis(random.u64(..PAUSE_MS))).await;
            }
        }
    }
}
