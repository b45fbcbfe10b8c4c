//! From the facts that hold for a request to the first rule all of whose conditions hold.
//!
//! A fact is one alternative of one condition ("the path begins with `/cart/`"), shared by all rules
//! that ask for it. Every rule is filed under the alternatives of its rarest condition, so that a
//! request only ever looks at rules of which one condition is known to hold already. Where many rules
//! are filed under one fact, they are filed again by the next rarest, and so on.

use foldhash::fast::FixedState;
use std::collections::HashMap;

/// No rule, or no node.
pub(super) const NONE: u32 = u32::MAX;

/// More rules than this under one fact are filed again by another: about what a look-up costs.
const LEAVES_MAX: usize = 12;
/// How often rules are filed again, and how many alternatives a condition may have to file by: both
/// bound the size of the whole, because a rule is filed under each alternative.
const DEPTH_MAX: usize = 4;
const REFILED_ALTERNATIVES_MAX: usize = 4;

/// A rule's conditions, each a list of facts of which one must hold.
pub(super) type Conditions = Vec<Vec<u32>>;

/// The compiled rules.
#[derive(Clone, Debug, Default)]
pub(super) struct Decision {
    /// The first rule without a condition, or [`NONE`].
    always: u32,
    facts: Vec<Fact>,
    nodes: Vec<Node>,
    /// Rules of all nodes' leaves and what remains to be checked.
    leaves: Vec<Leaf>,
    /// Facts to check, the last alternative of each condition marked by [`LAST`].
    checks: Vec<u32>,
}

/// What one fact leads to.
#[derive(Clone, Copy, Debug)]
struct Fact {
    /// The first rule that asks for nothing else.
    certain: u32,
    /// The rules that ask for more.
    node: u32,
    /// Whether any rule asks for this fact besides another.
    combined: bool,
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

/// What holds for one request. Kept between requests, so that classification allocates nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// One bit a fact; all clear between requests.
    holds: Vec<u64>,
    /// The bits that are set.
    found: Vec<u32>,
}

impl Facts {
    fn holds(&self, fact: u32) -> bool {
        self.holds[fact as usize / 64] & 1 << (fact % 64) != 0
    }

    /// Clears what was set by the last request. O(what was set).
    fn clear(&mut self) {
        for fact in self.found.drain(..) {
            self.holds[fact as usize / 64] = 0;
        }
    }
}

/// One request's way to its rule.
pub(super) struct Search<'a> {
    decision: &'a Decision,
    facts: &'a mut Facts,
    /// The lowest rule known to match so far, or [`NONE`].
    pub(super) best: u32,
}

impl Decision {
    /// Files the rules. `facts_len`: how many facts there are.
    pub(super) fn new(rules: Vec<Conditions>, facts_len: usize) -> Self {
        let always = rules.iter().position(Vec::is_empty);
        // Nothing behind a rule that always matches is ever reached.
        let reached = always.unwrap_or(rules.len());
        let blank = Fact { certain: NONE, node: NONE, combined: false };
        let mut decision = Decision {
            always: always.map_or(NONE, |rule| rule as u32),
            facts: vec![blank; facts_len],
            ..Decision::default()
        };
        let rules: Vec<(u32, Conditions)> = (0..).zip(rules).take(reached).collect();
        for (_, conditions) in rules.iter().filter(|(_, conditions)| conditions.len() > 1) {
            for fact in conditions.iter().flatten() {
                decision.facts[*fact as usize].combined = true;
            }
        }
        let (filed, rest) = file(rules, usize::MAX);
        assert!(rest.is_empty(), "every rule with a condition can be filed by it");
        for (fact, rules) in filed {
            let node = decision.node(rules, 1);
            let certain = decision.nodes[node as usize].certain;
            decision.facts[fact as usize].certain = certain;
            if decision.nodes[node as usize].first == certain
                && node + 1 == decision.nodes.len() as u32
            {
                decision.nodes.pop();
            } else {
                decision.facts[fact as usize].node = node;
            }
        }
        decision
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

    /// Begins with a request of which nothing is known.
    pub(super) fn search<'a>(&'a self, facts: &'a mut Facts) -> Search<'a> {
        let words = self.facts.len().div_ceil(64);
        // Only after a reload, or when a request was left in the middle by a panic.
        if facts.holds.len() != words || !facts.found.is_empty() {
            facts.found.clear();
            facts.holds.clear();
            facts.holds.resize(words, 0);
            facts.found.reserve(words * 64);
        }
        Search { decision: self, facts, best: self.always }
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

impl Search<'_> {
    /// A fact holds. The same fact may be told several times.
    #[inline]
    pub(super) fn hold(&mut self, fact: u32) {
        let leads = &self.decision.facts[fact as usize];
        self.best = self.best.min(leads.certain);
        if leads.combined {
            let word = &mut self.facts.holds[fact as usize / 64];
            let bit = 1 << (fact % 64);
            if *word & bit == 0 {
                *word |= bit;
                self.facts.found.push(fact);
            }
        }
    }

    /// All facts have been told: the first rule that matches, or [`NONE`].
    #[inline]
    pub(super) fn finish(mut self) -> u32 {
        for index in 0..self.facts.found.len() {
            let node = self.decision.facts[self.facts.found[index] as usize].node;
            if node != NONE {
                self.visit(node);
            }
        }
        self.facts.clear();
        self.best
    }

    fn visit(&mut self, node: u32) {
        let node = &self.decision.nodes[node as usize];
        if node.first >= self.best {
            return;
        }
        self.best = self.best.min(node.certain);
        for leaf in &self.decision.leaves[node.leaves.0 as usize..node.leaves.1 as usize] {
            if leaf.rule >= self.best {
                break;
            }
            if self.checks_hold(leaf.checks) {
                self.best = leaf.rule;
                break;
            }
        }
        // Whichever is fewer is gone through.
        if node.further.len() <= self.facts.found.len() {
            for (fact, next) in &node.further {
                if self.facts.holds(*fact) {
                    self.visit(*next);
                }
            }
        } else {
            for index in 0..self.facts.found.len() {
                if let Some(next) = node.further.get(&self.facts.found[index]) {
                    self.visit(*next);
                }
            }
        }
    }

    fn checks_hold(&self, (from, to): (u32, u32)) -> bool {
        let mut held = false;
        for check in &self.decision.checks[from as usize..to as usize] {
            held |= self.facts.holds(check & !LAST);
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
