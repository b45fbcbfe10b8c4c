//! The latest refusals, kept in a ring of fixed size.
//!
//! | state | written by | read by |
//! |---|---|---|
//! | the ring | a refusing thread, if the lock is free at that moment | `/refusals`, under the lock |
//! | skipped | a refusing thread that found the lock taken, relaxed | a scrape, relaxed |
//!
//! A refusal must cost less than the request would, so it never waits for this lock and never
//! allocates: under many refusals a second some are skipped here, and counted. The gate's account
//! counts every refusal.

use arrayvec::ArrayVec;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::SystemTime;
use tiergate_core::plan::RuleLabel;
use tiergate_core::reason::Reason;

use crate::tally::Tally;

/// Refusals kept: enough to see which clients are refused. About 60 KiB.
pub const CAPACITY: usize = 256;
/// Bytes of a path that are kept.
pub const PATH_LEN_MAX: usize = 120;
/// Bytes of a class's, and of a rule's, name that are kept.
pub const CLASS_LEN_MAX: usize = 32;
/// Bytes of a method that are kept; the longest registered one has 17, the common ones at most 7.
pub const METHOD_LEN_MAX: usize = 12;

/// A refusal as it happens, borrowed from the request.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// When.
    pub at: SystemTime,
    /// The class's name.
    pub class: &'a str,
    /// The rule that decided the class.
    pub rule: Option<RuleLabel<'a>>,
    /// Why.
    pub reason: Reason,
    /// The client's address.
    pub client: IpAddr,
    /// The method as sent.
    pub method: &'a [u8],
    /// The path without query.
    pub path: &'a [u8],
}

/// A refusal as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// When, RFC 3339 in UTC.
    pub at: String,
    /// The class's name.
    pub class: String,
    /// Number of the rule that decided the class, from 1, in the policy that was in force.
    pub rule: Option<u32>,
    /// The start of the rule's name, if it has one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rule_name: String,
    /// Why: a [`Reason`]'s name.
    pub reason: String,
    /// The client's address.
    pub client: IpAddr,
    /// The method.
    pub method: String,
    /// The start of the path.
    pub path: String,
    /// Whether the path was longer.
    pub path_cut: bool,
}

#[derive(Clone, Debug)]
struct Record {
    at: SystemTime,
    rule: Option<u32>,
    reason: Reason,
    client: IpAddr,
    rule_name: Prefix<CLASS_LEN_MAX>,
    class: Prefix<CLASS_LEN_MAX>,
    method: Prefix<METHOD_LEN_MAX>,
    path: Prefix<PATH_LEN_MAX>,
    path_cut: bool,
}

/// The first bytes of a text.
type Prefix<const N: usize> = ArrayVec<u8, N>;

fn prefix<const N: usize>(of: &[u8]) -> Prefix<N> {
    let mut prefix = Prefix::new();
    let kept = prefix.try_extend_from_slice(&of[..of.len().min(N)]);
    kept.expect("no longer than its capacity");
    prefix
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[derive(Debug)]
struct Ring {
    /// Oldest first; never longer than its capacity.
    records: VecDeque<Record>,
    /// How many there ever were.
    recorded: u64,
}

/// The latest refusals. One per process, shared.
#[derive(Debug)]
pub struct Refusals {
    ring: Mutex<Ring>,
    capacity: usize,
    skipped: Tally,
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals::with_capacity(CAPACITY)
    }
}

impl Refusals {
    /// A ring of `capacity` records (at least one), allocated here and never again.
    pub fn with_capacity(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let ring = Mutex::new(Ring { records: VecDeque::with_capacity(capacity), recorded: 0 });
        Refusals { ring, capacity, skipped: Tally::default() }
    }

    /// Records a refusal, unless another thread holds the ring at this moment. Never waits, never
    /// allocates.
    pub fn record(&self, refusal: &Refusal<'_>) {
        let mut ring = match self.ring.try_lock() {
            Ok(ring) => ring,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.skipped.one(),
        };
        ring.recorded += 1;
        if ring.records.len() == self.capacity {
            ring.records.pop_front();
        }
        ring.records.push_back(Record {
            at: refusal.at,
            rule: refusal.rule.map(|rule| rule.number),
            rule_name: prefix(
                refusal.rule.and_then(|rule| rule.name).unwrap_or_default().as_bytes(),
            ),
            reason: refusal.reason,
            client: refusal.client,
            class: prefix(refusal.class.as_bytes()),
            method: prefix(refusal.method),
            path: prefix(refusal.path),
            path_cut: refusal.path.len() > PATH_LEN_MAX,
        });
    }

    /// Refusals that were not recorded because the ring was in use.
    pub fn skipped(&self) -> u64 {
        self.skipped.total()
    }

    /// The latest refusals, newest first, at most `limit`. The lock is held to copy plain records.
    pub fn recent(&self, limit: usize) -> Vec<Shown> {
        let mut copied = Vec::with_capacity(limit.min(self.capacity));
        let ring = self.ring.lock().unwrap_or_else(PoisonError::into_inner);
        copied.extend(ring.records.iter().rev().take(limit).cloned());
        drop(ring);
        copied.iter().map(shown).collect()
    }

    /// Those since so many had been recorded, as far as they are still kept, newest first, and how many have been by now.
    pub fn since(&self, recorded: u64) -> (Vec<Shown>, u64) {
        let now = self.ring.lock().unwrap_or_else(PoisonError::into_inner).recorded;
        let fresh = usize::try_from(now.saturating_sub(recorded)).unwrap_or(usize::MAX);
        (if fresh == 0 { Vec::new() } else { self.recent(fresh.min(self.capacity)) }, now)
    }
}

fn shown(record: &Record) -> Shown {
    Shown {
        at: super::access_log::rfc3339(record.at),
        class: text(&record.class),
        rule: record.rule,
        rule_name: text(&record.rule_name),
        reason: record.reason.name().to_owned(),
        client: record.client,
        method: text(&record.method),
        path: text(&record.path),
        path_cut: record.path_cut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use std::time::Duration;

    fn refusal(path: &[u8]) -> Refusal<'_> {
        Refusal {
            at: SystemTime::UNIX_EPOCH + Duration::from_millis(1_500),
            class: "browse",
            rule: Some(RuleLabel { number: 3, name: Some("pages") }),
            reason: Reason::DeadlineExpired,
            client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
            method: b"GET",
            path,
        }
    }

    #[test]
    fn the_newest_come_first_and_the_oldest_fall_out() {
        let refusals = Refusals::with_capacity(3);
        assert!(refusals.recent(10).is_empty());
        for path in [b"/1", b"/2", b"/3", b"/4"] {
            refusals.record(&refusal(path));
        }
        let paths = |limit| -> Vec<String> {
            refusals.recent(limit).into_iter().map(|shown| shown.path).collect()
        };
        assert_eq!(paths(10), ["/4", "/3", "/2"]);
        assert_eq!(paths(1), ["/4"]);
        let newest = &refusals.recent(1)[0];
        assert_eq!(newest.at, "1970-01-01T00:00:01.500Z");
        assert_eq!((newest.class.as_str(), newest.reason.as_str()), ("browse", "deadline_expired"));
        assert_eq!((newest.rule, newest.method.as_str()), (Some(3), "GET"));
        assert_eq!(newest.rule_name, "pages");
    }

    #[test]
    fn those_since_a_look_are_given_once() {
        let refusals = Refusals::with_capacity(3);
        refusals.record(&refusal(b"/1"));
        let (fresh, seen) = refusals.since(0);
        assert_eq!((fresh.len(), seen), (1, 1));
        assert!(refusals.since(seen).0.is_empty());
        for path in [b"/2", b"/3", b"/4", b"/5"] {
            refusals.record(&refusal(path));
        }
        let (fresh, seen) = refusals.since(seen);
        let paths: Vec<&str> = fresh.iter().map(|it| it.path.as_str()).collect();
        assert_eq!((paths, seen), (vec!["/5", "/4", "/3"], 5));
    }

    #[test]
    fn long_paths_are_cut_and_say_so() {
        let refusals = Refusals::default();
        let path = vec![b'a'; PATH_LEN_MAX + 1];
        refusals.record(&refusal(&path[..PATH_LEN_MAX]));
        refusals.record(&refusal(&path));
        refusals.record(&refusal(b"/\xff\x00"));
        let recent = refusals.recent(3);
        assert_eq!(recent[0].path, "/\u{fffd}\0");
        assert!(recent[1].path_cut && recent[1].path.len() == PATH_LEN_MAX);
        assert!(!recent[2].path_cut);
    }

    #[test]
    fn a_taken_lock_skips_the_record_and_counts_it() {
        let refusals = Refusals::default();
        {
            let _reader = refusals.ring.lock().expect("nobody panicked");
            refusals.record(&refusal(b"/lost"));
        }
        refusals.record(&refusal(b"/kept"));
        assert_eq!(refusals.skipped(), 1);
        assert_eq!(refusals.recent(9).len(), 1);
    }
}
