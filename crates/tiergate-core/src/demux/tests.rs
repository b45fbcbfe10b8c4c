//! Programs, run as the kernel does, against what the rules say.

use super::filter::{
    ADD, AND, IS_AT_LEAST, IS_EQUAL, IS_GREATER, JUMP, LOAD, LOAD_BYTE, LOAD_HALF, LOAD_WORD,
    MODULO, NETWORK, RANDOM, RETURN, RETURN_LOADED, SHIFT_RIGHT, STORE,
};
use super::*;
use crate::classify::rule::Rule;
use crate::classify::{Scratch, Span};
use proptest::prelude::*;
use std::net::IpAddr;

const OTHERS: Sockets = Sockets { first: 0, count: 2 };

/// The sockets of a class: of every second one; one of them has three.
fn sockets(class: ClassId) -> Option<Sockets> {
    let count = if class.0 == 4 { 3 } else { 1 };
    let own = Sockets { first: 2 + u32::from(class.0), count };
    class.0.is_multiple_of(2).then_some(own)
}

/// A packet's IP header.
fn header(client: IpAddr, local: IpAddr, dscp: u8) -> Vec<u8> {
    match (client, local) {
        (IpAddr::V4(client), IpAddr::V4(local)) => {
            let mut header = vec![0; 20];
            (header[0], header[1]) = (0x45, dscp << 2 | 1);
            header[12..16].copy_from_slice(&client.octets());
            header[16..20].copy_from_slice(&local.octets());
            header
        }
        (IpAddr::V6(client), IpAddr::V6(local)) => {
            let mut header = vec![0; 40];
            let class = dscp << 2 | 1;
            (header[0], header[1]) = (0x60 | class >> 4, class << 4 | 7);
            header[8..24].copy_from_slice(&client.octets());
            header[24..40].copy_from_slice(&local.octets());
            header
        }
        _ => panic!("both are of a family"),
    }
}

/// Runs a program, with the checks that the kernel makes.
fn run(program: &[Instruction], header: &[u8], random: u32) -> u32 {
    assert!(!program.is_empty() && program.len() <= LEN_MAX, "{}", program.len());
    let last = program.last().expect("it is not empty");
    assert!(matches!(last.code, RETURN | RETURN_LOADED), "the kernel wants it to end so");
    for (place, it) in program.iter().enumerate() {
        let left = program.len() - place - 1;
        let furthest = if it.code == JUMP { it.k as usize } else { it.jt.max(it.jf).into() };
        assert!(furthest < left.max(1), "a jump leaves it at {place}");
        assert!(it.code != MODULO || it.k != 0, "a division by zero at {place}");
    }
    let at = |from: u32, len: usize| {
        let from = from.wrapping_sub(NETWORK) as usize;
        header[from..from + len].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte))
    };
    let (mut loaded, mut place, mut stored) = (0u32, 0, [None; 16]);
    loop {
        let Instruction { code, jt, jf, k } = program[place];
        place += 1;
        let skip = |holds: bool| usize::from(if holds { jt } else { jf });
        match code {
            LOAD_WORD if k == RANDOM => loaded = random,
            LOAD_WORD => loaded = at(k, 4),
            LOAD_HALF => loaded = at(k, 2),
            LOAD_BYTE => loaded = at(k, 1),
            STORE => stored[k as usize] = Some(loaded),
            LOAD => loaded = stored[k as usize].expect("the kernel wants it to be stored before"),
            ADD => loaded += k,
            AND => loaded &= k,
            SHIFT_RIGHT => loaded >>= k,
            MODULO => loaded %= k,
            JUMP => place += k as usize,
            IS_EQUAL => place += skip(loaded == k),
            IS_GREATER => place += skip(loaded > k),
            IS_AT_LEAST => place += skip(loaded >= k),
            RETURN => return k,
            RETURN_LOADED => return loaded,
            _ => panic!("no such instruction: {code:#x}"),
        }
    }
}

fn rule(class: u16, conditions: Vec<Condition>) -> Rule {
    Rule { conditions, class: Some(ClassId(class)), ..Rule::default() }
}

fn networks(part: Part, networks: &[&str]) -> Condition {
    let network = |it: &&str| Matcher::Network(it.parse().expect("a network"));
    Condition::new(part, networks.iter().map(network))
}

fn demux(trusted: &[IpNet]) -> Demux<'_> {
    Demux { listener: 0, is_proxied: false, trusted, others: OTHERS }
}

#[test]
fn connections_go_where_the_first_rule_says() {
    let office = ["192.0.2.0/24", "2001:db8::/33", "198.51.100.7/32"];
    let rules = [
        rule(0, vec![networks(Part::Client, &["192.0.2.9/32"])]),
        rule(1, vec![networks(Part::Client, &["192.0.2.8/31"])]),
        rule(
            2,
            vec![
                networks(Part::Client, &office),
                Condition::new(Part::Dscp, [Matcher::Range(Span { first: 40, last: 46 })]),
            ],
        ),
        rule(4, vec![networks(Part::Destination, &["10.0.0.0/8", "::/0"])]),
    ];
    let classifier = Classifier::compile(&rules, ClassId(9)).expect("rules");
    let trusted = ["198.51.100.0/24".parse().expect("a network")];
    let program = program(&classifier, demux(&trusted), sockets);
    let to = |client: &str, local: &str, dscp| {
        let [client, local] = [client, local].map(|it| it.parse().expect("an address"));
        run(&program, &header(client, local, dscp), 3)
    };
    assert_eq!(to("192.0.2.9", "10.0.0.1", 46), 2);
    assert_eq!(to("192.0.2.8", "10.0.0.1", 46), 1, "a class without sockets: one of the others");
    assert_eq!([to("192.0.2.7", "1.1.1.1", 46), to("192.0.2.7", "1.1.1.1", 47)], [4, 1]);
    assert_eq!(to("2001:db8:7fff::1", "2001:db8:ffff::", 40), 4);
    assert_eq!(to("2001:db8:8000::1", "2001:db8:ffff::", 40), 6);
    assert_eq!(to("203.0.113.1", "10.200.0.1", 0), 6, "the first of three, by chance");
    assert_eq!(to("198.51.100.7", "10.0.0.1", 46), 1, "who it is, a trusted peer says later");
}

#[test]
fn where_clients_are_told_later_the_listener_decides() {
    let listener = |place| Condition::new(Part::Listener, [Matcher::Range(Span::one(place))]);
    let rules = [
        rule(0, vec![networks(Part::Client, &["0.0.0.0/0"])]),
        rule(2, vec![listener(1)]),
        rule(4, vec![listener(2), networks(Part::Client, &["0.0.0.0/0"])]),
    ];
    let classifier = Classifier::compile(&rules, ClassId(9)).expect("rules");
    let packet = header([192, 0, 2, 1].into(), [10, 0, 0, 1].into(), 0);
    let to = |listener, is_proxied| {
        let demux = Demux { listener, is_proxied, ..demux(&[]) };
        run(&program(&classifier, demux, sockets), &packet, 0)
    };
    assert_eq!([to(1, true), to(2, true), to(3, true)], [4, 0, 0]);
    assert_eq!([to(1, false), to(2, false)], [2, 2]);
}

#[test]
fn what_does_not_fit_is_left_out_from_there_on() {
    let of = |place: u32| {
        let address = format!("10.{}.{}.0/25", place / 256, place % 256);
        rule(2, vec![networks(Part::Client, &[&address])])
    };
    let rules: Vec<Rule> = (0..10_000).map(of).collect();
    let classifier = Classifier::compile(&rules, ClassId(9)).expect("rules");
    let program = program(&classifier, demux(&[]), sockets);
    let to = |client: [u8; 4]| run(&program, &header(client.into(), [1, 1, 1, 1].into(), 0), 0);
    assert_eq!([to([10, 0, 0, 1]), to([10, 0, 120, 1])], [4, 4]);
    assert_eq!([to([10, 39, 0, 1]), to([10, 0, 0, 129])], [0, 0]);
}

/// Few addresses, so that networks and packets meet.
fn address(is_v4: bool) -> impl Strategy<Value = IpAddr> {
    any::<u128>().prop_map(move |bits| {
        // Some bits of each word.
        let bits = bits & 0xc000_0003_8000_0001_8000_0001_c000_0003;
        match is_v4 {
            true => IpAddr::V4(((bits >> 96) as u32).into()),
            false => IpAddr::V6(bits.into()),
        }
    })
}

fn network() -> impl Strategy<Value = Matcher> {
    any::<bool>().prop_flat_map(address).prop_flat_map(|address| {
        let most: u8 = if address.is_ipv4() { 32 } else { 128 };
        (0..=most).prop_map(move |len: u8| {
            Matcher::Network(IpNet::new(address, len).expect("a length of its kind"))
        })
    })
}

fn condition() -> impl Strategy<Value = Condition> {
    let networks = || prop::collection::vec(network(), 1..4);
    let spans = (0u64..64, 0u64..64).prop_map(|(one, other)| {
        Matcher::Range(Span { first: one.min(other), last: one.max(other) })
    });
    let places = (0u64..3).prop_map(|place| Matcher::Range(Span::one(place)));
    let urgent = (0u64..7).prop_map(|it| Matcher::Range(Span::one(it)));
    prop_oneof![
        // What a request says: known later, but an empty one has it, too.
        urgent.prop_map(|it| Condition::new(Part::Urgency, [it])),
        networks().prop_map(|any_of| Condition::new(Part::Client, any_of)),
        networks().prop_map(|any_of| Condition::new(Part::Destination, any_of)),
        prop::collection::vec(spans, 1..3).prop_map(|it| Condition::new(Part::Dscp, it)),
        prop::collection::vec(places, 1..3).prop_map(|it| Condition::new(Part::Listener, it)),
    ]
}

proptest! {
    /// Whatever the rules, the kernel sends a connection where the gateway would.
    #[test]
    fn the_kernel_decides_as_the_gateway_does(
        rules in prop::collection::vec((0u16..6, prop::collection::vec(condition(), 0..3)), 1..8),
        trusted in prop::collection::vec(network(), 0..3),
        (client, local) in any::<bool>().prop_flat_map(|v4| (address(v4), address(v4))),
        dscp in 0u8..64,
        listener in 0u16..3,
        random in any::<u32>(),
    ) {
        let rules: Vec<Rule> = rules.into_iter().map(|(class, it)| rule(class, it)).collect();
        let classifier = Classifier::compile(&rules, ClassId(9)).expect("rules");
        let trusted: Vec<IpNet> = trusted
            .into_iter()
            .map(|it| match it { Matcher::Network(it) => it.trunc(), _ => unreachable!("a network") })
            .collect();
        let program = program(&classifier, Demux { listener, ..demux(&trusted) }, sockets);
        let to = run(&program, &header(client, local, dscp), random);
        let is_trusted = trusted.iter().any(|it| it.contains(&client));
        let (view, known) = match is_trusted {
            true => (RequestView { listener, ..RequestView::EMPTY }, Known::Listener),
            false => (RequestView { client, local, dscp, listener, ..RequestView::EMPTY }, Known::Addresses),
        };
        let class = classifier.class_at_accept(&view, known, &mut Scratch::default());
        let wanted = class.and_then(sockets).unwrap_or(OTHERS);
        prop_assert!((wanted.first..wanted.first + wanted.count).contains(&to), "{} {:?}", to, wanted);
    }
}
