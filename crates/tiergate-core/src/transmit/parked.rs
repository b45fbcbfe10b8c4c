//! An answer whose connection has no room: when to look again, and when to ask.

use crate::time::Moment;
use std::time::Duration;

/// The first look, and the longest time between two.
const FIRST: Duration = Duration::from_millis(1);
const LAST: Duration = Duration::from_millis(200);
/// A client waits for so small a part longer than it might.
const PART: u32 = 4;
/// While the peer has had no room for so long, it is asked now and then whether it has: it says so once, which may be lost, and the system asks by itself only
/// while it has something to send.
const ASKS: Duration = Duration::from_secs(2);

/// Since when an answer's connection has had no room. The system does not tell when one has room again of which nothing is unsent, so it is looked
/// again, the later the longer it has waited.
#[derive(Clone, Copy, Debug)]
pub struct Parked {
    since: Moment,
}

impl Parked {
    /// From now on.
    pub fn begin(now: Moment) -> Self {
        Parked { since: now }
    }

    /// After how long it is to be looked again.
    pub fn next_look(&self, now: Moment) -> Duration {
        (now.since(self.since) / PART).clamp(FIRST, LAST)
    }

    /// Whether the peer is to be asked if it has room.
    pub fn asks(&self, now: Moment) -> bool {
        now.since(self.since) >= ASKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_the_later_the_longer_it_has_waited() {
        let parked = Parked::begin(Moment::from_millis(1000));
        let looks = |ms: u64| parked.next_look(Moment::from_millis(1000 + ms)).as_millis();
        assert_eq!([0, 3, 40, 700, 800, 60_000].map(looks), [1, 1, 10, 175, 200, 200]);
        let asks = |ms: u64| parked.asks(Moment::from_millis(1000 + ms));
        assert_eq!([0, 1999, 2000].map(asks), [false, false, true]);
    }
}
