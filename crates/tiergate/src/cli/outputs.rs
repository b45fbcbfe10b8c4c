//! Of an explanation: what else rules say of a request, where its score comes from, and what each part
//! of it matches.

use super::words;
use crate::config::meant::Policy;
use crate::config::rule;
use std::fmt::Write as _;
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::ScoreTables;
use tiergate_core::classify::{Condition, Match, Output};
use tiergate_core::request::{Part, RequestView};

/// Most rules that are listed for one part of the request.
const LISTED_MAX: usize = 12;

/// Which rule gave each output beside the class, and how the score came about. Empty where no rule of
/// the policy says more than classes.
pub(super) fn further(
    policy: &Policy,
    file: &str,
    view: &RequestView<'_>,
    found: &Match,
) -> String {
    let mut text = String::new();
    for output in Output::ALL.into_iter().skip(1) {
        let mut setting =
            policy.rules.iter().enumerate().filter(|(_, rule)| rule.rule.sets(output));
        if setting.clone().next().is_some() {
            let line = match setting.find(|(_, rule)| rule.rule.matches(view)) {
                Some((index, rule)) => format!(
                    "{}: rule {} ({file}:{}), {}",
                    words::says(&rule.rule, output, policy),
                    rule.label(index),
                    rule.line,
                    words::conditions(&rule.rule, policy)
                ),
                None => format!("{}: no rule says", output.name()),
            };
            writeln!(text, "  {line}").expect("a string takes all");
        }
    }
    if let Some(tables) = &policy.score {
        text += &score(tables, view, found);
    }
    match text.is_empty() {
        true => text,
        false => format!("\nBeside the class\n{text}"),
    }
}

fn score(tables: &ScoreTables, view: &RequestView<'_>, found: &Match) -> String {
    let scored = tables.score(view);
    let client = match scored.client.1 {
        Some(place) => format!("the client is in {}", tables.clients[place as usize].0),
        None => "no entry has the client".to_owned(),
    };
    let path = match scored.path.1 {
        Some(place) => format!("the path is in {}", tables.paths[place as usize].0),
        None => "no entry has the path".to_owned(),
    };
    let instead = match scored.score == found.score {
        true => String::new(),
        false => format!(", but a rule says {}", found.score),
    };
    format!(
        "  score {} by the tables{instead}: {} x {} ({client}) + {} x {} ({path})\n",
        scored.score, tables.client_factor, scored.client.0, tables.path_factor, scored.path.0
    )
}

/// For each part of the request that rules ask for, the rules whose condition on it holds.
pub(super) fn by_part(policy: &Policy, view: &RequestView<'_>) -> String {
    let mut text = String::new();
    let conditions = policy.rules.iter().flat_map(|rule| &rule.rule.conditions);
    let mut parts: Vec<&Part> = conditions.map(Condition::part).collect();
    parts.sort_unstable();
    let mut nouns: Vec<&str> = parts.into_iter().map(rule::noun).collect();
    nouns.dedup();
    for part in nouns {
        let here = |condition: &&Condition| rule::noun(condition.part()) == part;
        let asks = |rule: &Rule| rule.conditions.iter().any(|condition| here(&condition));
        let holds = |rule: &Rule| {
            rule.conditions.iter().filter(here).all(|condition| condition.holds(view))
        };
        let asking = policy.rules.iter().enumerate().filter(|(_, rule)| asks(&rule.rule));
        let (mut asked, mut held) = (0, Vec::new());
        for (index, rule) in asking {
            asked += 1;
            if holds(&rule.rule) {
                held.push(rule.label(index));
            }
        }
        if asked == 0 {
            continue;
        }
        let more = held.len().saturating_sub(LISTED_MAX);
        held.truncate(LISTED_MAX);
        let list = match (held.len(), more) {
            (0, _) => "none".to_owned(),
            (1, _) => format!("rule {}", held[0]),
            (_, 0) => format!("rules {}", held.join(", ")),
            _ => format!("rules {} and {more} more", held.join(", ")),
        };
        writeln!(text, "  {part} (of {asked}): {list}").expect("a string takes all");
    }
    match text.is_empty() {
        true => text,
        false => format!("\nWhat each part of it matches, of the rules that ask for it\n{text}"),
    }
}
