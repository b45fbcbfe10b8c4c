//! Situations in which limits go wrong, each a scenario that says what the right number of slots is; laws side by side
//! with it.

use crate::report::{GatewayReport, Phase};
use crate::run;
use crate::scenario::{Gateway, LimitKind, Scenario};
use tiergate_draw::{Paint, Range, Table};

/// What a law gave in one run, in one phase.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Mean slots, of the gateways that are there.
    pub slots: f64,
    /// Mean requests in progress, of the gateways that are there: less than `slots` where limits do not bind.
    pub busy: f64,
    /// The least part that one of several gateways has of its due, in good answers: as many as every other, or as many as
    /// requests come to it, if those are fewer. Of those that are there for the whole phase.
    pub part: f64,
    /// Good answers a second.
    pub goodput: f64,
    /// Share of the most important class's requests that ended well.
    pub good: f64,
    /// Its 99th percentile from arrival to answer.
    pub p99_ms: f64,
}

impl Outcome {
    fn of(scenario: &Scenario, phase: &Phase) -> Self {
        let is_there =
            |gateway: &Gateway| gateway.from_s <= phase.from_s && gateway.to_s >= phase.to_s;
        let gateways = scenario.gateway.iter().zip(&phase.gateways);
        let gateways: Vec<_> = gateways.filter(|(gateway, _)| is_there(gateway)).collect();
        let weights: f64 = gateways.iter().map(|(gateway, _)| gateway.weight).sum();
        let arrived = phase.all().arrived as f64;
        let asked = |gateway: &Gateway| arrived * gateway.weight / weights;
        let all: u64 = gateways.iter().map(|(_, report)| report.good).sum();
        let most = even(gateways.iter().map(|(gateway, _)| asked(gateway)).collect(), all as f64);
        let part = |(gateway, report): (&Gateway, &GatewayReport)| {
            report.good as f64 / asked(gateway).min(most).max(1.0)
        };
        let held: f64 = gateways.iter().map(|(_, report)| report.slot_seconds).sum();
        let busy: f64 = phase.gateways.iter().map(|report| report.busy_seconds).sum();
        let slots = match gateways[..] {
            [] => phase.slots(),
            _ => held / phase.seconds(),
        };
        Outcome {
            slots,
            busy: busy / phase.seconds(),
            part: gateways.into_iter().map(part).fold(1.0, f64::min),
            goodput: phase.goodput(),
            good: phase.classes[0].good_share(),
            p99_ms: phase.classes[0].total.quantile_ms(0.99),
        }
    }
}

/// The most that one of several gets if so much is shared evenly, and none gets more than it asks for.
fn even(mut asked: Vec<f64>, mut all: f64) -> f64 {
    asked.sort_unstable_by(f64::total_cmp);
    for (place, least) in asked.iter().enumerate() {
        let each = all / (asked.len() - place) as f64;
        if each <= *least {
            return each;
        }
        all -= least;
    }
    f64::INFINITY
}

/// Runs the scenario with a limit; by phase. With [`LimitKind::Fixed`] that many are shared by the gateways.
pub fn measure(scenario: &Scenario, limit: LimitKind, seed: u64) -> Vec<Outcome> {
    let gateways = scenario.gateway.len().max(1) as u32;
    let limit = match limit {
        LimitKind::Fixed(slots) => LimitKind::Fixed(slots.div_ceil(gateways)),
        limit => limit,
    };
    let scenario = Scenario { limit, ..scenario.clone() };
    let phases = run(&scenario, seed).phases;
    phases.iter().map(|phase| Outcome::of(&scenario, phase)).collect()
}

/// Every phase of a scenario but the first, with the right number of slots and with each law: medians, and the worst.
pub fn table(
    name: &str,
    scenario: &Scenario,
    laws: &[(&str, LimitKind)],
    seeds: std::ops::Range<u64>,
) -> String {
    let title = format!("<{name}");
    let columns = [
        &title, "phase", "slots", "most", "busy", "most", "goodput", "least", "good", "least",
        "p99 ms", "most", "part",
    ];
    let mut table = Table::new(columns);
    let right = scenario.right.map(|right| ("right", LimitKind::Fixed(right)));
    for (law, limit) in right.iter().chain(laws) {
        let runs: Vec<Vec<Outcome>> =
            seeds.clone().map(|seed| measure(scenario, *limit, seed)).collect();
        for phase in 1..runs[0].len() {
            let range = |value: fn(&Outcome) -> f64| {
                Range::of(runs.iter().map(|run| value(&run[phase])))
                    .expect("there is a seed at least")
            };
            let (slots, busy) = (range(|it| it.slots), range(|it| it.busy));
            let goodput = range(|it| it.goodput);
            let (good, p99) = (range(|it| it.good), range(|it| it.p99_ms));
            table.row([
                (*law).to_owned(),
                phase.to_string(),
                format!("{:.1}", slots.median),
                format!("{:.1}", slots.max),
                format!("{:.1}", busy.median),
                format!("{:.1}", busy.max),
                format!("{:.1}", goodput.median),
                format!("{:.1}", goodput.min),
                format!("{:.3}", good.median),
                format!("{:.3}", good.min),
                format!("{:.0}", p99.median),
                format!("{:.0}", p99.max),
                format!("{:.2}", range(|it| it.part).min),
            ]);
        }
    }
    table.render(Paint::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_gets_more_than_asked_for_and_the_others_get_as_much_as_each_other() {
        assert_eq!(even(vec![100.0, 100.0], 60.0), 30.0);
        assert_eq!(even(vec![360.0, 40.0, 160.0, 80.0], 320.0), 100.0);
        assert_eq!(even(vec![10.0, 20.0], 40.0), f64::INFINITY);
    }
}
