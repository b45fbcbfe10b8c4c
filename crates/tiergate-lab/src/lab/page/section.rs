//! An experiment's part of the page.

use super::spread::valid;
use super::words::{self, list, number, one_line, plain, quantity, sentence};
use super::{beside, table, verdict};
use crate::lab::result::{ContenderResult, ExperimentResult, Phase, Round, Unit};
use std::collections::BTreeSet;

/// The section in Markdown. The drawing's file is named as seen from the page.
pub(super) fn section(experiment: &ExperimentResult, drawing: Option<&str>) -> String {
    let mut out = format!("<a id=\"{}\"></a>\n", experiment.name);
    out += &format!("## {}\n\n{}\n\n", one_line(&experiment.title), experiment.asks.trim());
    out += &format!("{}\n\n", conditions(experiment));
    if let Some(drawing) = drawing {
        let titles: Vec<String> = experiment.plots.iter().map(|p| plain(&p.title)).collect();
        out += &format!("![{}: {}]({drawing})\n\n", plain(&experiment.title), list(&titles));
    }
    match table::table(experiment) {
        Some(table) => out += &format!("{table}\n"),
        None => out += "No contender has a valid round, so that there are no figures.\n\n",
    }
    let notes: String = experiment.contenders.iter().flat_map(notes).collect();
    if !notes.is_empty() {
        out += &format!("{notes}\n");
    }
    if let Some(text) = experiment.beside.as_ref().and_then(beside::beside) {
        out += &format!("{text}\n");
    }
    out += &format!("**Comparison**\n\n{}\n", verdict::verdicts(experiment));
    out
}

/// Load, phases, seeds, and whether the generators kept up.
fn conditions(experiment: &ExperimentResult) -> String {
    let mut out = format!(
        "<sub>Capacity of the origin: {} requests/s. {}.",
        number(experiment.capacity, Unit::Rate).trim_end_matches(".0"),
        phases(&experiment.phases),
    );
    let rounds = || experiment.contenders.iter().flat_map(valid);
    let seeds: BTreeSet<u64> = rounds().map(|round| round.seed).collect();
    let times: BTreeSet<&str> = rounds().filter_map(|round| round.at.as_deref()).collect();
    if let (Some(first), Some(last)) = (times.first(), times.last()) {
        let most = experiment.contenders.iter().map(|contender| contender.rounds.len()).max();
        let rounds = match most.unwrap_or(0) {
            1 => "one round".to_owned(),
            most => format!("{most} rounds"),
        };
        let (first, last) = (plain(first), plain(last));
        out += &format!(" Measured in one sitting: {rounds}, begun from {first} to {last} UTC.");
    }
    if !seeds.is_empty() {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let most = |value: fn(&Round) -> f64| rounds().map(value).fold(0.0, f64::max);
        out += &format!(
            " Seeds: {}. Load generators: at most {} of a processor; 99 % of requests sent at most {} \
             late.",
            seeds.join(", "),
            quantity(Some(most(|r| r.generator_cpu)), Unit::Share),
            quantity(Some(most(|r| r.lateness_ms)), Unit::Ms),
        );
    }
    out + "</sub>"
}

fn phases(phases: &[Phase]) -> String {
    let time = |phase: &Phase| format!("{} s", (phase.seconds * 10.0).round() / 10.0);
    let equal = phases.windows(2).all(|two| two[0].seconds == two[1].seconds);
    let name = |phase: &Phase| match equal {
        true => plain(&phase.name),
        false => format!("{} ({})", plain(&phase.name), time(phase)),
    };
    let names = phases.iter().map(name).collect::<Vec<_>>().join(", ");
    match phases {
        [only] => format!("{} of load", time(only)),
        [first, ..] if equal => format!("Phases of {} each: {names}", time(first)),
        _ => format!("Phases: {names}"),
    }
}

/// What has to be known about a contender's row, or why it has none.
fn notes(contender: &ContenderResult) -> Vec<String> {
    let name = plain(words::contender(&contender.name));
    if let Some(why) = &contender.left_out {
        return vec![format!("- **{name}** was left out: {}\n", sentence(&plain(why)))];
    }
    let best = |setting: &String| {
        format!("- **{name}** was searched for its best setting: {}\n", sentence(setting))
    };
    let mut notes: Vec<String> = contender.setting.iter().map(best).collect();
    let why = |round: &Round| Some(format!("seed {}: {}", round.seed, plain(round.void.as_ref()?)));
    let void: Vec<String> = contender.rounds.iter().filter_map(why).collect();
    if !void.is_empty() {
        let all = void.len() == contender.rounds.len();
        let what = if all { "all rounds are void, so that it has no row" } else { "void" };
        notes.push(format!("- **{name}**: {what}: {}\n", sentence(&void.join("; "))));
    } else if contender.rounds.is_empty() {
        notes.push(format!("- **{name}** has no rounds.\n"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::page::tests::sample;

    #[test]
    fn conditions_are_told() {
        let results = sample::results();
        let text = conditions(&results.experiments[1]);
        let expected = "400 requests/s. Phases: calm (15 s), spike (10 s), calm again (25 s). \
                        Measured in one sitting: 3 rounds, begun from 2026-11-21 09:10 to 2026-11-21 09:30 UTC. \
                        Seeds: 1, 2, 3.";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("at most 34.0 % of a processor; 99 % of requests sent at most 1.20 ms")
        );
        assert!(conditions(&results.experiments[0]).contains("Phases of 15 s each: 0.5x, 0.8x,"));
    }

    #[test]
    fn rounds_that_do_not_count_are_told() {
        let mut contender = sample::results().experiments[1].contenders[1].clone();
        assert_eq!(notes(&contender), Vec::<String>::new());
        contender.rounds[0].void = Some("late".into());
        assert_eq!(notes(&contender), ["- **Tiergate**: void: seed 1: late.\n"]);
        contender.rounds.truncate(1);
        let all = "- **Tiergate**: all rounds are void, so that it has no row: seed 1: late.\n";
        assert_eq!(notes(&contender), [all]);
        contender.rounds[0].void = None;
        assert_eq!(notes(&contender), Vec::<String>::new(), "the table tells how many rounds");
    }

    #[test]
    fn without_figures_the_section_says_so() {
        let mut results = sample::results();
        let experiment = &mut results.experiments[0];
        for round in experiment.contenders.iter_mut().flat_map(|c| &mut c.rounds) {
            round.void = Some("late".into());
        }
        let text = section(experiment, None);
        assert!(text.contains("No contender has a valid round"), "{text}");
        assert!(text.contains("all rounds are void"), "{text}");
    }
}
