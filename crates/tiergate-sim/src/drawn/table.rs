//! What laws gave on drawn scenarios, as tables.

use super::judge::Outcome;
use super::results::Judgement;
use std::collections::BTreeMap;
use tiergate_draw::{Paint, Table};

/// The best fixed limit must give the premium class so much for a scenario to count for the first promise.
const SERVED: f64 = 0.99;
/// What is promised of the premium class's good share in the worst decile of such scenarios.
const PREMIUM_PROMISED: f64 = 0.97;
/// What is promised of the median goodput over the best fixed limit's.
const GOODPUT_PROMISED: f64 = 0.98;

/// The value below which this part of the values are.
fn quantile(values: impl Iterator<Item = f64>, at: f64) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        many => values[((many - 1) as f64 * at).round() as usize],
    }
}

/// What is promised of a law.
#[derive(Clone, Copy, Debug)]
pub struct Promised {
    /// Scenarios in which the best fixed limit serves the premium class.
    pub served: usize,
    /// The worst decile of the premium class's good share in these.
    pub premium: f64,
    /// The median goodput in all, over the best fixed limit's.
    pub goodput: f64,
}

impl Promised {
    /// Against the best fixed limit of each regime; or the best single one for all.
    pub fn of(judged: &[Judgement], law: usize, single: bool) -> Self {
        let best =
            |it: &Judgement| if single { it.best.one.1.premium_share() } else { it.best.premium() };
        let served: Vec<&Judgement> = judged.iter().filter(|it| best(it) >= SERVED).collect();
        let goodput = |it: &Outcome| if single { it.goodput_one } else { it.goodput };
        Promised {
            served: served.len(),
            premium: quantile(served.iter().map(|it| it.outcomes[law].premium), 0.1),
            goodput: quantile(judged.iter().map(|it| goodput(&it.outcomes[law])), 0.5),
        }
    }

    /// Whether it is kept.
    pub fn holds(&self) -> bool {
        self.premium >= PREMIUM_PROMISED && self.goodput >= GOODPUT_PROMISED
    }
}

/// Every law in one table, and whether it keeps what is promised.
pub fn laws(judged: &[Judgement], laws: &[&str]) -> String {
    let mut table = Table::new([
        "<law",
        "premium",
        "10 %",
        "least",
        "goodput",
        "10 %",
        "least",
        "p99",
        "90 %",
        "slots",
        "90 %",
        "most",
        "settled: 10 %",
        "goodput",
    ]);
    for (law, name) in laws.iter().enumerate() {
        let of = |value: fn(&Outcome) -> f64, at: f64| {
            quantile(judged.iter().map(|it| value(&it.outcomes[law])), at)
        };
        let slots =
            |at| quantile(judged.iter().flat_map(|it| it.outcomes[law].slots.iter().copied()), at);
        let mut cells = vec![(*name).to_owned()];
        cells.extend([0.5, 0.1, 0.0].map(|at| format!("{:.3}", of(|it| it.premium, at))));
        cells.extend([0.5, 0.1, 0.0].map(|at| format!("{:.3}", of(|it| it.goodput, at))));
        cells.extend([0.5, 0.9].map(|at| format!("{:.2}", of(|it| it.p99, at))));
        cells.extend([0.5, 0.9, 1.0].map(|at| format!("{:.2}", slots(at))));
        cells.push(format!("{:.3}", of(|it| it.settled.0, 0.1)));
        cells.push(format!("{:.3}", of(|it| it.settled.1, 0.5)));
        table.row(cells);
    }
    let runs: usize = judged.iter().map(|it| it.best.runs).sum();
    let head = format!(
        "{} scenarios, {runs} runs to find the best fixed limits. Good share of the premium class; goodput, its p99 and slots over the\n\
         best fixed limit's of each regime; medians, deciles and worst. Settled: from ten seconds after each change on.\n",
        judged.len()
    );
    head + &table.render(Paint::stdout()) + "\n" + &promises(judged, laws)
}

/// Whether the laws keep what is promised.
fn promises(judged: &[Judgement], laws: &[&str]) -> String {
    let mut table = Table::new([
        "<law",
        "served",
        "premium, 10 %",
        "goodput",
        "<",
        "served",
        "premium, 10 %",
        "goodput",
        "<",
    ]);
    let above = ["", "", "", "of each regime", "", "", "", "one for all"];
    table.above(above.into_iter().map(str::to_owned));
    for (law, name) in laws.iter().enumerate() {
        let mut cells = vec![(*name).to_owned()];
        for single in [false, true] {
            let of = Promised::of(judged, law, single);
            cells.extend([
                of.served.to_string(),
                format!("{:.3}", of.premium),
                format!("{:.3}", of.goodput),
            ]);
            cells.push(if of.holds() { "holds" } else { "no" }.to_owned());
        }
        table.row(cells);
    }
    format!(
        "Promised: worst decile of premium >= {PREMIUM_PROMISED} where the best fixed limit gives {SERVED} (served); median goodput >= {GOODPUT_PROMISED} of its.\n{}",
        table.render(Paint::stdout())
    )
}

/// The scenarios on which a law is worst: by what it takes from the premium class, and by goodput.
pub fn worst(judged: &[Judgement], law: usize, many: usize) -> String {
    let mut text = String::new();
    for (title, regret) in
        [("premium", premium_lost as fn(&Judgement, usize) -> f64), ("goodput", goodput_lost)]
    {
        text += &format!("Worst by {title}:\n");
        for it in ranked(judged, law, regret).into_iter().take(many) {
            let of = &it.outcomes[law];
            let slots = it.best.slots.iter().zip(&of.slots);
            let slots: Vec<String> = slots
                .map(|(right, times)| format!("{:.1} of {right}", f64::from(*right) * times))
                .collect();
            text += &format!(
                "  premium {:.3} of {:.3}, goodput {:.3}, p99 {:.2}, slots {}\n    {}\n",
                of.premium,
                it.best.premium(),
                of.goodput,
                of.p99,
                slots.join(", "),
                it.drawn.scenario.about
            );
        }
    }
    text
}

/// What the worst tenth is made of: of each part how many scenarios have it, and how many of the worst tenth.
pub fn parts(judged: &[Judgement], law: usize) -> String {
    let tenth = judged.len().div_ceil(10);
    let worst = |regret| -> Vec<u64> {
        ranked(judged, law, regret).into_iter().take(tenth).map(|it| it.drawn.seed).collect()
    };
    let (premium, goodput) = (worst(premium_lost), worst(goodput_lost));
    let mut by_part: BTreeMap<String, Vec<&Judgement>> = BTreeMap::new();
    for it in judged {
        for part in it.drawn.composition.parts() {
            by_part.entry(part).or_default().push(it);
        }
    }
    let mut table = Table::new([
        "<part",
        "scenarios",
        "worst tenth: premium",
        "goodput",
        "premium, 10 %",
        "median",
        "goodput, 10 %",
        "median",
        "slots",
    ]);
    for (part, of) in &by_part {
        let among = |seeds: &[u64]| of.iter().filter(|it| seeds.contains(&it.drawn.seed)).count();
        let lost = |at| quantile(of.iter().map(|it| -premium_lost(it, law)), at);
        let kept = |at| quantile(of.iter().map(|it| it.outcomes[law].goodput), at);
        let slots = quantile(of.iter().flat_map(|it| it.outcomes[law].slots.iter().copied()), 0.5);
        table.row([
            part.clone(),
            of.len().to_string(),
            among(&premium).to_string(),
            among(&goodput).to_string(),
            format!("{:+.3}", lost(0.1)),
            format!("{:+.3}", lost(0.5)),
            format!("{:.3}", kept(0.1)),
            format!("{:.3}", kept(0.5)),
            format!("{slots:.2}"),
        ]);
    }
    table.render(Paint::stdout())
}

fn premium_lost(it: &Judgement, law: usize) -> f64 {
    it.best.premium() - it.outcomes[law].premium
}

fn goodput_lost(it: &Judgement, law: usize) -> f64 {
    1.0 - it.outcomes[law].goodput
}

/// The worst first.
fn ranked(
    judged: &[Judgement],
    law: usize,
    regret: fn(&Judgement, usize) -> f64,
) -> Vec<&Judgement> {
    let mut ranked: Vec<&Judgement> = judged.iter().collect();
    ranked.sort_by(|one, other| regret(other, law).total_cmp(&regret(one, law)));
    ranked
}
