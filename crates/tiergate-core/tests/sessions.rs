//! The table of running sessions against a model that keeps everything in a list.

use proptest::prelude::*;
use std::time::Duration;
use tiergate_core::admit::session::{Bounds, ENTRY_BYTES, SessionEnd, Sessions};
use tiergate_core::class::ClassId;
use tiergate_core::time::Moment;

const BOUNDS: Bounds = Bounds {
    idle: Duration::from_secs(10),
    lifetime: Duration::from_secs(60),
    sessions_max: 5,
    at_once_max: 2,
};

#[derive(Clone, Debug)]
enum Op {
    Arrive(u64),
    /// Key, client, whether well.
    Answered(u64, u64, bool),
    Refused(u64),
    Leave(u64),
    End(u64),
    Rename(u64, u64),
    /// Key, client, age in seconds.
    Resume(u64, u64, u64),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let key = 0_u64..9;
    let client = 0_u64..4;
    let op = prop_oneof![
        6 => key.clone().prop_map(Op::Arrive),
        6 => (key.clone(), client.clone(), any::<bool>())
            .prop_map(|(k, c, w)| Op::Answered(k, c, w)),
        1 => key.clone().prop_map(Op::Refused),
        4 => key.clone().prop_map(Op::Leave),
        1 => key.clone().prop_map(Op::End),
        1 => (key.clone(), key.clone()).prop_map(|(a, b)| Op::Rename(a, b)),
        1 => (key, client, 0_u64..90).prop_map(|(k, c, age)| Op::Resume(k, c, age)),
        3 => (0_u64..12).prop_map(Op::Wait),
    ];
    prop::collection::vec(op, 1..200)
}

/// Key, begun, last, at once, requests, broken, client; idle longest first.
#[derive(Clone, Debug)]
struct Known(u64, Moment, Moment, u16, u32, bool, u64);

#[derive(Default)]
struct Model {
    known: Vec<Known>,
    biggest: Option<u64>,
    now: Moment,
    ended: [u64; 4],
    broken: u64,
    begun: u64,
    requests: u64,
}

impl Model {
    fn over(&mut self, place: usize, end: SessionEnd) {
        let gone = self.known.remove(place);
        if self.len_of(gone.6) == 0 && self.biggest == Some(gone.6) {
            self.biggest = None;
        }
        self.ended[end as usize] += 1;
        self.broken += u64::from(gone.5);
        self.requests += u64::from(gone.4);
    }

    fn find(&mut self, key: u64) -> Option<usize> {
        let place = self.known.iter().position(|known| known.0 == key)?;
        let known = &self.known[place];
        let old = self.now.since(known.1) >= BOUNDS.lifetime;
        let idle = self.now.since(known.2) >= BOUNDS.idle;
        match (old, idle) {
            (false, false) => return Some(place),
            (true, _) => self.over(place, SessionEnd::Old),
            (false, true) => self.over(place, SessionEnd::Idle),
        }
        None
    }

    fn arrive(&mut self, key: u64) -> bool {
        for _ in 0..2 {
            let now = self.now;
            let idle = |known: &Known| now.since(known.2) >= BOUNDS.idle;
            if self.known.first().is_some_and(idle) {
                self.over(0, SessionEnd::Idle);
            }
        }
        let place = self.find(key);
        let runs = place.is_some_and(|place| self.known[place].3 < BOUNDS.at_once_max);
        if let (Some(place), true) = (place, runs) {
            self.known[place].3 += 1;
        }
        runs
    }

    fn len_of(&self, client: u64) -> usize {
        self.known.iter().filter(|known| known.6 == client).count()
    }

    fn note(&mut self, client: u64) {
        if self.biggest.is_none_or(|biggest| self.len_of(client) > self.len_of(biggest)) {
            self.biggest = Some(client);
        }
    }

    fn insert(&mut self, key: u64, client: u64, begun: Moment, requests: u32) {
        if self.known.len() == BOUNDS.sessions_max {
            let above = self.biggest.filter(|it| self.len_of(*it) > BOUNDS.sessions_max / 16);
            let goes = |known: &Known| above.is_none_or(|client| known.6 == client);
            self.over(self.known.iter().position(goes).unwrap(), SessionEnd::Evicted);
        }
        self.known.push(Known(key, begun, self.now, 1, requests, false, client));
        self.note(client);
        self.begun += 1;
    }

    fn apply(&mut self, op: &Op, table: &mut Sessions) {
        let (now, class) = (self.now, ClassId(0));
        match *op {
            Op::Wait(seconds) => self.now = now + Duration::from_secs(seconds),
            Op::Arrive(key) => {
                let runs = self.arrive(key);
                assert_eq!(table.arrive(now, key), runs);
            }
            Op::Answered(key, client, well) => {
                let place = self.find(key);
                match place {
                    Some(place) => {
                        let mut known = self.known.remove(place);
                        (known.2, known.5) = (now, false);
                        known.4 += 1;
                        let client = known.6;
                        self.known.push(known);
                        self.note(client);
                    }
                    None if well => self.insert(key, client, now, 1),
                    None => {}
                }
                let begins = place.is_none() && well;
                assert_eq!(table.answered(now, key, client, class, well), begins);
            }
            Op::Refused(key) => {
                if let Some(known) = self.known.iter_mut().find(|known| known.0 == key) {
                    known.5 = true;
                }
                table.refused(Some(key), class);
            }
            Op::Leave(key) => {
                if let Some(known) = self.known.iter_mut().find(|known| known.0 == key) {
                    known.3 = known.3.saturating_sub(1);
                }
                table.leave(key);
            }
            Op::End(key) => {
                if let Some(place) = self.known.iter().position(|known| known.0 == key) {
                    self.over(place, SessionEnd::Ended);
                }
                table.end(key);
            }
            Op::Rename(old, new) => {
                let taken = self.known.iter().any(|known| known.0 == new);
                if let (false, Some(known)) =
                    (taken, self.known.iter_mut().find(|known| known.0 == old))
                {
                    known.0 = new;
                }
                table.rename(old, new);
            }
            Op::Resume(key, client, age) => {
                let age = Duration::from_secs(age);
                let known = |model: &Self| model.known.iter().any(|known| known.0 == key);
                let mut runs = self.arrive(key);
                if !runs && !known(self) && age < BOUNDS.lifetime {
                    self.insert(key, client, now - age, 0);
                    runs = true;
                }
                assert_eq!(table.resume(now, key, client, age, class), runs);
            }
        }
        self.check(table);
    }

    fn check(&self, table: &Sessions) {
        assert_eq!(table.len(), self.known.len());
        assert!(table.len() <= BOUNDS.sessions_max);
        assert!(self.known.iter().all(|known| table.knows(known.0)));
        let account = &table.account()[0];
        assert_eq!((account.ended, account.broken), (self.ended, self.broken));
        assert_eq!(account.started + account.resumed, self.begun);
        let over: u64 = self.ended.iter().sum();
        assert_eq!(self.begun, over + self.known.len() as u64, "a session is lost");
        assert_eq!((account.lengths.count(), account.lengths.sum), (over, self.requests));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_table_does_what_the_model_does(ops in ops()) {
        let mut model = Model { now: Moment::from_millis(1_000_000), ..Model::default() };
        let mut table = Sessions::new(BOUNDS);
        for op in &ops {
            model.apply(op, &mut table);
        }
    }
}

#[test]
fn a_made_up_name_runs_only_after_it_was_answered_well() {
    let (mut table, now) = (Sessions::new(BOUNDS), Moment::from_millis(5));
    assert!(!table.arrive(now, 7));
    assert!(!table.answered(now, 7, 1, ClassId(0), false), "an error admits nobody");
    assert!(!table.arrive(now, 7));
    assert!(table.answered(now, 7, 1, ClassId(0), true));
    table.leave(7);
    assert!(table.arrive(now, 7));
    assert!(table.arrive(now, 7));
    assert!(!table.arrive(now, 7), "the third at once");
}

#[test]
fn a_client_that_makes_up_names_evicts_its_own() {
    let mut table = Sessions::new(Bounds { sessions_max: 400, ..BOUNDS });
    let (now, class) = (Moment::ZERO, ClassId(0));
    let mut begins = |key: u64, client: u64| {
        assert!(table.answered(now, key, client, class, true));
        table.leave(key);
    };
    // A hundred clients with two sessions each, and then a thousand of one more client.
    (0..200).for_each(|key| begins(key, key / 2));
    (1000..2000).for_each(|key| begins(key, 1000));
    // And others come while it goes on.
    for key in 200..300 {
        begins(key, key);
        begins(1800 + key, 1000);
    }
    assert!((0..300).all(|key| table.knows(key)));
    assert_eq!((table.len(), table.account()[0].ended[SessionEnd::Evicted.index()]), (400, 1000));
    // Once no client has more than its part, the session idle longest is evicted, as ever.
    (300..600).for_each(|key| {
        assert!(table.answered(now, key, key, class, true));
    });
    assert!((300..600).all(|key| table.knows(key)), "{}", table.len());
}

#[test]
fn memory_is_as_stated() {
    assert_eq!(ENTRY_BYTES, 312, "docs/configuration.md says 312");
}

#[test]
fn lengths_fall_into_their_buckets() {
    let mut table = Sessions::new(BOUNDS);
    for (key, requests) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5000)] {
        for _ in 0..requests {
            table.answered(Moment::ZERO, key, 1, ClassId(0), true);
        }
    }
    (1..=5).for_each(|key| table.end(key));
    let lengths = table.account()[0].lengths;
    let found: Vec<_> = lengths.buckets().filter(|(_, count)| *count > 0).collect();
    assert_eq!(found, [(Some(1), 1), (Some(2), 1), (Some(4), 2), (None, 1)]);
    assert_eq!(lengths.sum, 5010);
}

#[test]
fn a_reload_keeps_the_sessions_and_their_classes_counts() {
    let mut table = Sessions::new(BOUNDS);
    for key in 0..5 {
        table.answered(Moment::ZERO, key, 1, ClassId((key % 2) as u16), true);
    }
    let bounds = Bounds { sessions_max: 3, ..BOUNDS };
    table.reconfigure(bounds);
    assert_eq!(table.len(), 3);
    assert!(table.knows(4) && !table.knows(0) && !table.knows(1));
    let account = table.account();
    assert_eq!((account[0].started, account[1].started), (3, 2));
    assert_eq!((account[0].ended[3], account[1].ended[3]), (1, 1));
}
