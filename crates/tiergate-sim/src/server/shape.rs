//! A server as a scenario describes it.

use crate::distribution::Distribution;
use serde::{Deserialize, Serialize};

/// A server.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// What requests of some classes take, instead of `wait` and `cpu`.
    pub of: Vec<OfClass>,
    /// Things of which there are few and that requests of some classes need as well, as connections to a database.
    pub resource: Vec<Resource>,
    /// Requests at the server beyond which it answers 429 at once; absent: never.
    pub pushback: Option<u32>,
    /// Answers that take longer are 504: what stands before the server there has given up. Milliseconds; 0: none.
    pub late_ms: f64,
    /// For so many seconds after one that took longer, every request gets a 5xx at once: a proxy there takes the server for dead.
    pub dead_s: f64,
    /// How often and for how long nothing makes progress, as in a garbage collection.
    pub pause: Option<Pause>,
    /// Contention: part of the work that only one request at a time can do (σ of Gunther's law).
    pub contention: f64,
    /// Coherence: what each pair of requests in progress costs (κ of the same law).
    pub coherence: f64,
    /// How long a request keeps its worker while its client takes the answer; the cores are free then.
    pub send: Distribution,
    /// CPU time that there is in each period, as a container's quota gives it.
    pub quota: Option<Quota>,
    /// Work that becomes more and less by itself, so that requests that come together take similar times.
    pub drift: Option<Drift>,
    /// A part of the workers that is slower than the others.
    pub slower: Option<Slower>,
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
            of: Vec::new(),
            resource: Vec::new(),
            pushback: None,
            late_ms: 0.0,
            dead_s: 0.0,
            pause: None,
            contention: 0.0,
            coherence: 0.0,
            send: Distribution::NONE,
            quota: None,
            drift: None,
            slower: None,
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
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
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
    /// The class that it happens to; absent: all of them (ignored by `stall`).
    #[serde(default)]
    pub class: Option<String>,
    /// Milliseconds from when a worker has the request to its 5xx (of `error`).
    #[serde(default = "soon")]
    pub after_ms: f64,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// A 5xx, within a millisecond unless `after_ms` says otherwise.
    Error,
    /// The connection is refused.
    Refuse,
    /// Nothing makes progress.
    Stall,
}

/// What the requests of a class take.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OfClass {
    /// The class.
    pub class: String,
    /// Time spent waiting for something else.
    #[serde(default = "none")]
    pub wait: Distribution,
    /// CPU time.
    #[serde(default = "none")]
    pub cpu: Distribution,
}

/// Something of which there are few. A request that needs one waits for it, first come, first served, while it holds
/// its worker.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// The classes whose requests need one.
    pub classes: Vec<String>,
    /// How many there are.
    pub size: u32,
    /// For how long it is needed.
    pub held: Distribution,
}

/// Regular pauses.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// From the beginning of one to that of the next, in seconds. The first begins after so long.
    pub every_s: f64,
    /// How long each is.
    pub for_s: f64,
}

/// CPU time of all cores together: when it is spent, they stop until the period is over.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// How long a period is, in seconds.
    pub every_s: f64,
    /// CPU seconds in each.
    pub cpu_s: f64,
}

/// The logarithm of the work of requests goes up and down around its mean (an Ornstein-Uhlenbeck process).
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drift {
    /// Its standard deviation.
    pub sd: f64,
    /// Seconds after which what it was is forgotten but for 1/e.
    pub over_s: f64,
}

/// Workers that are slower, as those of an older machine behind the same balancer. A request gets one of the free workers
/// at random.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Slower {
    /// Their share of all workers, 0.0 to 1.0.
    pub share: f64,
    /// How many times longer a request waits and computes there.
    pub times: f64,
}

/// Half a millisecond.
fn soon() -> f64 {
    0.5
}

fn none() -> Distribution {
    Distribution::NONE
}
