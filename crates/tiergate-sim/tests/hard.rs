//! Situations of `hard/` in which the adaptive limit once went wrong, and does no more.

use std::ops::Range;
use std::path::Path;
use tiergate_sim::hard::{Outcome, measure};
use tiergate_sim::scenario::{LimitKind, Scenario};

/// The last phase of each run, and the number of slots that is right.
fn last_phases(name: &str, seeds: Range<u64>) -> (Vec<Outcome>, f64) {
    let (runs, right) = phases(name, seeds);
    (runs.iter().map(|phases| *phases.last().expect("phases")).collect(), right)
}

/// Every phase of each run, and the number of slots that is right.
fn phases(name: &str, seeds: Range<u64>) -> (Vec<Vec<Outcome>>, f64) {
    let scenario = scenario(name);
    let right = scenario.right.expect("it says so");
    let run = |seed| measure(&scenario, LimitKind::Adaptive, seed);
    (seeds.map(run).collect(), f64::from(right))
}

fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("hard").join(name);
    let text = std::fs::read_to_string(path).expect("it is there");
    Scenario::parse(&text).expect("it is valid")
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_pauses_of_an_origin_raise_no_limit() {
    let (runs, right) = last_phases("pauses.toml", 1..8);
    for run in &runs {
        assert!((0.8..1.25).contains(&(run.slots / right)), "{:.1} slots of {right}", run.slots);
    }
}

#[test]
fn clients_that_are_too_few_to_fill_a_limit_do_not_hide_that_it_is_too_high() {
    let (runs, right) = last_phases("few-clients.toml", 1..8);
    for run in &runs {
        assert!((0.8..1.3).contains(&(run.slots / right)), "{:.1} slots of {right}", run.slots);
    }
}

#[test]
fn late_errors_lower_a_limit_that_is_far_too_high() {
    let (runs, _) = last_phases("late-answers.toml", 1..8);
    let good = median(runs.iter().map(|run| run.good));
    assert!(good >= 0.9, "{good:.3} of the important class are answered in time");
}

#[test]
fn clients_that_leave_sooner_than_a_queue_at_the_origin_answers_get_their_answers() {
    let scenario = scenario("clients-leave.toml");
    let right = scenario.right.expect("it says so");
    for seed in 1..6 {
        let of = |limit| measure(&scenario, limit, seed)[1];
        let (found, best) = (of(LimitKind::Adaptive), of(LimitKind::Fixed(right)));
        // 0.83 to 0.88 where each answer counts that the origin gives, to whomever.
        assert!(found.goodput >= 0.92 * best.goodput, "{found:?}, at best {best:?}");
    }
}

#[test]
fn clients_that_leave_on_purpose_do_not_drive_the_limit_up() {
    let (runs, right) = last_phases("leave-on-purpose.toml", 1..11);
    for run in &runs {
        assert!(run.slots < 1.5 * right, "{:.1} slots of {right}", run.slots);
    }
}

#[test]
fn a_part_that_is_slow_takes_no_slots_of_the_rest_if_it_is_named() {
    let good = |name| {
        let (runs, _) = phases(name, 1..6);
        runs.into_iter().map(|phases| phases[1].good).fold(1.0, f64::min)
    };
    assert!(good("slow-part.toml") < 0.8, "so bad it is without");
    assert!(good("slow-part-named.toml") >= 0.99);
}

#[test]
fn the_size_of_a_resource_is_found() {
    let (runs, _) = last_phases("few-connections-named.toml", 1..6);
    for run in &runs {
        assert!(run.good >= 0.99 && run.goodput >= 470.0, "{run:?}");
    }
}

#[test]
fn an_origin_that_warms_up_is_not_taken_for_one_that_needs_more_slots() {
    let (runs, right) = last_phases("warm-up.toml", 300..312);
    let most = runs.iter().map(|run| run.slots).fold(0.0, f64::max);
    assert!(most <= 3.0 * right, "{most:.1} slots of {right}");
}
