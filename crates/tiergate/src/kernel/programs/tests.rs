//! Both programs and nftables in network namespaces of the tests' own. What needs root's rights says so without them, and tests nothing.

use super::*;
use crate::config::meant::Mechanism;
use nix::sched::{CloneFlags, unshare};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use tiergate_kernel::SynGate;

const HERE: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn answers_are_whole_and_say_when_to_come_again() {
    for after in [1, 9, 60, 3600, u64::MAX] {
        let answer = String::from_utf8(answer(after)).expect("text");
        let value = answer.split_once("Retry-After:").expect("it has one").1;
        assert_eq!(value.lines().next().expect("its line").trim(), after.to_string());
        assert!(answer.len().is_multiple_of(4) && answer.len() <= 256, "{}", answer.len());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.contains("Content-Length: 0\r\n") && body.is_empty(), "{answer}");
    }
}

/// Needs root's rights; without them it says so and tests nothing.
#[test]
fn rules_that_cannot_be_written_leave_no_former_ones_in_force() {
    let policy = "[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
         [[rule]]\nclient = \"10.0.0.0/8\"\npolice = { rate = \"1/s\", burst = 5 }\n\
         [kernel]\nmechanism = \"ebpf\"\ninterfaces = [\"nowhere\"]\n";
    let policy = crate::config::parse(policy, "policy.toml").expect("a policy");
    let settings = policy.kernel.clone().expect("it has them");
    let mut programs = Programs::default();
    let here = |count: u32| -> Vec<IpAddr> {
        (0..count).map(|it| IpAddr::from((0x0a00_0000 + it).to_be_bytes())).collect()
    };
    let put = |programs: &mut Programs, count| {
        programs.put_in_force(Orders {
            settings: &settings,
            policy: &policy,
            here: &here(count),
            is_overload: true,
            rate: &|_| None,
        })
    };
    match put(&mut programs, 2) {
        Err(Fault::NoInterface(_)) => {}
        other => return eprintln!("not tested: {other:?}"),
    }
    let is_on = |programs: &Programs| {
        programs.syn.as_ref().is_some_and(|it| it.switches() != Switches::default())
    };
    assert!(programs.has_rules(&settings) && is_on(&programs));
    assert!(!programs.can_police(), "it is at no interface");
    assert!(!programs.is_elsewhere(&policy, &here(2)) && programs.is_elsewhere(&policy, &here(3)));
    // More addresses than the kernel's map has places.
    let fault = put(&mut programs, 40_000).expect_err("there is no room");
    assert!(matches!(fault, Fault::Map { .. }), "{fault}");
    assert!(!programs.has_rules(&settings) && !is_on(&programs));
    programs.switch(&settings, true).expect("nothing is done");
    assert!(!is_on(&programs), "not before the rules are there");
    assert!(matches!(put(&mut programs, 2), Err(Fault::NoInterface(_))));
    assert!(programs.has_rules(&settings) && is_on(&programs), "the next attempt");
}

/// A policy with this `[kernel]`.
fn policy(kernel: &str) -> (Policy, KernelSettings) {
    let text = format!(
        "[[listener]]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
         [[rule]]\nclient = \"127.0.0.0/8\"\npolice = {{ rate = \"1/m\", burst = 5 }}\n\
         [kernel]\n{kernel}"
    );
    let policy = crate::config::parse(&text, "policy.toml").expect("a policy");
    let settings = policy.kernel.clone().expect("it has them");
    (policy, settings)
}

fn orders((policy, settings): &(Policy, KernelSettings)) -> Orders<'_> {
    Orders { settings, policy, here: &HERE, is_overload: true, rate: &|_| None }
}

/// Does it on a thread in a network namespace of its own, with a program of somebody else's.
fn with_another(work: impl FnOnce(SynGate) + Send + 'static) {
    let thread = std::thread::spawn(move || {
        if let Err(error) = unshare(CloneFlags::CLONE_NEWNET) {
            return eprintln!("not tested: {error}");
        }
        match SynGate::load().and_then(|it| SynPolice::nft().map(|_| it)) {
            Ok(other) => work(other),
            Err(fault) => eprintln!("not tested: {fault}"),
        }
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Does it without the right to change what the network has.
fn without_the_right<T>(work: impl FnOnce() -> T) -> T {
    let all = capabilities(None).expect("the system says");
    let effective = all.effective.difference(CapabilitySet::NET_ADMIN);
    set_capabilities(None, CapabilitySets { effective, ..all }).expect("fewer are allowed");
    let done = work();
    set_capabilities(None, all).expect("it is permitted still");
    done
}

fn ip(words: &str) {
    let done = Command::new("ip").args(words.split(' ')).status().expect("ip runs");
    assert!(done.success(), "ip {words}");
}

#[test]
fn once_the_program_is_at_all_interfaces_nothing_is_said_to_be_missing() {
    with_another(|mut other| {
        other.attach("lo").expect("it is free");
        let asked = policy("interfaces = [\"lo\", \"later\"]\n");
        let (mut programs, orders) = (Programs::default(), orders(&asked));
        let missing = programs.put_in_force(orders);
        assert!(matches!(missing, Err(Fault::NoInterface(_))), "{missing:?}");
        assert_eq!(programs.mechanism(), "nftables");
        drop(other);
        ip("link add later type veth peer name peer");
        let now = clock::now() + MINUTE;
        let done = programs.mend(orders, now);
        assert!(matches!(done, Some(Ok(()))), "{done:?}");
        assert_eq!((programs.mechanism(), programs.not_ebpf()), ("ebpf", None));
        let done = programs.mend(orders, now + MINUTE);
        assert!(done.is_none(), "{done:?}");
    });
}

#[test]
fn why_nftables_polices_is_said_anew_when_another_program_has_come() {
    with_another(|mut other| {
        other.attach("lo").expect("it is free");
        let asked = policy("interfaces = \"lo\"\n");
        let (mut programs, orders) = (Programs::default(), orders(&asked));
        programs.put_in_force(orders).expect("nftables has room");
        let before = programs.not_ebpf().map(str::to_owned);
        let mut next = SynGate::load().expect("as before");
        drop(other);
        next.attach("lo").expect("it is free");
        let done = programs.mend(orders, clock::now());
        assert!(done.is_none() && programs.mechanism() == "nftables", "{done:?}");
        let after = programs.not_ebpf();
        assert!(after.is_some() && after != before.as_deref(), "{before:?} {after:?}");
    });
}

#[test]
fn a_take_over_that_fails_half_way_leaves_nftables_and_nothing_else() {
    with_another(|mut other| {
        other.attach("lo").expect("it is free");
        let asked = policy("interfaces = \"lo\"\n");
        let (mut programs, orders) = (Programs::default(), orders(&asked));
        programs.put_in_force(orders).expect("nftables has room");
        drop(other);
        // More addresses than the program's map has places; nftables has them.
        let many: Vec<IpAddr> =
            (0..40_000_u32).map(|it| IpAddr::from((0x0a00_0000 + it).to_be_bytes())).collect();
        let done = programs.mend(Orders { here: &many, ..orders }, clock::now());
        assert!(matches!(done, Some(Ok(()))), "{done:?}");
        assert!(programs.mechanism() == "nftables" && programs.can_police());
        let why = programs.not_ebpf().expect("it is said");
        assert!(why.contains("map services"), "{why}");
        SynGate::load().and_then(|mut it| it.attach("lo")).expect("the interface is free");
    });
}

#[test]
fn an_attempt_at_the_program_and_at_nftables_is_one() {
    with_another(|mut other| {
        let asked = policy("interfaces = \"lo\"\n");
        let (mut programs, orders) = (Programs::default(), orders(&asked));
        programs.put_in_force(orders).expect("it is free");
        programs.syn.as_mut().expect("it is loaded").keep_at(&[]);
        other.attach("lo").expect("it is free again");
        without_the_right(|| {
            let begin = clock::now();
            let at = |second: u64| begin + Duration::from_secs(second);
            let is_tried = |second: &u64| programs.mend(orders, at(*second)).is_some();
            let tried: Vec<u64> = (0..40).filter(is_tried).collect();
            assert_eq!(tried, [0, 5, 15, 35], "the pauses");
            assert_eq!(programs.mechanism(), "none");
        });
    });
}

#[test]
fn an_interface_that_comes_again_under_its_number_is_another_one() {
    with_another(|_| {
        let make = || ip("link add later index 77 type veth peer name peer");
        make();
        let mut asked = policy("interfaces = \"later\"\nmechanism = \"ebpf\"\n");
        asked.1.requests = RequestsInKernel::Reset;
        let (mut programs, orders) = (Programs::default(), orders(&asked));
        programs.put_in_force(orders).expect("it is free");
        let now = clock::now();
        assert!(programs.mend(orders, now).is_none(), "all is there");
        ip("link del later");
        make();
        let done = programs.mend(orders, now);
        assert!(matches!(done, Some(Ok(()))), "{done:?}");
        assert!(programs.mend(orders, now).is_none(), "all is there");
    });
}

#[test]
fn counts_that_cannot_be_read_for_once_stay_as_they_were() {
    with_another(|_| {
        ip("link set lo up");
        let asked = policy("interfaces = \"lo\"\nmechanism = \"nftables\"\n");
        let mut programs = Programs::default();
        programs.put_in_force(orders(&asked)).expect("it is free");
        for _ in 0..3 {
            TcpStream::connect("127.0.0.1:80").expect_err("nothing listens there");
        }
        let counts = |programs: &mut Programs| {
            let KernelCounts { total, syns, .. } = programs.counts(&asked.0.plan);
            (total.seen, syns[0].passed)
        };
        assert_eq!(counts(&mut programs), (3, 3));
        assert_eq!(without_the_right(|| counts(&mut programs)), (3, 3));
    });
}

#[test]
fn blocks_are_forgotten_where_the_kernel_is_to_block_none() {
    let client = IpAddr::from([10, 0, 0, 1]);
    for mechanism in [Mechanism::Ebpf, Mechanism::Nftables] {
        let mut asked = policy("interfaces = \"nowhere\"\n");
        asked.1.mechanism = mechanism;
        let mut programs = Programs::default();
        for (block, kept) in [(BlockInKernel::All, 1), (BlockInKernel::None, 0)] {
            asked.1.block = block;
            match programs.put_in_force(orders(&asked)) {
                Err(Fault::NoInterface(_)) => {}
                other => return eprintln!("not tested: {other:?}"),
            }
            if kept > 0 {
                programs.block(client, MINUTE);
            }
            let lists = programs.syn.as_ref().expect("it is loaded").lists();
            assert_eq!(lists.blocked.len(), kept, "{mechanism:?} {lists:?}");
        }
    }
}
