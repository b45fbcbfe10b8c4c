//! Shares of a real origin of fixed slots: what each class or flow gets of it is counted over ten thousand
//! requests and more, all cases together.

use crate::support::gateway::{Gateway, Policy};
use crate::support::origin::Origin;
use crate::work::{Clients, count, origin};

/// Requests that are counted in each case; by TIERGATE_COUNTED any number.
fn counted() -> u64 {
    let given = std::env::var("TIERGATE_COUNTED").ok();
    given.and_then(|count| count.parse().ok()).unwrap_or(3_400)
}

/// Three classes by path, with further keys; eight slots.
fn gateway(origin: &Origin, scheduling: &str, classes: [&str; 3]) -> Gateway {
    let mut tables = format!("[scheduling]\n{scheduling}\n");
    for (index, keys) in classes.iter().enumerate() {
        tables += &format!("[[class]]\nname = \"c{index}\"\ndeadline = \"20s\"\n{keys}\n");
    }
    for index in 0..classes.len() {
        tables += &format!("[[rule]]\npath = \"/{index}/*\"\nclass = \"c{index}\"\n");
    }
    Gateway::start(&Policy {
        top: "trusted = [\"127.0.0.0/8\"]".into(),
        origin: "slots = 8".into(),
        tables,
        ..Policy::of(&[origin.server()])
    })
}

fn parts(got: [u64; 4]) -> [f64; 4] {
    let sum = got.iter().sum::<u64>() as f64;
    got.map(|count| count as f64 / sum)
}

#[track_caller]
fn assert_near(parts: [f64; 4], expected: [f64; 3], by: f64) {
    for (class, expected) in expected.into_iter().enumerate() {
        let part = parts[class];
        assert!((part - expected).abs() <= by, "class {class}: {part:.3}, expected {expected}");
    }
}

#[test]
fn fixed_shares_are_kept_and_never_lent() {
    let (origin, seen) = origin();
    let keys = ["share = \"50%\"", "share = \"25%\"", "share = \"25%\""];
    let gateway = gateway(&origin, "policy = \"fixed\"", keys);
    let all: Vec<Clients> = (0..3)
        .map(|it| Clients::start(gateway.address, 12, &format!("/{it}/1"), "1.1.1.1"))
        .collect();
    let got = count(&seen, counted());
    assert_near(parts(got), [0.5, 0.25, 0.25], 0.04);
    let refused: u64 = all.into_iter().map(|it| it.stop()[1]).sum();
    assert_eq!((refused, &seen.most()[..3]), (0, &[4, 2, 2][..]));
    // Alone, a class has no more than its share.
    let alone = Clients::start(gateway.address, 12, "/2/1", "1.1.1.1");
    count(&seen, 300);
    alone.stop();
    assert_eq!(seen.most()[2], 2);
    gateway.assert_conserved();
}

#[test]
fn shared_capacity_is_lent_but_for_the_reserve() {
    let (origin, seen) = origin();
    let keys = ["share = \"50%\"\nreserve = \"25%\"", "share = \"25%\"", "share = \"25%\""];
    let gateway = gateway(&origin, "policy = \"shared\"", keys);
    // Without the first class the others have what it does not keep, six of eight: each its two, and what
    // is left by importance.
    let lent: Vec<Clients> = (1..3)
        .map(|it| Clients::start(gateway.address, 12, &format!("/{it}/1"), "1.1.1.1"))
        .collect();
    let got = count(&seen, counted());
    assert_near(parts(got), [0.0, 4.0 / 6.0, 2.0 / 6.0], 0.05);
    assert!(seen.most()[1] <= 6, "the reserve was lent: {:?}", seen.most());
    // And when it comes back it has its share.
    let back = Clients::start(gateway.address, 12, "/0/1", "1.1.1.1");
    count(&seen, 100);
    let got = count(&seen, counted());
    assert_near(parts(got), [0.5, 0.25, 0.25], 0.04);
    back.stop();
    lent.into_iter().for_each(|it| assert_eq!(it.stop()[1], 0));
    gateway.assert_conserved();
}

#[test]
fn weights_hold_in_work_though_costs_differ() {
    let (origin, seen) = origin();
    let keys = ["weight = 3", "weight = 1", "weight = 1"];
    let gateway = gateway(&origin, "policy = \"weighted\"", keys);
    let all = [
        Clients::start(gateway.address, 24, "/0/1", "1.1.1.1"),
        // Ten times the work a request.
        Clients::start(gateway.address, 24, "/1/10", "1.1.1.1"),
    ];
    // Costs are learned first.
    count(&seen, 300);
    let before = seen.worked();
    let got = count(&seen, counted());
    // As it took: on a loaded machine a short sleep is longer by more than a tenth of a long one.
    let worked = seen.worked();
    let [light, heavy] = [0, 1].map(|class| (worked[class] - before[class]) as f64);
    let part = light / (light + heavy);
    // The way there and back is in what the gateway measures, and more of it in the light requests.
    assert!((0.65..=0.80).contains(&part), "{part:.3} of the work: {got:?}");
    all.into_iter().for_each(|it| assert_eq!(it.stop()[1], 0));
    gateway.assert_conserved();
}

#[test]
fn a_greedy_flow_starves_nobody_of_its_class() {
    let (origin, seen) = origin();
    let gateway = gateway(&origin, "", ["", "", ""]);
    let greedy = Clients::start(gateway.address, 100, "/0/1", "198.51.100.1");
    count(&seen, 100);
    // Each of these asks one at a time; they are told apart by the address that a trusted peer says.
    let modest: Vec<Clients> = (1..=8)
        .map(|it| Clients::start(gateway.address, 1, "/0/1", &format!("192.0.2.{it}")))
        .collect();
    count(&seen, counted());
    let served: Vec<[u64; 2]> = modest.into_iter().map(Clients::stop).collect();
    let [got, refused] = greedy.stop();
    assert_eq!(refused, 0);
    for [served, refused] in &served {
        assert_eq!(*refused, 0);
        // With turns each has about an eighth of what all nine flows get by turns, which is much more than
        // one request in a hundred and eight.
        let fair = (got + served) as f64 / 108.0;
        assert!(*served as f64 > 2.0 * fair, "{served} of {got} for the greedy one: {served:?}");
    }
    gateway.assert_conserved();
}
