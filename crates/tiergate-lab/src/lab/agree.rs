//! Do two runs of the whole lab come to the same? Every measure of every contender is compared.

use super::page::judge::is_latency;
use super::page::spread::{Spread, valid};
use super::page::words;
use super::result::{ContenderResult, ExperimentResult, Measure, Results, Unit};
use tiergate_draw::{Paint, Table};

/// Beyond their spreads, medians of shares may differ by a percentage point …
const SHARE_FLOOR: f64 = 0.01;

/// … latencies by this part of the larger one …
const LATENCY_FLOOR: f64 = 0.15;

/// … and everything else by this part.
const OTHER_FLOOR: f64 = 0.1;

/// What came of comparing two runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Agreement {
    /// How many figures were compared.
    pub(crate) compared: usize,
    /// Those that do not agree, in the order of the first run.
    pub(crate) disagreements: Vec<Disagreement>,
}

/// A figure, or a whole contender, that came out differently.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Disagreement {
    pub(crate) experiment: String,
    pub(crate) contender: String,
    /// `None`: the contender has figures in only one of the runs.
    pub(crate) measure: Option<String>,
    /// Median and spread in the first run, with unit.
    pub(crate) first: String,
    /// The same in the second.
    pub(crate) second: String,
    /// By how much they may differ, with unit.
    pub(crate) allowed: String,
}

/// A contender with figures, and the experiment that they are of.
type Entry<'a> = (&'a ExperimentResult, &'a ContenderResult);

/// Compares two runs. Who has no figures in either is not compared.
pub(crate) fn agree(first: &Results, second: &Results) -> Agreement {
    let mut agreement = Agreement { compared: 0, disagreements: Vec::new() };
    for entry in entries(first) {
        match find(second, entry) {
            Some(other) => agreement.add(entry, other),
            None => agreement.count(entry, None, false, ["has figures", "has none", ""]),
        }
    }
    for entry in entries(second).filter(|entry| find(first, *entry).is_none()) {
        agreement.count(entry, None, false, ["has none", "has figures", ""]);
    }
    agreement
}

fn entries(results: &Results) -> impl Iterator<Item = Entry<'_>> {
    let all = results.experiments.iter().flat_map(|e| e.contenders.iter().map(move |c| (e, c)));
    all.filter(|(_, contender)| valid(contender).next().is_some())
}

fn find<'a>(results: &'a Results, like: Entry<'_>) -> Option<Entry<'a>> {
    let same = |(e, c): &Entry<'_>| (&e.name, &c.name) == (&like.0.name, &like.1.name);
    entries(results).find(same)
}

impl Agreement {
    /// Part of the figures that agree; all of none.
    pub(crate) fn share(&self) -> f64 {
        let differ = self.disagreements.len() as f64;
        if self.compared == 0 { 1.0 } else { 1.0 - differ / self.compared as f64 }
    }

    /// A table of what does not agree, and how much does.
    pub(crate) fn render(&self, paint: Paint) -> String {
        let mut table = Table::new(
            "<experiment|<contender|<measure|first run|second run|may differ by".split('|'),
        );
        for d in &self.disagreements {
            let measure = d.measure.as_deref().unwrap_or("(all)");
            let cells =
                [&d.experiment, &d.contender, measure, &d.first, &d.second, d.allowed.as_str()];
            table.row(cells);
        }
        let table = if table.is_empty() { String::new() } else { table.render(paint) + "\n" };
        let agreeing = self.compared - self.disagreements.len();
        let percent = self.share() * 100.0;
        format!("{table}  {agreeing} of {} figures agree ({percent:.1} %)\n", self.compared)
    }

    /// Compares the measures that both have.
    fn add(&mut self, entry: Entry<'_>, other: Entry<'_>) {
        for (place, measure) in entry.0.measures.iter().enumerate() {
            let Some(at) = other.0.measures.iter().position(|m| m == measure) else {
                continue;
            };
            let spread = |contender, place| {
                Spread::of_measure(contender, place, measure.better).expect("both have figures")
            };
            let (first, second) = (spread(entry.1, place), spread(other.1, at));
            let allowed = allowed(measure.unit, &first, &second);
            let agree = medians_agree(&first, &second, allowed);
            let (first, second) = (shown(&first, measure), shown(&second, measure));
            let allowed = words::quantity(Some(allowed), measure.unit);
            self.count(entry, Some(measure), agree, [&first, &second, &allowed]);
        }
    }

    /// Counts a figure, or, without a measure, a contender with figures in only one run.
    fn count(
        &mut self,
        (experiment, contender): Entry<'_>,
        measure: Option<&Measure>,
        agree: bool,
        figures: [&str; 3],
    ) {
        self.compared += 1;
        if !agree {
            let [first, second, allowed] = figures.map(String::from);
            self.disagreements.push(Disagreement {
                experiment: experiment.name.clone(),
                contender: contender.name.clone(),
                measure: measure.map(|measure| measure.name.clone()),
                first,
                second,
                allowed,
            });
        }
    }
}

fn allowed(unit: Unit, first: &Spread, second: &Spread) -> f64 {
    let medians = [first.median, second.median].into_iter().flatten();
    let larger = medians.map(f64::abs).fold(0.0, f64::max);
    let floor = match unit {
        Unit::Share => SHARE_FLOOR,
        unit if is_latency(unit) => LATENCY_FLOOR * larger,
        _ => OTHER_FLOOR * larger,
    };
    first.half() + second.half() + floor
}

fn medians_agree(first: &Spread, second: &Spread, allowed: f64) -> bool {
    match first.median.zip(second.median) {
        Some((first, second)) => (first - second).abs() <= allowed + 1e-9,
        None => first.median == second.median,
    }
}

fn shown(spread: &Spread, measure: &Measure) -> String {
    match words::median_and_half(spread, measure.unit) {
        (Some(median), half) => {
            let half = half.map(|half| format!(" {half}")).unwrap_or_default();
            format!("{median}{half} {}", words::unit(measure.unit))
        }
        (None, _) => "none".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    #[test]
    fn a_run_agrees_with_itself() {
        let results = sample::results();
        let agreement = agree(&results, &results);
        // Five measures of six contenders, two of seven.
        assert_eq!((agreement.compared, agreement.share()), (44, 1.0));
        assert_eq!(agreement.render(Paint::PLAIN), "  44 of 44 figures agree (100.0 %)\n");
    }

    /// The p99 of Envoy in the sample's first experiment, which is 308 and 312 ms, so shifted.
    fn shifted(by_ms: f64) -> Agreement {
        let results = sample::results();
        let mut other = results.clone();
        for round in &mut other.experiments[0].contenders[5].rounds {
            round.values[1] = round.values[1].map(|v| v + by_ms);
        }
        agree(&results, &other)
    }

    #[test]
    fn medians_may_differ_by_both_spreads_and_the_floor() {
        // 2 + 2 + 15 % of 368.
        assert_eq!(shifted(58.0).disagreements, []);
        let agreement = shifted(60.0);
        let [one] = &agreement.disagreements[..] else {
            panic!("{agreement:?}");
        };
        assert_eq!(
            (one.contender.as_str(), one.measure.as_deref()),
            ("envoy", Some("premium p99"))
        );
        let text = agreement.render(Paint::PLAIN);
        assert!(text.contains("310 ±2 ms   370 ±2 ms        59.5 ms"), "{text}");
        assert!(text.ends_with("43 of 44 figures agree (97.7 %)\n"), "{text}");
    }

    #[test]
    fn a_recovery_that_did_not_happen_does_not_agree_with_one_that_did() {
        let results = sample::results();
        let mut other = results.clone();
        for round in &mut other.experiments[0].contenders[1].rounds {
            round.values[3] = None;
        }
        let agreement = agree(&results, &other);
        assert_eq!(agreement.disagreements.len(), 1);
        assert_eq!(agreement.disagreements[0].second, "none");
    }

    #[test]
    fn who_has_figures_in_one_run_only_does_not_agree() {
        let results = sample::results();
        let mut other = results.clone();
        other.experiments[1].contenders.remove(2);
        for (first, second) in [(&results, &other), (&other, &results)] {
            let agreement = agree(first, second);
            assert_eq!((agreement.compared, agreement.disagreements.len()), (43, 1));
            assert_eq!(agreement.disagreements[0].measure, None);
        }
    }
}
