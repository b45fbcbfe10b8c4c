//! Ids of rules. One with a name keeps its id for ever; one without is known by its conditions, and keeps
//! its id while one of the last plans has it.
//!
//! An id is a place in tables, and which of the rules that have had the place it is of. So a place can be
//! given anew without asking who still knows the former rule: a request that waits or runs by that rule
//! no longer finds the place ([`ByRule`](super::ByRule)), and charges nobody else's.
//!
//! Bounds: [`RuleId::MAX`](Id::MAX) places, for the names that there ever were and the unnamed rules of
//! the plan that is built; with those of the [`KEPT_PLANS`] before it as far as there is room.

use super::id::{Id, exhausted};
use super::interned::Interned;
use crate::fault::Fault;
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU32;

/// Former plans whose unnamed rules keep their ids: the one in force, and the one before it, so that who
/// takes a change back finds again what was learned.
const KEPT_PLANS: u64 = 2;

/// A rule, by its name or by its conditions ([`RuleKey`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleId {
    place: u32,
    /// Which of the rules that have had the place, from 1.
    holder: NonZeroU32,
}

impl RuleId {
    /// The first rule that has a place.
    pub const fn at(place: u32) -> Self {
        RuleId { place, holder: NonZeroU32::MIN }
    }

    /// The place in tables by rule, which another rule may have had before, or have later.
    pub const fn index(self) -> usize {
        self.place as usize
    }

    /// The next rule that has the place.
    pub(super) fn successor(self) -> Self {
        // After so many no request is left that knows the first.
        RuleId { holder: self.holder.checked_add(1).unwrap_or(NonZeroU32::MIN), ..self }
    }
}

impl Id for RuleId {
    const KIND: &'static str = "rules";
    const MAX: usize = 1_048_576;

    fn at(index: usize) -> Self {
        RuleId::at(index as u32)
    }

    fn index(self) -> usize {
        RuleId::index(self)
    }
}

/// What a rule is known by from plan to plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleKey {
    /// Its name.
    Name(Box<str>),
    /// It has none: a hash of its conditions, and how many rules without a name and with the same
    /// conditions come before it in the policy.
    Conditions(u64, u32),
}

impl From<&str> for RuleKey {
    fn from(name: &str) -> Self {
        RuleKey::Name(name.into())
    }
}

impl From<String> for RuleKey {
    fn from(name: String) -> Self {
        RuleKey::Name(name.into())
    }
}

impl fmt::Display for RuleKey {
    /// Its name, or what no rule can be called.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleKey::Name(name) => f.write_str(name),
            RuleKey::Conditions(hash, before) => write!(f, "#{hash:016x}.{before}"),
        }
    }
}

/// What the rules of a policy are known by. A rule keeps its key when others are added, removed or
/// reordered.
#[derive(Clone, Debug, Default)]
pub struct RuleIdentities {
    seen: HashMap<u64, u32, FixedState>,
}

impl RuleIdentities {
    /// The key of the next rule.
    pub fn next(&mut self, name: Option<&str>, conditions: &impl Hash) -> RuleKey {
        if let Some(name) = name {
            return name.into();
        }
        let hash = FixedState::default().hash_one(conditions);
        let before = self.seen.entry(hash).or_default();
        *before += 1;
        RuleKey::Conditions(hash, *before - 1)
    }
}

/// The ids of all rules.
#[derive(Debug, Default)]
pub struct Rules {
    names: Interned<NameNumber>,
    /// By number of the name.
    named: Vec<RuleId>,
    places: RulePlaces,
}

/// How many rules were named before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NameNumber(u32);

impl Id for NameNumber {
    const KIND: &'static str = RuleId::KIND;
    const MAX: usize = RuleId::MAX;

    fn at(index: usize) -> Self {
        NameNumber(index as u32)
    }

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who has which place, but for the names.
#[derive(Clone, Debug, Default)]
struct RulePlaces {
    /// How many places there are.
    count: u32,
    /// The next holders of places that nobody has, the lowest place last.
    free: Vec<RuleId>,
    /// The ids of rules without a name, and the last plan that has each.
    unnamed: HashMap<(u64, u32), (RuleId, u64), FixedState>,
    /// How many plans were built.
    plans: u64,
}

/// The ids at a moment.
#[derive(Debug)]
pub(super) struct Mark {
    names: usize,
    places: RulePlaces,
}

impl Rules {
    /// The id of the rule of that name, if there ever was one.
    pub fn find(&self, name: &str) -> Option<RuleId> {
        self.names.find(name).map(|number| self.named[number.index()])
    }

    /// Begins another plan: unnamed rules that the last [`KEPT_PLANS`] do not have give up their places.
    pub(crate) fn begin_plan(&mut self) {
        self.places.plans += 1;
        self.places.forget(self.places.plans.saturating_sub(KEPT_PLANS));
    }

    /// The id of a rule of the plan that was begun.
    ///
    /// # Errors
    /// If it is new, and all places belong to names and to rules of this plan.
    pub(crate) fn intern(&mut self, key: &RuleKey) -> Result<RuleId, Fault> {
        match key {
            RuleKey::Name(name) => {
                if let Some(known) = self.find(name) {
                    return Ok(known);
                }
                let id = self.places.take(key)?;
                let _number = self.names.intern(name)?;
                self.named.push(id);
                Ok(id)
            }
            RuleKey::Conditions(hash, before) => self.places.of_unnamed(key, (*hash, *before)),
        }
    }

    /// The ids as they are.
    pub(super) fn mark(&self) -> Mark {
        Mark { names: self.names.len(), places: self.places.clone() }
    }

    /// The ids as they were.
    pub(super) fn restore(&mut self, mark: Mark) {
        self.names.truncate(mark.names);
        self.named.truncate(mark.names);
        self.places = mark.places;
    }
}

impl RulePlaces {
    fn of_unnamed(&mut self, key: &RuleKey, conditions: (u64, u32)) -> Result<RuleId, Fault> {
        let plan = self.plans;
        if let Some((id, last)) = self.unnamed.get_mut(&conditions) {
            *last = plan;
            return Ok(*id);
        }
        let id = self.take(key)?;
        self.unnamed.insert(conditions, (id, plan));
        Ok(id)
    }

    /// A place for a new rule; if there is none, one of a rule that this plan does not have, or not yet.
    fn take(&mut self, key: &RuleKey) -> Result<RuleId, Fault> {
        let is_full = self.count as usize == RuleId::MAX;
        if is_full && self.free.is_empty() {
            self.forget(self.plans);
        }
        match self.free.pop() {
            Some(id) => Ok(id),
            None if is_full => {
                let counted = "those of this policy and all that were named since the start";
                Err(match key {
                    RuleKey::Name(name) => exhausted::<RuleId>(format_args!("{name:?}"), counted),
                    RuleKey::Conditions(..) => {
                        exhausted::<RuleId>("a rule without a name", counted)
                    }
                })
            }
            None => {
                self.count += 1;
                Ok(RuleId::at(self.count - 1))
            }
        }
    }

    /// Takes the places of the unnamed rules that no plan has since the one of that number.
    fn forget(&mut self, since: u64) {
        let free = &mut self.free;
        self.unnamed.retain(|_, (id, last)| {
            let stays = *last >= since;
            if !stays {
                free.push(id.successor());
            }
            stays
        });
        free.sort_unstable_by_key(|id| Reverse(id.place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ids of the rules of another plan.
    fn plan(rules: &mut Rules, keys: impl IntoIterator<Item = RuleKey>) -> Vec<RuleId> {
        rules.begin_plan();
        keys.into_iter().map(|key| rules.intern(&key).expect("there is room")).collect()
    }

    fn unnamed(hashes: std::ops::Range<u64>) -> impl Iterator<Item = RuleKey> {
        hashes.map(|hash| RuleKey::Conditions(hash, 0))
    }

    #[test]
    fn a_rule_without_a_name_is_known_by_its_conditions() {
        let keys = |rules: &[(Option<&str>, &str)]| -> Vec<RuleKey> {
            let mut identities = RuleIdentities::default();
            rules.iter().map(|(name, conditions)| identities.next(*name, conditions)).collect()
        };
        let before = keys(&[(None, "x"), (None, "y"), (None, "x"), (Some("n"), "x")]);
        let after = keys(&[(Some("n"), "z"), (None, "x"), (None, "new"), (None, "x"), (None, "y")]);
        assert_eq!(before[3], "n".into());
        let moved = [&after[1], &after[4], &after[3], &after[0]];
        assert_eq!(before.iter().collect::<Vec<_>>(), moved);
        assert_ne!(before[0], before[2]);
    }

    #[test]
    fn an_unnamed_rule_has_its_id_until_two_plans_lack_it_and_a_named_one_for_ever() {
        let mut rules = Rules::default();
        let named = || ["n", "m"].into_iter().map(RuleKey::from);
        let first = plan(&mut rules, named().chain(unnamed(0..2)));
        assert_eq!(first, [0, 1, 2, 3].map(RuleId::at));
        assert_eq!(plan(&mut rules, unnamed(2..4)), [4, 5].map(RuleId::at));
        assert_eq!(plan(&mut rules, unnamed(0..2)), first[2..], "the change is taken back");
        assert_eq!(plan(&mut rules, unnamed(4..5)), [RuleId::at(6)]);
        let places = plan(&mut rules, unnamed(5..8));
        assert_eq!(places, [RuleId::at(4).successor(), RuleId::at(5).successor(), RuleId::at(7)]);
        assert_eq!(plan(&mut rules, named()), first[..2]);
        // A name takes a place that is free as well, and keeps it.
        let name = plan(&mut rules, ["o".into()]);
        assert_eq!(name, [first[2].successor()]);
        (0..9).for_each(|_| drop(plan(&mut rules, [])));
        assert_eq!(rules.find("o"), Some(name[0]));
        assert_eq!(plan(&mut rules, unnamed(0..1)), [first[3].successor()]);
    }

    #[test]
    fn a_plan_that_is_not_built_leaves_the_ids_as_they_were() {
        let mut rules = Rules::default();
        let first = plan(&mut rules, unnamed(0..3));
        for _ in 0..5 {
            let mark = rules.mark();
            plan(&mut rules, unnamed(10..20).chain(["n".into()]));
            rules.restore(mark);
        }
        assert_eq!(rules.find("n"), None);
        assert_eq!(plan(&mut rules, unnamed(0..3)), first);
        assert_eq!(plan(&mut rules, ["m".into()]), [RuleId::at(3)]);
    }

    #[test]
    fn at_the_bound_former_plans_make_room_and_names_do_not() {
        let max = RuleId::MAX as u64;
        let mut rules = Rules::default();
        plan(&mut rules, ["n".into()]);
        let all = plan(&mut rules, unnamed(0..max - 1));
        assert_eq!(all.last(), Some(&RuleId::at(max as u32 - 1)));
        // All are new, and the former ones have had every place but that of the name.
        let next = plan(&mut rules, unnamed(max..2 * max - 1));
        assert!(next.iter().zip(&all).all(|(id, former)| *id == former.successor()));
        let full = |rules: &mut Rules, key: RuleKey| rules.intern(&key).unwrap_err().to_string();
        let most =
            "a process has ids for 1048576 rules, counting those of this policy and all that were";
        assert!(full(&mut rules, "m".into()).starts_with(&format!("no room for \"m\": {most}")));
        let nameless = format!("no room for a rule without a name: {most}");
        assert!(full(&mut rules, RuleKey::Conditions(0, 0)).starts_with(&nameless));
        assert_eq!(rules.intern(&"n".into()), Ok(RuleId::at(0)));
    }
}
