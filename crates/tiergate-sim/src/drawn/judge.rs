//! The judge: a law against the best fixed limit of the same scenario and seed.
//!
//! The best fixed limit of a regime (the time between two changes of the server) is found by search: of the limits that give the
//! premium class a good share within 0.005 of the most that any gives, those with the most goodput, to 0.5 %, and of these the smallest.
//! Each regime has its own, and every run with a fixed limit has had it from the beginning, with no backlog of another capacity:
//! the hardest comparison. Regimes count from their first moment, so that a law's time to find a new limit counts.

use super::draw::Drawn;
use crate::report::Phase;
use crate::run;
use crate::scenario::{LimitKind, Scenario};
use crate::spread::Spread;

/// Good shares of the premium class that are the same.
const SAME_SHARE: f64 = 0.005;
/// Part of a goodput that is as good as all of it.
const SAME_GOODPUT: f64 = 0.995;
/// The search ends where the premium class has lost so much of its good share, so often in a row.
const LOST_SHARE: f64 = 0.05;
const LOST_TIMES: usize = 3;
/// Most slots that are tried for each gateway.
const SLOTS_MAX: u32 = 2000;
/// From one limit to the next, at first.
const STEP: f64 = 1.4;
/// Looks between the best and its neighbours afterwards.
const LOOKS: usize = 3;

/// What a run gave in a time.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// Length of the time.
    pub seconds: f64,
    /// Slots times seconds, of all gateways.
    pub slot_seconds: f64,
    /// Good answers of all classes, each as much as the mean work of its class: by their number, a limit that has the server
    /// serve small requests of the last class before large ones of a more important class would be better.
    pub good: f64,
    /// Good answers of the premium class, and its requests that ended.
    pub premium: (u64, u64),
    /// From the premium class's requests to their good answers.
    pub total: Spread,
}

impl Sums {
    fn of(phase: &Phase, sizes: &[f64]) -> Self {
        let premium = &phase.classes[0];
        let lost = premium.refused + premium.left_waiting + premium.left_running + premium.failed;
        Sums {
            seconds: phase.seconds(),
            slot_seconds: phase.slot_seconds,
            good: phase
                .classes
                .iter()
                .zip(sizes)
                .map(|(class, size)| class.good as f64 * size)
                .sum(),
            premium: (premium.good, premium.good + lost),
            total: premium.total.clone(),
        }
    }

    fn sum<'s>(all: impl IntoIterator<Item = &'s Sums>) -> Self {
        let mut sum = Sums::default();
        for of in all {
            sum.seconds += of.seconds;
            sum.slot_seconds += of.slot_seconds;
            sum.good += of.good;
            sum.premium = (sum.premium.0 + of.premium.0, sum.premium.1 + of.premium.1);
            sum.total.merge(&of.total);
        }
        sum
    }

    /// Share of the premium class's requests that ended well; 1 if none ended.
    pub fn premium_share(&self) -> f64 {
        match self.premium {
            (_, 0) => 1.0,
            (good, ended) => good as f64 / ended as f64,
        }
    }

    /// Mean slots.
    pub fn slots(&self) -> f64 {
        self.slot_seconds / self.seconds.max(1e-9)
    }

    /// The premium class's 99th percentile; infinite if nothing of it was answered.
    fn p99_ms(&self) -> f64 {
        if self.premium.0 == 0 { f64::INFINITY } else { self.total.quantile_ms(0.99) }
    }
}

/// The best fixed limits of a scenario.
#[derive(Clone, Debug)]
pub struct Best {
    /// Slots of all gateways together, by regime.
    pub slots: Vec<u32>,
    /// What they gave, by judged phase.
    pub gave: Vec<Sums>,
    /// The best single limit for all regimes, and what it gave.
    pub one: (u32, Sums),
    /// Runs of the search.
    pub runs: usize,
}

/// What a law gave, relative to the best fixed limits.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Good share of the premium class.
    pub premium: f64,
    /// Goodput over the best fixed limits'.
    pub goodput: f64,
    /// Goodput over that of the best single limit for all regimes.
    pub goodput_one: f64,
    /// 99th percentile of the premium class over the best fixed limits'.
    pub p99: f64,
    /// Mean slots, without those that are lent, over the best fixed limit, by regime.
    pub slots: Vec<f64>,
    /// The first two in settled phases.
    pub settled: (f64, f64),
}

/// What a limit gives, by judged phase. [`LimitKind::Fixed`] is for all gateways together.
fn measure(drawn: &Drawn, limit: LimitKind) -> Vec<Sums> {
    let gateways = drawn.scenario.gateway.len().max(1) as u32;
    let limit = match limit {
        LimitKind::Fixed(slots) => LimitKind::Fixed(slots.div_ceil(gateways)),
        limit => limit,
    };
    let scenario = Scenario { limit, ..drawn.scenario.clone() };
    let phases = run(&scenario, drawn.seed).phases;
    phases[1..].iter().map(|phase| Sums::of(phase, &drawn.sizes)).collect()
}

/// A limit that was tried.
struct Tried {
    slots: u32,
    by_phase: Vec<Sums>,
    /// The last is of all regimes together.
    by_regime: Vec<Sums>,
}

/// Searches the best fixed limit of each regime.
pub fn best(drawn: &Drawn) -> Best {
    let regimes = drawn.judged.iter().map(|it| it.regime + 1).max().unwrap_or(0);
    let gateways = drawn.scenario.gateway.len().max(1) as u32;
    let give = |each: u32| {
        let by_phase = measure(drawn, LimitKind::Fixed(each * gateways));
        let of = |regime| {
            let phases = drawn.judged.iter().zip(&by_phase);
            Sums::sum(
                phases
                    .filter(|(it, _)| regime == regimes || it.regime == regime)
                    .map(|(_, sums)| sums),
            )
        };
        Tried { slots: each * gateways, by_regime: (0..=regimes).map(of).collect(), by_phase }
    };
    let mut tried: Vec<Tried> = Vec::new();
    let mut each = 1_u32;
    while each <= SLOTS_MAX {
        tried.push(give(each));
        if is_beyond(&tried) {
            break;
        }
        each = (each + 1).max((f64::from(each) * STEP).round() as u32);
    }
    for _ in 0..LOOKS {
        for regime in 0..=regimes {
            for slots in between(&tried, regime) {
                let each = slots / gateways;
                if each > 0 && tried.iter().all(|it| it.slots != each * gateways) {
                    tried.push(give(each));
                }
            }
            tried.sort_by_key(|it| it.slots);
        }
    }
    let one = &tried[choose(&tried, regimes)];
    let one = (one.slots, one.by_regime[regimes].clone());
    let chosen: Vec<usize> = (0..regimes).map(|regime| choose(&tried, regime)).collect();
    let gave = drawn.judged.iter().enumerate();
    let gave = gave.map(|(phase, it)| tried[chosen[it.regime]].by_phase[phase].clone()).collect();
    let slots = chosen.iter().map(|&place| tried[place].slots).collect();
    Best { slots, gave, one, runs: tried.len() }
}

/// The place of the best limit of a regime, of those tried, which ascend.
fn choose(tried: &[Tried], regime: usize) -> usize {
    let of = |it: &Tried| it.by_regime[regime].clone();
    let share = tried.iter().map(|it| of(it).premium_share()).fold(0.0, f64::max) - SAME_SHARE;
    let serves = |it: &&Tried| of(it).premium_share() >= share;
    let most = tried.iter().filter(serves).map(|it| of(it).good).fold(0.0, f64::max);
    let enough = SAME_GOODPUT * most;
    let suffices = |it: &Tried| serves(&it) && of(it).good >= enough;
    tried.iter().position(suffices).expect("the one with the most is one")
}

/// Limits between the best of a regime and its neighbours.
fn between(tried: &[Tried], regime: usize) -> Vec<u32> {
    let at = choose(tried, regime);
    let middle = |low: u32, high: u32| f64::from(low * high).sqrt().round() as u32;
    let slots = |place: usize| tried.get(place).map(|it| it.slots);
    let below = at.checked_sub(1).and_then(slots).map(|low| middle(low, tried[at].slots));
    let above = slots(at + 1).map(|high| middle(tried[at].slots, high));
    below.into_iter().chain(above).collect()
}

/// Whether higher limits than these are hardly better: they make no difference any more, or the premium class has lost much.
fn is_beyond(tried: &[Tried]) -> bool {
    let Some(last) = tried.last() else { return false };
    let same = |one: &Tried, other: &Tried| {
        let counts =
            |it: &Tried| it.by_regime.iter().map(|it| (it.good, it.premium)).collect::<Vec<_>>();
        counts(one) == counts(other)
    };
    if let [.., before, last] = tried
        && last.by_regime.iter().all(|it| it.good > 0.0)
        && same(before, last)
    {
        return true;
    }
    let regimes = 0..last.by_regime.len();
    let most = |regime: usize| {
        tried.iter().map(|it| it.by_regime[regime].premium_share()).fold(0.0, f64::max)
    };
    let lost = |it: &Tried| {
        regimes
            .clone()
            .all(|regime| it.by_regime[regime].premium_share() < most(regime) - LOST_SHARE)
    };
    tried.len() > LOST_TIMES && tried.iter().rev().take(LOST_TIMES).all(lost)
}

/// Judges a law by the best fixed limits of the scenario.
pub fn outcome(drawn: &Drawn, limit: LimitKind, best: &Best) -> Outcome {
    let gave = measure(drawn, limit);
    let (law, fixed) = (Sums::sum(&gave), Sums::sum(&best.gave));
    let goodput = |law: &Sums, fixed: &Sums| law.good / fixed.good.max(1e-9);
    let of = |sums: &[Sums], holds: &dyn Fn(usize) -> bool| {
        Sums::sum(sums.iter().enumerate().filter(|(phase, _)| holds(*phase)).map(|(_, it)| it))
    };
    let slots = |(regime, right): (usize, &u32)| {
        of(&gave, &|phase| drawn.judged[phase].regime == regime).slots() / f64::from(*right)
    };
    let settled = |sums: &[Sums]| of(sums, &|phase| drawn.judged[phase].settled);
    let (law_settled, fixed_settled) = (settled(&gave), settled(&best.gave));
    Outcome {
        premium: law.premium_share(),
        goodput: goodput(&law, &fixed),
        goodput_one: goodput(&law, &best.one.1),
        p99: law.p99_ms() / fixed.p99_ms(),
        slots: best.slots.iter().enumerate().map(slots).collect(),
        settled: (law_settled.premium_share(), goodput(&law_settled, &fixed_settled)),
    }
}

impl Best {
    /// Good share of the premium class.
    pub fn premium(&self) -> f64 {
        Sums::sum(&self.gave).premium_share()
    }
}

#[cfg(test)]
mod tests {
    use super::super::draw::Judged;
    use super::super::parts::{Composition, Family, Kind, Load};
    use super::*;

    fn plain(server: &str) -> Drawn {
        let text = format!(
            "seconds = 60.0\ncuts_s = [10.0]\nlimit = \"adaptive\"\n[[class]]\nname = \"premium\"\ndeadline_ms = 500.0\n\
             [[class]]\nname = \"basic\"\ndeadline_ms = 500.0\n[server]\n{server}\n\
             [[population]]\nclass = \"premium\"\narrivals = {{ kind = \"poisson\", rate = 100.0 }}\n\
             [[population]]\nclass = \"basic\"\narrivals = {{ kind = \"poisson\", rate = 700.0 }}\n"
        );
        let composition =
            Composition { kind: Kind::Workers, events: vec![], load: Load::Steady, classes: 2 };
        Drawn {
            family: Family::Open,
            seed: 1,
            composition,
            scenario: Scenario::parse(&text).expect("a valid scenario"),
            judged: vec![Judged { regime: 0, settled: true }],
            sizes: vec![1.0; 2],
        }
    }

    #[test]
    fn sixteen_slots_are_right_for_sixteen_workers() {
        let server = "workers = 16\nwait = { kind = \"exponential\", mean_ms = 40.0 }";
        let found = best(&plain(server));
        assert_eq!(found.slots, [16]);
        assert!(
            found.premium() > 0.999 && found.runs < 30,
            "{} in {} runs",
            found.premium(),
            found.runs
        );
    }

    #[test]
    fn of_gateways_the_best_is_counted_together() {
        let server = "workers = 16\nwait = { kind = \"exponential\", mean_ms = 40.0 }\n[[gateway]]\n[[gateway]]";
        let found = best(&plain(server));
        assert!((16..=18).contains(&found.slots[0]), "{:?}", found.slots);
    }

    #[test]
    fn premium_comes_before_goodput() {
        // More at once are more throughput, but each takes longer; clients of the premium class leave after 80 ms.
        let server = "cpu = { kind = \"constant\", mean_ms = 40.0 }\ncontention = 0.02";
        let mut drawn = plain(server);
        assert!(best(&drawn).slots[0] > 75);
        drawn.scenario.population[0].patience_ms = 80.0;
        let found = best(&drawn);
        let (slots, premium) = (found.slots[0], found.premium());
        assert!((20..60).contains(&slots) && premium > 0.97, "{premium} with {slots}");
    }

    #[test]
    fn each_regime_has_its_own() {
        let server = "workers = 16\nwait = { kind = \"exponential\", mean_ms = 40.0 }\nstep = [{ at_s = 35.0, workers = 6 }]";
        let mut drawn = plain(server);
        drawn.scenario.cuts_s = vec![10.0, 35.0];
        drawn.judged.push(Judged { regime: 1, settled: true });
        let found = best(&drawn);
        assert_eq!(found.slots[0], 16);
        assert!((6..=7).contains(&found.slots[1]), "{:?}", found.slots);
        let fixed = outcome(&drawn, LimitKind::Fixed(16), &found);
        assert!((fixed.slots[0] - 1.0).abs() < 1e-6 && fixed.slots[1] > 2.0, "{fixed:?}");
        assert!((fixed.goodput - 1.0).abs() < 0.03, "{fixed:?}");
    }
}
