//! SYN policing in network namespaces: what passes, by counts of the program and of the network layer behind it. Needs root's rights.

#[allow(dead_code, reason = "each test uses a part of it")]
mod network;

use network::held::Held;
use network::policing::{POLICE, POLICER, PORT, addresses, connects, early, entry, wanted};
use network::{INTERFACE, Network, SERVER, SERVER_OTHER, SERVER_V6, flood, undisturbed};
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::{Early, Entry};
use tiergate_kernel::{BucketCounts, HttpGate, Service, Switches, SynGate};

/// A program at the server's interface with these rules.
fn gate(network: &Network, early: &Early, wanted: Wanted) -> SynGate {
    network.on_server(|| {
        let mut gate = SynGate::load().expect("it loads");
        gate.put_in_force(early, &addresses(), |_| Some(wanted)).expect("there is room");
        gate.attach(INTERFACE).expect("it is free");
        gate
    })
}

fn counts(gate: &SynGate) -> Vec<(Option<u64>, BucketCounts)> {
    gate.bucket_counts(POLICER).expect("it is in force")
}

/// Long enough for a connection on a busy machine; too short for the second SYN of one whose first was dropped.
const SOON: Duration = Duration::from_millis(700);

#[test]
fn policing_is_exact_while_rates_change_under_a_flood() {
    undisturbed(rates_change_under_a_flood);
}

fn rates_change_under_a_flood() {
    let Some(network) = Network::start() else { return };
    let shares = [(5, 6000, 300), (6, 3000, 300)];
    let of = |rate| wanted(rate, 300, &shares);
    let rules = early(vec![
        entry("0.0.0.0/0", Some(0), None),
        entry("10.81.0.0/16", Some(0), Some(0)),
        entry("10.82.0.0/16", Some(0), Some(1)),
        entry("10.84.0.0/16", None, None),
    ]);
    let mut gate = gate(&network, &rules, of(1000));
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = network.received();
    // Tokens that must have come, and may have.
    let (mut least, mut most) = (0.0, 0.0);
    std::thread::scope(|scope| {
        let flooding = || {
            network
                .on_client(|| flood(&[[10, 81], [10, 82], [10, 83]], PORT, u64::MAX, &stop, &sent))
        };
        scope.spawn(flooding);
        gate.switch(POLICE).expect("it is written");
        let mut begun = [Instant::now(); 2];
        for (rate, next) in [(1000, Some(300)), (300, Some(4000)), (4000, None)] {
            std::thread::sleep(Duration::from_millis(1200));
            let changing = Instant::now();
            match next {
                Some(next) => gate.set_bucket(POLICER, of(next)).expect("it is written"),
                None => gate.switch(Switches::default()).expect("it is written"),
            }
            let changed = Instant::now();
            least += f64::from(rate) * (changing - begun[1]).as_secs_f64();
            most += f64::from(rate) * (changed - begun[0]).as_secs_f64();
            begun = [changing, changed];
        }
        stop.store(true, Ordering::Relaxed);
    });
    let counts = counts(&gate);
    let passed: u64 = counts.iter().map(|it| it.1.passed).sum();
    let dropped: u64 = counts.iter().map(|it| it.1.dropped).sum();
    let sent = sent.into_inner();
    eprintln!(
        "sent {sent}, passed {passed} of {least:.0} + 900 to {most:.0} + 900, dropped {dropped}"
    );
    assert!(dropped > 2 * passed, "a flood");
    let passed = passed as f64;
    assert!(passed >= 0.99 * (least + 900.0) && passed <= 1.01 * (most + 900.0));
    // By partition. What nobody has a share of, a tenth, and the overflow's burst is taken by any.
    for (place, part) in [(0, 0.6), (1, 0.3)] {
        let own = (counts[place].1.passed - counts[place].1.overflow) as f64;
        assert!(
            own >= 0.985 * (part * least + 300.0) && own <= 1.015 * (part * most + 300.0),
            "{counts:?}"
        );
    }
    // What the program lets pass arrives, and nothing else: before it was on and afterwards all did.
    let seen = gate.counts().expect("it is there").seen;
    assert_eq!(seen, passed as u64 + dropped);
    assert_eq!(network.received() - before, sent - dropped);
}

#[test]
fn what_a_class_leaves_the_others_get() {
    undisturbed(a_class_leaves_the_others_some);
}

fn a_class_leaves_the_others_some() {
    let Some(network) = Network::start() else { return };
    let wanted = wanted(2000, 0, &[(5, 6000, 200), (6, 4000, 200)]);
    let rules = early(vec![
        entry("10.81.0.0/16", Some(0), Some(0)),
        entry("10.82.0.0/16", Some(0), Some(1)),
    ]);
    let mut gate = gate(&network, &rules, wanted);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| network.on_client(|| flood(&[[10, 81]], PORT, u64::MAX, &stop, &sent)));
        gate.switch(POLICE).expect("it is written");
        std::thread::sleep(Duration::from_millis(1000));
        stop.store(true, Ordering::Relaxed);
    });
    // The overflow keeps nothing, so what spills is gone unless it is taken at once: one token at a time fits nowhere.
    let none = counts(&gate);
    assert_eq!(none[0].1.overflow, 0, "{none:?}");
    let wanted = self::wanted(2000, 200, &[(5, 6000, 200), (6, 4000, 200)]);
    gate.set_bucket(POLICER, wanted).expect("it is written");
    let begun = Instant::now();
    stop.store(false, Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| network.on_client(|| flood(&[[10, 81]], PORT, u64::MAX, &stop, &sent)));
        std::thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
    });
    let time = begun.elapsed().as_secs_f64();
    let of_overflow = counts(&gate)[0].1.overflow as f64;
    assert!(
        of_overflow >= 0.9 * 800.0 * time && of_overflow <= 800.0 * time * 1.01 + 210.0,
        "{of_overflow} in {time}"
    );
}

#[test]
fn reloads_are_atomic() {
    let Some(network) = Network::start() else { return };
    let none = wanted(0, 0, &[]);
    let one = early(vec![entry("0.0.0.0/0", None, None), entry("10.81.0.0/16", Some(0), None)]);
    let other = early(vec![
        entry("0.0.0.0/0", Some(0), None),
        entry("10.82.0.0/16", None, None),
        entry("10.82.0.0/17", None, None),
    ]);
    let mut gate = gate(&network, &one, none);
    gate.switch(POLICE).expect("it is written");
    // Dropped by both, and passed by both.
    for (from, passes) in [([10, 81], false), ([10, 82], true)] {
        let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
        let before = network.received();
        std::thread::scope(|scope| {
            scope.spawn(|| network.on_client(|| flood(&[from], PORT, 400_000, &stop, &sent)));
            let until = Instant::now() + Duration::from_millis(700);
            let mut reloads = 0;
            while Instant::now() < until {
                let rules = if reloads % 2 == 0 { &other } else { &one };
                gate.put_in_force(rules, &addresses(), |_| Some(none)).expect("there is room");
                reloads += 1;
                // What is replaced stays until the next: as long as any packet is on its way.
                std::thread::sleep(Duration::from_millis(20));
            }
            stop.store(true, Ordering::Relaxed);
            assert!(reloads > 10, "{reloads}");
        });
        let (received, sent) = (network.received() - before, sent.into_inner());
        assert!(sent > 1000, "{sent}");
        assert_eq!(received, if passes { sent } else { 0 });
    }
}

/// Those that are policed, and so many networks that are not.
fn with_others(policed: &str, others: u32) -> Early {
    let mut entries = vec![entry("0.0.0.0/0", None, None), entry(policed, Some(0), None)];
    entries.extend((0..others).map(|number| {
        let [_, a, b, c] = number.to_be_bytes();
        entry(&format!("{}.{b}.{c}.0/24", 20 + a), None, None)
    }));
    early(entries)
}

#[test]
fn rules_that_need_a_larger_table_come_into_force_at_once_and_keep_tokens() {
    let Some(network) = Network::start() else { return };
    let bucket = wanted(0, 50, &[]);
    let mut gate = gate(&network, &with_others("10.81.0.0/16", 1), bucket);
    gate.switch(POLICE).expect("it is written");
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let before = network.received();
    std::thread::scope(|scope| {
        scope.spawn(|| network.on_client(|| flood(&[[10, 81]], PORT, 400_000, &stop, &sent)));
        // Until the bucket is empty.
        let until = Instant::now() + Duration::from_secs(5);
        while sent.load(Ordering::Relaxed) < 100 && Instant::now() < until {
            std::thread::yield_now();
        }
        for others in [300, 3_000, 3_000, 12_000, 50_000, 1, 50_000] {
            let rules = with_others("10.81.0.0/16", others);
            gate.put_in_force(&rules, &addresses(), |_| Some(bucket)).expect("there is room");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (received, sent) = (network.received() - before, sent.into_inner());
    assert!(sent > 100, "{sent}");
    assert_eq!(received, 50, "of {sent}: what was in the bucket");
    let dropped: u64 = counts(&gate).iter().map(|(_, it)| it.dropped).sum();
    assert_eq!(dropped, sent - 50, "counts go on");
}

#[test]
fn an_interface_that_is_gone_does_not_hold_up_a_larger_table() {
    let Some(network) = Network::start() else { return };
    let none = wanted(0, 0, &[]);
    let mut gate = gate(&network, &with_others("10.81.0.0/16", 1), none);
    network.on_server(|| assert!(ip(&format!("link del {INTERFACE}"))));
    let larger = with_others("10.81.0.0/16", 20_000);
    gate.put_in_force(&larger, &addresses(), |_| Some(none)).expect("it is held by nobody");
}

#[test]
fn both_versions_of_ip_blocks_and_those_let_in() {
    let Some(network) = Network::start() else { return };
    let wanted = wanted(0, 0, &[]);
    let rules = early(vec![
        entry("0.0.0.0/0", None, None),
        entry("10.79.0.1/32", Some(0), None),
        entry("::/0", None, None),
        entry("fd78::/64", Some(0), None),
    ]);
    let mut gate = gate(&network, &rules, wanted);
    let _listeners = network.on_server(|| {
        [
            TcpListener::bind(("0.0.0.0", PORT)).expect("it is free"),
            TcpListener::bind((SERVER_V6, PORT)).expect("it is free"),
        ]
    });
    let [v4, other] = [SERVER.to_string(), SERVER_OTHER.to_string()];
    let all = |network: &Network| [&*v4, SERVER_V6, &other].map(|to| connects(network, to, SOON));
    assert_eq!(all(&network), [true; 3], "off");
    gate.switch(POLICE).expect("it is written");
    assert_eq!(all(&network), [true, false, false]);
    let [client_v4, client_v6]: [IpAddr; 2] =
        ["10.78.0.1", "fd78::1"].map(|it| it.parse().expect("one"));
    gate.let_in(client_v6, Duration::from_secs(60)).expect("there is room");
    gate.block(client_v4, Duration::from_secs(60)).expect("there is room");
    assert_eq!(all(&network), [true, true, false], "blocks are off");
    gate.switch(Switches { block: true, ..POLICE }).expect("it is written");
    assert_eq!(all(&network), [false, true, false]);
    gate.let_in(client_v4, Duration::from_secs(60)).expect("there is room");
    assert_eq!(all(&network), [true, true, false], "let in, although blocked");
    // Both end.
    gate.let_in(client_v4, Duration::ZERO).expect("there is room");
    gate.let_in(client_v6, Duration::ZERO).expect("there is room");
    assert_eq!(all(&network), [false, false, false]);
    gate.block(client_v4, Duration::ZERO).expect("there is room");
    assert_eq!(all(&network), [true, false, false]);
    gate.block(client_v4, Duration::from_secs(60)).expect("there is room");
    gate.unblock_all();
    assert_eq!(all(&network), [true, false, false]);
    let total = gate.counts().expect("it is there");
    assert!(total.let_in >= 3 && total.blocked >= 2, "{total:?}");
    gate.keep_at(&[]);
    assert_eq!(all(&network), [true; 3], "gone");
}

#[test]
fn whom_the_gate_may_spare_is_blocked_only_if_all_are() {
    let Some(network) = Network::start() else { return };
    let spared = Entry { may_be_spared: true, ..entry("10.78.0.0/16", None, None) };
    let mut gate = gate(&network, &early(vec![spared]), wanted(1, 1, &[]));
    let _listener = network.on_server(|| TcpListener::bind((SERVER, PORT)).expect("it is free"));
    let to = SERVER.to_string();
    gate.block("10.78.0.1".parse().expect("an address"), Duration::from_secs(60)).expect("room");
    gate.switch(Switches { block: true, ..POLICE }).expect("it is written");
    assert!(connects(&network, &to, SOON));
    gate.switch(Switches { block_all: true, ..POLICE }).expect("it is written");
    assert!(!connects(&network, &to, SOON));
    // A proxy, also if a client of the same network behind it or beside it is blocked.
    let proxy = Entry { is_trusted: true, ..spared };
    let services = addresses();
    gate.put_in_force(&early(vec![proxy]), &services, |_| Some(wanted(1, 1, &[]))).expect("room");
    assert!(connects(&network, &to, SOON), "a proxy");
}

#[test]
fn rules_that_find_no_room_leave_the_former_ones_and_their_buckets() {
    let Some(network) = Network::start() else { return };
    let rules = early(vec![entry("0.0.0.0/0", Some(0), None)]);
    let mut gate = gate(&network, &rules, wanted(0, 50, &[]));
    gate.switch(POLICE).expect("it is written");
    let many = |number: u16| Service { listener: 0, local: (SERVER, 10_000 + number).into() };
    let too_many: Vec<Service> = (0..33_000).map(many).collect();
    for _ in 0..2 {
        let put = gate.put_in_force(&rules, &too_many, |_| Some(wanted(0, 7, &[])));
        let fault = put.expect_err("the map has 32,768 places").to_string();
        assert_eq!(fault, "the program's map services: the policy has more than it has room for");
    }
    let flood = |most| {
        let (stop, sent) = Default::default();
        network.on_client(|| flood(&[[10, 81]], PORT, most, &stop, &sent));
    };
    flood(100);
    let passed = || counts(&gate).iter().map(|it| it.1.passed).sum::<u64>();
    assert_eq!(passed(), 50, "the former bucket, with its tokens");
    // Nothing of them is in the way of the next.
    gate.put_in_force(&rules, &addresses(), |_| Some(wanted(0, 7, &[]))).expect("there is room");
    flood(100);
    assert_eq!(
        counts(&gate).iter().map(|it| it.1.passed).sum::<u64>(),
        50,
        "no token has come back"
    );
    // As many as there is room for, again and again: what is replaced is there until the next.
    for _ in 0..3 {
        let put = gate.put_in_force(&rules, &too_many[..16_384], |_| Some(wanted(0, 7, &[])));
        put.expect("there is room for both");
    }
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|it| it.success())
}

/// As the one end of a veth in a cluster with jumbo frames: packets of the other may not fit into a page.
#[test]
fn where_the_driver_cannot_do_it_with_this_mtu_it_is_generic() {
    let Some(network) = Network::start() else { return };
    network.on_client(|| assert!(ip("link set out mtu 9000")));
    let rules = early(vec![entry("0.0.0.0/0", Some(0), None)]);
    let mut gate = gate(&network, &rules, wanted(0, 5, &[]));
    assert_eq!(gate.interfaces().next().map(|it| it.1.name()), Some("generic"));
    gate.switch(POLICE).expect("it is written");
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    network.on_client(|| flood(&[[10, 81]], PORT, 100, &stop, &sent));
    let [(None, BucketCounts { passed, dropped, .. })] = counts(&gate)[..] else {
        panic!("one of all: {:?}", counts(&gate));
    };
    assert_eq!((passed, passed + dropped), (5, sent.into_inner()));
}

/// There it would pass all packets, as it passes all that it does not understand, and look as if it were in force.
#[test]
fn no_program_is_put_where_packets_have_no_ethernet_header() {
    let Some(network) = Network::start() else { return };
    network.on_server(|| {
        if !ip("tuntap add dev flat mode tun") || !ip("link set flat up") {
            return eprintln!("not tested: no tun interface can be made here");
        }
        let wanted =
            "the program cannot be attached to flat: its packets have no Ethernet header, ";
        let mut syn = SynGate::load().expect("it loads");
        let mut http = HttpGate::load().expect("it loads");
        for attached in [syn.attach("flat"), http.attach("flat")] {
            let fault = attached.expect_err("it can read nothing there").to_string();
            assert!(fault.starts_with(wanted), "{fault}");
        }
        assert_eq!((syn.interfaces().count(), http.interfaces().count()), (0, 0));
    });
}

/// Not a test: what the next one runs and kills.
#[test]
#[ignore = "the next test runs it"]
fn child_that_drops_everything() {
    let mut gate = SynGate::load().expect("it loads");
    let rules = early(vec![entry("0.0.0.0/0", Some(0), None)]);
    gate.put_in_force(&rules, &addresses(), |_| Some(wanted(0, 0, &[]))).expect("there is room");
    gate.switch(POLICE).expect("it is written");
    gate.attach(INTERFACE).expect("it is free");
    println!("attached");
    std::thread::sleep(Duration::from_secs(30));
}

#[test]
fn a_gateway_that_is_killed_leaves_nothing_behind() {
    let Some(network) = Network::start() else { return };
    let _listener = network.on_server(|| TcpListener::bind((SERVER, PORT)).expect("it is free"));
    let to = SERVER.to_string();
    for round in 0..3 {
        let mut command = network.server_command(&std::env::current_exe().expect("it runs"));
        command.args(["--exact", "child_that_drops_everything", "--ignored", "--nocapture"]);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("nsenter runs");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("attached")));
        let held = Held::by(child.id());
        assert!(held.is_some_of_each(), "{held:?}");
        assert!(!connects(&network, &to, SOON), "it drops everything");
        if round == 2 {
            network.remove_server();
        }
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        held.assert_gone();
        assert!(round == 2 || connects(&network, &to, Duration::from_secs(5)), "everything passes");
    }
}

#[test]
fn a_second_program_is_refused_and_the_first_stays() {
    let Some(network) = Network::start() else { return };
    let rules = early(vec![entry("0.0.0.0/0", None, None)]);
    let first = gate(&network, &rules, wanted(1, 1, &[]));
    network.on_server(|| {
        let mut second = SynGate::load().expect("it loads");
        let fault = second.attach(INTERFACE).expect_err("one is there").to_string();
        let process = format!(" of process {} (", std::process::id());
        assert!(fault.starts_with("the program cannot be attached to in: the program tg_syn (id "));
        assert!(fault.contains(&process) && fault.contains("; end that process, "), "{fault}");
        let fault = second.attach("nowhere").expect_err("none").to_string();
        assert_eq!(fault, "there is no interface \"nowhere\" in this network namespace");
        assert_eq!(second.attach("lo").expect("it is free").name(), "generic");
    });
    let (name, way) = first.interfaces().next().expect("it is there");
    assert_eq!((name, way.name()), (INTERFACE, "native"));
}
