//! The papers' files, and the page of a small paper with invented figures.

use super::*;
use crate::lab::experiment;
use crate::lab::page::tests::sample;
use crate::lab::result::Results;
use data::{Claim, Source, Value};
use verdict::Verdict;

fn papers() -> Papers {
    Papers::read(Path::new(DIRECTORY)).expect("the files can be read")
}

fn sources(claim: &Claim) -> Vec<Source> {
    let both = |value: &Value| {
        let other = value.over.as_ref().map(|over| over.or(&value.of));
        [Some(value.of.clone()), other].into_iter().flatten().collect::<Vec<_>>()
    };
    claim.ours.iter().chain(&claim.beside).flat_map(both).collect()
}

#[test]
fn what_the_files_name_exists() {
    let experiments = experiment::tests::all();
    let known = |name: &str| experiments.iter().find(|e| e.name == *name);
    for paper in papers().measured {
        for place in paper.code.iter().chain(&paper.policies) {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(&place.path);
            assert!(file.exists(), "{}: no {}", paper.name, place.path);
        }
        for name in &paper.experiments {
            assert!(known(name).is_some(), "{}: no experiment {name}", paper.name);
        }
        for source in paper.claims.iter().flat_map(sources) {
            let name = source.experiment.as_deref().expect("a source has an experiment");
            assert!(paper.experiments.iter().any(|e| e == name), "{}: lists {name}", paper.name);
            let experiment = known(name).expect("it is one of the paper's");
            let told = format!("{} in {name}: {source:?}", paper.name);
            let part = experiment.contenders.iter().any(|c| c.name() == source.contender());
            assert!(part, "{told}: it takes no part");
            match (&source.measure, &source.plot) {
                (Some(measure), None) => {
                    assert!(experiment.measure.iter().any(|m| m.name == *measure), "{told}");
                }
                (None, Some(plot)) => {
                    let plots = || experiment.plot.iter().map(|line| line.plot());
                    assert!(plots().any(|p| p.title == *plot), "{told}");
                    let phases = source.phases.iter();
                    assert!(phases.clone().all(|p| experiment.phase(p).is_some()), "{told}");
                    assert!(!source.phases.is_empty(), "{told}: no phases");
                }
                _ => panic!("{told}: a measure or a plot"),
            }
        }
    }
}

#[test]
fn each_claim_that_is_judged_has_both_bounds() {
    for claim in papers().measured.iter().flat_map(|paper| &paper.claims) {
        let bounds = [&claim.reproduced, &claim.direction];
        let given = bounds.map(|b| b.at_least.or(b.at_most).is_some());
        assert_eq!(given, [claim.ours.is_some(); 2], "{}: {}", claim.place, claim.says);
        // What is reproduced is right in direction, too.
        let ends = [claim.reproduced.at_least, claim.reproduced.at_most];
        for end in ends.into_iter().flatten().filter(|_| claim.ours.is_some()) {
            assert!(claim.direction.hold(end), "{}: {}", claim.place, claim.says);
        }
    }
}

/// A paper whose experiment is the sample's overload.
fn small() -> Papers {
    let paper = r#"
name = "Small"
order = 1
document = "A. Author: Small, 1999"
mechanism = "It is small."
machines = "one"
code = [{ path = "src", what = "all" }]
policies = []
experiments = ["overload-ramp", "no-such"]

[[condition]]
what = "capacity"
paper = "10 requests/s"
ours = { experiment = "overload-ramp", of = "capacity" }

[[claim]]
place = "Figure 1"
says = "Premium waits less than with HAProxy"
paper = "−20 %"
ours = { of = { experiment = "overload-ramp", measure = "premium p99" }, over = { contender = "haproxy" }, shown = "change" }
reproduced = { at_most = -0.2 }
direction = { at_most = 0 }

[[claim]]
place = "Figure 2"
says = "Premium is answered at all loads"
paper = "always"
plot = true
ours = { of = { experiment = "overload-ramp", plot = "Premium requests answered", phases = ["0.5x", "10x"] } }
reproduced = { at_least = 0.9 }
direction = { at_least = 0.5 }

[[claim]]
place = "Figure 3"
says = "Nobody has measured this"
paper = "1 s"
ours = { of = { experiment = "overload-ramp", contender = "fifo", measure = "premium p99" } }
reproduced = { at_most = 1.0 }
direction = { at_most = 2.0 }
"#;
    Papers { measured: vec![toml::from_str(paper).expect("a paper")], others: Vec::new() }
}

fn shown(results: &Results) -> String {
    page(&small(), results, &[])
}

#[test]
fn claims_are_shown_with_our_figures_and_judged_by_their_bounds() {
    let text = shown(&sample::results());
    assert!(
        text.contains("| [Small](#small) | A. Author: Small, 1999 | 3 | 2 | 0 | 0 | 1 |"),
        "{text}"
    );
    let change = "−24 % (182 ms against 240 ms) <sub>overload-ramp: premium p99, tiergate against haproxy</sub>";
    assert!(text.contains(change), "{text}");
    assert!(
        text.contains(
            "reproduced<br><sub>reproduced: at most −20 %; direction: at most ±0 %</sub>"
        ),
        "{text}"
    );
    assert!(text.contains("| always *(plot)* | 0.5x: 100.0 %; 10x: 99.8 %"), "{text}");
    assert!(text.contains("| capacity | 10 requests/s | 400 requests/s, measured |"), "{text}");
}

#[test]
fn what_the_results_do_not_have_is_not_measured() {
    let text = shown(&sample::results());
    assert!(
        text.contains(
            "| 1 s | not measured <sub>overload-ramp: premium p99, fifo</sub> | not measured<br>"
        ),
        "{text}"
    );
    assert!(
        text.contains("[no-such](../crates/tiergate-lab/experiments/no-such.toml) (not measured)"),
        "{text}"
    );
    let mut results = sample::results();
    results.experiments.clear();
    assert!(shown(&results).contains("| 3 | 0 | 0 | 0 | 3 |"));
}

#[test]
fn a_figure_that_changes_changes_text_and_verdict() {
    let mut results = sample::results();
    let tiergate = results.experiments[0].contenders.iter_mut().find(|c| c.name == "tiergate");
    for round in &mut tiergate.expect("it takes part").rounds {
        round.values[1] = Some(230.0);
    }
    let text = shown(&results);
    assert!(text.contains("−4 % (230 ms against 240 ms)"), "{text}");
    assert!(text.contains("**in direction only**"), "{text}");
    let claim = &small().measured[0].claims[0];
    assert_eq!(verdict::of(claim, &results), Verdict::Direction);
    for round in &mut results.experiments[0].contenders[1].rounds {
        round.values[1] = Some(250.0);
    }
    assert_eq!(verdict::of(claim, &results), Verdict::NotReproduced);
}

/// The page in docs is the one that the committed results give; `make page` writes it.
#[test]
fn the_committed_page_is_up_to_date() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read(docs.join("results/results.json")).expect("there are results");
    let results: Results = serde_json::from_slice(&text).expect("they can be read");
    let expected = page(&papers(), &results, &experiment::tests::all());
    let committed = std::fs::read_to_string(docs.join("papers.md")).expect("there is a page");
    assert!(committed == expected, "docs/papers.md is not what `make page` writes");
}
