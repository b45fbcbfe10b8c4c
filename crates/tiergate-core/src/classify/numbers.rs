//! Numbers: which of many ranges contain one.

use super::facts::NONE;
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

/// Ranges of numbers or addresses, each with the number of the fact that it establishes.
///
/// A segment tree: the number line is cut at the ranges' ends, the pieces are the leaves of a binary
/// tree, and each range is filed at the few nodes that it just fills. A look-up finds the piece by its
/// stretch of the line ([`Stretches`]) and goes from there to the root, by the nodes that hold anything: O(what it
/// finds) where the ranges lie evenly, O(log ranges) more where they do not. A number outside all ranges
/// costs two comparisons. Memory: O(ranges × log ranges).
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers {
    stretches: Stretches,
    /// First number of each piece, ascending; the first piece begins at 0.
    starts: Vec<u128>,
    /// For each piece the innermost of the nodes around it that hold anything, or [`NONE`].
    innermost: Vec<u32>,
    /// The nodes that hold anything.
    nodes: Vec<Node>,
    facts: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Its part of `facts`.
    from: u32,
    to: u32,
    /// The next node around it that holds anything, or [`NONE`].
    outer: u32,
}

impl Numbers {
    /// A set of ranges: the first and the last number of each, and its fact.
    pub(super) fn new(mut ranges: Vec<(u128, u128, u32)>) -> Self {
        if ranges.is_empty() {
            return Numbers::default();
        }
        // Of ranges in one another, the inner one is found first.
        ranges.sort_unstable_by_key(|(first, last, _)| last - first);
        let mut starts = vec![0];
        for (first, last, _) in &ranges {
            starts.push(*first);
            starts.extend(last.checked_add(1));
        }
        starts.sort_unstable();
        starts.dedup();
        let pieces = starts.len();
        // Node 1 is the root, node n has children 2n and 2n + 1, and the leaves are the last ones.
        let mut at = vec![Vec::new(); 2 * pieces];
        for (first, last, fact) in &ranges {
            let piece = |number: &u128| starts.partition_point(|start| start <= number) - 1;
            let (mut from, mut to) = (pieces + piece(first), pieces + piece(last) + 1);
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
        let mut numbers = Numbers { stretches: Stretches::new(&starts), starts, ..Self::default() };
        // Around each node the innermost one that holds anything, itself included; parents come first.
        let mut around = vec![NONE; 2 * pieces];
        for (place, facts) in at.into_iter().enumerate().skip(1) {
            let outer = around[place / 2];
            around[place] = outer;
            if !facts.is_empty() {
                around[place] = numbers.nodes.len() as u32;
                let from = numbers.facts.len() as u32;
                numbers.facts.extend(facts);
                numbers.nodes.push(Node { from, to: numbers.facts.len() as u32, outer });
            }
        }
        numbers.innermost = around.split_off(pieces);
        numbers
    }

    /// Calls `emit` with the fact of every range that contains the number; of ranges in one another, the
    /// innermost first.
    #[inline(always)]
    pub(super) fn find(&self, number: u128, mut emit: impl FnMut(u32)) {
        // Without any range there is no piece.
        let Some(piece) = self.stretches.piece(number, &self.starts) else {
            return;
        };
        let mut node = self.innermost[piece];
        while node != NONE {
            let Node { from, to, outer } = self.nodes[node as usize];
            for fact in &self.facts[from as usize..to as usize] {
                emit(*fact);
            }
            node = outer;
        }
    }
}

/// The number line from the second piece's start to the last one's, in equal stretches, each with the
/// pieces that begin in it: about half a piece a stretch, so that a search for a piece mostly ends where
/// it begins.
#[derive(Clone, Debug, Default)]
struct Stretches {
    /// Where the first stretch begins.
    base: u128,
    /// Each is 2 to the power of this long.
    shift: u32,
    /// How many pieces begin before each stretch, and how many there are.
    before: Vec<u32>,
}

impl Stretches {
    /// `starts`: of the pieces, ascending, the first one 0.
    fn new(starts: &[u128]) -> Self {
        let (Some(base), Some(last)) = (starts.get(1), starts.last()) else {
            return Stretches::default();
        };
        let stretches_max = 2 * starts.len() as u128;
        let mut shift = 0;
        while (last - base) >> shift >= stretches_max {
            shift += 1;
        }
        let stretches = (last - base) >> shift;
        let begin = |stretch: u128| {
            starts.partition_point(|start| start < base || (start - base) >> shift < stretch)
        };
        let before = (0..=stretches).map(|stretch| begin(stretch) as u32);
        let before = before.chain([starts.len() as u32]).collect();
        Stretches { base: *base, shift, before }
    }

    /// The piece that the number lies in; `None` if there is none.
    #[inline]
    fn piece(&self, number: u128, starts: &[u128]) -> Option<usize> {
        let stretch = match number.checked_sub(self.base) {
            Some(distance) => distance >> self.shift,
            None => return Some(0),
        };
        let stretch = usize::try_from(stretch).unwrap_or(usize::MAX);
        let after = match self.before.get(stretch..stretch.saturating_add(2)) {
            Some(&[from, to]) => {
                let (from, to) = (from as usize, to as usize);
                from + starts[from..to].partition_point(|start| *start <= number)
            }
            // Behind the last start, or there is one piece or none.
            _ => starts.len(),
        };
        after.checked_sub(1)
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
            scale in 0u32..=58,
            far in prop::option::of(0u64..1000),
        ) {
            let mut spans: Vec<(Span, u32)> = ends
                .iter()
                .zip(0..)
                .map(|((one, other), fact)| {
                    let (first, last) = (one.min(other), one.max(other));
                    (Span { first: first << scale, last: last << scale }, fact)
                })
                .collect();
            if let Some((span, _)) = spans.last_mut() {
                span.last = u64::MAX;
            }
            // One range far from all others, so that all others lie in one stretch.
            if let Some(distance) = far {
                spans.push((Span::one(u64::MAX / 2 + distance), spans.len() as u32));
            }
            let ranges = spans.iter().map(|(span, fact)| (span.first.into(), span.last.into(), *fact));
            let compiled = Numbers::new(ranges.collect());
            let near = |number: u64| {
                let number = number << scale;
                [number.saturating_sub(1), number, number.saturating_add(1)]
            };
            for number in numbers.into_iter().flat_map(near).chain([u64::MAX, u64::MAX / 2]) {
                let mut found = Vec::new();
                compiled.find(number.into(), |fact| found.push(fact));
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
