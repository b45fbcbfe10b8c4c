//! The facts that hold for one request.
//!
//! A fact is one alternative of one condition ("the path begins with `/cart/`"), shared by all rules
//! that ask for it.

/// No rule, no fact, no node.
pub(super) const NONE: u32 = u32::MAX;

/// The facts that hold for one request. Kept between requests, so that classification allocates
/// nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct HeldFacts {
    /// One bit a fact; all clear between requests.
    holds: Vec<u64>,
    /// The bits that are set.
    found: Vec<u32>,
}

impl HeldFacts {
    /// Makes room for so many facts.
    #[inline]
    pub(super) fn fit(&mut self, facts_len: usize) {
        let words = facts_len.div_ceil(64);
        // Only after a reload, or when a request was left in the middle by a panic.
        if self.holds.len() != words || !self.found.is_empty() {
            self.found.clear();
            self.holds.clear();
            self.holds.resize(words, 0);
            self.found.reserve(words * 64);
        }
    }

    /// Notes that a fact holds; the same fact may be noted several times.
    #[inline]
    pub(super) fn hold(&mut self, fact: u32) {
        let word = &mut self.holds[fact as usize / 64];
        let bit = 1 << (fact % 64);
        if *word & bit == 0 {
            *word |= bit;
            self.found.push(fact);
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
    pub(super) fn clear(&mut self) {
        for fact in self.found.drain(..) {
            self.holds[fact as usize / 64] = 0;
        }
    }
}
