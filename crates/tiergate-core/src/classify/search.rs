//! One request's way to the rules that decide about it: for each output the first that matches.
//!
//! Each output has its own [`Decision`] over the same facts, so that a request is looked at once,
//! whatever the number of outputs. Outputs that no rule sets have none and cost nothing; in
//! particular, rules that only give classes cost what they would cost if there were no other outputs.

use super::decision::{Conditions, Decision, NONE};
use super::output::Output;

/// For each output a rule, or [`NONE`].
pub(super) type Rules = [u32; Output::LEN];

const VERDICT: usize = 0;

/// The compiled rules of all outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct Decisions {
    verdict: Decision,
    /// Of the other outputs that some rule sets.
    others: Vec<(Output, Decision)>,
    /// What is known before anything is: rules without conditions. Outputs that no rule sets have 0
    /// here, so that nothing is looked at for their sake.
    start: Rules,
}

impl Decisions {
    /// Files the rules by what they set. `sets`: whether the rule sets the output.
    pub(super) fn new(
        rules: Vec<Conditions>,
        facts_len: usize,
        sets: impl Fn(u32, Output) -> bool,
    ) -> Self {
        let of = |output: Output| {
            let rules = (0..).zip(&rules).filter(|(rule, _)| sets(*rule, output));
            rules.map(|(rule, conditions)| (rule, conditions.clone())).collect::<Vec<_>>()
        };
        let mut verdict = Decision::new(of(Output::Verdict), facts_len);
        let mut start = [0; Output::LEN];
        start[VERDICT] = verdict.always;
        let mut others = Vec::new();
        for output in Output::ALL.into_iter().skip(1) {
            let rules = of(output);
            if rules.is_empty() {
                continue;
            }
            for fact in rules.iter().flat_map(|(_, conditions)| conditions.iter().flatten()) {
                let fact = &mut verdict.facts[*fact as usize];
                (fact.shared, fact.combined) = (true, true);
            }
            let decision = Decision::new(rules, facts_len);
            start[output.index()] = decision.always;
            others.push((output, decision));
        }
        Decisions { verdict, others, start }
    }

    /// The outputs other than the verdict that some rule sets.
    pub(super) fn others(&self) -> impl Iterator<Item = Output> + use<'_> {
        self.others.iter().map(|(output, _)| *output)
    }

    /// Begins with a request of which nothing is known.
    pub(super) fn search<'a>(&'a self, facts: &'a mut Held) -> Search<'a> {
        facts.fit(self.verdict.facts.len());
        Search { decisions: self, facts, best: self.start }
    }
}

/// The facts that hold for one request. Kept between requests, so that classification allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// One bit a fact; all clear between requests.
    holds: Vec<u64>,
    /// The bits that are set.
    found: Vec<u32>,
}

impl Held {
    /// Makes room for so many facts.
    fn fit(&mut self, facts_len: usize) {
        let words = facts_len.div_ceil(64);
        // Only after a reload, or when a request was left in the middle by a panic.
        if self.holds.len() != words || !self.found.is_empty() {
            self.found.clear();
            self.holds.clear();
            self.holds.resize(words, 0);
            self.found.reserve(words * 64);
        }
    }

    #[inline]
    pub(super) fn holds(&self, fact: u32) -> bool {
        self.holds[fact as usize / 64] & 1 << (fact % 64) != 0
    }

    /// Those that hold, in the order in which they were found.
    #[inline]
    pub(super) fn found(&self) -> &[u32] {
        &self.found
    }

    /// Clears what was set by the last request. O(what was set).
    fn clear(&mut self) {
        for fact in self.found.drain(..) {
            self.holds[fact as usize / 64] = 0;
        }
    }
}

/// One request's way to its rules.
pub(super) struct Search<'a> {
    decisions: &'a Decisions,
    facts: &'a mut Held,
    /// The lowest rule known to match so far, or [`NONE`].
    best: Rules,
}

impl Search<'_> {
    /// Whether something may still be found by rules of which these are the first for each output.
    #[inline]
    pub(super) fn wants(&self, first: &Rules) -> bool {
        first[VERDICT] < self.best[VERDICT]
            || (!self.decisions.others.is_empty()
                && first.iter().zip(&self.best).any(|(first, best)| first < best))
    }

    /// A fact holds. The same fact may be told several times.
    #[inline]
    pub(super) fn hold(&mut self, fact: u32) {
        let leads = &self.decisions.verdict.facts[fact as usize];
        self.best[VERDICT] = self.best[VERDICT].min(leads.certain);
        if leads.combined {
            let word = &mut self.facts.holds[fact as usize / 64];
            let bit = 1 << (fact % 64);
            if *word & bit == 0 {
                *word |= bit;
                self.facts.found.push(fact);
                if leads.shared {
                    self.hold_for_others(fact);
                }
            }
        }
    }

    fn hold_for_others(&mut self, fact: u32) {
        for (output, decision) in &self.decisions.others {
            let best = &mut self.best[output.index()];
            *best = (*best).min(decision.facts[fact as usize].certain);
        }
    }

    /// All facts have been told: for each output the first rule that matches, or [`NONE`]; for outputs
    /// that no rule sets, anything.
    #[inline]
    pub(super) fn finish(mut self) -> Rules {
        let verdict = &self.decisions.verdict;
        for fact in &self.facts.found {
            let node = verdict.facts[*fact as usize].node;
            if node != NONE {
                verdict.visit(node, self.facts, &mut self.best[VERDICT]);
            }
        }
        for (output, decision) in &self.decisions.others {
            for fact in &self.facts.found {
                let node = decision.facts[*fact as usize].node;
                if node != NONE {
                    decision.visit(node, self.facts, &mut self.best[output.index()]);
                }
            }
        }
        self.facts.clear();
        self.best
    }
}
