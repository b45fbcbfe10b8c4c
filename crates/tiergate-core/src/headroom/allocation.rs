//! What each of several gets of the slots when together they want more, on average.

use crate::schedule::{Policy, Terms};

/// What each child gets of `slots`, of which the parts in its terms are of `whole`, if they want so many on average: the
/// policies of [`crate::schedule`] as fluids. Children are in order of importance. O(children²) at worst, for weights.
pub fn allocation(
    policy: Policy,
    terms: &[Terms],
    wanted: &[f64],
    slots: f64,
    whole: f64,
) -> Vec<f64> {
    match policy {
        Policy::Strict => {
            let sure = terms.iter().map(|it| it.minimum * whole);
            in_order(sure, wanted, slots, 0.0)
        }
        Policy::Shared => {
            let sure = terms.iter().map(|it| it.share * whole);
            let unused = terms.iter().zip(wanted).map(|(it, d)| (it.reserve * whole - d).max(0.0));
            in_order(sure, wanted, slots, unused.sum())
        }
        Policy::Fixed => {
            let most = terms.iter().map(|it| it.share * whole);
            most.zip(wanted).map(|(most, d)| d.min(most)).collect()
        }
        Policy::Weighted => by_weight(terms, wanted, slots),
        Policy::Deadline | Policy::Score { .. } | Policy::Fifo => {
            let all: f64 = wanted.iter().sum();
            let part = if all > slots { slots / all } else { 1.0 };
            wanted.iter().map(|d| d * part).collect()
        }
    }
}

/// Each gets what it wants of that which it is sure of; the rest, less what is kept free, goes to the most important first.
fn in_order(
    sure: impl Iterator<Item = f64>,
    wanted: &[f64],
    slots: f64,
    kept_free: f64,
) -> Vec<f64> {
    let mut gets: Vec<f64> = sure.zip(wanted).map(|(sure, d)| d.min(sure)).collect();
    let mut rest = slots - kept_free - gets.iter().sum::<f64>();
    if rest < 0.0 {
        // What they are sure of is of more than there is: the least important have less.
        for gets in gets.iter_mut().rev() {
            let less = gets.min(-rest);
            *gets -= less;
            rest += less;
        }
    }
    for (gets, wanted) in gets.iter_mut().zip(wanted) {
        let more = (wanted - *gets).clamp(0.0, rest.max(0.0));
        *gets += more;
        rest -= more;
    }
    gets
}

/// Max-min fair by weight: what one does not want goes to the others.
fn by_weight(terms: &[Terms], wanted: &[f64], slots: f64) -> Vec<f64> {
    let mut gets = vec![0.0; wanted.len()];
    let mut open: Vec<usize> = (0..wanted.len()).collect();
    let mut rest = slots;
    // Each round satisfies one at least, or is the last.
    while !open.is_empty() {
        let level = rest / open.iter().map(|&it| terms[it].weight).sum::<f64>();
        let (full, more): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|&&it| wanted[it] <= terms[it].weight * level);
        if full.is_empty() {
            more.iter().for_each(|&it| gets[it] = terms[it].weight * level);
            break;
        }
        for &it in &full {
            gets[it] = wanted[it];
            rest -= wanted[it];
        }
        open = more;
    }
    gets
}
