//! Random requests through the whole request path, in memory and in virtual time, with everything that client
//! and origin may do wrong; what both see is judged by an independent reader.
//!
//! Seeds are printed with what they find: `TIERGATE_SEED=17 cargo test -p tiergate --test exchanges`.
//! `TIERGATE_SEEDS=100000` plays more. The fuzzer `exchanges` plays the same games.

mod found;
mod play;

use play::{Report, play, random_bytes};

/// Games that each run plays.
const SEEDS: u64 = 2_000;

/// Games that fail before the rest is not played any more.
const FAILED_MAX: usize = 10;

/// Bytes that decide about one game.
const BYTES: usize = 1_200;

/// What the fuzzer begins with: games that found something once.
#[test]
fn the_fuzzers_seeds_find_nothing() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/exchanges");
    let mut played = 0;
    for file in std::fs::read_dir(dir).expect("the seeds' directory") {
        let path = file.expect("a directory entry").path();
        println!("{}", path.display());
        play(&std::fs::read(&path).expect("a seed"));
        played += 1;
    }
    assert!(played > 0, "no seeds in {dir}");
}

#[test]
fn what_both_sides_see_is_what_the_other_said() {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seeds = match number("TIERGATE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TIERGATE_SEEDS").unwrap_or(SEEDS),
    };
    let all = seeds.end - seeds.start > 1;
    let (mut sum, mut failed) = (Report::default(), Vec::new());
    for seed in seeds {
        let report = std::panic::catch_unwind(|| play(&random_bytes(seed, BYTES)));
        let Ok(report) = report else {
            failed.push(seed);
            if failed.len() == FAILED_MAX {
                break;
            }
            continue;
        };
        sum.forwarded += report.forwarded;
        sum.answered += report.answered;
        sum.own += report.own;
        sum.reused += report.reused;
        sum.spooled += report.spooled;
    }
    assert!(failed.is_empty(), "seeds {failed:?}");
    println!("{sum:?}");
    // Games that end at the first byte would find nothing.
    let deep = sum.forwarded > 1_000 && sum.answered > 500 && sum.reused > 100 && sum.spooled > 50;
    assert!(!all || deep, "{sum:?}");
}
