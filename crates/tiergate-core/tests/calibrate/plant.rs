//! Servers of known bottleneck under a closed loop, in virtual time.

use fastrand::Rng;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;
use tiergate_core::calibrate::{Resource, Slice, Usage};

/// How service times vary.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    Constant,
    Exponential,
    /// Three quarters take half of the mean, a quarter two and a half times.
    Bimodal,
}

/// A server: a request takes a worker, waits (for a backend), computes, gives the worker back, and its answer is sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plant {
    pub(crate) workers: usize,
    pub(crate) processors: usize,
    pub(crate) wait_s: f64,
    pub(crate) cpu_s: f64,
    pub(crate) link_s: f64,
    /// Network and client, without any limit.
    pub(crate) away_s: f64,
    pub(crate) spread: Spread,
    /// Readings of utilization are off by as much.
    pub(crate) noise: f64,
    /// Beyond so many at once it refuses.
    pub(crate) refuses_beyond: usize,
    /// Every service takes this part longer with each second.
    pub(crate) slower: f64,
    pub(crate) seed: u64,
}

impl Default for Plant {
    fn default() -> Self {
        Plant {
            workers: 1000,
            processors: 2,
            wait_s: 0.0,
            cpu_s: 0.0,
            link_s: 0.0,
            away_s: 0.0002,
            spread: Spread::Exponential,
            noise: 0.02,
            refuses_beyond: usize::MAX,
            slower: 0.0,
            seed: 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum At {
    Arrive,
    Waited,
    Computed,
    Sent,
}

/// A plant with requests in progress.
pub(crate) struct Running {
    plant: Plant,
    random: Rng,
    now: f64,
    /// Nanoseconds, which request, what happens.
    events: BinaryHeap<Reverse<(u64, usize, At)>>,
    free_workers: usize,
    free_processors: usize,
    is_sending: bool,
    for_worker: VecDeque<usize>,
    for_processor: VecDeque<usize>,
    for_link: VecDeque<usize>,
    /// When each began; those beyond the target do not begin anew.
    begun: Vec<f64>,
    is_busy: Vec<bool>,
    target: usize,
    inside: usize,
    used: [f64; 2],
    /// Until when they are accounted for.
    accounted: f64,
}

impl Running {
    pub(crate) fn new(plant: Plant) -> Self {
        Running {
            random: Rng::with_seed(plant.seed),
            now: 0.0,
            events: BinaryHeap::new(),
            free_workers: plant.workers,
            free_processors: plant.processors,
            is_sending: false,
            for_worker: VecDeque::new(),
            for_processor: VecDeque::new(),
            for_link: VecDeque::new(),
            begun: Vec::new(),
            is_busy: Vec::new(),
            target: 0,
            inside: 0,
            used: [0.0; 2],
            accounted: 0.0,
            plant,
        }
    }

    fn draw(&mut self, mean: f64) -> f64 {
        let mean = mean * (1.0 + self.plant.slower * self.now);
        match self.plant.spread {
            Spread::Constant => mean,
            Spread::Exponential => -mean * (1.0 - self.random.f64()).ln(),
            Spread::Bimodal if self.random.u8(0..4) > 0 => mean * 0.5,
            Spread::Bimodal => mean * 2.5,
        }
    }

    fn later(&mut self, seconds: f64, request: usize, what: At) {
        let at = ((self.now + seconds) * 1e9) as u64;
        self.events.push(Reverse((at, request, what)));
    }

    /// So many in progress from now on.
    pub(crate) fn concurrency(&mut self, target: u32) {
        self.target = target as usize;
        self.begun.resize(self.begun.len().max(self.target), 0.0);
        self.is_busy.resize(self.begun.len(), false);
        for request in 0..self.target {
            if !std::mem::replace(&mut self.is_busy[request], true) {
                self.begin(request);
            }
        }
    }

    fn begin(&mut self, request: usize) {
        self.begun[request] = self.now;
        let away = self.draw(self.plant.away_s);
        self.later(away, request, At::Arrive);
    }

    /// A slice of time.
    pub(crate) fn slice(&mut self, length: Duration) -> Slice {
        let (from, until) = (self.now, self.now + length.as_secs_f64());
        self.used = [0.0; 2];
        let mut slice = Slice { length, ..Slice::default() };
        while let Some(Reverse((at, request, what))) = self.events.peek().copied() {
            if at as f64 / 1e9 >= until {
                break;
            }
            self.events.pop();
            self.now = self.now.max(at as f64 / 1e9);
            self.account();
            self.happens(request, what, &mut slice);
        }
        self.now = until;
        self.account();
        let noise = |random: &mut Rng, noise| 1.0 + noise * (2.0 * random.f64() - 1.0);
        let seconds = until - from;
        let mut share = |used: f64| {
            (used / seconds * noise(&mut self.random, self.plant.noise)).clamp(0.0, 1.0)
        };
        let [cpu, link] = [share(self.used[0] / self.plant.processors as f64), share(self.used[1])];
        slice.usage = Usage::default().with(Resource::Machine, cpu).with(Resource::Link, link);
        slice.usage.set(Resource::Disk, 0.02);
        slice.usage.set(Resource::Generator, 0.1);
        slice
    }

    /// Adds what was in use since the last time.
    fn account(&mut self) {
        let passed = self.now - std::mem::replace(&mut self.accounted, self.now);
        self.used[0] += passed * (self.plant.processors - self.free_processors) as f64;
        self.used[1] += passed * f64::from(u8::from(self.is_sending));
    }

    fn happens(&mut self, request: usize, what: At, slice: &mut Slice) {
        match what {
            At::Arrive if self.inside >= self.plant.refuses_beyond => {
                slice.refused += 1;
                self.ended(request, slice);
            }
            At::Arrive => {
                self.inside += 1;
                self.for_worker.push_back(request);
            }
            At::Waited => self.for_processor.push_back(request),
            At::Computed => {
                self.free_processors += 1;
                self.free_workers += 1;
                self.for_link.push_back(request);
            }
            At::Sent => {
                self.is_sending = false;
                self.inside -= 1;
                slice.answered += 1;
                slice.latencies.push(Duration::from_secs_f64(self.now - self.begun[request]));
                self.ended(request, slice);
            }
        }
        while self.free_workers > 0 && !self.for_worker.is_empty() {
            self.free_workers -= 1;
            let next = self.for_worker.pop_front().expect("not empty");
            let wait = self.draw(self.plant.wait_s);
            self.later(wait, next, At::Waited);
        }
        while self.free_processors > 0 && !self.for_processor.is_empty() {
            self.free_processors -= 1;
            let next = self.for_processor.pop_front().expect("not empty");
            let cpu = self.draw(self.plant.cpu_s);
            self.later(cpu, next, At::Computed);
        }
        if !self.is_sending && !self.for_link.is_empty() {
            self.is_sending = true;
            let next = self.for_link.pop_front().expect("not empty");
            let sending = self.draw(self.plant.link_s);
            self.later(sending, next, At::Sent);
        }
    }

    fn ended(&mut self, request: usize, slice: &mut Slice) {
        slice.cycles += Duration::from_secs_f64(self.now - self.begun[request]);
        slice.bytes += 1024;
        match request < self.target {
            true => self.begin(request),
            false => self.is_busy[request] = false,
        }
    }
}

/// Requests a second of that plant, by a long run with many in progress.
pub(crate) fn truth(plant: Plant) -> f64 {
    let mut running = Running::new(Plant { seed: plant.seed ^ 0xABCD, ..plant });
    running.concurrency(1024.min(plant.refuses_beyond as u32 as usize) as u32);
    // Until the queues are as long as they become.
    let mut rate = 0.0;
    for minutes in [1, 2] {
        let slice = running.slice(Duration::from_secs(60 * minutes));
        rate = slice.answered as f64 / slice.length.as_secs_f64();
    }
    rate
}
