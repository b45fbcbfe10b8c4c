//! The program's verdicts, compared with what the core says of each client.

use super::{entry, syn};
use crate::{Service, Switches, SynGate};
use std::net::Ipv4Addr;
use tiergate_core::early::bucket::Wanted;
use tiergate_core::early::{Early, Entry};
use tiergate_core::names::PolicerId;

/// Few different bytes, so that networks are nested.
fn address(random: &mut fastrand::Rng) -> Ipv4Addr {
    let byte = |random: &mut fastrand::Rng| if random.bool() { 0x81 } else { 0x0a };
    Ipv4Addr::new(byte(random), byte(random), byte(random), random.u8(..))
}

fn entries(random: &mut fastrand::Rng, count: usize) -> Vec<Entry> {
    let mut all = vec![entry("0.0.0.0/0", None), entry("::/0", None)];
    for _ in 0..count {
        let network = format!("{}/{}", address(random), random.u8(0..=32));
        let network = network.parse::<ipnet::IpNet>().expect("a network").trunc();
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
