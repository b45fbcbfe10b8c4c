//! Laws judged on many drawn scenarios.

use super::draw::{Drawn, draw};
use super::judge::{Best, Outcome, best, outcome};
use super::parts::Family;
use crate::scenario::LimitKind;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// A law, or how a gateway is configured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contender {
    /// As the docs say: the shared limit where there are several gateways, else the adaptive one.
    Documented,
    /// The same limit everywhere.
    Of(LimitKind),
}

impl Contender {
    fn limit(self, drawn: &Drawn) -> LimitKind {
        match self {
            Contender::Documented if drawn.scenario.gateway.len() > 1 => LimitKind::Shared,
            Contender::Documented => LimitKind::Adaptive,
            Contender::Of(limit) => limit,
        }
    }
}

/// What a scenario gave.
#[derive(Clone, Debug)]
pub struct Judgement {
    /// The scenario.
    pub drawn: Drawn,
    /// Its best fixed limits.
    pub best: Best,
    /// By law.
    pub outcomes: Vec<Outcome>,
}

/// Judges laws on the family's scenarios of these seeds, on two threads. `progress` is told how many are done.
pub fn judge(
    family: Family,
    seeds: Range<u64>,
    laws: &[Contender],
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<Judgement> {
    let (next, done) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    let work = || {
        let mut judged = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return judged;
            }
            judged.push(judge_one(draw(family, seed), laws));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    let mut judged = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut judged = work();
        judged.extend(other.join().expect("a run does not panic"));
        judged
    });
    judged.sort_by_key(|it| it.drawn.seed);
    judged
}

fn judge_one(drawn: Drawn, laws: &[Contender]) -> Judgement {
    let best = best(&drawn);
    let mut known: Vec<(LimitKind, Outcome)> = Vec::new();
    let mut outcomes = Vec::with_capacity(laws.len());
    for law in laws {
        let limit = law.limit(&drawn);
        let found = known.iter().find(|(of, _)| *of == limit).map(|(_, outcome)| outcome.clone());
        let found = found.unwrap_or_else(|| outcome(&drawn, limit, &best));
        known.push((limit, found.clone()));
        outcomes.push(found);
    }
    Judgement { drawn, best, outcomes }
}
