//! The origin: workers, cores, waits, thrash, faults.
//!
//! One model covers the kinds that matter. A request takes a worker (first come, first served; the
//! rest wait in the accept queue), waits for something else than this machine (`wait`), then shares
//! the cores with the others (`cpu`, processor sharing). Workers without cores are the textbook's c
//! servers; cores without a bound on workers are processor sharing; many workers with a long wait
//! and little CPU are an I/O-bound server.

use crate::demand::Work;
use crate::distribution::Distribution;
use fastrand::Rng;
use serde::Deserialize;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A server as a scenario describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shape {
    /// Requests in progress at once; absent: no bound.
    pub workers: Option<u32>,
    /// Cores shared by the CPU parts; absent: no contention.
    pub cores: Option<f64>,
    /// Time spent waiting for something else.
    pub wait: Distribution,
    /// CPU time.
    pub cpu: Distribution,
    /// Requests in progress above which throughput falls.
    pub knee: Option<u32>,
    /// How much each request above the knee adds to everyone's service, as a fraction.
    pub thrash: f64,
    /// Connections that wait for a worker before the server refuses more.
    pub accept_queue: usize,
    /// Seconds over which the speed rises from a tenth to full.
    pub slow_start_s: f64,
    /// Whether the server skips a request whose client left before a worker took it.
    pub notices_cancel: bool,
    /// Changes of capacity.
    pub step: Vec<Step>,
    /// Periods of failure.
    pub fault: Vec<Fault>,
    /// Periods in which what one class asks for takes longer, as when what it depends on is slow.
    pub slow: Vec<Slow>,
}

impl Default for Shape {
    /// A server that takes no time.
    fn default() -> Self {
        Shape {
            workers: None,
            cores: None,
            wait: Distribution::NONE,
            cpu: Distribution::NONE,
            knee: None,
            thrash: 0.0,
            // Linux's `somaxconn`, the usual bound on what waits to be accepted.
            accept_queue: 4096,
            slow_start_s: 0.0,
            notices_cancel: false,
            step: Vec::new(),
            fault: Vec::new(),
            slow: Vec::new(),
        }
    }
}

impl Shape {
    /// Workers that spend so much time on each request.
    pub fn workers(workers: u32, wait: Distribution) -> Self {
        Shape { workers: Some(workers), wait, ..Shape::default() }
    }
}

/// A change of capacity; what is absent stays.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// When, in seconds.
    pub at_s: f64,
    /// New number of workers.
    pub workers: Option<u32>,
    /// New number of cores.
    pub cores: Option<f64>,
    /// Speed of waits and cores relative to the beginning.
    pub speed: Option<f64>,
}

/// A period in which one class's requests take longer; the others share the workers with them.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// The class.
    pub class: String,
    /// Beginning, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// How many times longer they wait and compute.
    pub times: f64,
}

/// A period of failure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Beginning, in seconds.
    pub from_s: f64,
    /// End, in seconds.
    pub to_s: f64,
    /// What goes wrong.
    pub what: FaultKind,
    /// Share of the requests that it happens to (ignored by `stall`).
    #[serde(default = "crate::asked::one")]
    pub share: f64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A 5xx within a millisecond.
    Error,
    /// The connection is refused.
    Refuse,
    /// Nothing makes progress.
    Stall,
}

/// What a job's end was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A whole answer below 500.
    Served,
    /// A 5xx.
    Error,
}

#[derive(Clone, Copy, Debug, Default)]
struct Job {
    wait_ns: f64,
    cpu_ns: f64,
    abandoned: bool,
    fails: bool,
    /// When a worker took it, if one has.
    began: Option<u64>,
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
    /// Jobs that hold a worker.
    in_progress: u32,
    /// `(end of the wait, job)`.
    waits: BinaryHeap<Reverse<(u64, u32)>>,
    /// `(end in service each, job)`: a clock that runs at the speed one job gets.
    shared: BinaryHeap<Reverse<(u64, u32)>>,
    /// Service that each job on the cores has had, in nanoseconds.
    served_each_ns: f64,
    advanced_at: u64,
    speed: f64,
    steps_done: usize,
}

impl Server {
    /// An idle server.
    pub fn new(shape: Shape, seed: u64) -> Self {
        Server {
            shape,
            rng: Rng::with_seed(seed),
            jobs: Vec::new(),
            queue: VecDeque::new(),
            in_progress: 0,
            waits: BinaryHeap::new(),
            shared: BinaryHeap::new(),
            served_each_ns: 0.0,
            advanced_at: 0,
            speed: 1.0,
            steps_done: 0,
        }
    }

    /// Takes a request of a class; `false` if the server refuses the connection.
    pub fn submit(&mut self, now: u64, job: u32, class: &str, work: Work) -> bool {
        self.share_cores(now);
        let refused = self.fault(now, FaultKind::Refuse);
        if refused || self.queue.len() >= self.shape.accept_queue {
            return false;
        }
        let fails = self.fault(now, FaultKind::Error);
        if self.jobs.len() <= job as usize {
            self.jobs.resize(job as usize + 1, Job::default());
        }
        let slow = self.slowness(now, class);
        let times = work.times * slow;
        let mut job_of = Job {
            wait_ns: self.shape.wait.draw(&mut self.rng) * times,
            cpu_ns: self.shape.cpu.draw(&mut self.rng) * times,
            abandoned: false,
            fails,
            began: None,
        };
        // Time that was measured somewhere is time at the processor where that is what is scarce.
        let more = work.more_ns as f64 * slow;
        match self.shape.cores {
            Some(_) => job_of.cpu_ns += more,
            None => job_of.wait_ns += more,
        }
        self.jobs[job as usize] = job_of;
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
        wait.min(shared).min(self.next_change())
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
                self.wait_is_over(job, ended);
            }
        }
        while let Some(&Reverse((end, job))) = self.shared.peek() {
            if end as f64 > self.served_each_ns + 0.5 {
                break;
            }
            self.shared.pop();
            self.leave(job, ended);
        }
        self.take_workers(now);
    }

    fn wait_is_over(&mut self, job: u32, ended: &mut Vec<(u32, Ended)>) {
        let cpu = self.jobs[job as usize].cpu_ns;
        if cpu <= 0.0 || self.jobs[job as usize].fails {
            self.leave(job, ended);
        } else {
            self.shared.push(Reverse(((self.served_each_ns + cpu) as u64, job)));
        }
    }

    fn leave(&mut self, job: u32, ended: &mut Vec<(u32, Ended)>) {
        self.in_progress -= 1;
        let end = if self.jobs[job as usize].fails { Ended::Error } else { Ended::Served };
        ended.push((job, end));
    }

    /// Gives free workers to the accept queue, in order.
    fn take_workers(&mut self, now: u64) {
        let workers = self.shape.workers.unwrap_or(u32::MAX);
        while self.in_progress < workers {
            let Some(job) = self.queue.pop_front() else {
                break;
            };
            let Job { wait_ns, cpu_ns, abandoned, fails, .. } = self.jobs[job as usize];
            self.jobs[job as usize].began = Some(now);
            self.in_progress += 1;
            if fails || (abandoned && self.shape.notices_cancel) {
                self.waits.push(Reverse((now + ERROR_NS, job)));
                // A skipped request costs next to nothing, like a failed one.
                self.jobs[job as usize].cpu_ns = 0.0;
            } else if wait_ns > 0.0 || cpu_ns <= 0.0 {
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
        }
        self.advanced_at = self.advanced_at.max(now);
    }

    /// Service that one job on the cores gets a nanosecond.
    fn rate(&self) -> f64 {
        let jobs = self.shared.len() as f64;
        let cores = self.shape.cores.unwrap_or(f64::INFINITY);
        let share = if jobs > cores { cores / jobs } else { 1.0 };
        share * self.speed * self.warmth(self.advanced_at) * self.efficiency()
    }

    fn efficiency(&self) -> f64 {
        match self.shape.knee {
            Some(knee) if self.in_progress > knee => {
                1.0 / (1.0 + self.shape.thrash * f64::from(self.in_progress - knee))
            }
            _ => 1.0,
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

    fn fault(&mut self, now: u64, kind: FaultKind) -> bool {
        let share = self.fault_at(now, kind).map(|fault| fault.share);
        share.is_some_and(|share| self.rng.f64() < share)
    }

    fn fault_at(&self, now: u64, kind: FaultKind) -> Option<&Fault> {
        let at = now as f64 / 1e9;
        let mut faults = self.shape.fault.iter();
        faults.find(|fault| fault.what == kind && (fault.from_s..fault.to_s).contains(&at))
    }

    fn stalled_until(&self, at: u64) -> Option<u64> {
        self.fault_at(at, FaultKind::Stall).map(|fault| (fault.to_s * 1e9) as u64 + 1)
    }

    fn stall_began(&self, at: u64) -> u64 {
        self.fault_at(at, FaultKind::Stall).map_or(at, |fault| (fault.from_s * 1e9) as u64)
    }

    /// The next moment at which speed changes from outside: a step, an edge of a stall.
    fn next_change(&self) -> u64 {
        let now = self.advanced_at;
        let step =
            self.shape.step.get(self.steps_done).map_or(u64::MAX, |step| (step.at_s * 1e9) as u64);
        let edges = self.shape.fault.iter().flat_map(|fault| {
            let stall = fault.what == FaultKind::Stall;
            [fault.from_s, fault.to_s].map(|edge| if stall { (edge * 1e9) as u64 + 1 } else { 0 })
        });
        edges.filter(|&edge| edge > now).fold(step, u64::min)
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
