//! The clients of a population: each arrival asks, asks again, or goes through its session.

use super::client::{Client, Connection, Jar, Pool};
use super::counts::Outcome;
use super::live::{Due, Live, Log};
use super::meter::Meter;
use super::paths::Ranks;
use super::plan::Plan;
use super::population::{Population, Session};
use super::schedule::{Schedule, exponential};
use fastrand::Rng;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

/// Arrivals of a population that may be under way at once: memory, not a model of anything. More
/// than that are counted as timed out, since a server that far behind answers nobody in time.
const UNDER_WAY_MAX: usize = 50_000;

/// How long a client whose session goes on whatever becomes of its requests waits after one that did not end well.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Runs a plan until its last request has ended.
pub(super) async fn generate(plan: &Plan, live: &Arc<Live>) {
    let begun = Instant::now();
    let mut meter = Meter::new();
    let mut all = JoinSet::new();
    for (number, population) in plan.populations.iter().enumerate() {
        let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let log = Log::new(Arc::clone(live), number, population, begun);
        let clients = Arc::new(Clients::new(plan.target, population.clone(), log.into()));
        all.spawn(arrive(clients, seed, begun));
    }
    let ended = async { while all.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = meter.watch() => {}
    }
    live.used(meter.usage());
}

/// Lets the clients of one population arrive, and waits until each has ended.
async fn arrive(clients: Arc<Clients>, seed: u64, begun: Instant) {
    let population = clients.population();
    // Another stream than that of the schedule, which a change of behaviour must not change.
    let mut random = Rng::with_seed(seed ^ 0x9e37_79b9_7f4a_7c15);
    // Each arrival holds a sender: their number is that of those under way, and none is the end.
    let (under_way, mut all_ended) = mpsc::channel::<()>(1);
    let mut thinning = random.fork();
    let schedule = Schedule::new(&population.steps, population.arrivals, seed);
    let trace = population.trace.as_ref();
    for (step, at) in schedule.filter(|(_, at)| trace.is_none_or(|t| t.keeps(*at, &mut thinning))) {
        let due = Due { at: begun + at, step };
        if due.at > Instant::now() {
            sleep_until(due.at).await;
        }
        clients.log.arrived(due);
        let mut random = random.fork();
        if under_way.strong_count() > UNDER_WAY_MAX {
            clients.turned_away(due);
            continue;
        }
        let (clients, under_way) = (Arc::clone(&clients), under_way.clone());
        tokio::spawn(async move {
            match &clients.population().session {
                Some(session) => clients.session(session, due, &mut random).await,
                None => clients.request(&mut Way::Shared, due, &mut random).await,
            };
            drop(under_way);
        });
    }
    drop(under_way);
    let none = all_ended.recv().await;
    debug_assert!(none.is_none(), "nothing is ever sent");
}

/// Which connections requests go on.
enum Way {
    /// Whichever is idle.
    Shared,
    /// One's own, once it is open, and the cookies of its session.
    Own(Option<Connection>, Jar),
}

/// The clients of a population.
struct Clients {
    client: Client,
    pool: Pool,
    ranks: Ranks,
    log: Arc<Log>,
}

impl Clients {
    fn new(target: SocketAddr, population: Population, log: Arc<Log>) -> Self {
        let pool = Pool::new(population.connections_max);
        let ranks = Ranks::new(population.paths.len(), population.zipf);
        let received = Arc::clone(&log);
        let client =
            Client::new(target, population, Box::new(move |bytes| received.received(bytes)));
        Self { client, pool, ranks, log }
    }

    fn population(&self) -> &Population {
        &self.client.population
    }

    /// An arrival for which there is no memory.
    fn turned_away(&self, due: Due) {
        if self.population().session.is_some() {
            self.log.session_begun(due);
        }
        self.log.sent(due);
        self.log.ended(due, Outcome::TimedOut, 0, 0);
    }

    /// One client's requests, until the first that does not end well.
    async fn session(&self, session: &Session, begun: Due, random: &mut Rng) -> Outcome {
        self.log.session_begun(begun);
        // Held for the whole session, thinking included, as the connection is.
        let place = timeout_at(begun.at + self.population().patience, self.pool.place()).await;
        let Ok(_place) = place else {
            self.log.sent(begun);
            self.log.ended(begun, Outcome::TimedOut, 0, 0);
            return Outcome::TimedOut;
        };
        let mut way = Way::Own(None, Jar::default());
        let mut due = begun;
        let mut lasting = Duration::ZERO;
        let (mut pause, mut has_started) = (Duration::ZERO, false);
        for number in 0..session.requests.unwrap_or(u32::MAX) {
            if number > 0 {
                let think = session.think.mul_f64(exponential(random));
                due = self.log.due(Instant::now() + think.max(pause));
                sleep_until(due.at).await;
            }
            if session.requests.is_none() && self.log.is_over() {
                break;
            }
            if let (Some(marked), Way::Own(_, jar)) = (&session.marked, &mut way)
                && number == marked.from
            {
                jar.set(marked.cookie.as_bytes());
            }
            let outcome = self.request(&mut way, due, random).await;
            match outcome {
                Outcome::Ok => pause = Duration::ZERO,
                _ if session.requests.is_none() => {
                    pause = AFTER_FAILURE;
                    continue;
                }
                _ => return outcome,
            }
            if !std::mem::replace(&mut has_started, true) {
                self.log.session_started(begun);
            }
            lasting += due.at.elapsed();
        }
        self.log.session_completed(begun, lasting);
        Outcome::Ok
    }

    /// One request, asked as often as the client is willing to.
    async fn request(&self, way: &mut Way, due: Due, random: &mut Rng) -> Outcome {
        self.log.sent(due);
        let path = self.ranks.draw(random);
        let attempts_max = self.population().retry.map_or(1, |retry| retry.attempts);
        let mut begun = due.at;
        for attempt in 1.. {
            let (outcome, bytes) = self.attempt(way, begun, path).await;
            match self.population().retry {
                Some(retry) if outcome != Outcome::Ok && attempt < attempts_max => {
                    sleep(retry.pause.mul_f64(0.5 + random.f64())).await;
                    begun = Instant::now();
                }
                _ => {
                    self.log.ended(due, outcome, u64::from(attempt), bytes);
                    return outcome;
                }
            }
        }
        unreachable!("the attempts are bounded")
    }

    /// One attempt: how it ended, and the bytes that it brought.
    async fn attempt(&self, way: &mut Way, begun: Instant, path: usize) -> (Outcome, u64) {
        let exchange = async {
            match way {
                Way::Shared => {
                    let _place = self.pool.place().await;
                    let mut jar = Jar::default();
                    let asked = self.client.exchange(self.pool.take(), path, &mut jar);
                    let (answer, kept) = asked.await?;
                    kept.into_iter().for_each(|connection| self.pool.put(connection));
                    Ok::<_, ()>(answer)
                }
                Way::Own(own, jar) => {
                    let (answer, kept) = self.client.exchange(own.take(), path, jar).await?;
                    *own = kept;
                    Ok(answer)
                }
            }
        };
        match timeout_at(begun + self.population().patience, exchange).await {
            Err(_) => (Outcome::TimedOut, 0),
            Ok(Err(())) => (Outcome::Failed, 0),
            Ok(Ok(answer)) => match answer.status {
                200..300 => (Outcome::Ok, answer.bytes),
                429 | 503 => (Outcome::Refused, answer.bytes),
                _ => (Outcome::Failed, answer.bytes),
            },
        }
    }
}
