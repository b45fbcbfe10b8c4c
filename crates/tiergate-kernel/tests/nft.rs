//! SYN policing by nftables in network namespaces: what passes, by the table's counters and those of the network layer behind it. Needs root's rights.

#[allow(dead_code, reason = "each test uses a part of it")]
mod network;

use network::policing::{POLICE, POLICER, PORT, addresses, connects, early, entry, wanted};
use network::{INTERFACE, Network, SERVER, SERVER_OTHER, SERVER_V6, flood, undisturbed};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::{Early, Entry};
use tiergate_kernel::{BucketCounts, NftGate, Switches};

const MINUTE: Duration = Duration::from_secs(60);
/// Long enough for a connection on a busy machine; too short for the second SYN of one whose first was dropped.
const SOON: Duration = Duration::from_millis(700);

/// A table at the server's interface with these rules.
fn gate(network: &Network, early: &Early, wanted: Wanted) -> NftGate {
    network.on_server(|| {
        let mut gate = NftGate::load().expect("it loads");
        gate.put_in_force(early, &addresses(), |_| Some(wanted)).expect("there is room");
        gate.attach(INTERFACE).expect("it is there");
        gate
    })
}

/// What was counted at the policer.
fn counts(network: &Network, gate: &mut NftGate) -> Vec<(Option<u64>, BucketCounts)> {
    network.on_server(|| gate.read_counts()).expect("the kernel says");
    gate.bucket_counts(POLICER)
}

/// Tables of the server's namespace, as `nft` lists them.
fn tables(network: &Network) -> String {
    let output = network.server_command(Path::new("nft")).args(["list", "tables"]).output();
    String::from_utf8_lossy(&output.expect("nft runs").stdout).into_owned()
}

/// So many SYNs from a network.
fn send(network: &Network, from: [u8; 2], most: u64) {
    let (stop, sent) = Default::default();
    network.on_client(|| flood(&[from], PORT, most, &stop, &sent));
}

#[test]
fn policing_is_exact_while_rates_change_under_a_flood() {
    undisturbed(rates_change_under_a_flood);
}

fn rates_change_under_a_flood() {
    let Some(network) = Network::without_programs() else { return };
    let of = |rate| wanted(rate, 300, &[]);
    let rules = early(vec![entry("0.0.0.0/0", None, None), entry("10.81.0.0/16", Some(0), None)]);
    let mut gate = gate(&network, &rules, of(1000));
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = network.received();
    // Tokens that must have come, and may have.
    let (mut least, mut most) = (0.0, 0.0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            network.on_client(|| flood(&[[10, 81], [10, 84]], PORT, u64::MAX, &stop, &sent));
        });
        // Off: all pass.
        while sent.load(Ordering::Relaxed) < 1000 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut begun = [Instant::now(); 2];
        gate.switch(POLICE).expect("it is taken");
        begun[1] = Instant::now();
        for (rate, next) in [(1000, Some(300)), (300, Some(4000)), (4000, None)] {
            std::thread::sleep(Duration::from_millis(600));
            let changing = Instant::now();
            match next {
                Some(next) => gate.set_bucket(POLICER, of(next)).expect("it is taken"),
                None => gate.switch(Switches::default()).expect("it is taken"),
            }
            let changed = Instant::now();
            least += f64::from(rate) * (changing - begun[1]).as_secs_f64();
            most += f64::from(rate) * (changed - begun[0]).as_secs_f64();
            begun = [changing, changed];
        }
        stop.store(true, Ordering::Relaxed);
    });
    let counts = counts(&network, &mut gate);
    let BucketCounts { passed, dropped, .. } = counts[0].1;
    let sent = sent.into_inner();
    // A bucket is full when its rate changes.
    let bursts = 3.0 * 300.0;
    eprintln!(
        "sent {sent}, passed {passed} of {least:.0} + {bursts} to {most:.0} + {bursts}, dropped {dropped}"
    );
    assert!(dropped > 2 * passed, "a flood");
    let seen = gate.counts().seen;
    assert!(seen > passed + dropped && seen < sent, "also others', and none while it was off");
    assert_eq!(network.received() - before, sent - dropped, "what is not dropped arrives");
    let passed = passed as f64;
    assert!(passed >= 0.99 * (least + bursts) && passed <= 1.01 * (most + bursts));
}

#[test]
fn a_class_has_its_share_and_the_overflow_is_for_all() {
    undisturbed(classes_share_and_overflow);
}

fn classes_share_and_overflow() {
    let Some(network) = Network::without_programs() else { return };
    let rules = early(vec![
        entry("0.0.0.0/0", Some(0), None),
        entry("10.81.0.0/16", Some(0), Some(0)),
        entry("10.82.0.0/16", Some(0), Some(1)),
    ]);
    let mut gate = gate(&network, &rules, wanted(2000, 300, &[(5, 6000, 300), (6, 3000, 200)]));
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut times = [0.0; 2];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let from = [[10, 81], [10, 82], [10, 83]];
            network.on_client(|| flood(&from, PORT, u64::MAX, &stop, &sent));
        });
        // Full buckets would lose what comes before the first SYN.
        while sent.load(Ordering::Relaxed) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = Instant::now();
        gate.switch(POLICE).expect("it is taken");
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(1000));
        times[0] = begun.elapsed().as_secs_f64();
        gate.switch(Switches::default()).expect("it is taken");
        times[1] = before.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
    });
    let counts = counts(&network, &mut gate);
    eprintln!("{counts:?} in {times:?} s");
    let is_near = |found: u64, rate: f64, burst: f64| {
        let found = found as f64;
        found >= 0.99 * (rate * times[0] + burst) && found <= 1.01 * (rate * times[1] + burst)
    };
    let own = |place: usize| counts[place].1.passed - counts[place].1.overflow;
    assert!(is_near(own(0), 1200.0, 300.0) && is_near(own(1), 600.0, 200.0), "{counts:?}");
    assert_eq!(own(2), 0, "others have none of their own");
    // The whole rate, and not what the shares leave: no fewer may pass than the gateway would serve.
    let overflow = counts.iter().map(|it| it.1.overflow).sum();
    assert!(is_near(overflow, 2000.0, 300.0), "{counts:?}");
    let keys: Vec<Option<u64>> = counts.iter().map(|it| it.0).collect();
    assert_eq!(keys, [Some(5), Some(6), None]);
    // Another rate: all of them follow. With none there is nothing but the bursts.
    network
        .on_server(|| gate.set_bucket(POLICER, wanted(0, 10, &[(5, 6000, 20), (6, 3000, 0)])))
        .expect("it is taken");
    gate.switch(POLICE).expect("it is taken");
    let before = self::counts(&network, &mut gate);
    send(&network, [10, 82], 100);
    send(&network, [10, 81], 100);
    let after = self::counts(&network, &mut gate);
    let passed = [0, 1, 2].map(|it| after[it].1.passed - before[it].1.passed);
    assert_eq!(passed, [20, 10, 0]);
}

#[test]
fn reloads_are_atomic_and_policers_that_stay_keep_their_tokens() {
    let Some(network) = Network::without_programs() else { return };
    let none = wanted(0, 0, &[]);
    let one = early(vec![entry("0.0.0.0/0", None, None), entry("10.81.0.0/16", Some(0), None)]);
    let other = early(vec![
        entry("0.0.0.0/0", Some(0), None),
        entry("10.82.0.0/16", None, None),
        entry("10.82.0.0/17", None, None),
    ]);
    let mut gate = gate(&network, &one, none);
    gate.switch(POLICE).expect("it is taken");
    // Dropped by both, and passed by both.
    for (from, passes) in [([10, 81], false), ([10, 82], true)] {
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let before = network.received();
        std::thread::scope(|scope| {
            scope.spawn(|| network.on_client(|| flood(&[from], PORT, 400_000, &stop, &sent)));
            let until = Instant::now() + Duration::from_millis(500);
            let mut reloads = 0;
            while Instant::now() < until {
                let rules = if reloads % 2 == 0 { &other } else { &one };
                gate.put_in_force(rules, &addresses(), |_| Some(none)).expect("there is room");
                reloads += 1;
            }
            stop.store(true, Ordering::Relaxed);
            assert!(reloads > 5, "{reloads}");
        });
        let (received, sent) = (network.received() - before, sent.into_inner());
        assert!(sent > 1000, "{sent}");
        assert_eq!(received, if passes { sent } else { 0 });
    }
    // What was replaced is gone: of all sets of rules one is left.
    std::thread::sleep(Duration::from_millis(50));
    network.on_server(|| gate.read_counts()).expect("the kernel says");
    let list = network
        .server_command(Path::new("nft"))
        .args(["list", "table", "inet", gate.table()])
        .output();
    let text = String::from_utf8_lossy(&list.expect("nft runs").stdout).into_owned();
    assert_eq!(text.matches("map services").count(), 2, "{text}");
    assert_eq!(text.matches("chain p").count(), 1, "{text}");
    assert!(text.contains("flags owner") && text.contains("hook ingress device \"in\""), "{text}");
    let some = wanted(0, 50, &[]);
    for rules in [&one, &other] {
        gate.put_in_force(rules, &addresses(), |_| Some(some)).expect("there is room");
        send(&network, [10, 81], 100);
    }
    assert_eq!(counts(&network, &mut gate)[0].1.passed, 50, "no token has come back");
}

#[test]
fn both_versions_of_ip_blocks_and_those_let_in() {
    let Some(network) = Network::without_programs() else { return };
    let rules = early(vec![
        entry("0.0.0.0/0", None, None),
        entry("10.79.0.1/32", Some(0), None),
        entry("::/0", None, None),
        entry("fd78::/64", Some(0), None),
    ]);
    let mut gate = gate(&network, &rules, wanted(0, 0, &[]));
    let _listeners = network.on_server(|| {
        [
            TcpListener::bind(("0.0.0.0", PORT)).expect("it is free"),
            TcpListener::bind((SERVER_V6, PORT)).expect("it is free"),
        ]
    });
    let [v4, other] = [SERVER.to_string(), SERVER_OTHER.to_string()];
    let all = |network: &Network| [&*v4, SERVER_V6, &other].map(|to| connects(network, to, SOON));
    assert_eq!(all(&network), [true; 3], "off");
    gate.switch(POLICE).expect("it is taken");
    assert_eq!(all(&network), [true, false, false]);
    let [client_v4, client_v6]: [IpAddr; 2] =
        ["10.78.0.1", "fd78::1"].map(|it| it.parse().expect("one"));
    gate.let_in(client_v6, MINUTE).expect("there is room");
    gate.block(client_v4, MINUTE).expect("there is room");
    assert_eq!(all(&network), [true, true, false], "blocks are off");
    gate.switch(Switches { block: true, ..POLICE }).expect("it is taken");
    assert_eq!(all(&network), [false, true, false]);
    gate.let_in(client_v4, MINUTE).expect("there is room");
    assert_eq!(all(&network), [true, true, false], "let in, although blocked");
    // Both end, and by themselves; also a block that was to be longer.
    gate.let_in(client_v4, Duration::ZERO).expect("there is room");
    gate.let_in(client_v6, Duration::from_millis(1)).expect("there is room");
    assert_eq!(all(&network), [false, false, false]);
    gate.block(client_v4, Duration::from_millis(1)).expect("there is room");
    // The kernel counts in ticks.
    std::thread::sleep(Duration::from_millis(50));
    assert!(connects(&network, &v4, SOON));
    gate.block(client_v4, MINUTE).expect("there is room");
    gate.unblock_all();
    assert!(connects(&network, &v4, SOON));
    network.on_server(|| gate.read_counts()).expect("the kernel says");
    let total = gate.counts();
    assert!(total.let_in >= 3 && total.blocked >= 2, "{total:?}");
    gate.keep_at(&[]);
    assert_eq!(all(&network), [true; 3], "gone");
}

#[test]
fn whom_the_gate_may_spare_is_blocked_only_if_all_are() {
    let Some(network) = Network::without_programs() else { return };
    let spared = Entry { may_be_spared: true, ..entry("10.78.0.0/16", None, None) };
    let mut gate = gate(&network, &early(vec![spared]), wanted(1, 1, &[]));
    let _listener = network.on_server(|| TcpListener::bind((SERVER, PORT)).expect("it is free"));
    let to = SERVER.to_string();
    gate.block("10.78.0.1".parse().expect("an address"), MINUTE).expect("room");
    gate.switch(Switches { block: true, ..POLICE }).expect("it is taken");
    assert!(connects(&network, &to, SOON));
    gate.switch(Switches { block_all: true, ..POLICE }).expect("it is taken");
    assert!(!connects(&network, &to, SOON));
    let proxy = Entry { is_trusted: true, ..spared };
    let services = addresses();
    gate.put_in_force(&early(vec![proxy]), &services, |_| Some(wanted(1, 1, &[]))).expect("room");
    assert!(connects(&network, &to, SOON), "a proxy");
}

/// The time is printed, not asserted.
#[test]
fn ten_thousand_networks_are_one_lookup() {
    let Some(network) = Network::without_programs() else { return };
    // Neighbours differ: otherwise they were one.
    let bucket_of = |number: u32| (number % 2 == 1).then_some(0);
    let mut entries = vec![entry("0.0.0.0/0", None, None), entry("10.80.0.0/12", None, None)];
    entries.extend((0..10_000_u32).map(|number| {
        let [_, b, c, d] = (number * 64).to_be_bytes();
        entry(&format!("{}.{c}.{d}.0/26", 20 + b), bucket_of(number), None)
    }));
    entries.push(entry("10.81.0.0/16", Some(0), None));
    let begun = Instant::now();
    let mut gate = gate(&network, &early(entries.clone()), wanted(0, 7, &[]));
    eprintln!("10,000 networks are in force after {:?}", begun.elapsed());
    gate.switch(POLICE).expect("it is taken");
    let before = network.received();
    send(&network, [10, 81], 50);
    send(&network, [10, 82], 50);
    send(&network, [20, 9], 50);
    assert_eq!(network.received() - before, 7 + 50 + 50);
    // As many as a policy may have, and other ones.
    let begun = Instant::now();
    entries.extend((0..49_000_u32).map(|number| {
        let [a, b, c, d] = (number << 8).to_be_bytes();
        entry(&format!("{}.{b}.{c}.{d}/24", 100 + a), bucket_of(number), None)
    }));
    gate.put_in_force(&early(entries), &addresses(), |_| Some(wanted(0, 7, &[]))).expect("room");
    eprintln!("59,000 networks are in force after {:?}", begun.elapsed());
    let before = network.received();
    send(&network, [10, 81], 50);
    assert_eq!(network.received() - before, 0, "its tokens are gone");
}

#[test]
fn interfaces_that_go_and_come_and_two_tables() {
    let Some(network) = Network::without_programs() else { return };
    let rules = early(vec![entry("0.0.0.0/0", Some(0), None)]);
    let mut first = gate(&network, &rules, wanted(0, 5, &[]));
    let fault = network.on_server(|| first.attach("later")).expect_err("none").to_string();
    assert_eq!(fault, "there is no interface \"later\" in this network namespace");
    let ip = |words: &str| {
        let mut command = network.server_command(Path::new("ip"));
        assert!(command.args(words.split(' ')).status().expect("ip runs").success(), "{words}");
    };
    for _ in 0..2 {
        ip("link add later type veth peer name earlier");
        let both = [INTERFACE.to_owned(), "later".to_owned()];
        network.on_server(|| {
            first.keep_at(&both);
            assert_eq!(first.interfaces().count(), 1);
            assert_eq!(first.attach("later").expect("it is there").name(), "nftables");
            first.keep_at(&both);
            assert_eq!(first.interfaces().count(), 2);
        });
        ip("link del later");
    }
    network.on_server(|| first.keep_at(&[INTERFACE.to_owned()]));
    // Another one of this process, which takes a token, too.
    let mut second = gate(&network, &rules, wanted(0, 3, &[]));
    assert_ne!(first.table(), second.table());
    first.switch(POLICE).expect("it is taken");
    second.switch(POLICE).expect("it is taken");
    let before = network.received();
    send(&network, [10, 81], 20);
    assert_eq!(network.received() - before, 3);
    drop(second);
    let text = tables(&network);
    assert_eq!(text.lines().collect::<Vec<_>>(), [format!("table inet {}", first.table())]);
}

/// Not a test: what the next one runs and kills.
#[test]
#[ignore = "the next test runs it"]
fn child_that_drops_everything() {
    let mut gate = NftGate::load().expect("it loads");
    let rules = early(vec![entry("0.0.0.0/0", Some(0), None)]);
    gate.put_in_force(&rules, &addresses(), |_| Some(wanted(0, 0, &[]))).expect("there is room");
    gate.switch(POLICE).expect("it is taken");
    gate.attach(INTERFACE).expect("it is there");
    println!("attached");
    std::thread::sleep(Duration::from_secs(30));
}

#[test]
fn a_gateway_that_is_killed_leaves_no_table() {
    let Some(network) = Network::without_programs() else { return };
    let _listener = network.on_server(|| TcpListener::bind((SERVER, PORT)).expect("it is free"));
    let to = SERVER.to_string();
    let mut command = network.server_command(&std::env::current_exe().expect("it runs"));
    command.args(["--exact", "child_that_drops_everything", "--ignored", "--nocapture"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("nsenter runs");
    let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("attached")));
    assert!(tables(&network).contains("table inet tiergate_"));
    assert!(!connects(&network, &to, SOON), "it drops everything");
    child.kill().expect("it runs");
    child.wait().expect("it has ended");
    assert_eq!(tables(&network), "", "with the process");
    assert!(connects(&network, &to, Duration::from_secs(5)), "everything passes");
}

/// Not a test: what the next one runs with fewer rights.
#[test]
#[ignore = "the next test runs it"]
fn child_with_fewer_rights() {
    let loaded = NftGate::load().and_then(|mut it| it.attach(INTERFACE));
    println!("nft: {}", loaded.map_or_else(|fault| fault.to_string(), |way| way.name().to_owned()));
}

#[test]
fn one_right_suffices_and_is_named_where_it_is_missing() {
    let Some(network) = Network::without_programs() else { return };
    let said = |rights: &str| {
        let mut command = network.server_command(Path::new("setpriv"));
        for set in ["--bounding-set", "--inh-caps"] {
            command.arg(format!("{set}=-all{rights}"));
        }
        command.arg(std::env::current_exe().expect("it runs"));
        command.args(["--exact", "child_with_fewer_rights", "--ignored", "--nocapture"]);
        let output = command.output().expect("setpriv runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.split_once("nft: "));
        let error = String::from_utf8_lossy(&output.stderr);
        line.unwrap_or_else(|| panic!("{text}{error}")).1.to_owned()
    };
    assert_eq!(said(",+net_admin"), "nftables");
    let fault = said(",+bpf,+perfmon");
    assert!(
        fault.starts_with("nftables cannot be used: ")
            && fault.ends_with("; it needs CAP_NET_ADMIN"),
        "{fault}"
    );
}

/// `make kernel-bench`: nanoseconds of a SYN that is sent and dropped, by what drops it; the same sender, so that differences are those of what comes behind.
#[test]
#[ignore = "a measurement"]
fn what_a_dropped_syn_costs() {
    let Some(network) = Network::start() else { return };
    let rules = |count: u32| {
        let other = |number: u32| {
            let [_, b, c, d] = (number * 256).to_be_bytes();
            entry(&format!("{}.{c}.{d}.0/24", 20 + b), number.is_multiple_of(2).then_some(0), None)
        };
        let own = [entry("0.0.0.0/0", None, None), entry("10.81.0.0/16", Some(0), None)];
        early(own.into_iter().chain((0..count).map(other)).collect())
    };
    let nanos = |most: u64| {
        let begun = Instant::now();
        send(&network, [10, 81], most);
        begun.elapsed().as_nanos() / u128::from(most)
    };
    let best = || (0..5).map(|_| nanos(200_000)).min().expect("five");
    eprintln!("received by the network layer, which has no listener: {} ns", best());
    for count in [3, 10_000] {
        let mut nft = gate(&network, &rules(count), wanted(1, 1, &[]));
        let off = best();
        nft.switch(POLICE).expect("it is taken");
        eprintln!("nftables, {count} networks: {} ns; switched off {off} ns", best());
    }
    for count in [3, 10_000] {
        let mut program = network.on_server(|| {
            let mut program = tiergate_kernel::SynGate::load().expect("it loads");
            let put =
                program.put_in_force(&rules(count), &addresses(), |_| Some(wanted(1, 1, &[])));
            put.expect("there is room");
            program.attach(INTERFACE).expect("it is free");
            program
        });
        let off = best();
        program.switch(POLICE).expect("it is taken");
        eprintln!("the program, {count} networks: {} ns; switched off {off} ns", best());
    }
}
