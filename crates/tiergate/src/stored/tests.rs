//! The store's bounds, and what makes copies go.

use super::context::Context;
use super::copy::{Copy, Refresh};
use super::store::{Key, Store, StoreBounds, VARIANTS_MAX};
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::names::PoolId;
use tiergate_core::request::Field;
use tiergate_core::stored::Terms;
use tiergate_core::time::Moment;

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
        refreshing: false.into(),
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
fn a_copy_replaces_the_one_for_the_same_requests_and_the_oldest_of_many() {
    let (store, key) = (store(1 << 20), key("a"));
    keep(&store, &key, copy(1, "0"));
    keep(&store, &key, copy(2, "0"));
    assert_eq!(find(&store, &key, "0"), Some(2));
    for other in 1..VARIANTS_MAX {
        keep(&store, &key, copy(3, &other.to_string()));
    }
    assert_eq!(find(&store, &key, "0"), Some(2));
    keep(&store, &key, copy(4, "more"));
    assert_eq!((find(&store, &key, "0"), find(&store, &key, "1")), (None, Some(3)));
    assert_eq!(store.size().0, 1);
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
    store.drop_copies(&key);
    store.keep(&key, copy(1, "0"), before, Moment::ZERO);
    assert_eq!(find(&store, &key, "0"), None, "it may be of the time before");
    keep(&store, &key, copy(1, "0"));
    assert_eq!(find(&store, &key, "0"), Some(1));
    store.drop_copies(&key);
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
    let copy = Arc::new(copy(1, "0"));
    let first = Refresh::begin(&copy).expect("nobody does");
    assert!(Refresh::begin(&copy).is_none());
    drop(first);
    assert!(Refresh::begin(&copy).is_some());
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
