//! The origin: workers, cores, waits, contention, pauses, faults.
//!
//! One model covers the kinds that matter. A request takes a worker (first come, first served; the
//! rest wait in the accept queue), waits for something else than this machine (`wait`), then, where its class
//! needs it, for one of a few resources, then shares the cores with the others (`cpu`, processor sharing). Workers without cores are the textbook's c
//! servers; cores without a bound on workers are processor sharing; many workers with a long wait
//! and little CPU are an I/O-bound server. Last it may keep its worker while its client takes the answer (`send`).

mod drift;
mod faults;
mod quota;
mod shape;

pub use shape::{
    Drift, Fault, FaultKind, OfClass, Pause, Quota, Resource, Shape, Slow, Slower, Step,
};

use crate::demand::Work;
use drift::Level;
use fastrand::Rng;
use quota::Spent;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a job's end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A whole answer below 500.
    Served,
    /// A 5xx.
    Error,
    /// A 429: the server has too much to do.
    Pushback,
}

#[derive(Clone, Copy, Debug, Default)]
struct Job {
    submitted: u64,
    /// Which of the resources it needs, and for how long; `None`: none, or no more.
    resource: Option<(usize, f64)>,
    /// The resource that it holds.
    holds: Option<usize>,
    is_pushed_back: bool,
    /// It came while the server was taken for dead.
    is_dead: bool,
    wait_ns: f64,
    cpu_ns: f64,
    /// For how long its client takes the answer.
    send_ns: f64,
    abandoned: bool,
    /// It fails that long after a worker took it.
    fails: Option<u64>,
    /// When a worker took it, if one has.
    began: Option<u64>,
    /// When its answer was there, if it is.
    answered: Option<u64>,
    is_late: bool,
    /// Whether its worker is one of those that are slower.
    is_at_slower: bool,
}

/// Virtual time on which a fast failure takes this long.
const ERROR_NS: u64 = 500_000;

/// A server at work. Jobs are named by small numbers that the caller reuses after their end.
#[derive(Debug)]
pub struct Server {
    shape: Shape,
    rng: Rng,
    jobs: Vec<Job>,
    queue: VecDeque<u32>,
    /// Of each resource, how many are in use, and which jobs wait for one.
    resources: Vec<(u32, VecDeque<u32>)>,
    /// Jobs that hold a worker.
    in_progress: u32,
    /// Of them, those whose workers are slower.
    at_slower: u32,
    level: Level,
    spent: Spent,
    /// `(end of the wait, job)`.
    waits: BinaryHeap<Reverse<(u64, u32)>>,
    /// `(end in service each, job)`: a clock that runs at the speed one job gets.
    shared: BinaryHeap<Reverse<(u64, u32)>>,
    /// Service that each job on the cores has had, in nanoseconds.
    served_each_ns: f64,
    advanced_at: u64,
    speed: f64,
    steps_done: usize,
    /// Until when it is taken for dead.
    dead_until: u64,
}

impl Server {
    /// An idle server.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Server {
            resources: vec![Default::default(); shape.resource.len()],
            shape,
            rng: Rng::with_seed(seed),
            jobs: Vec::new(),
            queue: VecDeque::new(),
            in_progress: 0,
            at_slower: 0,
            level: Level::new(seed),
            spent: Spent::default(),
            waits: BinaryHeap::new(),
            shared: BinaryHeap::new(),
            served_each_ns: 0.0,
            advanced_at: 0,
            speed: 1.0,
            steps_done: 0,
            dead_until: 0,
        }
    }

    /// Takes a request of a class; `false` if the server refuses the connection.
    pub fn submit(&mut self, now: u64, job: u32, class: &str, work: Work) -> bool {
        self.share_cores(now);
        let refused = self.fails(now, FaultKind::Refuse, class).is_some();
        if refused || self.queue.len() >= self.shape.accept_queue {
            return false;
        }
        let present = self.queue.len() as u32 + self.in_progress;
        let is_pushed_back = self.shape.pushback.is_some_and(|most| present >= most);
        let is_dead = now < self.dead_until;
        let fails = self.fails(now, FaultKind::Error, class);
        if self.jobs.len() <= job as usize {
            self.jobs.resize(job as usize + 1, Job::default());
        }
        let slow = self.slowness(now, class);
        let drifted = self.shape.drift.map_or(1.0, |drift| self.level.times(now, drift));
        let times = work.times * slow * drifted;
        let of = self.shape.of.iter().find(|of| of.class == class);
        let (wait, cpu) = of.map_or((self.shape.wait, self.shape.cpu), |of| (of.wait, of.cpu));
        let mut job_of = Job {
            submitted: now,
            wait_ns: wait.draw(&mut self.rng) * times,
            cpu_ns: cpu.draw(&mut self.rng) * times,
            send_ns: self.shape.send.draw(&mut self.rng),
            fails,
            is_pushed_back,
            is_dead,
            ..Job::default()
        };
        let needs = |it: &Resource| it.classes.iter().any(|it| it == class);
        let resource = self.shape.resource.iter().position(needs);
        job_of.resource = resource
            .map(|number| (number, self.shape.resource[number].held.draw(&mut self.rng) * times));
        // Time that was measured somewhere is time at the processor where that is what is scarce.
        let more = work.more_ns as f64 * slow;
        match self.shape.cores {
            Some(_) => job_of.cpu_ns += more,
            None => job_of.wait_ns += more,
        }
        self.jobs[job as usize] = job_of;
        if is_pushed_back || is_dead {
            self.jobs[job as usize].began = Some(now);
            self.waits.push(Reverse((now + ERROR_NS, job)));
            return true;
        }
        self.queue.push_back(job);
        self.take_workers(now);
        true
    }

    /// The client of the job left. The work goes on unless the server notices in time.
    pub fn abandon(&mut self, job: u32) {
        self.jobs[job as usize].abandoned = true;
    }

    /// When a worker took the job; `None`: it still waits for one.
    pub fn began(&self, job: u32) -> Option<u64> {
        self.jobs[job as usize].began
    }

    /// When the answer of the job was there, and its client began to take it; `None`: not yet, or it takes no time.
    pub fn answered(&self, job: u32) -> Option<u64> {
        self.jobs[job as usize].answered
    }

    /// When something happens next without anybody's doing; `u64::MAX`: never.
    pub fn next_event(&self) -> u64 {
        let stalled = self.stalled_until(self.advanced_at);
        let wait = self.waits.peek().map_or(u64::MAX, |Reverse((at, _))| *at);
        let shared = self.shared.peek().map_or(u64::MAX, |Reverse((end, _))| {
            let rate = self.rate();
            let left = (*end as f64 - self.served_each_ns).max(0.0);
            let from = stalled.unwrap_or(self.advanced_at);
            from.saturating_add((left / rate).ceil() as u64)
        });
        let spent = match self.shape.quota {
            Some(quota) if !self.shared.is_empty() => {
                self.spent.next_event(stalled.unwrap_or(self.advanced_at), quota, self.busy())
            }
            _ => u64::MAX,
        };
        wait.min(shared).min(spent).min(self.next_change())
    }

    /// Brings the server to `now`, which must not be later than [`Server::next_event`]; adds the
    /// jobs that ended, with how, to `ended`.
    pub fn advance(&mut self, now: u64, ended: &mut Vec<(u32, Ended)>) {
        self.share_cores(now);
        self.take_steps(now);
        while let Some(&Reverse((at, job))) = self.waits.peek() {
            if at > now {
                break;
            }
            self.waits.pop();
            if let Some(end) = self.stalled_until(at) {
                let from = self.stall_began(at);
                self.waits.push(Reverse((end + (at - from).max(1), job)));
            } else {
                self.wait_is_over(at, job, ended);
            }
        }
        while let Some(&Reverse((end, job))) = self.shared.peek() {
            if end as f64 > self.served_each_ns + 0.5 {
                break;
            }
            self.shared.pop();
            self.leave(now, job, ended);
        }
        self.take_workers(now);
    }

    fn wait_is_over(&mut self, now: u64, job: u32, ended: &mut Vec<(u32, Ended)>) {
        let of = &mut self.jobs[job as usize];
        if of.is_pushed_back {
            ended.push((job, Ended::Pushback));
            return;
        }
        if of.is_dead {
            ended.push((job, Ended::Error));
            return;
        }
        if of.answered.is_some() {
            return self.give_worker_back(job, ended);
        }
        if of.fails.is_some() {
            return self.leave(now, job, ended);
        }
        if let Some(number) = of.holds.take() {
            self.give_back(now, number);
        } else if let Some((number, _)) = of.resource {
            return self.take(now, number, job);
        }
        let cpu = self.jobs[job as usize].cpu_ns;
        if cpu <= 0.0 {
            self.leave(now, job, ended);
        } else {
            self.shared.push(Reverse(((self.served_each_ns + cpu) as u64, job)));
        }
    }

    /// Gives the job one of that resource, now or when one is free.
    fn take(&mut self, now: u64, number: usize, job: u32) {
        let (used, waiting) = &mut self.resources[number];
        if *used >= self.shape.resource[number].size {
            waiting.push_back(job);
            return;
        }
        *used += 1;
        let of = &mut self.jobs[job as usize];
        let (_, held) = of.resource.take().expect("it needs one");
        of.holds = Some(number);
        let slowed = held / (self.speed * self.warmth(now));
        self.waits.push(Reverse((now + slowed.max(1.0) as u64, job)));
    }

    fn give_back(&mut self, now: u64, number: usize) {
        let (used, waiting) = &mut self.resources[number];
        *used -= 1;
        if let Some(next) = waiting.pop_front() {
            self.take(now, number, next);
        }
    }

    /// The answer is there.
    fn leave(&mut self, now: u64, job: u32, ended: &mut Vec<(u32, Ended)>) {
        let late_ns = self.shape.late_ms * 1e6;
        let of = &mut self.jobs[job as usize];
        of.is_late = late_ns > 0.0 && (now - of.submitted) as f64 > late_ns;
        if of.is_late {
            self.dead_until = now.saturating_add((self.shape.dead_s * 1e9) as u64);
        }
        let send_ns = of.send_ns as u64;
        if send_ns == 0 || of.fails.is_some() {
            return self.give_worker_back(job, ended);
        }
        of.answered = Some(now);
        self.waits.push(Reverse((now + send_ns, job)));
    }

    fn give_worker_back(&mut self, job: u32, ended: &mut Vec<(u32, Ended)>) {
        let Job { fails, is_late, is_at_slower, .. } = self.jobs[job as usize];
        self.in_progress -= 1;
        self.at_slower -= u32::from(is_at_slower);
        ended.push((job, if fails.is_some() || is_late { Ended::Error } else { Ended::Served }));
    }

    /// How many times longer than at another worker a job takes at the one that it gets.
    fn choose_worker(&mut self, job: u32, workers: u32) -> f64 {
        let Some(Slower { share, times }) = self.shape.slower else { return 1.0 };
        let slower = (f64::from(workers) * share).round() as u32;
        let free = f64::from(slower.saturating_sub(self.at_slower));
        if self.rng.f64() * f64::from(workers - self.in_progress) >= free {
            return 1.0;
        }
        self.jobs[job as usize].is_at_slower = true;
        self.at_slower += 1;
        times
    }

    /// Gives free workers to the accept queue, in order.
    fn take_workers(&mut self, now: u64) {
        let workers = self.shape.workers.unwrap_or(u32::MAX);
        while self.in_progress < workers {
            let Some(job) = self.queue.pop_front() else {
                break;
            };
            let times = self.choose_worker(job, workers);
            self.in_progress += 1;
            let of = &mut self.jobs[job as usize];
            of.began = Some(now);
            of.wait_ns *= times;
            of.cpu_ns *= times;
            let Job { wait_ns, cpu_ns, resource, abandoned, fails, .. } = *of;
            if fails.is_some() || (abandoned && self.shape.notices_cancel) {
                self.waits.push(Reverse((now + fails.unwrap_or(ERROR_NS), job)));
                // A skipped request costs next to nothing, like a failed one.
                (of.cpu_ns, of.send_ns, of.resource) = (0.0, 0.0, None);
            } else if wait_ns > 0.0 || cpu_ns <= 0.0 || resource.is_some() {
                let slowed = wait_ns / (self.speed * self.warmth(now) * self.efficiency());
                self.waits.push(Reverse((now + slowed.max(1.0) as u64, job)));
            } else {
                self.shared.push(Reverse(((self.served_each_ns + cpu_ns) as u64, job)));
            }
        }
    }

    /// Lets the cores work until `now`.
    fn share_cores(&mut self, now: u64) {
        let from = self.stalled_until(self.advanced_at).unwrap_or(self.advanced_at);
        if now > from {
            self.served_each_ns += (now - from) as f64 * self.rate();
            if let Some(quota) = self.shape.quota {
                self.spent.spend(now, (now - from) as f64 * self.busy(), quota);
            }
        }
        self.advanced_at = self.advanced_at.max(now);
    }

    /// Cores that compute, unless they have to stop.
    fn busy(&self) -> f64 {
        (self.shared.len() as f64).min(self.shape.cores.unwrap_or(f64::INFINITY))
    }

    /// Service that one job on the cores gets a nanosecond.
    fn rate(&self) -> f64 {
        let jobs = self.shared.len() as f64;
        let cores = self.shape.cores.unwrap_or(f64::INFINITY);
        let share = if jobs > cores { cores / jobs } else { 1.0 };
        if self.shape.quota.is_some_and(|quota| self.spent.is_all(quota)) {
            return 0.0;
        }
        share * self.speed * self.warmth(self.advanced_at) * self.efficiency()
    }

    fn efficiency(&self) -> f64 {
        let n = f64::from(self.in_progress);
        let Shape { contention, coherence, thrash, .. } = self.shape;
        let others = (n - 1.0).max(0.0);
        let slowed = 1.0 + contention * others + coherence * n * others;
        match self.shape.knee {
            Some(knee) if self.in_progress > knee => {
                1.0 / (slowed + thrash * f64::from(self.in_progress - knee))
            }
            _ => 1.0 / slowed,
        }
    }

    fn warmth(&self, now: u64) -> f64 {
        let span = self.shape.slow_start_s;
        if span == 0.0 {
            return 1.0;
        }
        (0.1 + 0.9 * (now as f64 / 1e9) / span).min(1.0)
    }

    fn slowness(&self, now: u64, class: &str) -> f64 {
        let slow = self.shape.slow.iter().find(|slow| {
            slow.class == class && (slow.from_s..slow.to_s).contains(&(now as f64 / 1e9))
        });
        slow.map_or(1.0, |slow| slow.times)
    }

    fn take_steps(&mut self, now: u64) {
        while let Some(step) = self.shape.step.get(self.steps_done).copied() {
            if (step.at_s * 1e9) as u64 > now {
                break;
            }
            self.steps_done += 1;
            self.shape.workers = step.workers.or(self.shape.workers);
            self.shape.cores = step.cores.or(self.shape.cores);
            self.speed = step.speed.unwrap_or(self.speed);
        }
    }
}
