//! Of an explanation: what else rules say of a request, where its score comes from, and what each part
//! of it matches.

use super::words;
use crate::config::meant::{Policy, PolicyRule};
use crate::config::rule;
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
        let mut setting = policy.rules.iter().filter(|rule| rule.rule.sets(output));
        if setting.clone().next().is_some() {
            let line = match setting.find(|rule| rule.rule.matches(view)) {
                Some(rule) => format!(
                    "{}: rule {} ({}:{}), {}",
                    words::says(&rule.rule, output, policy),
                    rule.label(),
                    rule.file.as_deref().unwrap_or(file),
                    rule.line,
                    words::conditions(&rule.rule, policy)
                ),
                None => format!("{}: no rule says", output.name()),
            };
            text += &format!("  {line}\n");
        }
    }
    if let Some(tables) = &policy.score {
        text += &score(tables, view, found);
    }
    titled("Beside the class", text)
}

/// The text under its title; empty if the text is.
pub(super) fn titled(title: &str, text: String) -> String {
    match text.is_empty() {
        true => text,
        false => format!("\n{title}\n{text}"),
    }
}

fn score(tables: &ScoreTables, view: &RequestView<'_>, found: &Match) -> String {
    let scored = tables.score(view);
    let entry = |what: &str, entry: Option<String>| match entry {
        Some(entry) => format!("the {what} is in {entry}"),
        None => format!("no entry has the {what}"),
    };
    let client = scored.client.1.map(|place| tables.clients[place as usize].0.to_string());
    let path = scored.path.1.map(|place| tables.paths[place as usize].0.to_string());
    let (client, path) = (entry("client", client), entry("path", path));
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
        let asking =
            policy.rules.iter().filter(|it| it.rule.conditions.iter().any(|one| here(&one)));
        let holds =
            |it: &&PolicyRule| it.rule.conditions.iter().filter(here).all(|one| one.holds(view));
        let asked = asking.clone().count();
        let held = asking.filter(holds).map(|rule| rule.label());
        let list = match &held.collect::<Vec<_>>()[..] {
            [] => "none".to_owned(),
            [one] => format!("rule {one}"),
            all => {
                let shown = &all[..all.len().min(LISTED_MAX)];
                let more = match all.len() - shown.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("rules {}{more}", shown.join(", "))
            }
        };
        text += &format!("  {part} (of {asked}): {list}\n");
    }
    titled("What each part of it matches, of the rules that ask for it", text)
}
