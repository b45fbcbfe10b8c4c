//! The entries of one hash set: which stay, which are evicted. Pure; all work is bounded by [`WAYS`].
//!
//! A lookup costs a client one packet, so a client with many addresses could evict every name from a
//! plain LRU cache. Hence two segments, as in S3-FIFO (Yang et al., SOSP 2023) and segmented LRU:
//!
//! ```text
//! new ─▶ probation: FIFO ──requested again, has a name──▶ protected: CLOCK, at most PROTECTED_MAX
//!            ▲                                                      │
//!            └───────────────────── not used lately ◀───────────────┘
//! ```
//!
//! A new entry only ever evicts one on probation, and an address without a name stays on probation. To
//! evict a name in use, an attacker needs confirmed names of its own, with two requests and a lookup
//! each, which [`super::budget`] bounds by network.

use arrayvec::ArrayVec;
use std::net::Ipv6Addr;
use std::sync::Arc;

/// A confirmed name: lower case, without a final dot.
pub type Name = Arc<str>;

/// Entries of a set.
pub(super) const WAYS: usize = 8;

/// Entries of a set that new ones cannot evict.
const PROTECTED_MAX: usize = 6;

/// Seconds after which an unanswered lookup may be queued again: more than the longest time in the queue
/// and in the lookup itself.
const PENDING_MAX: u32 = 60;

/// A name is refreshed when this part of its lifetime is left (1/8), so that a busy client is never
/// without its name.
const REFRESH_SHARE: u32 = 8;

/// An address and its name.
#[derive(Debug)]
struct Slot {
    /// IPv4 as IPv6.
    address: Ipv6Addr,
    /// `None`: none is known, or its first lookup is queued or running.
    name: Option<Name>,
    /// Second at which the entry expires.
    until: u32,
    /// Second from which a use starts another lookup.
    refresh: u32,
    /// When it entered its segment, by the set's own count.
    since: u32,
    protected: bool,
    /// CLOCK's reference bit.
    used: bool,
}

/// What the cache has for an address.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cached {
    /// Its name, unless expired.
    pub(super) name: Option<Name>,
    /// A lookup is due.
    pub(super) due: bool,
}

/// The outcome of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The confirmed name.
    pub(super) name: Option<Name>,
    /// Lifetime in seconds, more than 0.
    pub(super) ttl: u32,
    /// No server answered: an earlier answer stays valid.
    pub(super) failed: bool,
}

/// Up to [`WAYS`] entries.
#[derive(Debug, Default)]
pub(super) struct Set {
    slots: ArrayVec<Slot, WAYS>,
    /// Counts the entries that came.
    count: u32,
}

impl Set {
    /// How many entries it has.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    fn find(&mut self, address: Ipv6Addr) -> Option<usize> {
        self.slots.iter().position(|slot| slot.address == address)
    }

    /// The entry of an address at second `now`. Allocates nothing.
    pub(super) fn get(&mut self, address: Ipv6Addr, now: u32) -> Cached {
        let Some(place) = self.find(address) else {
            return Cached { name: None, due: true };
        };
        let slot = &mut self.slots[place];
        if now >= slot.until {
            return Cached { name: None, due: true };
        }
        let Some(name) = slot.name.clone() else {
            return Cached { name: None, due: false };
        };
        let due = now >= slot.refresh;
        slot.used = true;
        if !slot.protected {
            self.protect(place);
        }
        Cached { name: Some(name), due }
    }

    /// Moves an entry to the protected segment, whose least used one goes back to probation.
    fn protect(&mut self, place: usize) {
        let protected = self.slots.iter().filter(|slot| slot.protected).count();
        if protected >= PROTECTED_MAX {
            let oldest = |slots: &[Slot], used: bool| {
                let protected = slots.iter().enumerate();
                let protected = protected.filter(|(_, slot)| slot.protected && slot.used == used);
                protected.min_by_key(|(_, slot)| slot.since).map(|(place, _)| place)
            };
            let victim = oldest(&self.slots, false).or_else(|| {
                let victim = oldest(&self.slots, true);
                // All were used: start a new round.
                self.slots.iter_mut().for_each(|slot| slot.used = false);
                victim
            });
            victim.into_iter().for_each(|victim| self.demote(victim));
        }
        self.slots[place].protected = true;
        self.slots[place].used = true;
    }

    /// Moves an entry to the end of the probation queue.
    fn demote(&mut self, place: usize) {
        self.count += 1;
        let slot = &mut self.slots[place];
        (slot.protected, slot.used, slot.since) = (false, false, self.count);
    }

    /// Notes that a lookup is queued. Returns whether this adds an entry.
    pub(super) fn mark_pending(&mut self, address: Ipv6Addr, now: u32) -> bool {
        let overdue = now.saturating_add(PENDING_MAX);
        let Some(place) = self.find(address) else {
            return self.insert(address, None, (overdue, overdue), now);
        };
        let slot = &mut self.slots[place];
        if now < slot.until {
            // A refresh: not again before its answer is overdue.
            slot.refresh = overdue;
        } else {
            (slot.name, slot.until) = (None, overdue);
        }
        false
    }

    /// Takes in the answer of a lookup. Returns whether this adds an entry.
    pub(super) fn store(&mut self, address: Ipv6Addr, answer: Answer, now: u32) -> bool {
        let until = now.saturating_add(answer.ttl);
        let refresh = until - answer.ttl / REFRESH_SHARE;
        let Some(place) = self.find(address) else {
            return self.insert(address, answer.name, (until, refresh), now);
        };
        let slot = &mut self.slots[place];
        if answer.failed && slot.name.is_some() && now < slot.until {
            slot.refresh = until;
            return false;
        }
        if answer.name.is_none() && slot.protected {
            self.demote(place);
        }
        let slot = &mut self.slots[place];
        // An equal name keeps its allocation.
        if slot.name != answer.name {
            slot.name = answer.name;
        }
        (slot.until, slot.refresh) = (until, refresh);
        false
    }

    /// Puts an entry on probation: in an unused slot, else in place of an expired entry, else of the one
    /// longest on probation. Returns whether the slot was unused.
    fn insert(
        &mut self,
        address: Ipv6Addr,
        name: Option<Name>,
        (until, refresh): (u32, u32),
        now: u32,
    ) -> bool {
        self.count += 1;
        let (since, protected, used) = (self.count, false, false);
        let slot = Slot { address, name, until, refresh, since, protected, used };
        let Err(full) = self.slots.try_push(slot) else { return true };
        let rank = |slot: &Slot| match now >= slot.until {
            true => (0, slot.since),
            false => (1 + u8::from(slot.protected), slot.since),
        };
        let victim = self.slots.iter_mut().min_by_key(|slot| rank(slot));
        let victim = victim.expect("a set has WAYS slots");
        debug_assert!(rank(victim).0 < 2, "at most PROTECTED_MAX are protected");
        *victim = full.element();
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(number: u32) -> Ipv6Addr {
        Ipv6Addr::from(u128::from(number) + (0x2001_0db8_u128 << 96))
    }

    fn name(text: &str, ttl: u32) -> Answer {
        Answer { name: Some(text.into()), ttl, failed: false }
    }

    const NOTHING: Answer = Answer { name: None, ttl: 100, failed: false };
    const FAILED: Answer = Answer { name: None, ttl: 10, failed: true };

    fn known(set: &mut Set, number: u32, now: u32) -> Option<Name> {
        set.get(address(number), now).name
    }

    #[test]
    fn an_address_is_queued_once_and_has_its_name_until_it_expires() {
        let mut set = Set::default();
        assert_eq!(set.get(address(1), 0), Cached { name: None, due: true });
        assert!(set.mark_pending(address(1), 0));
        assert_eq!(set.get(address(1), 1), Cached { name: None, due: false });
        assert!(!set.store(address(1), name("a.test", 80), 1));
        let a = Some(Name::from("a.test"));
        assert_eq!(set.get(address(1), 70), Cached { name: a.clone(), due: false });
        assert_eq!(set.get(address(1), 71), Cached { name: a.clone(), due: true });
        set.mark_pending(address(1), 71);
        assert_eq!(set.get(address(1), 72), Cached { name: a, due: false });
        assert_eq!(set.get(address(1), 81), Cached { name: None, due: true });
    }

    #[test]
    fn a_failed_lookup_takes_no_name_away_that_holds_and_gives_none() {
        let mut set = Set::default();
        set.store(address(1), name("a.test", 80), 0);
        set.store(address(1), FAILED, 75);
        assert!(known(&mut set, 1, 79).is_some());
        assert!(!set.get(address(1), 79).due, "not asked again at once");
        assert!(known(&mut set, 1, 80).is_none());
        set.store(address(1), FAILED, 80);
        assert_eq!(set.get(address(1), 89), Cached { name: None, due: false });
        assert!(set.get(address(1), 90).due);
        // An answer that there is none does take it away.
        set.store(address(1), name("a.test", 80), 90);
        set.store(address(1), NOTHING, 91);
        assert!(known(&mut set, 1, 92).is_none());
    }

    #[test]
    fn a_lookup_that_is_never_answered_is_queued_again() {
        let mut set = Set::default();
        set.mark_pending(address(1), 5);
        assert!(!set.get(address(1), 5 + PENDING_MAX - 1).due);
        assert!(set.get(address(1), 5 + PENDING_MAX).due);
    }

    #[test]
    fn addresses_used_once_displace_no_name_that_is_in_use() {
        let mut set = Set::default();
        for number in 0..PROTECTED_MAX as u32 {
            set.store(address(number), name("useful.test", 1000), 0);
            assert!(known(&mut set, number, 1).is_some());
        }
        for number in 100..10_000 {
            set.mark_pending(address(number), 2);
            let answer = if number % 2 == 0 { name("x.attacker.test", 1000) } else { NOTHING };
            set.store(address(number), answer, 2);
            // Asking twice helps only those that have names.
            if number % 2 == 1 {
                assert!(known(&mut set, number, 2).is_none());
            }
        }
        for number in 0..PROTECTED_MAX as u32 {
            assert!(known(&mut set, number, 3).is_some(), "{number} was displaced");
        }
    }

    #[test]
    fn of_those_kept_the_one_that_is_not_used_goes() {
        let mut set = Set::default();
        for number in 0..PROTECTED_MAX as u32 {
            set.store(address(number), name("a.test", 1000), 0);
            known(&mut set, number, 1);
        }
        // All are used: the oldest gives way, and all must be used again.
        set.store(address(50), name("b.test", 1000), 2);
        known(&mut set, 50, 2);
        for number in (1..PROTECTED_MAX as u32).filter(|number| *number != 3) {
            known(&mut set, number, 3);
        }
        set.store(address(51), name("c.test", 1000), 4);
        known(&mut set, 51, 4);
        for number in 100..120 {
            set.store(address(number), NOTHING, 5);
        }
        let left: Vec<u32> = (0..PROTECTED_MAX as u32)
            .filter(|number| known(&mut set, *number, 6).is_some())
            .collect();
        assert_eq!(left, [1, 2, 4, 5]);
        assert!(known(&mut set, 50, 6).is_some() && known(&mut set, 51, 6).is_some());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Against a table that forgets nothing: what a set says is what was last answer and holds.
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
                    1 => places += usize::from(set.mark_pending(address(number), now)),
                    2 => {
                        let text = format!("{now}.test");
                        places += usize::from(set.store(address(number), name(&text, 50), now));
                        all.insert(number, (Some(text.as_str().into()), now + 50));
                    }
                    3 => {
                        places += usize::from(set.store(address(number), NOTHING, now));
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
                let used = &set.slots;
                prop_assert_eq!(used.len(), places);
                let addresses: std::collections::HashSet<_> =
                    used.iter().map(|slot| slot.address).collect();
                prop_assert_eq!(addresses.len(), places);
                prop_assert!(used.iter().filter(|slot| slot.protected).count() <= PROTECTED_MAX);
                prop_assert!(used.iter().all(|slot| !slot.protected || slot.name.is_some()
                    || slot.until <= now + PENDING_MAX));
            }
        }
    }
}
