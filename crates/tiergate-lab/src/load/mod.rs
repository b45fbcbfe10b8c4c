//! An open-loop load generator.
//!
//! Requests are sent when they are due, whether or not earlier ones have been answered, and their
//! latency counts from that moment. A slow server therefore cannot slow its clients down and so
//! hide how slow it is ("coordinated omission", G. Tene). The generator measures its own lateness
//! too: where that is large, the run says nothing and is called void.

mod pool;
mod population;
pub(crate) mod report;
mod schedule;
mod tally;

pub(crate) use population::Population;
pub(crate) use report::Report;
pub(crate) use schedule::{Arrivals, Step, exponential};
pub(crate) use tally::{Outcome, Tally};

use anyhow::{Context, Result, bail};
use http::Request;
use pool::Pool;
use schedule::{Schedule, step_at};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Requests of a population that may be under way at once: memory, not a model of anything. More
/// than that are counted as timed out, since a server that far behind answers nobody in time.
const UNDER_WAY_MAX: usize = 50_000;

/// A run: who asks whom.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The server's address.
    pub(crate) target: SocketAddr,
    /// Who asks.
    pub(crate) populations: Vec<Population>,
    /// Seed of the sending times.
    pub(crate) seed: u64,
}

/// Command line of `tiergate-lab load`.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Settings {
    /// Address of the server
    #[arg(long, default_value = "127.0.0.1:8080")]
    target: SocketAddr,
    /// Clients: name=premium,path=/buy,rate=80x10s+400x10s,header=Cookie:a=b,patience=1s,
    /// arrivals=poisson|constant,connections=1024. May be repeated
    #[arg(long = "population", required = true, value_parser = Population::parse)]
    populations: Vec<Population>,
    /// Seed of the sending times
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Runs the load and prints what became of it.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    let plan =
        Plan { target: settings.target, populations: settings.populations, seed: settings.seed };
    let report = start(plan)?.report().await?;
    if settings.json {
        println!("{:#}", report.to_json());
    } else {
        print!("{}", report.table(crate::text::Palette::of_stdout()));
    }
    if let Some(why) = report.void() {
        bail!("{why}");
    }
    Ok(())
}

/// What has happened so far; written by the generator's thread, read by whoever shows it.
/// Each lock is held for a few counter updates only.
pub(crate) struct Live {
    /// By population, then step.
    tallies: Vec<Mutex<Vec<Tally>>>,
    /// By population, then step: good answers that came in it, whenever they were asked for.
    answered: Vec<Mutex<Vec<u64>>>,
    /// By population: since the last [`Live::recent`].
    recent: Vec<Mutex<Tally>>,
    /// How late requests were sent.
    lateness: Mutex<Tally>,
}

impl Live {
    fn new(plan: &Plan) -> Self {
        let steps = |p: &Population| Mutex::new(vec![Tally::new(); p.steps.len()]);
        Self {
            tallies: plan.populations.iter().map(steps).collect(),
            answered: plan.populations.iter().map(|p| Mutex::new(vec![0; p.steps.len()])).collect(),
            recent: plan.populations.iter().map(|_| Mutex::new(Tally::new())).collect(),
            lateness: Mutex::new(Tally::new()),
        }
    }

    fn sent(&self, population: usize, step: usize, late: Duration) {
        lock(&self.tallies[population])[step].counts.sent += 1;
        lock(&self.recent[population]).counts.sent += 1;
        lock(&self.lateness).record(late);
    }

    fn ended(&self, population: usize, step: usize, outcome: Outcome, latency: Duration) {
        lock(&self.tallies[population])[step].ended(outcome, latency);
        lock(&self.recent[population]).ended(outcome, latency);
    }

    /// A good answer came in that step; `None`: after the last.
    fn answered(&self, population: usize, step: Option<usize>) {
        if let Some(step) = step {
            lock(&self.answered[population])[step] += 1;
        }
    }

    /// What happened to a population since this was last called.
    pub(crate) fn recent(&self, population: usize) -> Tally {
        std::mem::replace(&mut *lock(&self.recent[population]), Tally::new())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // A panic in between leaves at worst one request uncounted.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run under way on a thread of its own; dropped, it stops.
pub(crate) struct Started {
    /// What has happened so far.
    pub(crate) live: Arc<Live>,
    _stop: oneshot::Sender<()>,
    done: oneshot::Receiver<Report>,
}

impl Started {
    /// Waits for the end.
    pub(crate) async fn report(&mut self) -> Result<Report> {
        (&mut self.done).await.context("the load generator's thread ended early")
    }
}

/// Starts a run on a thread of its own, so that nothing else delays what is due.
pub(crate) fn start(plan: Plan) -> Result<Started> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let live = Arc::new(Live::new(&plan));
    let (report, done) = oneshot::channel();
    let (stop, stopped) = oneshot::channel();
    let written = Arc::clone(&live);
    std::thread::Builder::new().name("load".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = generate(&plan, &written) => {
                    // Nobody waits for it any more if the experiment has been given up.
                    let _ = report.send(Report::new(&plan, &written));
                }
                _ = stopped => {}
            }
        });
    })?;
    Ok(Started { live, _stop: stop, done })
}

async fn generate(plan: &Plan, live: &Arc<Live>) {
    let begun = Instant::now();
    let mut all = JoinSet::new();
    for (number, population) in plan.populations.iter().enumerate() {
        let seed = plan.seed.wrapping_mul(1_000_003).wrapping_add(number as u64);
        let (population, live, target) = (population.clone(), Arc::clone(live), plan.target);
        all.spawn(ask(number, population, target, seed, begun, live));
    }
    while all.join_next().await.is_some() {}
}

/// Sends the requests of one population and waits until each has ended.
async fn ask(
    number: usize,
    population: Population,
    target: SocketAddr,
    seed: u64,
    begun: Instant,
    live: Arc<Live>,
) {
    let pool = Arc::new(Pool::new(target, population.connections_max));
    let request = Arc::new(request(&population, target));
    let steps: Arc<[Step]> = population.steps.as_slice().into();
    let mut under_way = JoinSet::new();
    for (step, at) in Schedule::new(&population.steps, population.arrivals, seed) {
        let intended = begun + at;
        if intended > Instant::now() {
            sleep_until(intended).await;
        }
        while under_way.try_join_next().is_some() {}
        live.sent(number, step, intended.elapsed());
        if under_way.len() >= UNDER_WAY_MAX {
            live.ended(number, step, Outcome::TimedOut, population.patience);
            continue;
        }
        let deadline = intended + population.patience;
        let (pool, request, live) = (Arc::clone(&pool), Arc::clone(&request), Arc::clone(&live));
        let steps = Arc::clone(&steps);
        under_way.spawn(async move {
            let outcome = match timeout_at(deadline, pool.exchange(&request)).await {
                Err(_) => Outcome::TimedOut,
                Ok(Err(())) => Outcome::Failed,
                Ok(Ok(status)) if status.is_success() => Outcome::Ok,
                Ok(Ok(status)) if matches!(status.as_u16(), 429 | 503) => Outcome::Refused,
                Ok(Ok(_)) => Outcome::Failed,
            };
            live.ended(number, step, outcome, intended.elapsed());
            if outcome == Outcome::Ok {
                live.answered(number, step_at(&steps, begun.elapsed()));
            }
        });
    }
    while under_way.join_next().await.is_some() {}
}

fn request(population: &Population, target: SocketAddr) -> Request<()> {
    let mut request = Request::new(());
    *request.uri_mut() = population.path.clone();
    let host = target.to_string().parse().expect("an address is a valid field value");
    request.headers_mut().insert(http::header::HOST, host);
    request.headers_mut().extend(population.headers.iter().map(|(k, v)| (k.clone(), v.clone())));
    request
}
