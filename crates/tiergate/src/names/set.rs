//! The addresses of one hash set: which stay, which go. Pure; all work is bounded by [`WAYS`].
//!
//! A look-up costs a client one packet, so a client with many addresses could wash everybody else out
//! of a cache that keeps what came last. Hence two parts, as in S3-FIFO (Yang et al., SOSP 2023) and
//! segmented LRU:
//!
//! ```text
//! filed ─▶ trial: first in, first out ──asked for again, has a name──▶ kept: CLOCK, at most KEPT_MAX
//!            ▲                                                         │
//!            └───────────────────── not used of late ◀─────────────────┘
//! ```
//!
//! What is new only ever displaces what is on trial, and an address without a name never leaves the
//! trial. So whoever wants to displace a name that is in use needs confirmed names himself, and two
//! requests and a look-up for each, which [`super::budget`] bounds by network.

use super::Name;
use std::net::Ipv6Addr;

/// Addresses of a set.
pub(super) const WAYS: usize = 8;

/// Addresses of a set that new ones do not displace.
const KEPT_MAX: usize = 6;

/// Seconds after which an address whose look-up was filed and never answered may be filed again: the
/// longest time in the queue and in the look-up itself, and then some.
const PENDING_MAX: u32 = 60;

/// A name is looked up again when so much of its time is left (1/8), so that whoever is busy never
/// goes without.
const REFRESH_SHARE: u32 = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Nothing is here.
    #[default]
    Empty,
    /// The look-up was filed; nothing is known.
    Pending,
    /// The look-up has ended.
    Known,
}

/// An address and what is known of it.
#[derive(Debug)]
struct Slot {
    /// IPv4 as IPv6.
    address: Ipv6Addr,
    /// `None`: it has none, as far as is known.
    name: Option<Name>,
    /// Second until which all this holds.
    until: u32,
    /// Second from which a use files the look-up again.
    refresh: u32,
    /// When it came, by the set's own count.
    since: u32,
    state: State,
    kept: bool,
    /// It was asked for since CLOCK last looked.
    used: bool,
}

impl Slot {
    const EMPTY: Slot = Slot {
        address: Ipv6Addr::UNSPECIFIED,
        name: None,
        until: 0,
        refresh: 0,
        since: 0,
        state: State::Empty,
        kept: false,
        used: false,
    };
}

/// What a set knows of an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Its name, if it has one that still holds.
    pub(super) name: Option<Name>,
    /// A look-up should be filed.
    pub(super) wanted: bool,
}

/// What the look-up of an address said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The confirmed name.
    pub(super) name: Option<Name>,
    /// Seconds that it holds, more than 0.
    pub(super) ttl: u32,
    /// Nothing was said: an earlier answer goes on to hold.
    pub(super) failed: bool,
}

/// Up to [`WAYS`] addresses.
#[derive(Debug)]
pub(super) struct Set {
    slots: [Slot; WAYS],
    /// Counts what came.
    count: u32,
}

impl Default for Set {
    fn default() -> Self {
        Set { slots: [Slot::EMPTY; WAYS], count: 0 }
    }
}

impl Set {
    fn find(&mut self, address: Ipv6Addr) -> Option<usize> {
        self.slots.iter().position(|slot| slot.address == address && slot.state != State::Empty)
    }

    /// What is known of an address at second `now`. Allocates nothing.
    pub(super) fn look(&mut self, address: Ipv6Addr, now: u32) -> Look {
        let Some(place) = self.find(address) else {
            return Look { name: None, wanted: true };
        };
        let slot = &mut self.slots[place];
        if now >= slot.until {
            return Look { name: None, wanted: true };
        }
        let Some(name) = slot.name.clone() else {
            return Look { name: None, wanted: false };
        };
        let wanted = now >= slot.refresh;
        slot.used = true;
        if !slot.kept {
            self.keep(place);
        }
        Look { name: Some(name), wanted }
    }

    /// Moves a slot from its trial to those that are kept; one that is used less makes room.
    fn keep(&mut self, place: usize) {
        let kept = self.slots.iter().filter(|slot| slot.kept).count();
        if kept >= KEPT_MAX {
            let oldest = |slots: &[Slot], used: bool| {
                let those = slots.iter().enumerate();
                let those = those.filter(|(_, slot)| slot.kept && slot.used == used);
                those.min_by_key(|(_, slot)| slot.since).map(|(place, _)| place)
            };
            let victim = oldest(&self.slots, false).or_else(|| {
                let victim = oldest(&self.slots, true);
                // All were used: each must be used again until the next time.
                self.slots.iter_mut().for_each(|slot| slot.used = false);
                victim
            });
            if let Some(victim) = victim {
                self.count += 1;
                let slot = &mut self.slots[victim];
                (slot.kept, slot.used, slot.since) = (false, false, self.count);
            }
        }
        self.slots[place].kept = true;
        self.slots[place].used = true;
    }

    /// The look-up of an address was filed. Says whether one more place is taken.
    pub(super) fn file(&mut self, address: Ipv6Addr, now: u32) -> bool {
        let Some(place) = self.find(address) else {
            return self.insert(
                address,
                now,
                Slot {
                    state: State::Pending,
                    until: now.saturating_add(PENDING_MAX),
                    ..Slot::EMPTY
                },
            );
        };
        let slot = &mut self.slots[place];
        if now < slot.until {
            // It is being refreshed, and not again before the answer should be there.
            slot.refresh = now.saturating_add(PENDING_MAX);
        } else {
            slot.name = None;
            slot.state = State::Pending;
            slot.until = now.saturating_add(PENDING_MAX);
        }
        false
    }

    /// The look-up of an address has ended. Says whether one more place is taken.
    pub(super) fn settle(&mut self, address: Ipv6Addr, said: Said, now: u32) -> bool {
        let until = now.saturating_add(said.ttl);
        let refresh = until - said.ttl / REFRESH_SHARE;
        let Some(place) = self.find(address) else {
            let known =
                Slot { name: said.name, state: State::Known, until, refresh, ..Slot::EMPTY };
            return self.insert(address, now, known);
        };
        let slot = &mut self.slots[place];
        if said.failed && slot.name.is_some() && now < slot.until {
            slot.refresh = until;
            return false;
        }
        if said.name.is_none() && slot.kept {
            self.count += 1;
            (slot.kept, slot.used, slot.since) = (false, false, self.count);
        }
        // The same name stays the same text.
        if slot.name != said.name {
            slot.name = said.name;
        }
        (slot.state, slot.until, slot.refresh) = (State::Known, until, refresh);
        false
    }

    /// Puts an address on trial, in the place of nothing, of what no longer holds, or of what has been
    /// on trial for longest.
    fn insert(&mut self, address: Ipv6Addr, now: u32, slot: Slot) -> bool {
        let worth = |slot: &Slot| match slot.state {
            State::Empty => (0, 0),
            _ if now >= slot.until => (1, slot.since),
            _ => (2 + u8::from(slot.kept), slot.since),
        };
        let victim = self.slots.iter_mut().min_by_key(|slot| worth(slot));
        let victim = victim.expect("a set has WAYS slots");
        debug_assert!(worth(victim).0 < 3, "at most KEPT_MAX are kept");
        let more = victim.state == State::Empty;
        self.count += 1;
        *victim = Slot { address, since: self.count, ..slot };
        more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u32) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(number) + (0x2001_0db8_u128 << 96))
    }

    fn name(text: &str, ttl: u32) -> Said {
        Said { name: Some(text.into()), ttl, failed: false }
    }

    const NOTHING: Said = Said { name: None, ttl: 100, failed: false };
    const FAILED: Said = Said { name: None, ttl: 10, failed: true };

    fn known(set: &mut Set, number: u32, now: u32) -> Option<Name> {
        set.look(address(number), now).name
    }

    #[test]
    fn an_address_is_filed_once_and_has_its_name_until_its_end() {
        let mut set = Set::default();
        assert_eq!(set.look(address(1), 0), Look { name: None, wanted: true });
        assert!(set.file(address(1), 0));
        assert_eq!(set.look(address(1), 1), Look { name: None, wanted: false });
        assert!(!set.settle(address(1), name("a.test", 80), 1));
        let a = Some(Name::from("a.test"));
        assert_eq!(set.look(address(1), 70), Look { name: a.clone(), wanted: false });
        assert_eq!(set.look(address(1), 71), Look { name: a.clone(), wanted: true });
        set.file(address(1), 71);
        assert_eq!(set.look(address(1), 72), Look { name: a, wanted: false });
        assert_eq!(set.look(address(1), 81), Look { name: None, wanted: true });
    }

    #[test]
    fn a_failed_look_up_takes_no_name_away_that_holds_and_gives_none() {
        let mut set = Set::default();
        set.settle(address(1), name("a.test", 80), 0);
        set.settle(address(1), FAILED, 75);
        assert!(known(&mut set, 1, 79).is_some());
        assert!(!set.look(address(1), 79).wanted, "not asked again at once");
        assert!(known(&mut set, 1, 80).is_none());
        set.settle(address(1), FAILED, 80);
        assert_eq!(set.look(address(1), 89), Look { name: None, wanted: false });
        assert!(set.look(address(1), 90).wanted);
        // An answer that there is none does take it away.
        set.settle(address(1), name("a.test", 80), 90);
        set.settle(address(1), NOTHING, 91);
        assert!(known(&mut set, 1, 92).is_none());
    }

    #[test]
    fn a_look_up_that_is_never_answered_is_filed_again() {
        let mut set = Set::default();
        set.file(address(1), 5);
        assert!(!set.look(address(1), 5 + PENDING_MAX - 1).wanted);
        assert!(set.look(address(1), 5 + PENDING_MAX).wanted);
    }

    #[test]
    fn addresses_used_once_displace_no_name_that_is_in_use() {
        let mut set = Set::default();
        for number in 0..KEPT_MAX as u32 {
            set.settle(address(number), name("useful.test", 1000), 0);
            assert!(known(&mut set, number, 1).is_some());
        }
        for number in 100..10_000 {
            set.file(address(number), 2);
            let said = if number % 2 == 0 { name("x.attacker.test", 1000) } else { NOTHING };
            set.settle(address(number), said, 2);
            // Asking twice helps only those that have names.
            if number % 2 == 1 {
                assert!(known(&mut set, number, 2).is_none());
            }
        }
        for number in 0..KEPT_MAX as u32 {
            assert!(known(&mut set, number, 3).is_some(), "{number} was displaced");
        }
    }

    #[test]
    fn of_those_kept_the_one_that_is_not_used_goes() {
        let mut set = Set::default();
        for number in 0..KEPT_MAX as u32 {
            set.settle(address(number), name("a.test", 1000), 0);
            known(&mut set, number, 1);
        }
        // All are used: the oldest gives way, and all must be used again.
        set.settle(address(50), name("b.test", 1000), 2);
        known(&mut set, 50, 2);
        for number in (1..KEPT_MAX as u32).filter(|number| *number != 3) {
            known(&mut set, number, 3);
        }
        set.settle(address(51), name("c.test", 1000), 4);
        known(&mut set, 51, 4);
        for number in 100..120 {
            set.settle(address(number), NOTHING, 5);
        }
        let left: Vec<u32> =
            (0..KEPT_MAX as u32).filter(|number| known(&mut set, *number, 6).is_some()).collect();
        assert_eq!(left, [1, 2, 4, 5]);
        assert!(known(&mut set, 50, 6).is_some() && known(&mut set, 51, 6).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Against a table that forgets nothing: what a set says is what was last said and holds.
        #[test]
        fn it_never_says_what_is_not_so(
            steps in prop::collection::vec((0u32..20, 0u8..5, 0u32..40), 1..300)
        ) {
            let mut set = Set::default();
            let mut all: std::collections::HashMap<u32, (Option<Name>, u32)> = Default::default();
            let (mut now, mut places) = (0, 0);
            for (number, what, wait) in steps {
                match what {
                    0 => now += wait,
                    1 => places += usize::from(set.file(address(number), now)),
                    2 => {
                        let text = format!("{now}.test");
                        places += usize::from(set.settle(address(number), name(&text, 50), now));
                        all.insert(number, (Some(text.as_str().into()), now + 50));
                    }
                    3 => {
                        places += usize::from(set.settle(address(number), NOTHING, now));
                        all.insert(number, (None, now + 100));
                    }
                    _ => {
                        if let Some(name) = known(&mut set, number, now) {
                            let (last, until) = all[&number].clone();
                            prop_assert_eq!(Some(name), last);
                            prop_assert!(now < until);
                        }
                    }
                }
                let used: Vec<_> =
                    set.slots.iter().filter(|slot| slot.state != State::Empty).collect();
                prop_assert_eq!(used.len(), places);
                let addresses: std::collections::HashSet<_> =
                    used.iter().map(|slot| slot.address).collect();
                prop_assert_eq!(addresses.len(), places);
                prop_assert!(used.iter().filter(|slot| slot.kept).count() <= KEPT_MAX);
                prop_assert!(used.iter().all(|slot| !slot.kept || slot.name.is_some()
                    || slot.state == State::Pending));
            }
        }
    }
}
