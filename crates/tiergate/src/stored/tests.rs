//! The store's bounds, and what makes copies go.

use super::context::Context;
use super::copy::{Copy, Refresh};
use super::lookup::Change;
use super::store::{Key, Store, StoreBounds, VARIANTS_MAX};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tiergate_core::names::PoolId;
use tiergate_core::request::Field;
use tiergate_core::stored::Terms;
use tiergate_core::time::Moment;
use tiergate_wire::http1::{FieldTable, HeadLimits, Parsed, parse_request};

const HOUR: Duration = Duration::from_secs(3600);
const KIB: usize = 1024;

fn store(bytes_max: usize) -> Store {
    Store::new(StoreBounds { bytes_max, body_max: 64 * KIB }, Arc::default())
}

fn key(name: impl std::fmt::Display) -> Key {
    name.to_string().into_bytes().into()
}

fn context() -> Context {
    Context { secure: false, pool: PoolId::DEFAULT, forwarded: Box::default() }
}

/// A copy for requests whose field `x` is this.
fn copy(len: usize, x: &str) -> Copy {
    let value = Some(x.as_bytes().to_vec());
    Copy {
        head: (*b"HTTP/1.1 200 OK\r\n").into(),
        body: vec![7; len].into(),
        terms: Terms {
            public: false,
            age: Duration::ZERO,
            age_max: Duration::MAX,
            vary: vec![("x".into(), value)],
        },
        context: context(),
        at: Moment::ZERO,
        lifetime: HOUR,
        mark: Arc::default(),
        hits: 0.into(),
        gone: false.into(),
        live: None,
    }
}

fn find(store: &Store, key: &Key, x: &str) -> Option<usize> {
    let field = Field { name: b"X", value: x.as_bytes() };
    store.find(key, &context(), &[field]).map(|copy| copy.body.len())
}

fn keep(store: &Store, key: &Key, copy: Copy) {
    store.keep(key, copy, store.epoch(key), Moment::ZERO);
}

#[test]
fn a_copy_replaces_the_one_for_the_same_requests_and_one_of_many_that_nobody_asked_for() {
    let (store, key) = (store(1 << 20), key("a"));
    keep(&store, &key, copy(1, "0"));
    keep(&store, &key, copy(2, "0"));
    assert_eq!(find(&store, &key, "0"), Some(2));
    for other in 1..VARIANTS_MAX {
        keep(&store, &key, copy(3, &other.to_string()));
    }
    assert_eq!(find(&store, &key, "0"), Some(2));
    keep(&store, &key, copy(4, "more"));
    // The oldest that nobody had asked for.
    assert_eq!(find(&store, &key, "1"), None);
    assert_eq!([find(&store, &key, "0"), find(&store, &key, "more")], [Some(2), Some(4)]);
    assert_eq!(store.size().0, 1);
}

#[test]
fn requests_with_other_fields_flush_no_copy_that_is_asked_for() {
    let (store, key) = (store(1 << 20), key("a"));
    keep(&store, &key, copy(1, "en"));
    assert_eq!(find(&store, &key, "en"), Some(1));
    for other in 0..3 * VARIANTS_MAX {
        keep(&store, &key, copy(2, &other.to_string()));
    }
    assert_eq!(find(&store, &key, "en"), Some(1));
    // The copy after it has inherited that it is asked for.
    keep(&store, &key, copy(3, "en"));
    for other in 0..3 * VARIANTS_MAX {
        keep(&store, &key, copy(2, &format!("x{other}")));
    }
    assert_eq!(find(&store, &key, "en"), Some(3));
    let last = 3 * VARIANTS_MAX - 1;
    for other in 0..VARIANTS_MAX {
        let _ = find(&store, &key, &format!("x{}", last - other));
    }
    keep(&store, &key, copy(4, "late"));
    assert_eq!(find(&store, &key, "late"), None, "each is asked for");
    store.keep(&key, copy(4, "late"), store.epoch(&key), Moment::ZERO + 2 * HOUR);
    assert_eq!(find(&store, &key, "late"), Some(4), "the others are too old");
}

#[test]
fn what_comes_too_late_leaves_other_copies_alone() {
    let (store, key) = (store(1 << 20), key("a"));
    let stale = store.epoch(&key);
    store.change(&key);
    keep(&store, &key, copy(1, "0"));
    store.keep(&key, copy(2, "1"), stale, Moment::ZERO);
    assert_eq!([find(&store, &key, "0"), find(&store, &key, "1")], [Some(1), None]);
}

#[test]
fn an_answer_that_forbids_copies_drops_only_those_of_its_requests() {
    let (store, key) = (store(1 << 20), key("a"));
    let field = |value: &'static str| [Field { name: b"x", value: value.as_bytes() }];
    keep(&store, &key, copy(1, "0"));
    keep(&store, &key, copy(2, "1"));
    let epoch = store.epoch(&key);
    let held = store.find(&key, &context(), &field("0")).expect("it was kept");
    store.drop_copies_for(&key, &context(), &field("2"));
    store.drop_copies_for(&key, &context(), &field("0"));
    assert_eq!([find(&store, &key, "0"), find(&store, &key, "1")], [None, Some(2)]);
    assert!(held.gone.load(Ordering::Relaxed), "who waits with it does not get it");
    assert_eq!(store.epoch(&key), epoch, "a copy that is being made may be of the others");
    store.drop_copies_for(&key, &context(), &field("1"));
    assert_eq!(store.size().0, 0);
}

#[test]
fn a_change_whose_answer_is_not_known_counts_as_made() {
    let store = Arc::new(store(1 << 20));
    let raw = b"POST /a HTTP/1.1\r\nHost: shop\r\n\r\n";
    let limits = HeadLimits { head_len_max: 1000, target_len_max: 100, fields_max: 10 };
    let mut table = FieldTable::new();
    let Ok(Parsed::Complete(head)) = parse_request(raw, &mut table, &limits) else {
        panic!("it is a request")
    };
    for (status, is_dropped) in
        [(Some(500), false), (Some(404), false), (Some(204), true), (None, true)]
    {
        let key = key("shop\0/a");
        keep(&store, &key, copy(1, "0"));
        let change = Change::of(&store, &head).expect("it has a host");
        match status {
            Some(status) => change.answered(status),
            None => drop(change),
        }
        assert_eq!(find(&store, &key, "0").is_none(), is_dropped, "{status:?}");
    }
}

#[test]
fn a_copy_that_a_request_still_has_counts_as_memory() {
    let store = store(200 * KIB);
    keep(&store, &key("a"), copy(60 * KIB, "0"));
    let field = [Field { name: b"x", value: b"0" }];
    let held: Vec<_> = (0..3)
        .filter_map(|number| {
            let key = key(number);
            keep(&store, &key, copy(60 * KIB, "0"));
            let held = store.find(&key, &context(), &field);
            store.change(&key);
            held
        })
        .collect();
    assert_eq!(held.len(), 2, "the third did not fit beside those that are held");
    let live = || store.counters.live.used();
    assert!((180 * KIB..=200 * KIB).contains(&live()), "{}", live());
    drop(held);
    eventually_below(&store, 70 * KIB);
    keep(&store, &key("b"), copy(60 * KIB, "0"));
    assert_eq!(find(&store, &key("b"), "0"), Some(60 * KIB));
}

/// The cache lets go of what was removed a little later.
fn eventually_below(store: &Store, bytes: usize) {
    for _ in 0..1000 {
        store.size();
        if store.counters.live.used() < bytes {
            return;
        }
        let _ = store.find(&key("none"), &context(), &[]);
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} bytes are in use", store.counters.live.used());
}

#[test]
fn other_pools_schemes_and_hosts_have_their_own() {
    let (store, key) = (store(1 << 20), key("a"));
    keep(&store, &key, copy(1, "0"));
    let field = Field { name: b"x", value: b"0" };
    for other in [
        Context { secure: true, ..context() },
        Context { forwarded: (*b"https").into(), ..context() },
    ] {
        assert!(store.find(&key, &other, &[field]).is_none(), "{other:?}");
    }
}

#[test]
fn what_a_change_overtakes_is_not_kept() {
    let (store, key) = (store(1 << 20), key("a"));
    let before = store.epoch(&key);
    store.change(&key);
    store.keep(&key, copy(1, "0"), before, Moment::ZERO);
    assert_eq!(find(&store, &key, "0"), None, "it may be of the time before");
    keep(&store, &key, copy(1, "0"));
    assert_eq!(find(&store, &key, "0"), Some(1));
    store.change(&key);
    assert_eq!(find(&store, &key, "0"), None);
}

#[test]
fn the_bound_holds_and_a_flood_of_targets_flushes_nothing_of_use() {
    let store = store(1 << 20);
    let useful: Vec<Key> = (0..40).map(|number| key(format!("useful{number}"))).collect();
    for key in &useful {
        keep(&store, key, copy(10 * KIB, "0"));
    }
    // How often something is asked for is counted from when half of the memory is in use.
    assert!(store.size().1 > (3 << 20) / 8);
    let ask = || {
        let found = useful.iter().filter(|key| find(&store, key, "0").is_some()).count();
        store.size();
        found
    };
    (0..5).for_each(|_| assert_eq!(ask(), useful.len()));
    for number in 0..5000 {
        if number % 50 == 0 {
            ask();
        }
        let key = key(format!("flood{number}"));
        assert!(find(&store, &key, "0").is_none(), "each is asked for once");
        keep(&store, &key, copy(10 * KIB, "0"));
        assert!(store.size().1 <= (3 << 20) / 4, "{:?}", store.size());
    }
    let left = ask();
    assert!(left >= 38, "{left} of 40");
    keep(&store, &key("huge"), copy(2 << 20, "0"));
    assert!(store.size().1 <= (3 << 20) / 4);
}

#[test]
fn one_request_at_a_time_replaces_a_copy() {
    let mark = copy(1, "0").mark;
    let first = Refresh::begin(&mark, 3).expect("nobody does");
    assert!(Refresh::begin(&mark, 3).is_none() && Refresh::begin(&mark, 4).is_none());
    let second = Refresh::begin(&mark, 2).expect("it is more important");
    drop(first);
    assert!(Refresh::begin(&mark, 2).is_none(), "the second still does");
    drop(second);
    assert!(Refresh::begin(&mark, 255).is_some());
}

#[test]
fn what_a_trusted_peer_says_of_its_client_tells_copies_apart() {
    let field = |name: &'static str, value: &'static str| Field {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    let of = |trusted, fields: &[Field<'_>]| {
        Context::of(false, PoolId::DEFAULT, trusted, fields).expect("it is short")
    };
    let proto = [field("X-Forwarded-Proto", "https")];
    assert_ne!(of(true, &proto), of(true, &[]));
    assert_eq!(of(false, &proto), of(false, &[]), "others are not heard");
    let one = [field("Forwarded", "for=192.0.2.1; proto=https;by=a")];
    let other = [field("forwarded", "For=192.0.2.2;proto=https")];
    let http = [field("forwarded", "for=192.0.2.2;proto=http")];
    assert_eq!(of(true, &one), of(true, &other), "for whom makes no difference");
    assert_ne!(of(true, &one), of(true, &http));
    let long = "x".repeat(600).leak();
    assert!(
        Context::of(false, PoolId::DEFAULT, true, &[field("x-forwarded-host", long)]).is_none()
    );
}
