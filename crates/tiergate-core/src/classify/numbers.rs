//! Numbers: which of many ranges contain one.

use std::fmt;

/// A range of numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// The least.
    pub first: u64,
    /// The greatest.
    pub last: u64,
}

impl Span {
    /// One number alone.
    pub fn one(number: u64) -> Self {
        Span { first: number, last: number }
    }

    /// Whether the number lies in it.
    pub fn contains(self, number: u64) -> bool {
        self.first <= number && number <= self.last
    }

    /// Whether all of `other` lies in it.
    pub fn covers(self, other: Span) -> bool {
        self.first <= other.first && other.last <= self.last
    }
}

impl fmt::Display for Span {
    /// `7`, `0..2`, `1024..` where it has no end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Span { first, last } if first == last => write!(f, "{first}"),
            Span { first, last: u64::MAX } => write!(f, "{first}.."),
            Span { first, last } => write!(f, "{first}..{last}"),
        }
    }
}

/// Ranges, each with the number of the fact that it establishes.
///
/// A segment tree: the number line is cut at the ranges' ends, the pieces are the leaves of a binary
/// tree, and each range is filed at the few nodes that it just fills. A look-up is a binary search and
/// a walk from a leaf to the root: O(log ranges), and what it finds. Memory: O(ranges × log ranges).
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    /// First number of each piece, ascending; the first piece begins at 0.
    starts: Vec<u64>,
    /// For each node its part of `facts`; node 1 is the root, node n has children 2n and 2n + 1, and
    /// the leaves are the last `starts.len()` nodes.
    nodes: Vec<(u32, u32)>,
    facts: Vec<u32>,
}

impl Numbers {
    /// A set of ranges.
    pub(super) fn new(spans: &[(Span, u32)]) -> Self {
        if spans.is_empty() {
            return Numbers::default();
        }
        let mut starts = vec![0];
        for (span, _) in spans {
            starts.push(span.first);
            starts.extend(span.last.checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        let pieces = starts.len();
        let mut at = vec![Vec::new(); 2 * pieces];
        for (span, fact) in spans {
            let piece = |number: u64| starts.partition_point(|start| *start <= number) - 1;
            let (mut from, mut to) = (pieces + piece(span.first), pieces + piece(span.last) + 1);
            while from < to {
                if from % 2 == 1 {
                    at[from].push(*fact);
                    from += 1;
                }
                if to % 2 == 1 {
                    to -= 1;
                    at[to].push(*fact);
                }
                (from, to) = (from / 2, to / 2);
            }
        }
        let mut numbers =
            Numbers { starts, nodes: Vec::with_capacity(at.len()), facts: Vec::new() };
        for facts in at {
            let from = numbers.facts.len() as u32;
            numbers.facts.extend(facts);
            numbers.nodes.push((from, numbers.facts.len() as u32));
        }
        numbers
    }

    /// Calls `emit` with the fact of every range that contains the number.
    #[inline]
    pub(super) fn find(&self, number: u64, mut emit: impl FnMut(u32)) {
        let after = self.starts.partition_point(|start| *start <= number);
        // Without any range there is no piece.
        let Some(piece) = after.checked_sub(1) else {
            return;
        };
        let mut node = self.starts.len() + piece;
        while node > 0 {
            let (from, to) = self.nodes[node];
            for fact in &self.facts[from as usize..to as usize] {
                emit(*fact);
            }
            node /= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_every_range_around_a_number(
            ends in prop::collection::vec((0u64..40, 0u64..40), 0..30),
            numbers in prop::collection::vec(0u64..45, 20),
        ) {
            let mut spans: Vec<(Span, u32)> = ends
                .iter()
                .zip(0..)
                .map(|((one, other), fact)| {
                    (Span { first: *one.min(other), last: *one.max(other) }, fact)
                })
                .collect();
            if let Some((span, _)) = spans.last_mut() {
                span.last = u64::MAX;
            }
            let compiled = Numbers::new(&spans);
            for number in numbers.into_iter().chain([u64::MAX]) {
                let mut found = Vec::new();
                compiled.find(number, |fact| found.push(fact));
                found.sort_unstable();
                let expected: Vec<u32> = spans
                    .iter()
                    .filter(|(span, _)| span.first <= number && number <= span.last)
                    .map(|(_, fact)| *fact)
                    .collect();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
