//! What all workers are doing, as their tasks have written it down.

use super::apply::{Effect, is_of_group};
use super::status::{ShareStatus, WorkerStatus, WorkersStatus};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

const UNPOISONED: &str = "no code panics while it holds it";

/// The workers of all pools.
#[derive(Debug, Default)]
pub struct Board {
    pools: Mutex<Vec<Arc<PoolBoard>>>,
}

impl Board {
    /// What they are doing now.
    pub fn status(&self) -> Vec<WorkersStatus> {
        self.pools.lock().expect(UNPOISONED).iter().map(|pool| pool.status()).collect()
    }

    /// Shows these pools from now on.
    pub(super) fn show(&self, pools: Vec<Arc<PoolBoard>>) {
        *self.pools.lock().expect(UNPOISONED) = pools;
    }
}

/// The workers of a pool.
#[derive(Debug)]
pub(super) struct PoolBoard {
    pub(super) pool: String,
    from: &'static str,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    wanted: u32,
    workers: BTreeMap<u32, Worker>,
    restarts: u64,
    /// Of their control group.
    group: Vec<Effect>,
    /// Of processes that others started: how many there are, or why they are not found.
    found: Option<Result<u32, String>>,
    /// What came of their shares.
    effects: Vec<Effect>,
}

#[derive(Debug, Default)]
struct Worker {
    pid: Option<u32>,
    state: &'static str,
    restarts: u64,
    last_end: Option<String>,
    effects: Vec<Effect>,
}

impl PoolBoard {
    pub(super) fn new(pool: &str, from: &'static str) -> Arc<Self> {
        Arc::new(PoolBoard { pool: pool.to_owned(), from, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }

    /// For the log.
    pub(super) fn name(&self) -> &str {
        if self.pool.is_empty() { "default" } else { &self.pool }
    }

    /// The policy asks for so many.
    pub(super) fn wants(&self, count: u32) {
        self.state().wanted = count;
    }

    /// A worker was started; `is_again`: because it had ended.
    pub(super) fn started(&self, number: u32, pid: u32, is_again: bool) {
        let mut state = self.state();
        let worker = state.workers.entry(number).or_default();
        (worker.pid, worker.state) = (Some(pid), "starting");
        if is_again {
            worker.restarts += 1;
            state.restarts += 1;
        }
    }

    /// It is now doing something else.
    pub(super) fn becomes(&self, number: u32, what: &'static str) {
        if let Some(worker) = self.state().workers.get_mut(&number) {
            worker.state = what;
        }
    }

    /// It has ended, or could not be started.
    pub(super) fn ended(&self, number: u32, how: String) {
        let mut state = self.state();
        let worker = state.workers.entry(number).or_default();
        (worker.pid, worker.state, worker.last_end) = (None, "waiting", Some(how));
        worker.effects.clear();
    }

    /// It will not come back.
    pub(super) fn gone(&self, number: u32) {
        self.state().workers.remove(&number);
    }

    /// What came of a worker's shares; faults that are new are logged. `keeps_threads`: what its threads have is as it was.
    pub(super) fn has(&self, number: u32, mut effects: Vec<Effect>, keeps_threads: bool) {
        let mut state = self.state();
        let worker = state.workers.entry(number).or_default();
        if keeps_threads {
            effects.extend(worker.effects.extract_if(.., |it| !is_of_group(it.mechanism)));
        }
        let former = std::mem::replace(&mut worker.effects, effects.clone());
        self.report(&mut state.effects, former, effects);
    }

    /// The same of their control group.
    pub(super) fn group_has(&self, effects: Vec<Effect>) {
        let mut state = self.state();
        let former = std::mem::replace(&mut state.group, effects.clone());
        self.report(&mut state.effects, former, effects);
    }

    /// So many processes were found that others started, or none and why.
    pub(super) fn found(&self, found: Result<u32, String>) {
        let mut state = self.state();
        if let Err(fault) = &found
            && state.found.as_ref() != Some(&found)
        {
            tracing::warn!(pool = self.name(), "the workers are not found: {fault}");
        }
        state.found = Some(found);
    }

    /// Logs what is not in force, once for the pool.
    fn report(&self, told: &mut Vec<Effect>, former: Vec<Effect>, effects: Vec<Effect>) {
        told.retain(|it| !former.contains(it) || effects.contains(it));
        for effect in effects {
            let Some(fault) = &effect.fault else { continue };
            if !told.contains(&effect) {
                let Effect { mechanism, asked, .. } = &effect;
                let pool = self.name();
                tracing::warn!(pool, "{} {asked} is not in force: {fault}", mechanism.name());
                told.push(effect);
            }
        }
    }

    fn status(&self) -> WorkersStatus {
        let state = self.state();
        let workers = state.workers.iter();
        let found = state.found.as_ref();
        let is_ready = |worker: &&Worker| worker.state == "ready";
        let count = |of: usize| u32::try_from(of).unwrap_or(u32::MAX);
        let started = state.workers.values().filter(|it| it.pid.is_some()).count();
        WorkersStatus {
            pool: self.pool.clone(),
            from: self.from.to_owned(),
            wanted: state.wanted,
            alive: found.map_or(count(started), |it| *it.as_ref().unwrap_or(&0)),
            ready: count(state.workers.values().filter(is_ready).count()),
            restarts: state.restarts,
            workers: workers.map(|(number, worker)| worker.status(*number)).collect(),
            shares: state.shares(),
            fault: found.and_then(|it| it.as_ref().err().cloned()),
        }
    }
}

impl State {
    /// Each mechanism once, with the fault of a worker where it is not in force for all.
    fn shares(&self) -> Vec<ShareStatus> {
        let mut shares: Vec<ShareStatus> = Vec::new();
        let of_workers = self.workers.values().flat_map(|worker| &worker.effects);
        for Effect { mechanism, asked, fault } in of_workers.chain(&self.group) {
            let is_in_force = fault.is_none();
            match shares.iter_mut().find(|it| it.name == mechanism.name()) {
                Some(share) if is_in_force || share.fault.is_some() => {}
                Some(share) => (share.in_force, share.fault) = (false, fault.clone()),
                None => shares.push(ShareStatus {
                    name: mechanism.name().to_owned(),
                    asked: asked.clone(),
                    in_force: is_in_force,
                    fault: fault.clone(),
                }),
            }
        }
        shares
    }
}

impl Worker {
    fn status(&self, number: u32) -> WorkerStatus {
        WorkerStatus {
            number,
            pid: self.pid,
            state: self.state.to_owned(),
            restarts: self.restarts,
            last_end: self.last_end.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiergate_core::workers::Mechanism;

    #[test]
    fn a_share_is_in_force_only_if_all_workers_have_it() {
        let board = PoolBoard::new("web", "command");
        board.wants(2);
        let effect = |fault: Option<&str>| Effect {
            mechanism: Mechanism::Nice,
            asked: "-5".to_owned(),
            fault: fault.map(str::to_owned),
        };
        for (number, fault) in [(1, Some("no right")), (2, None)] {
            board.started(number, 100 + number, false);
            board.has(number, vec![effect(fault)], false);
        }
        board.becomes(2, "ready");
        let status = board.status();
        assert_eq!((status.wanted, status.alive, status.ready, status.restarts), (2, 2, 1, 0));
        assert_eq!((status.shares.len(), status.shares[0].in_force), (1, false));
        // The one that had no right ends; the other has it.
        board.ended(1, "signal 9".to_owned());
        let status = board.status();
        assert_eq!((status.alive, status.shares[0].in_force), (1, true));
        board.started(1, 200, true);
        assert_eq!((board.status().restarts, board.status().workers[0].restarts), (1, 1));
        board.gone(1);
        assert_eq!(board.status().workers.len(), 1);
    }
}
