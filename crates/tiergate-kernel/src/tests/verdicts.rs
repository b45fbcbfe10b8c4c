//! The program's verdicts, compared with what the core says of each client.

use super::{entry, syn};
use crate::{Service, Switches, SynGate};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tiergate_core::early::bucket::{Part, Wanted};
use tiergate_core::early::{Early, Entry, NETWORKS_MAX};
use tiergate_core::names::PolicerId;

/// Few different bytes, so that networks are nested.
fn address(random: &mut fastrand::Rng) -> Ipv4Addr {
    let byte = |random: &mut fastrand::Rng| if random.bool() { 0x81 } else { 0x0a };
    Ipv4Addr::new(byte(random), byte(random), byte(random), random.u8(..))
}

/// The same of both versions of IP.
fn any_address(random: &mut fastrand::Rng) -> IpAddr {
    if random.bool() {
        return address(random).into();
    }
    let words: [u16; 7] = std::array::from_fn(|_| if random.bool() { 0x2001 } else { 0x8000 });
    let [a, b, c, d, e, f, g] = words;
    Ipv6Addr::new(a, b, c, d, e, f, g, random.u16(..)).into()
}

fn entries(random: &mut fastrand::Rng, count: usize) -> Vec<Entry> {
    let mut all = vec![entry("0.0.0.0/0", None), entry("::/0", None)];
    for _ in 0..count {
        let network = format!("{}/{}", address(random), random.u8(0..=32));
        let network = network.parse::<IpNet>().expect("a network").trunc();
        if all.iter().all(|it: &Entry| it.network != network) {
            let bucket = random.bool().then_some(0);
            all.push(Entry { network, bucket, ..all[0] });
        }
    }
    all
}

#[test]
fn each_listener_drops_whom_its_rules_say_also_when_they_have_been_replaced() {
    let mut gate = match SynGate::load() {
        Ok(gate) => gate,
        Err(fault) => return eprintln!("not tested: {fault}"),
    };
    gate.switch(Switches { police: true, ..Switches::default() }).expect("it is written");
    let mut random = fastrand::Rng::with_seed(7);
    let service = |listener, port| Service { listener, local: ([10, 0, 0, 2], port).into() };
    // The one in between has no rules, and so no service.
    let services = [service(0, 80), service(2, 8080)];
    let mut dropped = 0;
    for round in 0..60 {
        let count = if round % 10 == 9 { 3000 } else { 40 };
        let listeners =
            vec![entries(&mut random, count), Vec::new(), entries(&mut random, count / 2)];
        let early = Early { policers: vec![PolicerId(0)], listeners, ..Early::default() };
        gate.put_in_force(&early, &services, |_| Some(Wanted::default())).expect("there is room");
        for _ in 0..100 {
            let client = address(&mut random);
            for (listener, port) in [(0, 80_u16), (2, 8080)] {
                let mut packet = syn();
                packet[26..30].copy_from_slice(&client.octets());
                packet[36..38].copy_from_slice(&port.to_be_bytes());
                let (passes, _) = gate.try_packet(&packet, 1).expect("it runs");
                let said = early.entry(listener, client.into()).expect("all are in it");
                assert_eq!(passes, said.bucket.is_none(), "{client}, port {port}: {said:?}");
                dropped += u32::from(!passes);
            }
        }
    }
    assert!(dropped > 1000, "{dropped}");
}

/// A SYN to port 80 of 10.0.0.2 or fd00::2.
fn syn_from(client: IpAddr) -> Vec<u8> {
    let mut packet = syn();
    match client {
        IpAddr::V4(client) => packet[26..30].copy_from_slice(&client.octets()),
        IpAddr::V6(client) => {
            let mut header = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64];
            header.extend(client.octets());
            header.extend("fd00::2".parse::<Ipv6Addr>().expect("an address").octets());
            packet.splice(12..34, header);
        }
    }
    packet
}

/// Nobody's, or a part of one of two policers', or its overflow.
fn any_entry(random: &mut fastrand::Rng, network: IpNet) -> Entry {
    let bucket = (random.u8(..4) > 0).then(|| random.u16(..2));
    let partition = random.bool().then(|| random.u8(..3)).filter(|_| bucket == Some(1));
    Entry { network, bucket, partition, may_be_spared: random.bool(), is_trusted: random.bool() }
}

#[test]
fn each_client_draws_on_the_part_of_the_bucket_that_its_network_has() {
    let mut gate = match SynGate::load() {
        Ok(gate) => gate,
        Err(fault) => return eprintln!("not tested: {fault}"),
    };
    gate.switch(Switches { police: true, ..Switches::default() }).expect("it is written");
    let mut random = fastrand::Rng::with_seed(9);
    let service = |local: &str| Service { listener: 0, local: local.parse().expect("an address") };
    let services = ["10.0.0.2:80", "[fd00::2]:80"].map(service);
    let policers = [PolicerId(4), PolicerId(7)];
    // Without a token, so that all are dropped; the second has three parts.
    let part = |key| Part { key, ..Part::default() };
    let shares =
        Wanted { len: 3, parts: std::array::from_fn(|key| part(key as u64)), ..Wanted::default() };
    let mut dropped = 0;
    for _ in 0..40 {
        let mut networks: Vec<IpNet> =
            ["0.0.0.0/0", "::/0"].map(|it| it.parse().expect("one")).into();
        for _ in 0..40 {
            let address = any_address(&mut random);
            let len = random.u8(0..=if address.is_ipv4() { 32 } else { 128 });
            networks.push(IpNet::new(address, len).expect("it is short").trunc());
        }
        networks.sort_unstable();
        networks.dedup();
        random.shuffle(&mut networks);
        let own = networks.iter().map(|it| any_entry(&mut random, *it)).collect();
        let early = Early { policers: policers.into(), listeners: vec![own], ..Early::default() };
        let wanted = |id| Some(if id == policers[1] { shares } else { Wanted::default() });
        gate.put_in_force(&early, &services, wanted).expect("there is room");
        let counts = || {
            let of = |id: &PolicerId| gate.bucket_counts(*id).expect("it is in force");
            let counts = policers.iter().flat_map(of).map(|(_, it)| it.dropped);
            counts.collect::<Vec<u64>>()
        };
        for _ in 0..40 {
            // Often the first or the last of a network.
            let network = *random.choice(&networks).expect("there are some");
            let ends = [network.network(), network.broadcast(), any_address(&mut random)];
            let client = *random.choice(&ends).expect("three");
            let said = early.entry(0, client).expect("all are in it");
            let mut wanted = counts();
            // What has no part is counted behind those that the policer has.
            if let Some(bucket) = said.bucket {
                wanted
                    [if bucket == 0 { 0 } else { 1 + usize::from(said.partition.unwrap_or(3)) }] +=
                    1;
                dropped += 1;
            }
            let (passes, _) = gate.try_packet(&syn_from(client), 1).expect("it runs");
            assert_eq!((passes, counts()), (said.bucket.is_none(), wanted), "{client}: {said:?}");
        }
    }
    assert!(dropped > 500, "{dropped}");
}

/// What is replaced is there until the next, and then gone.
#[test]
fn as_many_networks_as_there_may_be_are_replaced_again_and_again() {
    let mut gate = match SynGate::load() {
        Ok(gate) => gate,
        Err(fault) => return eprintln!("not tested: {fault}"),
    };
    let services = [Service { listener: 0, local: "[fd00::2]:80".parse().expect("an address") }];
    for round in 0..4_u32 {
        let network = |number: u32| {
            let words = [0x2001, round as u16, (number >> 16) as u16, number as u16, 0, 0, 0, 0];
            let network = IpNet::new(IpAddr::from(words), 64).expect("it is short");
            Entry { network, ..entry("::/0", None) }
        };
        let own = (0..NETWORKS_MAX as u32).map(network).collect();
        let policers = vec![PolicerId(0)];
        let early = Early { policers, listeners: vec![own], ..Early::default() };
        gate.put_in_force(&early, &services, |_| Some(Wanted::default())).expect("there is room");
    }
}
