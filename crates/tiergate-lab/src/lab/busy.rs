//! How busy the origin is while a run lasts, second by second: what Abdelzaher's paper plots.

use crate::cpu::Processes;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// One that watches, until it is dropped.
pub(super) struct Watch {
    task: JoinHandle<()>,
    seen: Arc<Mutex<Vec<f64>>>,
}

impl Watch {
    /// Begins to watch these processes and what descends from them.
    pub(super) fn start(pids: Vec<u32>) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let into = seen.clone();
        let task = tokio::spawn(async move {
            let mut every = interval(Duration::from_secs(1));
            every.set_missed_tick_behavior(MissedTickBehavior::Skip);
            every.tick().await;
            let now = || {
                let used: Duration = pids.iter().map(|pid| Processes::of(*pid).used_by_all()).sum();
                (Instant::now(), used)
            };
            let mut before = now();
            loop {
                every.tick().await;
                let (at, used) = now();
                // Less, where one has ended whose parent did not wait for it.
                let busy = used.saturating_sub(before.1).as_secs_f64();
                let busy = busy / (at - before.0).as_secs_f64();
                into.lock().expect("nobody panics with it").push(busy);
                before = (at, used);
            }
        });
        Watch { task, seen }
    }

    /// What was seen: processor time in each second.
    pub(super) fn stop(self) -> Vec<f64> {
        std::mem::take(&mut self.seen.lock().expect("nobody panics with it"))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
