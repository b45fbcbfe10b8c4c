//! What is known of each rule, until its place passes to another.

use super::rules::RuleId;

/// A table by rule: what is known of each rule of the plan in force, and of former ones as long as no
/// other rule has their places. A rule finds what is its own, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByRule<T> {
    /// By [`RuleId::index`]: whose the entry is.
    entries: Vec<(RuleId, T)>,
}

impl<T> Default for ByRule<T> {
    fn default() -> Self {
        ByRule { entries: Vec::new() }
    }
}

impl<T: Default> ByRule<T> {
    /// Makes room for a plan's rules, so that no request has to. A rule that is new begins with nothing,
    /// whatever was known of the one that had its place. O(rules).
    pub(crate) fn make_room(&mut self, rules: &[RuleId]) {
        for &rule in rules {
            for place in self.entries.len()..=rule.index() {
                self.entries.push((RuleId::at(place as u32), T::default()));
            }
            let entry = &mut self.entries[rule.index()];
            if entry.0 != rule {
                *entry = (rule, T::default());
            }
        }
    }

    /// What is known of the rule; `None`: it is in no plan that was in force, or another has its place. O(1).
    pub fn get(&self, rule: RuleId) -> Option<&T> {
        self.entries.get(rule.index()).filter(|(of, _)| *of == rule).map(|(_, known)| known)
    }

    /// The same, to be told.
    pub(crate) fn get_mut(&mut self, rule: RuleId) -> Option<&mut T> {
        self.entries.get_mut(rule.index()).filter(|(of, _)| *of == rule).map(|(_, known)| known)
    }

    /// What is known of each rule.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries.iter().map(|(_, known)| known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_passes_to_another_rule_takes_nothing_along() {
        let [first, other] = [RuleId::at(1), RuleId::at(2)];
        let next = first.successor();
        let mut table = ByRule::<u32>::default();
        assert_eq!(table.get(first), None);
        table.make_room(&[other, first]);
        *table.get_mut(first).expect("just made") = 7;
        table.make_room(&[first]);
        assert_eq!((table.get(first), table.get(next)), (Some(&7), None));
        table.make_room(&[next]);
        assert_eq!((table.get(first), table.get(next)), (None, Some(&0)));
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.values().len(), 3);
    }
}
