//! The two policies of a file: the whole, and what is in force where parts of it are only observed.

use super::header_twice;
use super::in_force::InForce;
use super::meets;
use super::observed_parts::ObservedParts;
use super::place::Place;
use super::policy::{Policy, Root, meant};
use std::path::PathBuf;
use tiergate_core::names::Names;

/// The policy that is in force, with the whole where parts of it are observed; `None` after a fault.
pub(super) fn policy(
    raw: Root,
    place: &Place,
    file_name: &str,
    names: &mut Names,
) -> Option<Policy> {
    meets::check(&raw, place);
    header_twice::check(&raw);
    let parts = ObservedParts::of(&raw);
    if parts.is_empty() {
        let mut policy = meant(raw, None, place, names)?;
        policy.file = PathBuf::from(file_name);
        return Some(policy);
    }
    parts.check(&raw, place);
    let mut whole = meant(raw.clone(), None, place, names)?;
    whole.file = PathBuf::from(file_name);
    let InForce { root, rules } = parts.without(raw, place);
    let number = |index: usize| (index + 1, whole.plan.rules[index].clone());
    let numbered = rules.into_iter().map(number).collect();
    let mut policy = meant(root, Some(&numbered), place, names)?;
    // What rules ask for that are observed is known only if it is asked for in force.
    policy.wanted.names |= whole.wanted.names;
    policy.wanted.dscp |= whole.wanted.dscp;
    policy.is_all_observed = parts.all;
    policy.warnings = parts.warnings(&whole);
    policy.file.clone_from(&whole.file);
    policy.observed = Some(Box::new(whole));
    Some(policy)
}
