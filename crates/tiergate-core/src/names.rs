//! Names and their ids: classes, sites, policers and rules are interned by name to ids that
//! never change meaning while the process lives.
//!
//! A plan orders what it names as it likes; the ids stay. So what is counted, learned and given out by
//! id (counters, costs, tokens, slots) survives every reload without translation, and a name that comes
//! back finds its own again.
//!
//! Bounds: [`Id::MAX`] names of each kind, ever. A plan that needs more cannot be built until the
//! process restarts, and interns nothing.

use crate::fault::Fault;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// A small number that stands for a name.
pub trait Id: Copy + Eq {
    /// What such names are of, in the plural: "classes".
    const KIND: &'static str;
    /// How many names of the kind may ever be interned.
    const MAX: usize;
    /// The id of the name that was interned after `index` others.
    fn at(index: usize) -> Self;
    /// How many names were interned before this one; the place in tables by id.
    fn index(self) -> usize;
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($number:ty), $kind:literal, $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $number);

        impl $name {
            /// The place in tables by id.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Id for $name {
            const KIND: &'static str = $kind;
            const MAX: usize = $max;

            fn at(index: usize) -> Self {
                $name(index as $number)
            }

            fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A class, by its name. Says nothing of its importance: that is its rank in a plan.
    ClassId(u16), "classes", 4096
);
id!(
    /// A site, by its name.
    SiteId(u16), "sites", 4096
);
id!(
    /// A policer, by its name.
    PolicerId(u16), "policers", 65_536
);
id!(
    /// A rule, by its name or by its conditions ([`RuleIdentities`]).
    RuleId(u32), "rules", 1_048_576
);
id!(
    /// A server of the origin, by its address.
    ServerId(u16), "servers", 65_535
);

/// The names of one kind.
#[derive(Clone, Debug, Default)]
pub struct Interned<I> {
    ids: HashMap<Box<str>, I, FixedState>,
}

impl<I: Id> Interned<I> {
    /// The id of the name, if it was interned.
    pub fn find(&self, name: &str) -> Option<I> {
        self.ids.get(name).copied()
    }

    /// The id of the name, which is new or known.
    ///
    /// # Errors
    /// If it is new and there are [`Id::MAX`] names.
    pub fn intern(&mut self, name: &str) -> Result<I, Fault> {
        if let Some(id) = self.find(name) {
            return Ok(id);
        }
        if self.ids.len() >= I::MAX {
            let message = "were named since the start; restart to use new names";
            return Err(Fault::new(format!("more than {} {} {message}", I::MAX, I::KIND)));
        }
        let id = I::at(self.ids.len());
        self.ids.insert(name.into(), id);
        Ok(id)
    }
}

/// All names of the process.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Classes.
    pub classes: Interned<ClassId>,
    /// Sites.
    pub sites: Interned<SiteId>,
    /// Policers.
    pub policers: Interned<PolicerId>,
    /// Rules.
    pub rules: Interned<RuleId>,
}

/// What the rules of a policy are interned by: a rule's name, or else a hash of its conditions and how many
/// rules with the same conditions come before it. So a rule keeps its id when others are added, removed or
/// reordered.
#[derive(Clone, Debug, Default)]
pub struct RuleIdentities {
    seen: HashMap<u64, u32, FixedState>,
}

impl RuleIdentities {
    /// The identity of the next rule.
    pub fn next(&mut self, name: Option<&str>, conditions: &impl Hash) -> Box<str> {
        if let Some(name) = name {
            return name.into();
        }
        let hash = FixedState::default().hash_one(conditions);
        let before = self.seen.entry(hash).or_default();
        *before += 1;
        // No name has a `#`.
        format!("#{hash:016x}.{before}").into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_never_changes_meaning_and_their_number_is_bounded() {
        let mut classes = Interned::<ClassId>::default();
        let id = |classes: &mut Interned<ClassId>, name: &str| classes.intern(name);
        assert_eq!(id(&mut classes, "a"), Ok(ClassId(0)));
        assert_eq!(id(&mut classes, "b"), Ok(ClassId(1)));
        assert_eq!(id(&mut classes, "a"), Ok(ClassId(0)));
        for number in 2..ClassId::MAX {
            assert_eq!(id(&mut classes, &number.to_string()), Ok(ClassId(number as u16)));
        }
        let full = id(&mut classes, "c").unwrap_err().to_string();
        assert!(full.starts_with("more than 4096 classes were named"), "{full}");
        assert_eq!(id(&mut classes, "b"), Ok(ClassId(1)));
    }

    #[test]
    fn a_rule_without_a_name_is_known_by_its_conditions() {
        let keys = |rules: &[(Option<&str>, &str)]| -> Vec<Box<str>> {
            let mut identities = RuleIdentities::default();
            rules.iter().map(|(name, conditions)| identities.next(*name, conditions)).collect()
        };
        let before = keys(&[(None, "x"), (None, "y"), (None, "x"), (Some("n"), "x")]);
        let after = keys(&[(Some("n"), "z"), (None, "x"), (None, "new"), (None, "x"), (None, "y")]);
        assert_eq!(&*before[3], "n");
        let moved = [&after[1], &after[4], &after[3], &after[0]];
        assert_eq!(before.iter().collect::<Vec<_>>(), moved);
        assert_ne!(before[0], before[2]);
    }
}
