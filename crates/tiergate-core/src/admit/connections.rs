//! Client connections at their bound: which idle one makes room for another, and of how many the requests of a
//! class may hold.
//!
//! A request's class is known when its head has come, so a connection is let in before that. Of the most
//! connections that there may be, an eighth is closed to the least important class, and a part of that eighth
//! to each class above but the first: they are left for connections whose class is not known yet, and for
//! more important classes. What holds a place there makes room as soon as a newcomer needs it, unless it brings
//! a request of a class that may stay.
//!
//! Source: trunk reservation, Kelly, "Loss Networks" (1991) §3: a call is carried only if more circuits than its class's
//! reserve are free. Which connection goes is ours. WebQoS (Bhatti and Friedrich 1999, §4.1) accepts at once for the same end: a full
//! listen queue keeps premium requests out whatever the server would do with them.

use crate::time::Moment;
use std::cmp::Reverse;
use std::time::Duration;

/// From so long on a connection is idle for long: longer than a client that asks again and again pauses, and so short
/// that others who come wait no longer than for a page.
pub const LONG: Duration = Duration::from_secs(1);

/// For so long a connection that has brought no request is spared for a client that holds no fewer: a round trip
/// on most networks, and a tenth of [`LONG`], so that a flood of empty ones makes room ten times a second.
pub const BRIEF: Duration = Duration::from_millis(100);

/// What part of all connections the least important class leaves to others: an eighth, rounded up.
const RESERVED_PART: usize = 8;

/// How important the requests of a connection are: the place of their class in its site, 0 the most important.
pub type Level = u8;

/// The most connections, and how many levels of importance there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Most client connections.
    pub max: usize,
    /// Levels, 1 or more; a level beyond counts as the last.
    pub levels: Level,
}

impl Bounds {
    /// How many connections may have brought requests, whatever their class, for one of this level to become
    /// another. At least one.
    pub fn known_max(&self, level: Level) -> usize {
        let last = usize::from(self.last());
        let level = usize::from(level.min(self.last()));
        let reserved = self.max.div_ceil(RESERVED_PART).min(self.max.saturating_sub(1));
        let kept = if last == 0 { 0 } else { (reserved * level).div_ceil(last) };
        self.max - kept
    }

    /// Whether a connection that brings its first request, of this level, may stay where `known` others have brought requests.
    pub fn room(&self, known: usize, level: Level) -> Room {
        if known < self.known_max(self.last()) {
            Room::Free
        } else if level == 0 || known < self.known_max(level) {
            Room::Kept
        } else {
            Room::None
        }
    }

    /// The least important level.
    pub fn last(&self) -> Level {
        self.levels.saturating_sub(1)
    }
}

/// What room there is for a connection that brings its first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// For one of any level.
    Free,
    /// What is kept for its level and those above: less important ones make room for those who come next, as far as they are
    /// idle.
    Kept,
    /// None, unless an idle one makes room.
    None,
}

/// A connection that could make room: it waits for a request, or for the rest of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idle<T> {
    /// The caller's name for it.
    pub place: T,
    /// Since when.
    pub since: Moment,
    /// Whether it has a request, of which the body is still to come: it is never idle for long.
    pub has_begun: bool,
    /// The level of its last request, or that its address alone is sure of; `None`: not known yet.
    pub level: Option<Level>,
    /// Connections of its client: all, less those that make room before it ([`rank_by_client`]).
    pub of_client: usize,
}

impl<T> Idle<T> {
    /// The level that counts: one whose class is not known may be of any, but no longer than [`LONG`].
    fn level_at(&self, now: Moment, last: Level) -> Level {
        match self.level {
            Some(level) => level.min(last),
            None if self.has_been(now, LONG) => last,
            None => 0,
        }
    }

    fn has_been(&self, now: Moment, long: Duration) -> bool {
        !self.has_begun && now.since(self.since) >= long
    }

    /// The order in which those of one level and client make room.
    fn turn(&self) -> Moment {
        if self.has_begun { self.since + LONG } else { self.since }
    }
}

/// For whom room is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomer<C> {
    /// Whatever it may be: the process has no descriptors left.
    Any,
    /// A connection that is about to be accepted.
    Connection {
        /// Its client.
        client: C,
        /// How many that client has.
        held: usize,
        /// The level that its requests have by its address alone, if that decides.
        level: Option<Level>,
    },
    /// A connection that has brought its first request of this level, and is one of those that are open.
    Request {
        /// Its client.
        client: C,
        /// How many that client has besides.
        held: usize,
        /// Of which level.
        level: Level,
        /// Whether there is room for it already, so that only less important ones make room for those who come next.
        has_room: bool,
    },
}

/// Sorts the idle connections of one client in the order in which they make room, and counts
/// [`Idle::of_client`]: `held` connections has the client in all.
pub fn rank_by_client<T>(idle: &mut [Idle<T>], held: usize, now: Moment, last: Level) {
    idle.sort_unstable_by_key(|it| (Reverse(it.level_at(now, last)), it.turn()));
    for (before, it) in idle.iter_mut().enumerate() {
        it.of_client = held - before;
    }
}

/// Leaves in `found` up to `count` of the idle connections of all clients (`client` says whose one is): those that make room
/// for the newcomer. One after the other the least important, of the client that has most left, idle longest.
///
/// O(connections).
pub fn choose<T, C: PartialEq + Copy>(
    found: &mut Vec<Idle<T>>,
    client: impl Fn(&T) -> C,
    newcomer: Newcomer<C>,
    count: usize,
    now: Moment,
    last: Level,
) {
    found.retain(|it| may_replace(it, client(&it.place), newcomer, now, last));
    if count < found.len() {
        let order =
            |it: &Idle<T>| (Reverse(it.level_at(now, last)), Reverse(it.of_client), it.turn());
        found.select_nth_unstable_by_key(count, order);
        found.truncate(count);
    }
}

/// Whether an idle connection makes room for the newcomer.
///
/// Among connections of one level a newcomer takes the place of its own client's, or of one of a client that has more even so. One of
/// a client with as many makes room only when it has long been idle: else two clients would close each other's connections in
/// turn, and neither be served.
fn may_replace<T, C: PartialEq>(
    idle: &Idle<T>,
    owner: C,
    newcomer: Newcomer<C>,
    now: Moment,
    last: Level,
) -> bool {
    let spared = if idle.level.is_none() { BRIEF } else { LONG };
    let among_equals = |client: C, held: usize| {
        client == owner
            || idle.of_client > held + 1
            || idle.of_client > held && idle.has_been(now, spared)
    };
    match newcomer {
        Newcomer::Any => true,
        Newcomer::Connection { client, held, level } => {
            let outranks = level.is_some_and(|level| match idle.level {
                Some(other) => other.min(last) > level,
                None => level < last && idle.has_been(now, BRIEF),
            });
            outranks || among_equals(client, held)
        }
        // Only such as have brought requests are counted where it needs room.
        Newcomer::Request { client, held, level, has_room } => idle.level.is_some_and(|other| {
            let other = other.min(last);
            other > level.min(last)
                || !has_room && other == level.min(last) && among_equals(client, held)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A connection: of a client, that holds so many, of a level, idle since so many milliseconds.
    fn idle(client: u8, level: Option<Level>, since: u64) -> Idle<(u8, u64)> {
        let (place, since) = ((client, since), Moment::from_millis(since));
        Idle { place, since, has_begun: false, level, of_client: 0 }
    }

    const NOW: Moment = Moment::from_millis(10_000);

    /// Which make room, by the moments since which they are idle. `last`: the least important level.
    fn chosen(
        mut all: Vec<Idle<(u8, u64)>>,
        newcomer: Newcomer<u8>,
        count: usize,
        last: Level,
    ) -> Vec<u64> {
        all.sort_by_key(|it| it.place.0);
        all.chunk_by_mut(|one, other| one.place.0 == other.place.0).for_each(|of_client| {
            rank_by_client(of_client, of_client.len(), NOW, last);
        });
        choose(&mut all, |place| place.0, newcomer, count, NOW, last);
        let mut since: Vec<u64> = all.iter().map(|it| it.place.1).collect();
        since.sort_unstable();
        since
    }

    fn connection(client: u8, held: usize, level: Option<Level>) -> Newcomer<u8> {
        Newcomer::Connection { client, held, level }
    }

    #[test]
    fn the_least_important_go_first_whoever_they_are_of() {
        let all = vec![
            idle(1, Some(0), 1),
            idle(1, Some(0), 2),
            idle(1, Some(0), 3),
            idle(2, Some(1), 4),
            idle(3, Some(2), 5),
            idle(4, Some(2), 6),
            // One that has brought nothing for long counts as the least, one that is new as the most important.
            idle(5, None, 7),
            idle(6, None, 9_990),
        ];
        let for_any = |count| chosen(all.clone(), Newcomer::Any, count, 2);
        assert_eq!(for_any(3), [5, 6, 7]);
        assert_eq!(for_any(4), [4, 5, 6, 7]);
        assert_eq!(for_any(5), [1, 4, 5, 6, 7], "of the client with most");
        assert_eq!(for_any(99).len(), 8);
    }

    #[test]
    fn a_newcomer_that_is_known_to_matter_needs_no_fairness() {
        // Of a client that has hundreds, against others with one connection each, idle for no time.
        let all = vec![idle(1, Some(1), 9_999), idle(2, Some(0), 9_998), idle(3, None, 9_997)];
        assert_eq!(chosen(all.clone(), connection(9, 500, Some(0)), 9, 1), [9_999]);
        assert_eq!(chosen(all.clone(), connection(9, 500, Some(1)), 9, 1), [0; 0]);
        assert_eq!(chosen(all, connection(9, 500, None), 9, 1), [0; 0]);
        let unknown = vec![idle(3, None, 9_900)];
        assert_eq!(chosen(unknown.clone(), connection(9, 500, Some(0)), 9, 1), [9_900]);
        assert_eq!(chosen(unknown, connection(9, 500, Some(1)), 9, 1), [0; 0]);
    }

    #[test]
    fn one_that_has_brought_nothing_is_spared_briefly_and_one_that_has_for_longer() {
        for (level, since, goes) in
            [(None, 9_901, 0), (None, 9_900, 1), (Some(0), 9_001, 0), (Some(0), 9_000, 1)]
        {
            let room = chosen(vec![idle(1, level, since)], connection(2, 0, None), 1, 0);
            assert_eq!(room.len(), goes, "{level:?} {since}");
        }
        // One with a body to come is never idle for long.
        let begun = Idle { has_begun: true, ..idle(1, Some(0), 1) };
        assert_eq!(chosen(vec![begun], connection(2, 0, None), 1, 0), [0; 0]);
        assert_eq!(chosen(vec![begun, begun], connection(2, 0, None), 1, 0), [1]);
    }

    #[test]
    fn a_request_takes_the_place_of_less_important_ones_and_of_its_own_level_only_where_it_must() {
        let all =
            vec![idle(1, Some(0), 1), idle(2, Some(1), 2), idle(3, Some(2), 3), idle(4, None, 4)];
        let of = |level, has_room| Newcomer::Request { client: 9, held: 0, level, has_room };
        assert_eq!(chosen(all.clone(), of(1, false), 9, 2), [2, 3]);
        assert_eq!(chosen(all.clone(), of(1, true), 9, 2), [3]);
        assert_eq!(chosen(all.clone(), of(2, false), 9, 2), [3]);
        assert_eq!(chosen(all, of(0, false), 9, 2), [1, 2, 3]);
    }

    proptest! {
        #[test]
        fn each_level_leaves_room_to_those_above(max in 1_usize..100_000, levels in 1_u8..=64) {
            let bounds = Bounds { max, levels };
            prop_assert_eq!(bounds.known_max(0), max);
            let each: Vec<usize> = (0..levels).map(|level| bounds.known_max(level)).collect();
            prop_assert!(each.is_sorted_by(|above, below| above >= below));
            prop_assert!(each.iter().all(|most| *most >= 1));
            for (level, most) in (0..levels).zip(&each) {
                let least = each[each.len() - 1];
                prop_assert_eq!(bounds.room(least - 1, level), Room::Free);
                prop_assert_eq!(bounds.room(*most, level) == Room::None, level > 0);
                prop_assert!(bounds.room(*most - 1, level) != Room::None);
            }
            // Fewer than before, by a reload.
            prop_assert!(bounds.room(2 * max, 0) != Room::None);
            prop_assert_eq!(bounds.known_max(255), each[each.len() - 1]);
            if levels > 1 && max > 1 {
                prop_assert!(each[1] < max, "a place is left for what is not known yet");
                let kept = max - each[each.len() - 1];
                prop_assert!(kept == max.div_ceil(8).min(max - 1));
            }
        }

        /// A model that knows nothing of order: whatever may make room, who goes is never more important than who stays.
        #[test]
        fn none_goes_that_is_more_important_than_one_that_stays(
            raw in prop::collection::vec((0_u8..5, prop::option::of(0_u8..4), 0_u64..10_000), 0..40),
            count in 1_usize..10,
            held in 0_usize..4,
            level in prop::option::of(0_u8..4),
        ) {
            let all: Vec<_> = raw.iter().enumerate()
                .map(|(at, (client, level, since))| idle(*client, *level, since / 40 * 40 + at as u64))
                .collect();
            for newcomer in [Newcomer::Any, connection(9, held, level)] {
                let every = chosen(all.clone(), newcomer, usize::MAX, 3);
                let first = chosen(all.clone(), newcomer, count, 3);
                prop_assert_eq!(first.len(), every.len().min(count));
                let level_of = |since: &u64| {
                    all.iter().find(|it| it.place.1 == *since).map(|it| it.level_at(NOW, 3))
                };
                let stay = every.iter().filter(|since| !first.contains(since)).map(level_of).max();
                let goes = first.iter().map(level_of).min();
                if let (Some(goes), Some(stays)) = (goes, stay) {
                    prop_assert!(goes >= stays, "{:?} goes and {:?} stays", goes, stays);
                }
                // Nobody who is known to be less important keeps one out whose address is known to matter.
                if let Newcomer::Connection { level: Some(level), .. } = newcomer {
                    let below = |it: &&Idle<_>| it.level.is_some_and(|other| other > level);
                    let below = all.iter().filter(below).count();
                    prop_assert!(every.len() >= below);
                }
            }
        }
    }
}
