//! A system's part of the page.

use super::conditions;
use super::data::{Claim, Paper, Place, Value};
use super::ours::take;
use super::verdict::{self, Verdict};
use crate::lab::experiment::Experiment;
use crate::lab::page::spread::valid;
use crate::lab::page::words::{one_line, plain, sentence};
use crate::lab::result::Results;
use std::collections::BTreeSet;
use tiergate_draw::Table;

/// The section in Markdown.
pub(super) fn section(paper: &Paper, results: &Results, experiments: &[Experiment]) -> String {
    let mut out = format!("<a id=\"{}\"></a>\n## {}\n\n", paper.anchor(), plain(&paper.name));
    out += &format!("{}\n\n", one_line(&paper.mechanism));
    out += &format!("- **Paper:** {}\n", sentence(&paper.document));
    out += &format!("- **Its machines:** {}\n", sentence(&paper.machines));
    out += &format!("- **In the code:** {}\n", places(&paper.code));
    out += &format!("- **Policy:** {}\n", places(&paper.policies));
    out += &format!("- **Experiments:** {}\n\n", links(paper, results, experiments));
    if !paper.conditions.is_empty() {
        out += &format!("{}\n", conditions::table(&paper.conditions, results, experiments));
    }
    let mut table = Table::new(["<claim", "<the paper", "<ours", "<verdict"]);
    for claim in &paper.claims {
        table.row(row(claim, results));
    }
    out + &format!("{}\n", table.markdown())
}

fn places(places: &[Place]) -> String {
    let link = |place: &Place| format!("[{0}](../{0}) ({1})", place.path, plain(&place.what));
    places.iter().map(link).collect::<Vec<_>>().join(", ") + "."
}

/// The experiments, each with its rounds and days, or that it is not in the results.
fn links(paper: &Paper, results: &Results, experiments: &[Experiment]) -> String {
    let link = |name: &String| {
        let file = format!("../crates/tiergate-lab/experiments/{name}.toml");
        let Some(result) = results.experiments.iter().find(|e| e.name == *name) else {
            return format!("[{name}]({file}) (not measured)");
        };
        let rounds = || result.contenders.iter().flat_map(valid);
        let day = |at: &str| at.split(' ').next().unwrap_or(at).to_owned();
        let mut days: BTreeSet<String> =
            rounds().filter_map(|round| round.at.as_deref()).map(day).collect();
        if days.is_empty() {
            days.insert(results.sitting(result).machine.day);
        }
        let most = result.contenders.iter().map(|c| valid(c).count()).max().unwrap_or(0);
        let days = days.into_iter().collect::<Vec<_>>().join(", ");
        let changed = experiments.iter().any(|e| e.name == *name && !e.has_measures_of(result));
        let days = if changed { days + ", *earlier version*" } else { days };
        format!("[{name}](results.md#{name}) ([file]({file}); up to {most} rounds, {days})")
    };
    paper.experiments.iter().map(link).collect::<Vec<_>>().join(", ") + "."
}

fn row(claim: &Claim, results: &Results) -> [String; 4] {
    let claimed = format!("**{}.** {}", plain(&claim.place), sentence(&plain(&claim.says)));
    let note = claim.note.as_ref().map(|note| format!(" <sub>{}</sub>", sentence(&plain(note))));
    let marked = if claim.plot { " *(plot)*" } else { "" };
    let verdict = verdict::of(claim, results);
    let words = match verdict {
        Verdict::Reproduced | Verdict::NotMeasured => verdict.words().to_owned(),
        Verdict::Direction | Verdict::NotReproduced => format!("**{}**", verdict.words()),
    };
    let rule = verdict::rule(claim, results).map(|rule| format!("<br><sub>{rule}</sub>"));
    [
        claimed + &note.unwrap_or_default(),
        format!("{}{marked}", plain(&claim.paper)),
        ours(claim, results),
        words + &rule.unwrap_or_default(),
    ]
}

/// All of our values for a claim, each with where it is from.
fn ours(claim: &Claim, results: &Results) -> String {
    let values: Vec<String> =
        claim.ours.iter().chain(&claim.beside).map(|value| told(value, results)).collect();
    match values.is_empty() {
        true => "not measured".into(),
        false => values.join("<br>"),
    }
}

fn told(value: &Value, results: &Results) -> String {
    let label = value.label.as_ref().map(|label| format!("{}: ", plain(label)));
    let words = take(value, results).map_or("not measured".into(), |taken| taken.words());
    let source = &value.of;
    let of = source.measure.as_ref().or(source.plot.as_ref());
    let name = source.experiment.as_deref().unwrap_or_default();
    let of = of.map_or(String::new(), |of| plain(of));
    let other = value.over.as_ref().map(|over| over.or(source));
    let against = match &other {
        Some(other) if other.contender() != source.contender() => {
            format!(", {} against {}", source.contender(), other.contender())
        }
        _ if source.contender() != "tiergate" => format!(", {}", source.contender()),
        _ => String::new(),
    };
    format!("{}{words} <sub>{name}: {of}{against}</sub>", label.unwrap_or_default())
}
