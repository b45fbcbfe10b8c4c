//! The schedulers against what their documentation promises: random arrivals, ends, cancellations and
//! reloads on virtual time, and after each of them a model that knows only the promises.
//!
//! A seed makes a run: `TIERGATE_SEEDS=10000` makes so many of each (`make properties`), and
//! `TIERGATE_SEED=77` that one only.
//!
//! `mutations.txt` lists faults that were put into the schedulers on purpose; `make mutations` shows that
//! each makes one of these tests fail.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    reason = "tests say which seed broke them, and are told how many to try"
)]

mod choice;
mod exact;
mod inside;
mod measure;
mod plans;
mod script;
mod settle;
mod state;
mod turns;
mod world;

mod codel;
mod deadline;
mod fifo;
mod fixed;
mod flows;
mod full;
mod late;
mod lifo;
mod minima;
mod score;
mod shared;
mod sites;
mod strict;
mod weighted;
mod wide;
mod work;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Seeds of each property where nobody says how many.
const SEEDS: u64 = 300;

/// Runs a property for each seed; says the seed that breaks it.
fn for_seeds(property: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TIERGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("TIERGATE_SEEDS").unwrap_or(SEEDS) + 1,
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| property(seed))) {
            eprintln!("it was TIERGATE_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

/// A test of a property.
macro_rules! property {
    ($name:ident, $property:expr) => {
        #[test]
        fn $name() {
            crate::for_seeds($property);
        }
    };
}
pub(crate) use property;
