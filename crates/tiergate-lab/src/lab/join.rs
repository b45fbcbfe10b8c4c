//! Results of several sittings in one document: a lab of all experiments takes longer than most people have at a time.
//!
//! An experiment is of one sitting as a whole: it replaces the former one of its name, or, if it was not finished, is dropped.

use super::experiment::Experiment;
use super::result::{ContenderResult, ExperimentResult, Results, Sitting};

impl Results {
    /// These results, and the former ones of `known` experiments that were not run anew, in the order of
    /// `known`.
    pub(super) fn joined(mut self, former: Option<Self>, known: &[Experiment]) -> Self {
        self.experiments.retain(ExperimentResult::is_whole);
        let Some(former) = former else { return self };
        let of_then = Sitting { machine: former.machine, versions: former.versions };
        for mut experiment in former.experiments {
            if !self.experiments.iter().any(|e| e.name == experiment.name) {
                experiment.sitting.get_or_insert_with(|| of_then.clone());
                self.experiments.push(experiment);
            }
        }
        let place = |e: &ExperimentResult| known.iter().position(|known| known.name == e.name);
        self.experiments.retain(|e| place(e).is_some());
        self.experiments.sort_by_key(place);
        self
    }

    /// Where, when and with what an experiment was measured.
    pub(super) fn sitting(&self, experiment: &ExperimentResult) -> Sitting {
        let latest = || Sitting { machine: self.machine.clone(), versions: self.versions.clone() };
        experiment.sitting.clone().unwrap_or_else(latest)
    }
}

impl ExperimentResult {
    /// Whether every contender that could take part had all its rounds.
    fn is_whole(&self) -> bool {
        let took_part = |c: &&ContenderResult| c.left_out.is_none();
        let rounds = |c: &ContenderResult| c.rounds.len();
        let most = self.contenders.iter().map(rounds).max().unwrap_or(0);
        most > 0 && self.contenders.iter().filter(took_part).all(|c| rounds(c) == most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    /// Experiments of these names.
    fn known(names: &[&str]) -> Vec<Experiment> {
        let text = include_str!("../../experiments/overload-ramp.toml");
        names.iter().map(|name| Experiment::read(name, text).unwrap()).collect()
    }

    fn names(results: &Results) -> Vec<&str> {
        results.experiments.iter().map(|e| e.name.as_str()).collect()
    }

    #[test]
    fn what_was_run_anew_replaces_what_was_there() {
        let (former, mut now) = (sample::results(), sample::results());
        let first = now.experiments.remove(0);
        now.machine.day = "2026-11-26".into();
        now.experiments[0].capacity = 7.0;
        let joined = now.joined(Some(former), &known(&["overload-ramp", "prefetch-spike"]));
        assert_eq!(names(&joined), ["overload-ramp", "prefetch-spike"]);
        let days = joined.experiments.iter().map(|e| joined.sitting(e).machine.day);
        assert_eq!(days.collect::<Vec<_>>(), ["2026-11-21", "2026-11-26"]);
        assert_eq!(joined.experiments[1].capacity, 7.0);
        assert_eq!(joined.experiments[0].contenders, first.contenders);
        assert_eq!(names(&joined.joined(None, &[])).len(), 2, "nothing to join");
    }

    #[test]
    fn figures_of_an_earlier_sitting_keep_the_words_of_then() {
        let (former, mut now) = (sample::results(), sample::results());
        now.experiments.remove(0);
        let known = known(&["overload-ramp", "prefetch-spike"]);
        let joined = now.joined(Some(former.clone()), &known).in_words_of(&known);
        assert_eq!(joined.experiments[0].asks, former.experiments[0].asks);
        assert_eq!(joined.experiments[1].asks, known[1].asks);
    }

    #[test]
    fn an_experiment_that_was_not_finished_replaces_nothing() {
        let former = sample::results();
        let mut now = sample::results();
        now.experiments[0].contenders[1].rounds.pop();
        now.experiments[1].capacity = 7.0;
        let joined = now.joined(Some(former.clone()), &known(&["prefetch-spike", "overload-ramp"]));
        assert_eq!(
            names(&joined),
            ["prefetch-spike", "overload-ramp"],
            "in the order of the files"
        );
        assert_eq!(joined.experiments[0].capacity, 7.0);
        assert_eq!(joined.experiments[1].contenders, former.experiments[0].contenders);
    }

    #[test]
    fn an_experiment_that_is_no_more_goes() {
        let joined = sample::results().joined(Some(sample::results()), &known(&["prefetch-spike"]));
        assert_eq!(names(&joined), ["prefetch-spike"]);
    }
}
