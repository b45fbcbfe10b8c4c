//! The workers of the origin and the queue before them.

use super::counts::Counts;
use super::service::Times;
use super::settings::{Kind, Settings};
use super::timeline::{Change, Event, Timeline};
use super::work::burn;
use http::Uri;
use std::sync::atomic::Ordering;
use std::sync::{self, Arc, Once};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio::time::Instant;

struct Job {
    arrived: Instant,
    uri: Uri,
    done: oneshot::Sender<()>,
}

/// The queue's way in.
pub(crate) struct Workers {
    queue: mpsc::Sender<Job>,
    crew: Arc<Crew>,
    /// Runs once, at the first request, from which the timeline counts.
    first: Once,
    /// What has been done.
    pub(crate) counts: Arc<Counts>,
}

impl Workers {
    /// Starts the workers, and what the timeline does to them, on the current runtime.
    pub(super) fn start(settings: &Settings) -> Self {
        let counts = Arc::new(Counts::default());
        let (queue, jobs) = mpsc::channel(settings.accept_queue as usize);
        let times = Times::new(settings.service, &settings.routes, settings.thrash);
        let crew = Arc::new(Crew {
            settings: settings.clone(),
            jobs: Mutex::new(jobs),
            counts: Arc::clone(&counts),
            roster: sync::Mutex::new(Roster { wanted: 0, present: 0, hired: 0 }),
            times: sync::Mutex::new(times),
            begun: Notify::new(),
            changed: Notify::new(),
        });
        crew.set(settings.workers);
        if !settings.timeline.0.is_empty() {
            tokio::spawn(Arc::clone(&crew).follow(settings.timeline.clone()));
        }
        Self { queue, crew, first: Once::new(), counts }
    }

    /// Waits until a worker has served the request. Cancel safe; a request that is queued already
    /// is served all the same. An error means that the workers are gone.
    pub(super) async fn serve(&self, uri: Uri) -> Result<(), ()> {
        self.first.call_once(|| self.crew.begun.notify_one());
        if lock(&self.crew.times).usual(uri.path()).is_zero() {
            self.counts.served.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        let (done, finished) = oneshot::channel();
        let job = Job { arrived: Instant::now(), uri, done };
        self.queue.send(job).await.map_err(|_| ())?;
        finished.await.map_err(|_| ())
    }
}

/// How many workers there are and ought to be.
struct Roster {
    wanted: usize,
    /// Those that have not been let go, busy or not.
    present: usize,
    /// Ever; numbers a worker.
    hired: u64,
}

/// What the workers share. Each lock is held for a few instructions, the one of `jobs` by the idle
/// worker that is to take the next job.
struct Crew {
    settings: Settings,
    jobs: Mutex<mpsc::Receiver<Job>>,
    counts: Arc<Counts>,
    roster: sync::Mutex<Roster>,
    times: sync::Mutex<Times>,
    /// The first request has arrived.
    begun: Notify,
    /// Wakes idle workers, of whom some may be too many now.
    changed: Notify,
}

impl Crew {
    /// Makes them so many: hires who is missing; who is too many goes when idle.
    fn set(self: &Arc<Self>, workers: usize) {
        let mut roster = lock(&self.roster);
        roster.wanted = workers;
        while roster.present < workers {
            roster.present += 1;
            let random = fastrand::Rng::with_seed(self.settings.seed.wrapping_add(roster.hired));
            roster.hired += 1;
            tokio::spawn(work(Arc::clone(self), random));
        }
        drop(roster);
        self.changed.notify_waiters();
    }

    /// Whether the worker that asks is one too many and goes.
    fn lets_go(&self) -> bool {
        let mut roster = lock(&self.roster);
        let surplus = roster.present > roster.wanted;
        roster.present -= usize::from(surplus);
        surplus
    }

    /// The next job; `None`: this worker is one too many, or the origin ends.
    async fn next_job(&self) -> Option<Job> {
        loop {
            // Before the question, so that a change after it is not missed.
            let changed = self.changed.notified();
            if self.lets_go() {
                return None;
            }
            tokio::select! {
                biased;
                () = changed => {}
                job = async { self.jobs.lock().await.recv().await } => return job,
            }
        }
    }

    /// Does what the timeline says, counted from the first request.
    async fn follow(self: Arc<Self>, timeline: Timeline) {
        self.begun.notified().await;
        let begun = Instant::now();
        for Event { at, change } in timeline.0 {
            tokio::time::sleep_until(begun + at).await;
            println!("after {:.3} s: {change}", begun.elapsed().as_secs_f64());
            match change {
                Change::Workers(workers) => self.set(workers),
                Change::Slow { prefix, factor } => lock(&self.times).slow(&prefix, factor),
            }
        }
    }
}

/// A worker's life.
async fn work(crew: Arc<Crew>, mut random: fastrand::Rng) {
    // A timer fires up to a millisecond late. A busy worker begins its next request when the
    // last one should have ended, so that the lateness does not add up to lost capacity.
    let mut free_at = Instant::now();
    while let Some(job) = crew.next_job().await {
        let mean = lock(&crew.times).begin(job.uri.path());
        let time = crew.settings.dist.draw(mean, &mut random);
        match crew.settings.kind {
            Kind::Io => {
                free_at = free_at.max(job.arrived) + time;
                tokio::time::sleep_until(free_at).await;
            }
            Kind::Cpu => {
                let burnt = tokio::task::spawn_blocking(move || burn(time)).await;
                burnt.expect("burning time does not panic");
            }
        }
        lock(&crew.times).end();
        crew.counts.ended(job.done);
    }
}

fn lock<T>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    // What a panic leaves behind here is whole: each field is written at once.
    mutex.lock().unwrap_or_else(sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn settings(args: &[&str]) -> Settings {
        crate::origin::settings::from_words(args)
    }

    /// Sends so many requests at once and returns when each was answered, in seconds.
    async fn answered(workers: &Arc<Workers>, path: &'static str, requests: usize) -> Vec<f64> {
        let begun = Instant::now();
        let waiting: Vec<_> = (0..requests)
            .map(|_| {
                let workers = Arc::clone(workers);
                tokio::spawn(async move {
                    workers.serve(Uri::from_static(path)).await.unwrap();
                    begun.elapsed().as_secs_f64()
                })
            })
            .collect();
        let mut times = Vec::new();
        for task in waiting {
            times.push(task.await.unwrap());
        }
        times
    }

    /// How many of them lie in `[from, to)`.
    fn within(times: &[f64], from: f64, to: f64) -> usize {
        times.iter().filter(|time| (from..to).contains(*time)).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_saturated_origin_serves_its_capacity() {
        let workers = Arc::new(Workers::start(&settings(&["--workers=4", "--service=20ms"])));
        let took = answered(&workers, "/", 400).await.into_iter().fold(0.0, f64::max);
        // 400 requests at 4 / 20 ms = 200 a second.
        assert!((1.99..2.05).contains(&took), "{took} s");
    }

    #[tokio::test(start_paused = true)]
    async fn workers_go_and_come_as_the_timeline_says() {
        let timeline = "--timeline=1s:workers=2,2s:workers=8,3s:workers=0,5s:workers=4";
        let args = ["--workers=4", "--service=20ms", "--accept-queue=2000", timeline];
        let workers = Arc::new(Workers::start(&settings(&args)));
        // The timeline waits for the first request, however late it is.
        tokio::time::sleep(Duration::from_secs(60)).await;
        let times = answered(&workers, "/", 1000).await;
        // 200/s, 100/s, 400/s, none, 200/s. Who was busy at a change finished that request.
        let parts = [(0.0, 1.01), (1.01, 2.01), (2.01, 3.03), (3.03, 5.01), (5.01, 60.0)];
        let counts = parts.map(|(from, to)| within(&times, from, to));
        for (count, expected) in counts.into_iter().zip([200, 100, 400, 0, 300]) {
            assert!(count.abs_diff(expected) <= 12, "{counts:?}");
        }
        let roster = lock(&workers.crew.roster);
        assert_eq!((roster.wanted, roster.present), (4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_workers_go_too_and_a_hasty_change_leaves_no_more_than_wanted() {
        let timeline = "--timeline=1s:workers=1,2s:workers=6,2s:workers=3";
        let args = ["--workers=8", "--service=20ms", timeline];
        let workers = Arc::new(Workers::start(&settings(&args)));
        answered(&workers, "/", 1).await;
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(lock(&workers.crew.roster).present, 1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(lock(&workers.crew.roster).present, 3);
        let took = answered(&workers, "/", 30).await.into_iter().fold(0.0, f64::max);
        assert!((0.19..0.22).contains(&took), "30 requests by 3 workers took {took} s");
    }

    #[tokio::test(start_paused = true)]
    async fn pages_take_their_own_time_and_grow_slow_and_recover() {
        let timeline = "--timeline=1s:slow=/browse:5,2s:slow=/browse:1";
        let args = ["--service=40ms", "--route=/report=200ms", "--route=/free=0", timeline];
        let workers = Arc::new(Workers::start(&settings(&args)));
        let took = async |path| answered(&workers, path, 1).await[0];
        let near = |time: f64, expected: f64| (time - expected).abs() < 0.003;
        assert!(near(took("/browse").await, 0.04) && near(took("/report/1").await, 0.2));
        assert_eq!(took("/free").await, 0.0);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(near(took("/browse").await, 0.2), "slow");
        assert!(near(took("/checkout").await, 0.04), "another page");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(near(took("/browse").await, 0.04), "recovered");
    }

    #[tokio::test(start_paused = true)]
    async fn a_thrashing_origin_serves_less_the_more_it_serves_at_once() {
        let per_second = async |workers: &str| {
            let args = ["--service=20ms", "--thrash=4:2", &format!("--workers={workers}")];
            let workers = Arc::new(Workers::start(&settings(&args)));
            400.0 / answered(&workers, "/", 400).await.into_iter().fold(0.0, f64::max)
        };
        // Sixteen at once: 1 + 2 * 12 / 4 = 7 times as long.
        let (four, sixteen) = (per_second("4").await, per_second("16").await);
        assert!((195.0..201.0).contains(&four), "{four}/s");
        assert!((110.0..125.0).contains(&sixteen), "{sixteen}/s");
    }
}
