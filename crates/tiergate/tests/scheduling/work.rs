//! An origin that counts what it works for each class, and clients that keep it busy.

use crate::support::client::Client;
use crate::support::origin::{Origin, ok};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the origin takes for each request: so short that thousands end within seconds, and long
/// enough that its slots are what is short.
pub(crate) const SERVICE: Duration = Duration::from_millis(2);

/// What the origin saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Requests answered, by class: `/0/…` to `/3/…`.
    served: [AtomicU64; 4],
    /// Microseconds that they took it.
    worked: [AtomicU64; 4],
    /// In progress now, and the most that were at once.
    running: [AtomicUsize; 4],
    most: [AtomicUsize; 4],
}

impl Seen {
    pub(crate) fn served(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|class| self.served[class].load(Ordering::SeqCst))
    }

    pub(crate) fn worked(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|class| self.worked[class].load(Ordering::SeqCst))
    }

    pub(crate) fn most(&self) -> [usize; 4] {
        [0, 1, 2, 3].map(|class| self.most[class].load(Ordering::SeqCst))
    }

    /// The most that are in progress at once from now on.
    pub(crate) fn most_from_now_on(&self) {
        for (most, running) in self.most.iter().zip(&self.running) {
            most.store(running.load(Ordering::SeqCst), Ordering::SeqCst);
        }
    }
}

/// An origin; a target is `/CLASS/TIMES`, and whatever follows.
pub(crate) fn origin() -> (Origin, Arc<Seen>) {
    let seen = Arc::new(Seen::default());
    let counted = seen.clone();
    let origin = Origin::answering(move |request| {
        let class = usize::from(request.target.as_bytes()[1] - b'0');
        let running = 1 + counted.running[class].fetch_add(1, Ordering::SeqCst);
        counted.most[class].fetch_max(running, Ordering::SeqCst);
        let times = request.target.split('/').nth(2).and_then(|times| times.parse().ok());
        let begun = Instant::now();
        thread::sleep(SERVICE * times.unwrap_or(1));
        let took = begun.elapsed().as_micros() as u64;
        counted.worked[class].fetch_add(took, Ordering::SeqCst);
        counted.running[class].fetch_sub(1, Ordering::SeqCst);
        counted.served[class].fetch_add(1, Ordering::SeqCst);
        ok("x")
    });
    (origin, seen)
}

/// Clients of a class, each of which asks again as soon as it is answered.
pub(crate) struct Clients {
    stop: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<[u64; 2]>>,
}

impl Clients {
    pub(crate) fn start(address: SocketAddr, count: usize, target: &str, from: &str) -> Self {
        Self::asking(address, count, &[target], &format!("X-Forwarded-For: {from}\r\n"))
    }

    /// Each asks for one target after the other, with these lines.
    pub(crate) fn asking(address: SocketAddr, count: usize, targets: &[&str], lines: &str) -> Self {
        let stop = Arc::new(AtomicUsize::new(0));
        let head = |target| format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let heads: Vec<String> = targets.iter().map(head).collect();
        let threads = (0..count).map(|number| {
            let (stop, heads) = (stop.clone(), heads.clone());
            thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut answers = [0; 2];
                let mut heads = heads.iter().cycle().skip(number);
                while stop.load(Ordering::SeqCst) == 0 {
                    client.send(heads.next().expect("endless"));
                    answers[usize::from(client.answer().status != 200)] += 1;
                }
                answers
            })
        });
        Clients { threads: threads.collect(), stop }
    }

    /// How many were served and refused.
    pub(crate) fn stop(self) -> [u64; 2] {
        self.stop.store(1, Ordering::SeqCst);
        let all = self.threads.into_iter().map(|it| it.join().expect("a client does not panic"));
        all.fold([0; 2], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
    }
}

/// Lets clients ask until so many more were served in all; what each class got meanwhile.
pub(crate) fn count(seen: &Seen, requests: u64) -> [u64; 4] {
    let before = seen.served();
    loop {
        thread::sleep(Duration::from_millis(5));
        let now = seen.served();
        let got = [0, 1, 2, 3].map(|class| now[class] - before[class]);
        if got.iter().sum::<u64>() >= requests {
            return got;
        }
    }
}
