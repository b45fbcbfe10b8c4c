//! Makes times uneven, so that nothing periodic keeps step with them. Not random in any stronger sense: the same in each run.

/// A sequence (xorshift).
#[derive(Clone, Copy, Debug)]
pub(super) struct Uneven(u64);

impl Uneven {
    pub(super) const FIRST: Uneven = Uneven(0x9e37_79b9_7f4a_7c15);

    pub(super) fn go_on(&mut self) {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
    }

    /// From 0 to 1.
    pub(super) fn part(self) -> f64 {
        (self.0 >> 48) as f64 / 65_536.0
    }

    /// True one time in so many.
    pub(super) fn is_one_in(self, many: u64) -> bool {
        self.0.is_multiple_of(many)
    }
}
