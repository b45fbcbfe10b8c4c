//! The server of a drawn scenario, and what it can do.

use super::chance::{between, scaled};
use super::parts::{Family, Kind};
use crate::server::Shape;
use fastrand::Rng;

/// Most and fewest requests/s of a drawn server: more take long to simulate, of fewer the premium class's part is
/// too few to judge by.
const RATE: (f64, f64) = (100.0, 700.0);
/// Longest mean time of a request of mean size at workers, or at cores. In longer ones a run has too few of them.
const ALONE_MS_MAX: f64 = 150.0;
/// Longest mean wait for something else.
const WAIT_MS_MAX: f64 = 300.0;
/// Most requests at once that are tried for the highest throughput.
const AT_ONCE_MAX: u32 = 3000;

/// A server, and what a request of mean size takes there.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    /// Without the times.
    pub(super) shape: Shape,
    pub(super) wait_ms: f64,
    pub(super) cpu_ms: f64,
    /// What the last class holds of a dependency: how many there are, and for how long.
    pub(super) few: Option<(u32, f64)>,
    /// For how long a request's client takes the answer, on average.
    pub(super) send_ms: f64,
    /// Part of the workers' speed that slower ones leave.
    pub(super) workers_part: f64,
    /// Part of the cores that a quota leaves.
    pub(super) cores_part: f64,
}

impl Origin {
    /// Draws one.
    pub(super) fn draw(family: Family, kind: Kind, rng: &mut Rng) -> Self {
        let mut shape =
            Shape { accept_queue: scaled(rng, (128.0, 8192.0)) as usize, ..Shape::default() };
        let workers = scaled(rng, family.of((2.0, 64.0), (1.0, 120.0))).round();
        let cores = scaled(rng, family.of((1.0, 12.0), (1.0, 20.0))).round();
        let at_once = if matches!(kind, Kind::Workers | Kind::Few) { workers } else { cores };
        let rate = scaled(rng, RATE).max(1e3 * at_once / ALONE_MS_MAX);
        let (mut wait_ms, mut cpu_ms, mut few) = (0.0, 0.0, None);
        match kind {
            Kind::Workers => {
                shape.workers = Some(workers as u32);
                wait_ms = 1e3 * workers / rate;
            }
            Kind::Cores | Kind::Thrash => {
                shape.cores = Some(cores);
                cpu_ms = 1e3 * cores / rate;
            }
            Kind::Both => {
                shape.cores = Some(cores);
                cpu_ms = 1e3 * cores / rate;
                wait_ms = (cpu_ms * between(rng, (0.5, 4.0))).min(WAIT_MS_MAX);
                let at_once = cores * (1.0 + wait_ms / cpu_ms);
                let workers = at_once * between(rng, family.of((0.8, 2.0), (0.5, 3.0)));
                shape.workers = Some(workers.round().max(2.0) as u32);
            }
            Kind::Io => {
                shape.cores = Some(cores);
                cpu_ms = 1e3 * cores / rate;
                wait_ms = cpu_ms * scaled(rng, family.of((10.0, 40.0), (6.0, 80.0)));
                wait_ms = wait_ms.min(WAIT_MS_MAX);
            }
            Kind::Contention => {
                shape.contention = scaled(rng, family.of((0.01, 0.05), (0.003, 0.1)));
                shape.coherence = scaled(rng, family.of((0.0002, 0.002), (0.0001, 0.004)));
                cpu_ms = 1.0;
            }
            Kind::Few => {
                let workers = workers.max(8.0);
                shape.workers = Some(workers as u32);
                wait_ms = 1e3 * workers / rate;
                let size = (workers * between(rng, (0.1, 0.4))).round().max(1.0);
                few = Some((size as u32, wait_ms * between(rng, (0.5, 2.0))));
            }
        }
        if kind == Kind::Thrash {
            shape.knee = Some((cores * between(rng, (1.5, 5.0))).round() as u32);
            shape.thrash = scaled(rng, family.of((0.02, 0.1), (0.01, 0.2)));
        }
        let mut origin = Origin {
            shape,
            wait_ms,
            cpu_ms,
            few,
            send_ms: 0.0,
            workers_part: 1.0,
            cores_part: 1.0,
        };
        if kind == Kind::Contention {
            origin.cpu_ms = origin.capacity().0 / rate;
        }
        origin
    }

    /// What a request of mean size takes.
    pub(super) fn mean_ms(&self) -> f64 {
        self.wait_ms + self.cpu_ms
    }

    /// Requests of mean size a second at the most, and the smallest number at once that gives it.
    pub(super) fn capacity(&self) -> (f64, u32) {
        let Shape { workers, cores, knee, thrash, contention, coherence, .. } = self.shape;
        let rate = |at_once: u32| {
            let n = f64::from(at_once);
            let above = f64::from(at_once.saturating_sub(knee.unwrap_or(u32::MAX)));
            let slowed = 1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0) + thrash * above;
            let by_time = n * self.workers_part * 1e3 / (self.mean_ms() * slowed + self.send_ms);
            let cores = cores.map_or(f64::INFINITY, |cores| cores * self.cores_part);
            let by_cores = if self.cpu_ms > 0.0 {
                cores * 1e3 / (self.cpu_ms * slowed)
            } else {
                f64::INFINITY
            };
            by_time.min(by_cores)
        };
        let numbers = 1..=workers.unwrap_or(AT_ONCE_MAX).min(AT_ONCE_MAX);
        let most = numbers.clone().map(rate).fold(0.0, f64::max);
        let first = numbers.into_iter().find(|&number| rate(number) >= 0.999 * most);
        (most, first.expect("the most is one of them"))
    }
}
