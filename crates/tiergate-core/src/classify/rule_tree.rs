//! From the facts that hold for a request to the first rule all of whose conditions hold.
//!
//! Every rule is filed under the alternatives of its rarest condition, so that a
//! request only ever looks at rules of which one condition is known to hold already. Where many rules
//! are filed under one fact, they are filed again by the next rarest, and so on.

use super::facts::{HeldFacts, NONE};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// More rules than this under one fact are filed again by another: about what a look-up costs.
const LEAVES_MAX: usize = 12;
/// How often rules are filed again, and how many alternatives a condition may have to file by: both
/// bound the size of the whole, because a rule is filed under each alternative.
const DEPTH_MAX: usize = 4;
const REFILED_ALTERNATIVES_MAX: usize = 4;

/// A rule's conditions, each a list of facts of which one must hold.
pub(super) type Conditions = Vec<Vec<u32>>;

/// The compiled rules that set one output.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleTree {
    nodes: Vec<Node>,
    /// Rules of all nodes' leaves and what remains to be checked.
    leaves: Vec<Leaf>,
    /// Facts to check, the last alternative of each condition marked by [`LAST`].
    checks: Vec<u32>,
}

/// What one fact leads to, of the rules that set one output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lead {
    /// The first rule that asks for nothing else, or [`NONE`].
    pub(super) certain: u32,
    /// The rules that ask for more, or [`NONE`].
    pub(super) node: u32,
}

impl Lead {
    /// Nowhere.
    pub(super) const NOWHERE: Lead = Lead { certain: NONE, node: NONE };
}

/// Rules, filed.
pub(super) struct FiledRules {
    /// The first rule without a condition, or [`NONE`].
    pub(super) always: u32,
    pub(super) tree: RuleTree,
    /// Where facts lead to, ascending by fact; those that are not here lead nowhere.
    pub(super) leads: Vec<(u32, Lead)>,
}

/// Rules of which a condition is known to hold.
#[derive(Clone, Debug)]
struct Node {
    /// The first rule in here.
    first: u32,
    /// The first rule that has no more conditions.
    certain: u32,
    /// Range of `leaves`, ascending by rule.
    leaves: (u32, u32),
    /// Nodes by a further fact.
    further: HashMap<u32, u32, FixedState>,
}

#[derive(Clone, Copy, Debug)]
struct Leaf {
    rule: u32,
    /// Range of `checks`.
    checks: (u32, u32),
}

/// Marks the last alternative of a condition.
const LAST: u32 = 1 << 31;

impl RuleTree {
    /// Files the rules, ascending.
    pub(super) fn file(mut rules: Vec<(u32, Conditions)>) -> FiledRules {
        let always = rules.iter().position(|(_, conditions)| conditions.is_empty());
        let always_rule = always.map_or(NONE, |place| rules[place].0);
        // Nothing behind a rule that always matches is ever reached.
        rules.truncate(always.unwrap_or(rules.len()));
        let mut tree = RuleTree::default();
        let (filed, rest) = file(rules, usize::MAX);
        assert!(rest.is_empty(), "every rule with a condition can be filed by it");
        let mut leads = Vec::with_capacity(filed.len());
        for (fact, rules) in filed {
            let node = tree.node(rules, 1);
            let certain = tree.nodes[node as usize].certain;
            let mut lead = Lead { certain, node };
            if tree.nodes[node as usize].first == certain && node + 1 == tree.nodes.len() as u32 {
                tree.nodes.pop();
                lead.node = NONE;
            }
            leads.push((fact, lead));
        }
        FiledRules { always: always_rule, tree, leads }
    }

    /// The facts that are asked for beside another, and hence have to be remembered; some several times.
    pub(super) fn asked_beside(&self) -> impl Iterator<Item = u32> + use<'_> {
        let further = self.nodes.iter().flat_map(|node| node.further.keys().copied());
        self.checks.iter().map(|check| check & !LAST).chain(further)
    }

    /// Makes a node of rules, ascending, with the conditions that are not known to hold.
    fn node(&mut self, mut rules: Vec<(u32, Conditions)>, depth: usize) -> u32 {
        let certain = rules.iter().position(|(_, conditions)| conditions.is_empty());
        let certain_rule = certain.map_or(NONE, |place| rules[place].0);
        // What comes behind a rule that matches anyway is never reached by way of this node.
        rules.truncate(certain.unwrap_or(rules.len()));
        let first = rules.first().map_or(certain_rule, |(rule, _)| *rule);
        let mut further = HashMap::with_hasher(FixedState::default());
        if rules.len() > LEAVES_MAX && depth < DEPTH_MAX {
            let (filed, rest) = file(rules, REFILED_ALTERNATIVES_MAX);
            rules = rest;
            for (fact, rules) in filed {
                further.insert(fact, self.node(rules, depth + 1));
            }
        }
        let leaves_start = self.leaves.len() as u32;
        for (rule, conditions) in rules {
            let checks_start = self.checks.len() as u32;
            for alternatives in &conditions {
                self.checks.extend_from_slice(alternatives);
                if let Some(last) = self.checks.last_mut() {
                    *last |= LAST;
                }
            }
            let checks = (checks_start, self.checks.len() as u32);
            self.leaves.push(Leaf { rule, checks });
        }
        self.nodes.push(Node {
            first,
            certain: certain_rule,
            leaves: (leaves_start, self.leaves.len() as u32),
            further,
        });
        self.nodes.len() as u32 - 1
    }

    /// Goes through the rules under a node. `best`: the lowest rule known to match.
    pub(super) fn visit(&self, node: u32, facts: &HeldFacts, best: &mut u32) {
        let node = &self.nodes[node as usize];
        if node.first >= *best {
            return;
        }
        *best = (*best).min(node.certain);
        for leaf in &self.leaves[node.leaves.0 as usize..node.leaves.1 as usize] {
            if leaf.rule >= *best {
                break;
            }
            if self.checks_hold(leaf.checks, facts) {
                *best = leaf.rule;
                break;
            }
        }
        // Whichever is fewer is gone through.
        if node.further.len() <= facts.found().len() {
            for (fact, next) in &node.further {
                if facts.holds(*fact) {
                    self.visit(*next, facts, best);
                }
            }
        } else {
            for fact in facts.found() {
                if let Some(next) = node.further.get(fact) {
                    self.visit(*next, facts, best);
                }
            }
        }
    }

    fn checks_hold(&self, (from, to): (u32, u32), facts: &HeldFacts) -> bool {
        let mut held = false;
        for check in &self.checks[from as usize..to as usize] {
            held |= facts.holds(check & !LAST);
            if check & LAST != 0 {
                if !held {
                    return false;
                }
                held = false;
            }
        }
        true
    }
}

/// Rules with the conditions that remain to be checked, by a fact that is known.
type Filed = Vec<(u32, Vec<(u32, Conditions)>)>;

/// Files each rule under every alternative of its rarest condition, which is taken from it; returns
/// by fact, ascending, and the rules that no condition with few enough alternatives files.
fn file(rules: Vec<(u32, Conditions)>, alternatives_max: usize) -> (Filed, Vec<(u32, Conditions)>) {
    let mut asked: HashMap<u32, usize, FixedState> = HashMap::default();
    for fact in rules.iter().flat_map(|(_, conditions)| conditions.iter().flatten()) {
        *asked.entry(*fact).or_default() += 1;
    }
    let mut filed: HashMap<u32, Vec<(u32, Conditions)>, FixedState> = HashMap::default();
    let mut rest = Vec::new();
    for (rule, mut conditions) in rules {
        let weight =
            |alternatives: &Vec<u32>| alternatives.iter().map(|fact| asked[fact]).sum::<usize>();
        let rarest = (0..conditions.len())
            .filter(|place| conditions[*place].len() <= alternatives_max)
            .min_by_key(|place| weight(&conditions[*place]));
        let Some(rarest) = rarest else {
            rest.push((rule, conditions));
            continue;
        };
        for fact in conditions.remove(rarest) {
            filed.entry(fact).or_default().push((rule, conditions.clone()));
        }
    }
    let mut filed: Filed = filed.into_iter().collect();
    filed.sort_unstable_by_key(|(fact, _)| *fact);
    (filed, rest)
}
