//! The workers of the origin and the queue before them.

use super::Settings;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

/// Whether serving a request waits or computes.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The worker waits, as for a database.
    Io,
    /// The worker computes: it burns processor time of its own thread.
    Cpu,
}

/// How service times vary about their mean.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// All alike.
    Constant,
    /// Exponentially distributed.
    Exponential,
    /// Nine in ten take half the mean, one in ten takes 5.5 times the mean.
    Bimodal,
}

impl Spread {
    /// A service time with the given mean.
    fn draw(self, mean: Duration, random: &mut fastrand::Rng) -> Duration {
        match self {
            Self::Constant => mean,
            Self::Exponential => mean.mul_f64(crate::load::exponential(random)),
            Self::Bimodal if random.f64() < 0.9 => mean.mul_f64(0.5),
            Self::Bimodal => mean.mul_f64(5.5),
        }
    }
}

/// What the workers have done.
#[derive(Default)]
pub(crate) struct Counts {
    /// Requests whose client got the answer.
    pub(crate) served: AtomicU64,
    /// Requests whose client had left before the answer was ready.
    pub(crate) wasted: AtomicU64,
}

struct Job {
    arrived: Instant,
    done: oneshot::Sender<()>,
}

/// The queue's way in.
pub(crate) struct Workers {
    queue: Option<mpsc::Sender<Job>>,
    /// Shared with the workers.
    pub(crate) counts: Arc<Counts>,
}

impl Workers {
    /// Starts the workers on the current runtime.
    pub(super) fn start(settings: &Settings) -> Self {
        let counts = Arc::new(Counts::default());
        if settings.service.is_zero() {
            return Self { queue: None, counts };
        }
        let (sender, receiver) = mpsc::channel(settings.accept_queue as usize);
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..settings.workers {
            let worker = Worker {
                kind: settings.kind,
                spread: settings.dist,
                mean: settings.service,
                random: fastrand::Rng::with_seed(settings.seed.wrapping_add(number as u64)),
                counts: Arc::clone(&counts),
            };
            tokio::spawn(worker.run(Arc::clone(&receiver)));
        }
        Self { queue: Some(sender), counts }
    }

    /// Waits until a worker has served the request. Cancel safe; a request that is queued already
    /// is served all the same. An error means that the workers are gone.
    pub(super) async fn serve(&self) -> Result<(), ()> {
        let Some(queue) = &self.queue else {
            self.counts.served.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        let (done, finished) = oneshot::channel();
        queue.send(Job { arrived: Instant::now(), done }).await.map_err(|_| ())?;
        finished.await.map_err(|_| ())
    }
}

struct Worker {
    kind: Kind,
    spread: Spread,
    mean: Duration,
    random: fastrand::Rng,
    counts: Arc<Counts>,
}

impl Worker {
    async fn run(mut self, queue: Arc<Mutex<mpsc::Receiver<Job>>>) {
        // A timer fires up to a millisecond late. A busy worker begins its next request when the
        // last one should have ended, so that the lateness does not add up to lost capacity.
        let mut free_at = Instant::now();
        loop {
            let Some(job) = queue.lock().await.recv().await else {
                return;
            };
            let time = self.spread.draw(self.mean, &mut self.random);
            match self.kind {
                Kind::Io => {
                    free_at = free_at.max(job.arrived) + time;
                    tokio::time::sleep_until(free_at).await;
                }
                Kind::Cpu => {
                    let burnt = tokio::task::spawn_blocking(move || burn(time)).await;
                    burnt.expect("burning time does not panic");
                }
            }
            let counter = match job.done.send(()) {
                Ok(()) => &self.counts.served,
                Err(()) => &self.counts.wasted,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Uses `time` of this thread's processor time, however long that takes on a busy machine.
fn burn(time: Duration) {
    let until = thread_time() + time;
    let mut work = 1_u64;
    while thread_time() < until {
        for _ in 0..1000 {
            work = work.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        }
        std::hint::black_box(work);
    }
}

fn thread_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spread_keeps_the_mean() {
        for spread in [Spread::Constant, Spread::Exponential, Spread::Bimodal] {
            let mut random = fastrand::Rng::with_seed(7);
            let mean = Duration::from_millis(20);
            let total: Duration = (0..20_000).map(|_| spread.draw(mean, &mut random)).sum();
            let ratio = total.as_secs_f64() / 20_000.0 / mean.as_secs_f64();
            assert!((ratio - 1.0).abs() < 0.05, "{spread:?}: {ratio}");
        }
    }

    #[test]
    fn burning_uses_processor_time() {
        let before = thread_time();
        burn(Duration::from_millis(5));
        assert!(thread_time() - before >= Duration::from_millis(5));
    }

    #[tokio::test(start_paused = true)]
    async fn a_saturated_origin_serves_its_capacity() {
        let settings = Settings {
            listen: "127.0.0.1:0".parse().unwrap(),
            workers: 4,
            service: Duration::from_millis(20),
            dist: Spread::Constant,
            kind: Kind::Io,
            connections_max: 1,
            accept_queue: 50,
            bytes: 1,
            seed: 1,
        };
        let workers = Arc::new(Workers::start(&settings));
        let begun = Instant::now();
        let waiting: Vec<_> = (0..400)
            .map(|_| {
                let workers = Arc::clone(&workers);
                tokio::spawn(async move { workers.serve().await })
            })
            .collect();
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        // 400 requests at 4 / 20 ms = 200 a second.
        let took = begun.elapsed().as_secs_f64();
        assert!((1.99..2.05).contains(&took), "{took} s");
    }
}
