//! Is Tiergate ahead of a peer? Decided from the figures alone.
//!
//! In one measure, a contender is ahead if its worst round is better than the other's best and the
//! medians differ by more than anyone would care about. A latency counts only beside the requests
//! that were answered: one that refuses nearly everything answers the rest quickly.

use super::spread::Spread;
use crate::lab::result::{Better, ContenderResult, Measure, Unit};

/// Shares that differ by less are level: a percentage point.
const SHARE_FLOOR: f64 = 0.01;

/// Everything else that differs by less is level: this part of the larger value.
const RELATIVE_FLOOR: f64 = 0.1;

/// A contender this far behind in the first judged share has no latencies to be compared by.
pub(crate) const FAR_FEWER: f64 = 0.05;

/// Where Tiergate stands in one measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Ahead,
    Level,
    Behind,
}

/// Where Tiergate stands over all judged measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Overall {
    /// Ahead in some, behind in none.
    Ahead,
    /// Level in all.
    Level,
    /// Behind in some, ahead in none.
    Behind,
    /// Ahead in some, behind in others.
    Mixed,
}

/// One judged measure of both.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged<'a> {
    pub(crate) measure: &'a Measure,
    pub(crate) tiergate: Spread,
    pub(crate) peer: Spread,
    pub(crate) standing: Standing,
    /// One latency was shorter, but does not count: it answered far fewer.
    pub(crate) discounted: bool,
}

/// All judged measures of Tiergate and a peer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Comparison<'a> {
    pub(crate) judged: Vec<Judged<'a>>,
    pub(crate) overall: Overall,
}

/// Whether a unit is that of a latency. Seconds are not: they are how long something took to
/// recover or finish, which does not become better by answering fewer.
pub(crate) fn is_latency(unit: Unit) -> bool {
    matches!(unit, Unit::Ms | Unit::Us)
}

/// Compares all judged measures; `None`: one of the two has no valid round.
pub(crate) fn compare<'a>(
    measures: &'a [Measure],
    tiergate: &ContenderResult,
    peer: &ContenderResult,
) -> Option<Comparison<'a>> {
    let mut judged = Vec::new();
    for (place, measure) in measures.iter().enumerate().filter(|(_, measure)| measure.judged) {
        let spread = |contender| Spread::of_measure(contender, place, measure.better);
        let (tiergate, peer) = (spread(tiergate)?, spread(peer)?);
        let standing = standing(measure, &tiergate, &peer);
        judged.push(Judged { measure, tiergate, peer, standing, discounted: false });
    }
    discount_latencies(&mut judged);
    let any = |standing| judged.iter().any(|j: &Judged| j.standing == standing);
    let overall = match (any(Standing::Ahead), any(Standing::Behind)) {
        (true, false) => Overall::Ahead,
        (false, false) => Overall::Level,
        (false, true) => Overall::Behind,
        (true, true) => Overall::Mixed,
    };
    Some(Comparison { judged, overall })
}

/// By how much, in the share's own direction, the first is better than the second; a missing share
/// is infinitely bad.
pub(crate) fn lead(better: Better, first: Option<f64>, second: Option<f64>) -> f64 {
    match (first, second, better) {
        (Some(first), Some(second), Better::Higher) => first - second,
        (Some(first), Some(second), Better::Lower) => second - first,
        (Some(_), None, _) => f64::INFINITY,
        (None, Some(_), _) => f64::NEG_INFINITY,
        (None, None, _) => 0.0,
    }
}

fn standing(measure: &Measure, tiergate: &Spread, peer: &Spread) -> Standing {
    let (ours, theirs) = (tiergate.reach(measure.better), peer.reach(measure.better));
    if ours.0 <= theirs.1 && theirs.0 <= ours.1 {
        return Standing::Level;
    }
    let floor = match (measure.unit, tiergate.median, peer.median) {
        (Unit::Share, ..) => SHARE_FLOOR,
        (_, Some(ours), Some(theirs)) => RELATIVE_FLOOR * ours.abs().max(theirs.abs()),
        _ => 0.0,
    };
    // A point is a point, even if its ends cannot be written in binary.
    let floor = floor + 1e-9;
    match lead(measure.better, tiergate.median, peer.median) {
        lead if lead > floor => Standing::Ahead,
        lead if lead < -floor => Standing::Behind,
        _ => Standing::Level,
    }
}

/// A contender that answered far fewer is not ahead by its latencies, Tiergate no more than a peer.
fn discount_latencies(judged: &mut [Judged]) {
    let Some(first) = judged.first().filter(|first| first.measure.unit == Unit::Share) else {
        return;
    };
    let void = match lead(first.measure.better, first.tiergate.median, first.peer.median) {
        lead if lead > FAR_FEWER => Standing::Behind,
        lead if lead < -FAR_FEWER => Standing::Ahead,
        _ => return,
    };
    for latency in judged.iter_mut().filter(|j| is_latency(j.measure.unit) && j.standing == void) {
        (latency.standing, latency.discounted) = (Standing::Level, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::result::Round;

    fn measure(unit: Unit) -> Measure {
        let better = if unit == Unit::Share { Better::Higher } else { Better::Lower };
        Measure { name: "measure".into(), unit, better, judged: true }
    }

    /// Each is given as its rounds; no rounds at all are level.
    fn judge(measure: &Measure, tiergate: &[Option<f64>], peer: &[Option<f64>]) -> Standing {
        let spread = |rounds| Spread::of(rounds, measure.better);
        match (spread(tiergate), spread(peer)) {
            (Some(tiergate), Some(peer)) => standing(measure, &tiergate, &peer),
            _ => Standing::Level,
        }
    }

    fn judged(unit: Unit, tiergate: &[f64], peer: &[f64]) -> Standing {
        let some = |values: &[f64]| values.iter().copied().map(Some).collect::<Vec<_>>();
        judge(&measure(unit), &some(tiergate), &some(peer))
    }

    #[test]
    fn ahead_is_beyond_both_spreads() {
        let ours = [0.97, 0.98, 0.99];
        assert_eq!(judged(Unit::Share, &ours, &[0.90, 0.92, 0.96]), Standing::Ahead);
        assert_eq!(judged(Unit::Share, &ours, &[0.90, 0.92, 0.975]), Standing::Level);
        assert_eq!(judged(Unit::Share, &[0.90, 0.92, 0.96], &ours), Standing::Behind);
        assert_eq!(judged(Unit::Ms, &[40.0, 45.0], &[60.0, 90.0]), Standing::Ahead);
        assert_eq!(judged(Unit::Ms, &[60.0, 90.0], &[40.0, 45.0]), Standing::Behind);
    }

    #[test]
    fn small_differences_are_level() {
        assert_eq!(judged(Unit::Share, &[1.0], &[0.99]), Standing::Level);
        assert_eq!(judged(Unit::Share, &[1.0], &[0.98]), Standing::Ahead);
        assert_eq!(judged(Unit::Ms, &[91.0], &[100.0]), Standing::Level);
        assert_eq!(judged(Unit::Ms, &[89.0], &[100.0]), Standing::Ahead);
        assert_eq!(judged(Unit::S, &[0.0], &[0.0]), Standing::Level);
    }

    #[test]
    fn who_has_no_value_is_behind_who_has() {
        let s = measure(Unit::S);
        assert_eq!(judge(&s, &[Some(2.0)], &[None]), Standing::Ahead);
        assert_eq!(judge(&s, &[None], &[Some(2.0)]), Standing::Behind);
        assert_eq!(judge(&s, &[None], &[None]), Standing::Level);
        // It recovered once: its rounds reach from one second to never.
        assert_eq!(judge(&s, &[Some(2.0), Some(2.1)], &[Some(1.0), None]), Standing::Level);
        assert_eq!(judge(&s, &[], &[Some(2.0)]), Standing::Level);
    }

    /// Share answered, p99 in ms, recovery in s.
    fn contender(values: [f64; 3]) -> ContenderResult {
        let round = Round {
            seed: 1,
            at: None,
            void: None,
            values: values.iter().copied().map(Some).collect(),
            lines: Vec::new(),
            generator_cpu: 0.0,
            lateness_ms: 0.0,
            front_cpu_s: 0.0,
        };
        let void = Round { void: Some("late".into()), values: vec![None; 3], ..round.clone() };
        ContenderResult {
            name: "peer".into(),
            about: String::new(),
            left_out: None,
            setting: None,
            rounds: vec![round, void],
        }
    }

    fn overall_of(tiergate: [f64; 3], peer: [f64; 3]) -> (Overall, Vec<bool>) {
        let measures = [Unit::Share, Unit::Ms, Unit::S].map(measure);
        let (tiergate, peer) = (contender(tiergate), contender(peer));
        let comparison = compare(&measures, &tiergate, &peer).unwrap();
        let discounted = comparison.judged.iter().map(|j| j.discounted).collect();
        (comparison.overall, discounted)
    }

    #[test]
    fn all_measures_together() {
        let of = |tiergate, peer| overall_of(tiergate, peer).0;
        assert_eq!(of([1.0, 50.0, 1.0], [0.9, 50.0, 1.0]), Overall::Ahead);
        assert_eq!(of([1.0, 50.0, 1.0], [1.0, 50.0, 1.0]), Overall::Level);
        assert_eq!(of([1.0, 50.0, 2.0], [1.0, 50.0, 1.0]), Overall::Behind);
        assert_eq!(of([1.0, 50.0, 2.0], [0.9, 50.0, 1.0]), Overall::Mixed);
    }

    #[test]
    fn a_latency_of_the_few_that_were_answered_does_not_count() {
        let (overall, discounted) = overall_of([0.99, 90.0, 1.0], [0.03, 41.0, 1.0]);
        assert_eq!((overall, discounted), (Overall::Ahead, vec![false, true, false]));
        // Nor Tiergate's.
        let (overall, discounted) = overall_of([0.03, 41.0, 1.0], [0.99, 90.0, 1.0]);
        assert_eq!((overall, discounted), (Overall::Behind, vec![false, true, false]));
        // Four points fewer are not far fewer; a time of recovery always counts.
        assert_eq!(overall_of([0.99, 90.0, 1.0], [0.95, 41.0, 1.0]).0, Overall::Mixed);
        assert_eq!(overall_of([0.99, 90.0, 9.0], [0.03, 90.0, 1.0]).0, Overall::Mixed);
        // A latency that is longer as well stays behind.
        assert_eq!(overall_of([0.99, 41.0, 1.0], [0.03, 90.0, 1.0]).1, vec![false; 3]);
    }

    #[test]
    fn without_a_valid_round_there_is_no_comparison() {
        let measures = [Unit::Share, Unit::Ms, Unit::S].map(measure);
        let mut void = contender([1.0; 3]);
        void.rounds.remove(0);
        assert_eq!(compare(&measures, &contender([1.0; 3]), &void), None);
        assert_eq!(compare(&measures, &void, &contender([1.0; 3])), None);
    }
}
