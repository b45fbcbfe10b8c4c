//! The shaper that keeps the background behind all else on an interface, also what other programs send: one class below what the link
//! carries, so that the queue is in the shaper and not behind it, and two classes within, the foreground's first.
//!
//! Source: measured with 0.98 of the link, bursts of a packet and 1 % for the background, which makes it slow and not dead where the
//! foreground wants everything ([ADR 41](../../../docs/adr/0041-priorities-on-the-wire.md)).

/// Rates of the tree, in bits a second, and its bursts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// All together.
    pub all: u64,
    /// What the foreground is sure of; it may have all.
    pub foreground: u64,
    /// What the background is sure of; it may have all that the foreground leaves.
    pub background: u64,
    /// Bytes that may leave at once.
    pub burst: u64,
}

/// Of a link's capacity, in hundredths.
const ALL: u64 = 98;
/// Of all, what the background is sure of, in hundredths.
const BACKGROUND: u64 = 1;
/// A packet of Ethernet; less, and the shaper never reaches its rate.
const BURST_MIN: u64 = 1600;
/// Of fast links, as much at a time as takes 100 µs: the system's timers are not more exact.
const BURSTS_A_SECOND: u64 = 10_000;

impl Tree {
    /// Of a link that carries so many bits a second: at least [`Tree::CAPACITY_MIN`].
    pub const fn of(capacity: u64) -> Self {
        // Not `capacity * 98 / 100`, which may not fit.
        let all = capacity / 100 * ALL + capacity % 100 * ALL / 100;
        let background = all / 100 * BACKGROUND;
        let of_time = all / 8 / BURSTS_A_SECOND;
        let burst = if of_time > BURST_MIN { of_time } else { BURST_MIN };
        Tree { all, foreground: all - background, background, burst }
    }

    /// The narrowest link that it is made for, in bits a second.
    pub const CAPACITY_MIN: u64 = 100_000;

    /// What the link carries by whose capacity it was made, within some bits.
    pub const fn capacity(&self) -> u64 {
        (self.all / ALL * 100).saturating_add(self.all % ALL * 100 / ALL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_hundred_megabits() {
        let tree = Tree::of(100_000_000);
        assert_eq!(
            tree,
            Tree { all: 98_000_000, foreground: 97_020_000, background: 980_000, burst: 1600 }
        );
        assert_eq!(tree.capacity(), 100_000_000);
        assert_eq!(Tree::of(1_000_000_000).burst, 12_250, "100 µs");
    }

    proptest! {
        #[test]
        fn both_classes_together_have_all(capacity in Tree::CAPACITY_MIN..=u64::MAX) {
            let tree = Tree::of(capacity);
            prop_assert_eq!(tree.foreground + tree.background, tree.all);
            prop_assert!(tree.background > 0 && tree.all < capacity);
            prop_assert!(tree.capacity().abs_diff(capacity) <= 2, "{} {}", tree.capacity(), capacity);
        }
    }
}
