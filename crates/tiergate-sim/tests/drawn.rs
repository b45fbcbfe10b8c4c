//! The limit on servers and loads that are drawn at random: what it gives relative to the best fixed limit.
//!
//! Only of the family that laws may be tuned on. `make laws-drawn` is the whole comparison.

use tiergate_sim::drawn::table::Promised;
use tiergate_sim::drawn::{Contender, Family, Judgement, judge};
use tiergate_sim::scenario::LimitKind;

const SEEDS: std::ops::Range<u64> = 1..9;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn slots(judged: &[Judgement], law: usize) -> f64 {
    median(judged.iter().flat_map(|it| it.outcomes[law].slots.clone()).collect())
}

#[test]
fn the_limit_is_near_the_best_fixed_one_and_no_fixed_one_is_for_all() {
    let fixed = |slots| Contender::Of(LimitKind::Fixed(slots));
    let laws = [Contender::Documented, fixed(2), fixed(2000)];
    let judged = judge(Family::Open, SEEDS, &laws, &|_| {});
    let promised = [0, 1, 2].map(|law| Promised::of(&judged, law, false));
    let [own, low, high] = promised;
    assert!(own.served >= 7, "the best fixed limits serve the premium class: {own:?}");
    assert!(own.premium >= 0.97 && own.goodput >= 0.93, "{own:?}");
    let slots = [0, 1, 2].map(|law| slots(&judged, law));
    assert!((0.5..2.0).contains(&slots[0]), "{slots:?} times the best");
    // So would a law fail that is stuck.
    assert!(low.goodput < 0.7 && slots[1] < 0.5, "{low:?}, {slots:?}");
    assert!(high.premium < 0.9 && slots[2] > 10.0, "{high:?}, {slots:?}");
}
