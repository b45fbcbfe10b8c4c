//! What the rounds of each contender come to, point by point.

use crate::lab::page::spread::valid;
use crate::lab::result::{ContenderResult, ExperimentResult};
use tiergate_draw::Range;

/// One contender in one plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// By phase or second; `None`: less than half of the rounds have a value there.
    pub(super) points: Vec<Option<Range>>,
}

/// Everyone who has something to draw in a plot, in the order of the experiment.
pub(super) fn of_plot(experiment: &ExperimentResult, plot: usize) -> Vec<Series> {
    let all = experiment
        .contenders
        .iter()
        .map(|contender| Series { name: contender.name.clone(), points: points(contender, plot) });
    all.filter(|series| series.points.iter().any(Option::is_some)).collect()
}

fn points(contender: &ContenderResult, plot: usize) -> Vec<Option<Range>> {
    let lines: Vec<_> = valid(contender).filter_map(|round| round.lines.get(plot)).collect();
    let length = lines.iter().map(|line| line.len()).max().unwrap_or(0);
    let point = |place: usize| {
        let here = lines.iter().filter_map(|line| line.get(place).copied().flatten());
        let here: Vec<f64> = here.filter(|v| v.is_finite()).collect();
        Range::of(here.iter().copied()).filter(|_| here.len() * 2 >= lines.len())
    };
    (0..length).map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::result::Round;

    #[test]
    fn points_are_medians_of_the_valid_rounds_and_gaps_stay() {
        let round = |void: Option<&str>, line: [Option<f64>; 3]| Round {
            seed: 1,
            at: None,
            void: void.map(String::from),
            values: Vec::new(),
            lines: vec![Vec::new(), line.to_vec()],
            generator_cpu: 0.0,
            lateness_ms: 0.0,
            front_cpu_s: 0.0,
        };
        let contender = ContenderResult {
            name: "peer".into(),
            about: String::new(),
            left_out: None,
            setting: None,
            rounds: vec![
                round(None, [Some(1.0), None, Some(5.0)]),
                round(None, [Some(3.0), None, None]),
                round(None, [Some(2.0), Some(9.0), Some(4.0)]),
                round(Some("late"), [Some(99.0); 3]),
            ],
        };
        let points = points(&contender, 1);
        let expected = [
            Some(Range { median: 2.0, min: 1.0, max: 3.0 }),
            None,
            Some(Range { median: 4.5, min: 4.0, max: 5.0 }),
        ];
        assert_eq!(points, expected);
    }
}
