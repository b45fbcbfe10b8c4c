//! A small dynamic site whose pages use the machine: processor, memory, or only time.
//!
//! `/cpu/N` uses N microseconds of processor time, `/memory/N` walks N MiB of memory of its own at
//! random, `/io/N` waits N milliseconds; anything may stand in front, as in `/checkout/cpu/3000`.
//! A bounded pool of threads serves them in order of arrival. Unlike `origin`, nothing is known of
//! its capacity beforehand: it depends on the processors, on the caches, and on who else runs.

use super::counts::Counts;
use super::http1::{self, Answer, plain};
use super::settings::{anywhere, from_words, words};
use super::work::{burn, walk};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{StatusCode, Uri};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Most threads.
const WORKERS_MAX: usize = 1024;
/// Most MiB that a page walks: with the most threads still less than a server has.
const MEMORY_MIB_MAX: usize = 64;
/// Longest time that a page takes.
const TIME_MAX: Duration = Duration::from_secs(60);

/// How large the application is.
#[derive(clap::Args, serde::Deserialize, serde::Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// Address to listen on
    #[serde(skip, default = "anywhere")]
    #[arg(long, default_value = "127.0.0.1:8081")]
    pub(crate) listen: SocketAddr,
    /// Threads, and so requests served at once
    #[arg(long, default_value_t = 16)]
    pub(crate) workers: usize,
    /// Requests that may wait for a thread; the kernel's listen queue is as long
    #[arg(long, default_value_t = 511)]
    pub(crate) accept_queue: u32,
    /// Connections open at once; further ones wait in the listen queue
    #[arg(long, default_value_t = 4096)]
    pub(crate) connections_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        from_words(&[])
    }
}

impl Settings {
    /// The words of the command line that starts such an application.
    pub(crate) fn args(&self) -> Vec<String> {
        words("app", self.listen, self)
    }

    /// Whether it can be; an error says what to change.
    pub(crate) fn check(&self) -> Result<()> {
        let workers = 1..=WORKERS_MAX;
        ensure!(workers.contains(&self.workers), "--workers must be from 1 to {WORKERS_MAX}");
        ensure!(self.accept_queue > 0, "--accept-queue must be at least 1");
        Ok(())
    }
}

/// What a page does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Page {
    Cpu(Duration),
    Io(Duration),
    Memory(usize),
}

impl Page {
    /// The page that a path's last two parts name.
    fn of(path: &str) -> Option<Self> {
        let mut parts = path.rsplit('/');
        let (number, name) = (parts.next()?, parts.next()?);
        let number: u32 = number.parse().ok()?;
        let time = |time| (time <= TIME_MAX).then_some(time);
        match name {
            "cpu" => time(Duration::from_micros(number.into())).map(Self::Cpu),
            "io" => time(Duration::from_millis(number.into())).map(Self::Io),
            "memory" => {
                (number as usize <= MEMORY_MIB_MAX).then_some(Self::Memory(number as usize))
            }
            _ => None,
        }
    }

    fn make(self) {
        match self {
            Self::Cpu(time) => burn(time),
            Self::Io(time) => std::thread::sleep(time),
            Self::Memory(mib) => walk(mib),
        }
    }
}

struct Job {
    page: Page,
    done: oneshot::Sender<()>,
}

/// Serves until SIGTERM or Ctrl-C, then prints one line: what was served, and for whom.
pub(crate) async fn run(settings: Settings) -> Result<()> {
    settings.check()?;
    let counts = Arc::new(Counts::default());
    let queue = start_threads(&settings, &counts)?;
    let Settings { listen, workers, accept_queue, connections_max } = settings;
    let greeting = format!("application on {listen}, {workers} threads");
    let respond = move |uri| respond(uri, queue.clone());
    http1::run(listen, accept_queue, connections_max, &greeting, &counts, respond).await
}

fn start_threads(settings: &Settings, counts: &Arc<Counts>) -> Result<mpsc::Sender<Job>> {
    let (queue, jobs) = mpsc::channel::<Job>(settings.accept_queue as usize);
    let jobs = Arc::new(Mutex::new(jobs));
    for _ in 0..settings.workers {
        let (jobs, counts) = (Arc::clone(&jobs), Arc::clone(counts));
        let thread = std::thread::Builder::new().name("worker".into());
        let work = move || {
            // The idle thread that holds the lock takes the next job; the others wait for the lock.
            let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
            while let Some(job) = next() {
                job.page.make();
                counts.ended(job.done);
            }
        };
        thread.spawn(work).context("cannot start a thread; ask for fewer --workers")?;
    }
    Ok(queue)
}

async fn respond(uri: Uri, queue: mpsc::Sender<Job>) -> Answer {
    let Some(page) = Page::of(uri.path()) else {
        let known = "/cpu/MICROSECONDS, /io/MILLISECONDS (a minute at most), /memory/MIB (64)\n";
        return plain(StatusCode::NOT_FOUND, known.into());
    };
    let (done, finished) = oneshot::channel();
    let sent = queue.send(Job { page, done }).await;
    if sent.is_err() || finished.await.is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new());
    }
    plain(StatusCode::OK, Bytes::from_static(&[b'x'; 1024]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use std::time::Instant;

    #[test]
    fn a_path_names_its_page() {
        assert_eq!(Page::of("/cpu/250"), Some(Page::Cpu(Duration::from_micros(250))));
        assert_eq!(Page::of("/checkout/io/3"), Some(Page::Io(Duration::from_millis(3))));
        assert_eq!(Page::of("/memory/64"), Some(Page::Memory(64)));
        for wrong in ["/", "/cpu", "/cpu/", "/cpu/-1", "/cpu/60000001", "/memory/65", "/x/1"] {
            assert_eq!(Page::of(wrong), None, "{wrong}");
        }
    }

    #[tokio::test]
    async fn no_more_are_served_at_once_than_there_are_threads() {
        let settings = Settings { workers: 2, ..Settings::default() };
        let counts = Arc::new(Counts::default());
        let queue = start_threads(&settings, &counts).unwrap();
        let begun = Instant::now();
        let page = Page::Io(Duration::from_millis(50));
        let mut waiting = Vec::new();
        for _ in 0..6 {
            let (done, finished) = oneshot::channel();
            queue.send(Job { page, done }).await.unwrap();
            waiting.push(finished);
        }
        // The last client leaves; its page is made all the same.
        drop(waiting.pop());
        for finished in waiting {
            finished.await.unwrap();
        }
        assert!(begun.elapsed() >= Duration::from_millis(150), "{:?}", begun.elapsed());
        // A page is counted just after its client has it.
        let made = || counts.served.load(Ordering::Relaxed) + counts.wasted.load(Ordering::Relaxed);
        while made() < 6 {
            assert!(begun.elapsed() < Duration::from_secs(10), "the last page was never made");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(counts.line(), r#"{"served":5,"wasted":1}"#);
    }
}
