//! The well-behaved clients, whose requests must be answered: a few dozen, each with pauses between its
//! requests, over HTTP/1.1 on connections that they keep and over HTTP/2, with and without TLS.

use super::ask::{Ask, Client, Outcome, Way};
use super::origin::Say;
use super::timeline::Timeline;
use fastrand::Rng;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How many there are.
const CLIENTS: usize = 30;
/// Addresses that they come from.
const ADDRESSES: usize = 6;
/// Mean pause between two requests of a client, in milliseconds.
const PAUSE_MS: f64 = 330.0;
/// Longest pause.
const PAUSE_MS_MAX: f64 = 3000.0;
/// How long requests in progress may take to end: longer than a client's patience.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// A request that has ended. Times are those of the timeline.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) begun: f64,
    pub(super) ended: f64,
    pub(super) path: String,
    pub(super) outcome: Outcome,
}

impl Done {
    /// Whether its answer came whole and was the right one.
    pub(super) fn is_answered(&self) -> bool {
        self.outcome == Outcome::Answered
    }
}

/// What all of them share.
#[derive(Default)]
pub(super) struct Premium {
    pub(super) answered: AtomicU64,
    pub(super) unanswered: AtomicU64,
    pub(super) mixed: AtomicU64,
    done: Mutex<Vec<Done>>,
    stop: AtomicBool,
    asked: AtomicU64,
}

/// The clients while they ask.
pub(super) struct Running {
    tasks: JoinSet<()>,
    premium: Arc<Premium>,
}

impl Premium {
    /// What has ended so far.
    pub(super) fn take(&self) -> Vec<Done> {
        std::mem::take(&mut self.done.lock().expect("no code panics with it"))
    }

    /// Starts them.
    pub(super) fn start(
        self: &Arc<Self>,
        ways: &[Way],
        timeline: &Arc<Timeline>,
        seed: u64,
    ) -> Running {
        self.stop.store(false, Ordering::Relaxed);
        let mut random = Rng::with_seed(seed);
        let mut tasks = JoinSet::new();
        for number in 0..CLIENTS {
            let from = address(number % ADDRESSES);
            let client = Client::new(ways[number % ways.len()].clone(), from);
            let (premium, timeline) = (Arc::clone(self), Arc::clone(timeline));
            let random = random.fork();
            tasks.spawn(async move { premium.converse(client, random, &timeline).await });
        }
        Running { tasks, premium: Arc::clone(self) }
    }

    async fn converse(&self, mut client: Client, mut random: Rng, timeline: &Timeline) {
        loop {
            let pause = (-random.f64().max(1e-9).ln() * PAUSE_MS).min(PAUSE_MS_MAX);
            sleep(Duration::from_secs_f64(pause / 1e3)).await;
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let number = self.asked.fetch_add(1, Ordering::Relaxed);
            let ask = ask(&mut random, format!("p{number}"));
            let begun = timeline.now();
            let outcome = client.ask(&ask).await;
            let ended = timeline.now();
            match &outcome {
                Outcome::Answered => self.answered.fetch_add(1, Ordering::Relaxed),
                other => {
                    let since = ended - begun;
                    timeline.note(&format!("{} after {since:.2} s: {other:?}", ask.path()));
                    self.unanswered.fetch_add(1, Ordering::Relaxed)
                }
            };
            if let Outcome::Mixed(_) = outcome {
                self.mixed.fetch_add(1, Ordering::Relaxed);
            }
            let done = Done { begun, ended, path: ask.path(), outcome };
            self.done.lock().expect("no code panics with it").push(done);
        }
    }
}

impl Running {
    /// Lets them finish their requests, and closes their connections.
    pub(super) async fn finish(mut self) {
        self.premium.stop.store(true, Ordering::Relaxed);
        let all = async { while self.tasks.join_next().await.is_some() {} };
        let _ = timeout(END_PATIENCE, all).await;
    }
}

fn address(number: usize) -> IpAddr {
    Ipv4Addr::new(127, 1, 0, 1 + number as u8).into()
}

/// Small pages mostly, a few large ones, some uploads.
fn ask(random: &mut Rng, id: String) -> Ask {
    let bytes = match random.u8(..100) {
        0..5 => random.usize(100_000..400_000),
        5..30 => random.usize(2_000..30_000),
        _ => random.usize(0..2_000),
    };
    let upload = match random.u8(..100) {
        0..3 => random.usize(70_000..300_000),
        3..20 => random.usize(1..20_000),
        _ => 0,
    };
    Ask { class: "premium", id, bytes, upload, say: Say::Ok, chunked: random.u8(..4) == 0 }
}
