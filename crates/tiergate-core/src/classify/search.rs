//! One request's way to the rules that decide about it: for each output the first that matches.
//!
//! Each output has its own [`RuleTree`] over the same facts, so that a request is looked at once,
//! whatever the number of outputs. Outputs that no rule sets have none and cost nothing; in
//! particular, rules that only give classes cost what they would cost if there were no other outputs.

use super::facts::{HeldFacts, NONE};
use super::rule::{Output, Rules};
use super::rule_tree::{Conditions, Lead, RuleTree};

const VERDICT: usize = 0;

/// The compiled rules of all outputs.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleTrees {
    /// By fact.
    facts: Vec<Fact>,
    /// What facts lead to beside their first lead, those of one fact side by side.
    more_leads: Vec<OtherLead>,
    /// By output; empty for those that no rule sets.
    by_output: [RuleTree; Output::COUNT],
    /// The outputs beside the verdict that some rule sets.
    others: Vec<Output>,
    /// What is known before anything is: rules without conditions. Outputs that no rule sets have 0
    /// here, so that nothing is looked at for their sake.
    start: Rules,
}

/// What one fact leads to. Of 10,000 facts a request finds a few, each where nobody looked lately: what
/// is asked of one lies together, in 16 bytes.
#[derive(Clone, Copy, Debug)]
struct Fact {
    /// The first lead, mostly the only one.
    lead: Lead,
    /// Where its part of `more_leads` begins.
    more: u32,
    more_len: u8,
    /// [`Output::index`] of the first lead.
    output: u8,
    /// Whether it has to be remembered: a rule asks for it beside another.
    remembered: bool,
}

#[derive(Clone, Copy, Debug)]
struct OtherLead {
    to: Lead,
    /// [`Output::index`].
    output: u8,
}

impl RuleTrees {
    /// Files the rules by what they set. `sets`: whether the rule sets the output.
    pub(super) fn new(
        rules: Vec<Conditions>,
        facts_len: usize,
        sets: impl Fn(u32, Output) -> bool,
    ) -> Self {
        let blank =
            Fact { lead: Lead::NOWHERE, more: 0, more_len: 0, output: 0, remembered: false };
        let mut trees = RuleTrees { facts: vec![blank; facts_len], ..RuleTrees::default() };
        let mut more = Vec::new();
        for output in Output::ALL {
            let setting = (0..).zip(&rules).filter(|(rule, _)| sets(*rule, output));
            let setting: Vec<_> =
                setting.map(|(rule, conditions)| (rule, conditions.clone())).collect();
            let is_verdict = output.index() == VERDICT;
            if setting.is_empty() && !is_verdict {
                continue;
            }
            let filed = RuleTree::file(setting);
            trees.start[output.index()] = filed.always;
            for fact in filed.tree.asked_beside() {
                trees.facts[fact as usize].remembered = true;
            }
            for (fact, lead) in filed.leads {
                let known = &mut trees.facts[fact as usize];
                known.remembered |= lead.node != NONE;
                let output = output.index() as u8;
                if known.lead == Lead::NOWHERE {
                    (known.lead, known.output) = (lead, output);
                } else {
                    known.more_len += 1;
                    more.push((fact, OtherLead { to: lead, output }));
                }
            }
            trees.by_output[output.index()] = filed.tree;
            if !is_verdict {
                trees.others.push(output);
            }
        }
        // Stable: a fact's leads stay in the order of outputs.
        more.sort_by_key(|(fact, _)| *fact);
        trees.more_leads = more.into_iter().map(|(_, lead)| lead).collect();
        let mut next = 0;
        for fact in &mut trees.facts {
            fact.more = next;
            next += u32::from(fact.more_len);
        }
        trees
    }

    /// The outputs other than the verdict that some rule sets.
    pub(super) fn others(&self) -> impl Iterator<Item = Output> + use<'_> {
        self.others.iter().copied()
    }

    /// Begins with a request of which nothing is known.
    pub(super) fn search<'a>(&'a self, facts: &'a mut HeldFacts) -> Search<'a> {
        facts.fit(self.facts.len());
        Search { trees: self, facts, best: self.start }
    }

    /// Where a fact leads to beside its first lead.
    #[inline]
    fn more_leads(&self, fact: &Fact) -> &[OtherLead] {
        match fact.more_len {
            // Nothing is looked at that may lie elsewhere.
            0 => &[],
            len => &self.more_leads[fact.more as usize..][..usize::from(len)],
        }
    }
}

/// One request's way to its rules.
pub(super) struct Search<'a> {
    trees: &'a RuleTrees,
    facts: &'a mut HeldFacts,
    /// The lowest rule known to match so far, or [`NONE`].
    best: Rules,
}

impl Search<'_> {
    /// Whether something may still be found by rules of which these are the first for each output.
    #[inline]
    pub(super) fn wants(&self, first: &Rules) -> bool {
        first[VERDICT] < self.best[VERDICT]
            || (!self.trees.others.is_empty()
                && first.iter().zip(&self.best).any(|(first, best)| first < best))
    }

    /// A fact holds. The same fact may be told several times.
    #[inline]
    pub(super) fn hold(&mut self, fact: u32) {
        let known = &self.trees.facts[fact as usize];
        let best = &mut self.best[usize::from(known.output)];
        *best = (*best).min(known.lead.certain);
        for lead in self.trees.more_leads(known) {
            let best = &mut self.best[usize::from(lead.output)];
            *best = (*best).min(lead.to.certain);
        }
        if known.remembered {
            self.facts.hold(fact);
        }
    }

    /// All facts have been told: for each output the first rule that matches, or [`NONE`]; for outputs
    /// that no rule sets, anything.
    #[inline]
    pub(super) fn finish(mut self) -> Rules {
        let trees = self.trees;
        let mut visit = |output: usize, lead: Lead| {
            if lead.node != NONE {
                let tree = &trees.by_output[output];
                tree.visit(lead.node, self.facts, &mut self.best[output]);
            }
        };
        for fact in self.facts.found() {
            let known = &trees.facts[*fact as usize];
            visit(usize::from(known.output), known.lead);
            for lead in trees.more_leads(known) {
                visit(usize::from(lead.output), lead.to);
            }
        }
        self.facts.clear();
        self.best
    }
}
