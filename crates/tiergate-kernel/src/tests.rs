//! The code of the programs, compiled for the host: compared with the core, and fuzzed.

use crate::{Service, Switches, SynGate};
use proptest::prelude::*;
use std::net::IpAddr;
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::time::Duration;
use tiergate_core::admit::bucket::Rate;
use tiergate_core::admit::policer::{Per, Settings, Share};
use tiergate_core::early::bucket::{Bucket, PARTITIONS_MAX, Part, Wanted};
use tiergate_core::early::{Early, Entry};
use tiergate_core::names::{ClassId, PolicerId};

/// `struct tg_tokens`.
#[derive(Clone, Debug, Default)]
#[repr(C)]
struct Tokens {
    wanted: Wanted,
    settled: u64,
    overflow: u64,
    parts: [u64; PARTITIONS_MAX],
}

/// `struct tg_packet`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Packet {
    client: [u8; 16],
    local: [u8; 16],
    client_port: [u8; 2],
    local_port: [u8; 2],
    flags: u8,
    is_v6: u8,
    ip: u16,
    tcp: u16,
    tcp_len: u16,
    data_len: u16,
    padding: u16,
}

#[allow(unsafe_code)]
mod native {
    use super::{Packet, Tokens};
    use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect};
    use std::num::NonZero;
    use std::ptr::NonNull;
    use tiergate_core::early::bucket::{Took, Wanted};

    unsafe extern "C" {
        fn tg_native_sizes(which: i32) -> usize;
        fn tg_native_fill(bucket: *mut Tokens, now: u64, wanted: *const Wanted);
        fn tg_native_reconfigure(bucket: *mut Tokens, now: u64, wanted: *const Wanted);
        fn tg_native_take(bucket: *mut Tokens, now: u64, partition: u32) -> i32;
        fn tg_native_parse(data: *const u8, len: u64, out: *mut Packet) -> i32;
    }

    pub(super) fn sizes() -> [usize; 3] {
        // SAFETY: it only returns numbers.
        [0, 1, 2].map(|which| unsafe { tg_native_sizes(which) })
    }

    pub(super) fn fill(bucket: &mut Tokens, now: u64, wanted: &Wanted) {
        // SAFETY: both are of the layout that C has (`sizes` are compared), and live until it returns.
        unsafe { tg_native_fill(bucket, now, wanted) }
    }

    pub(super) fn reconfigure(bucket: &mut Tokens, now: u64, wanted: &Wanted) {
        // SAFETY: as above.
        unsafe { tg_native_reconfigure(bucket, now, wanted) }
    }

    pub(super) fn take(bucket: &mut Tokens, now: u64, partition: u32) -> Took {
        // SAFETY: as above.
        match unsafe { tg_native_take(bucket, now, partition) } {
            0 => Took::Nothing,
            1 => Took::Own,
            _ => Took::Overflow,
        }
    }

    /// Two pages, of which the second may not be read: a packet at the end of the first cannot be read past its end.
    pub(super) struct Guarded(NonNull<u8>, usize);

    impl Guarded {
        pub(super) fn new(page: NonZero<usize>) -> Self {
            let both = page.checked_add(page.get()).expect("it fits");
            let rights = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
            // SAFETY: a new mapping of nobody else, never unmapped; its second page is used by nothing.
            unsafe {
                let start =
                    mmap_anonymous(None, both, rights, MapFlags::MAP_PRIVATE).expect("memory");
                mprotect(start.byte_add(page.get()), page.get(), ProtFlags::PROT_NONE)
                    .expect("a page");
                Guarded(start.cast(), page.get())
            }
        }

        pub(super) fn parse(&mut self, packet: &[u8]) -> Option<Packet> {
            let mut out = Packet::default();
            assert!(packet.len() <= self.1);
            // SAFETY: `packet` fits into the first page, which is ours; C reads `len` bytes of it, or faults.
            let found = unsafe {
                let at = self.0.add(self.1 - packet.len());
                at.copy_from_nonoverlapping(NonNull::from(packet).cast(), packet.len());
                tg_native_parse(at.as_ptr(), packet.len() as u64, &raw mut out)
            };
            (found != 0).then_some(out)
        }
    }
}

mod verdicts;

#[test]
fn this_build_has_programs() {
    assert!(crate::is_built(), "clang is missing, or does not compile them: make setup");
}

#[test]
fn layouts_agree() {
    assert_eq!(native::sizes(), [size_of::<Wanted>(), size_of::<Tokens>(), size_of::<Packet>()]);
    assert_eq!(size_of::<Wanted>(), 16 + size_of::<Part>() * (1 + PARTITIONS_MAX));
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let shares = prop::collection::vec((0_u16..9, 0_u16..1200, 0_u32..7000), 0..=PARTITIONS_MAX);
    (1_u32..1_000_000, 0_u32..9000, shares, 0.0_f64..1.0).prop_map(|(rate, burst, shares, part)| {
        let mut known = Vec::new();
        let shares = shares.into_iter().filter(|it| {
            !known.contains(&it.0) && {
                known.push(it.0);
                true
            }
        });
        let share = |(class, parts, burst)| Share { class: ClassId(class), parts, burst };
        let settings = Settings {
            name: String::new(),
            key: None,
            rate: Rate::per_second(rate),
            burst,
            per: Per::Rule,
            shares: shares.map(share).collect(),
            inbound: None,
            announce: false,
        };
        Wanted::of(&settings, Rate::of_per_second(f64::from(rate) * part)).expect("within bounds")
    })
}

proptest! {
    /// The bucket in C gives each token that the core's gives, of the same part.
    #[test]
    fn the_bucket_in_c_is_the_cores(
        first in wanted(),
        begin in 0_u64..1 << 60,
        steps in prop::collection::vec((prop_oneof![0_u64..3_000_000, any::<u64>()], 0_u32..10, prop::option::weighted(0.05, wanted())), 1..300),
    ) {
        let (mut c, mut core) = (Tokens::default(), Bucket::full(begin, first));
        native::fill(&mut c, begin, &first);
        let mut now = begin;
        for (pause, partition, wanted) in steps {
            // Of two processors' clocks one may be behind.
            now = if pause > u64::MAX - 1000 { now.saturating_sub(500) } else { now.saturating_add(pause) };
            if let Some(wanted) = wanted {
                native::reconfigure(&mut c, now, &wanted);
                core.reconfigure(now, wanted);
            }
            for _ in 0..4 {
                prop_assert_eq!(native::take(&mut c, now, partition), core.take(now, partition as usize));
            }
        }
    }
}

/// What the parser should find, written another way.
fn expected(packet: &[u8]) -> Option<Packet> {
    let word = |at: usize| Some(u16::from_be_bytes(packet.get(at..at + 2)?.try_into().ok()?));
    packet.get(..14)?;
    let (mut at, mut protocol) = (14, word(12)?);
    for _ in 0..2 {
        if matches!(protocol, 0x8100 | 0x88a8) {
            packet.get(at..at + 4)?;
            protocol = word(at + 2)?;
            at += 4;
        }
    }
    let ip = packet.get(at..)?;
    let mut out = Packet { ip: at as u16, ..Packet::default() };
    let behind = match protocol {
        0x0800 if ip.len() >= 20 && ip[0] >> 4 == 4 && ip[9] == 6 => {
            let (header, len) = (usize::from(ip[0] & 15) * 4, usize::from(word(at + 2)?));
            let is_fragment = word(at + 6)? & 0x3fff != 0;
            let v4 = |at: usize| {
                [&[0; 10][..], &[255; 2], &ip[at..at + 4]].concat().try_into().expect("16")
            };
            (out.client, out.local) = (v4(12), v4(16));
            at += header;
            (header >= 20 && !is_fragment).then(|| len.checked_sub(header))??
        }
        0x86dd if ip.len() >= 40 && ip[0] >> 4 == 6 => {
            out.client.copy_from_slice(&ip[8..24]);
            out.local.copy_from_slice(&ip[24..40]);
            out.is_v6 = 1;
            let headers = extensions(ip)?;
            let len = match (word(at + 4)?, ip[6]) {
                (0, 0) => 0xffff,
                (len, _) => usize::from(len),
            };
            at += 40 + headers;
            len.checked_sub(headers)?
        }
        _ => return None,
    };
    let tcp = packet.get(at..at + 20)?;
    let header = usize::from(tcp[12] >> 4) * 4;
    (header >= 20).then_some(())?;
    out.data_len = behind.checked_sub(header)? as u16;
    (out.tcp, out.tcp_len, out.flags) = (at as u16, header as u16, tcp[13]);
    (out.client_port, out.local_port) = ([tcp[0], tcp[1]], [tcp[2], tcp[3]]);
    Some(out)
}

/// How long the extension headers of a packet of IPv6 are, at most eight, if TCP is behind them.
fn extensions(ip: &[u8]) -> Option<usize> {
    let (mut next, mut at) = (ip[6], 40);
    for _ in 0..8 {
        if next == 6 {
            break;
        }
        let header = ip.get(at..at + 8)?;
        at += match (next, header) {
            (0 | 60, _) | (43, [_, _, _, 0, ..]) => 8 * (1 + usize::from(header[1])),
            (44, [_, _, 0, low, ..]) if low & 0xf9 == 0 => 8,
            _ => return None,
        };
        next = header[0];
    }
    (next == 6).then_some(at - 40)
}

/// Extension headers, and what says that the first of them comes.
fn some_extensions(random: &mut fastrand::Rng) -> (u8, Vec<u8>) {
    let (mut next, mut headers) = (6, Vec::new());
    for _ in 0..random.usize(..11) * random.usize(..2) {
        let kind = *random.choice(&[0, 60, 43, 44]).expect("one of four");
        let more = if kind == 44 { 0 } else { random.u8(..3) };
        let mut header = vec![next, more, 0, 0, 0, 0, 0, 0];
        header.resize(8 + 8 * usize::from(more), 1);
        headers.splice(..0, header);
        next = kind;
    }
    (next, headers)
}

/// Packets that are nearly right: otherwise hardly any would reach the TCP header.
pub(crate) fn nearly_right(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut packet = vec![0; 12];
    for _ in 0..random.usize(..4) {
        packet.extend(if random.bool() { [0x81, 0, 0, 7] } else { [0x88, 0xa8, 0, 7] });
    }
    let behind = 20 + random.u16(..40);
    if random.bool() {
        packet.extend([8, 0, 0x45, 0]);
        packet.extend((20 + behind).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    } else {
        let (first, headers) = some_extensions(random);
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        let says = random.usize(..8) > 0;
        packet.extend((u16::from(says) * (headers.len() as u16 + behind)).to_be_bytes());
        packet.extend([first, 64]);
        packet.extend((0..32).map(|_| random.u8(..)));
        packet.extend(headers);
    }
    packet.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0]);
    packet.resize(packet.len() + usize::from(behind - 20), b'x');
    for _ in 0..random.usize(..4) {
        let at = random.usize(..packet.len());
        packet[at] = random.u8(..);
    }
    packet.truncate(packet.len() - random.usize(..packet.len()) * random.usize(..2));
    packet
}

#[test]
fn the_parser_in_c_finds_what_there_is_and_reads_no_further() {
    let mut guarded = native::Guarded::new(NonZero::new(4096).expect("not 0"));
    let mut random = fastrand::Rng::with_seed(7);
    let mut found = 0;
    for _ in 0..300_000 {
        let packet = nearly_right(&mut random);
        let parsed = guarded.parse(&packet);
        assert_eq!(parsed, expected(&packet), "{packet:02x?}");
        found += u32::from(parsed.is_some());
        let noise: Vec<u8> = (0..random.usize(..100)).map(|_| random.u8(..)).collect();
        assert_eq!(guarded.parse(&noise), expected(&noise), "{noise:02x?}");
    }
    assert!((50_000..280_000).contains(&found), "{found}: otherwise this says little");
}

/// A program that is attached nowhere, and polices what comes to 10.0.0.2:80 and [fd00::2]:80. `None`, and says so, without the right.
fn gate(entries: Vec<Entry>, wanted: Wanted) -> Option<SynGate> {
    let mut gate = match SynGate::load() {
        Ok(gate) => gate,
        Err(fault) => {
            eprintln!("not tested: {fault}");
            return None;
        }
    };
    let policers = vec![PolicerId(0)];
    let early = Early { policers, listeners: vec![entries], ..Early::default() };
    let service = |local: &str| Service { listener: 0, local: local.parse().expect("an address") };
    let services = ["10.0.0.2:80", "[fd00::2]:80"].map(service);
    gate.put_in_force(&early, &services, |_| Some(wanted)).expect("there is room");
    gate.switch(Switches { police: true, ..Switches::default() }).expect("it is written");
    Some(gate)
}

fn entry(network: &str, partition: Option<u8>) -> Entry {
    let network = network.parse().expect("a network");
    Entry { network, bucket: Some(0), partition, may_be_spared: false, is_trusted: false }
}

#[test]
fn the_program_drops_nothing_but_syns_to_its_service() {
    let Some(gate) = gate(vec![entry("0.0.0.0/0", None)], Wanted::default()) else { return };
    let mut random = fastrand::Rng::with_seed(11);
    let mut dropped = 0;
    for _ in 0..60_000 {
        let packet = nearly_right(&mut random);
        // The kernel takes none that is shorter than an Ethernet header.
        if packet.len() < 14 {
            continue;
        }
        let is_ours = expected(&packet).is_some_and(|it| {
            it.flags & 0x16 == 2
                && it.local[10..] == [255, 255, 10, 0, 0, 2]
                && it.local_port == [0, 80]
        });
        let (passes, _) = gate.try_packet(&packet, 1).expect("it runs");
        assert_eq!(passes, !is_ours, "{packet:02x?}");
        dropped += u32::from(!passes);
    }
    assert!((1000..50_000).contains(&dropped), "{dropped}: otherwise this says little");
}

/// The system steps over extension headers, too: without that each of them would be a way round.
#[test]
fn extension_headers_are_no_way_round() {
    let Some(gate) = gate(vec![entry("::/0", None)], Wanted::default()) else { return };
    let passes_of_length = |len: u8, extensions: &[(u8, [u8; 8])], flags: u8| {
        let mut packet = vec![0; 12];
        packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, len]);
        packet.extend([extensions.first().map_or(6, |it| it.0), 64]);
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        packet.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        for (place, (_, header)) in extensions.iter().enumerate() {
            packet.push(extensions.get(place + 1).map_or(6, |it| it.0));
            packet.extend(&header[1..]);
        }
        packet.extend([0x30, 0x39, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags]);
        packet.extend([0xff, 0xff, 0, 0, 0, 0]);
        gate.try_packet(&packet, 1).expect("it runs").0
    };
    let passes = |extensions: &[(u8, [u8; 8])], flags: u8| {
        passes_of_length(20 + 8 * extensions.len() as u8, extensions, flags)
    };
    let plain = [0; 8];
    let dropped: [&[(u8, [u8; 8])]; 7] = [
        &[],
        &[(0, plain)],
        &[(60, plain)],
        &[(43, plain)],
        &[(44, plain)],
        &[(0, plain), (60, plain), (43, plain), (44, plain), (60, plain)],
        &[(60, plain); 8],
    ];
    for extensions in dropped {
        assert!(!passes(extensions, 0x02), "{extensions:?}");
        assert!(passes(extensions, 0x10), "no SYN: {extensions:?}");
    }
    let (first_of_more, another) = ([0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 0, 8, 0, 0, 0, 0]);
    let passed: [&[(u8, [u8; 8])]; 5] = [
        &[(44, first_of_more)],
        &[(44, another)],
        &[(43, [0, 0, 4, 1, 0, 0, 0, 0])],
        &[(51, plain)],
        &[(60, plain); 9],
    ];
    for extensions in passed {
        assert!(passes(extensions, 0x02), "not understood: {extensions:?}");
    }
    // As of a jumbogram; the system looks for no option that says so.
    assert!(!passes_of_length(0, &[(0, plain)], 0x02));
    assert!(!passes_of_length(0, &[(0, plain), (60, plain)], 0x02));
    assert!(passes_of_length(0, &[(60, plain)], 0x02), "the system drops it");
}

/// Not a test: what the next one runs.
#[test]
#[ignore = "the next test runs it"]
fn child_that_blocks_for_a_moment() {
    let mut gate = gate(vec![entry("0.0.0.0/0", None)], Wanted::default()).expect("it loads");
    let switches = Switches { block: true, block_all: true, ..Switches::default() };
    gate.switch(switches).expect("it is written");
    let mut syn = syn();
    syn[26..30].copy_from_slice(&[10, 66, 1, 1]);
    let passes = || gate.try_packet(&syn, 1).expect("it runs").0;
    assert!(passes());
    let moment = Duration::from_millis(300);
    gate.block(IpAddr::from([10, 66, 1, 1]), moment).expect("there is room");
    assert!(!passes(), "it is blocked");
    assert!(matches!(gate.lists().blocked[..], [(_, left)] if left <= moment));
    std::thread::sleep(moment);
    assert!(passes(), "it is blocked no more");
}

/// There the monotonic clock is not that of the programs.
#[test]
fn a_block_is_no_longer_in_a_time_namespace() {
    let within = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--time", "--monotonic", "5000", "--fork"]).args(words);
        command.stdout(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    if SynGate::load().is_err() || !within(&["true"]) {
        return eprintln!("not tested: no program can be loaded, or no time namespace made");
    }
    let own = std::env::current_exe().expect("it runs");
    let own = own.to_str().expect("a path of cargo's");
    let name = "tests::child_that_blocks_for_a_moment";
    assert!(within(&[own, "--exact", name, "--ignored"]), "see above");
}

/// A SYN to 10.0.0.2:80.
fn syn() -> Vec<u8> {
    let mut syn = vec![0; 54];
    syn[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6]);
    syn[30..34].copy_from_slice(&[10, 0, 0, 2]);
    syn[36..38].copy_from_slice(&[0, 80]);
    syn[46..48].copy_from_slice(&[0x50, 2]);
    syn
}

/// `make kernel-bench`: nanoseconds of a policed SYN by the number of rules.
#[test]
fn what_a_policed_syn_costs_does_not_grow_with_the_rules() {
    let settings = |shares: Vec<Share>| Settings {
        name: String::new(),
        key: None,
        rate: Rate::per_second(10),
        burst: 5,
        per: Per::Rule,
        shares,
        inbound: None,
        announce: false,
    };
    let share = |class| Share { class: ClassId(class), parts: 1000, burst: 5 };
    let runs = if std::env::var_os("TIERGATE_BENCH").is_some() { 1_000_000 } else { 20_000 };
    let syn = syn();
    let mut of_few = 0;
    for (shares, rules) in [(0, 3), (4, 3), (4, 50_000), (8, 50_000)] {
        let wanted = settings((0..shares).map(share).collect());
        let wanted = Wanted::of(&wanted, wanted.rate).expect("the kernel can");
        let mut entries = vec![entry("0.0.0.0/0", None), entry("10.66.0.0/16", Some(1))];
        entries.extend((2..rules).map(|number: u32| {
            let [_, a, b, c] = number.to_be_bytes();
            entry(&format!("{}.{b}.{c}.0/24", 20 + a), Some(2))
        }));
        let Some(gate) = gate(entries, wanted) else { return };
        let nanos = |from: [u8; 4]| {
            let mut packet = syn.clone();
            packet[26..30].copy_from_slice(&from);
            let runs = (0..5).map(|_| gate.try_packet(&packet, runs).expect("it runs").1);
            runs.min().expect("five").as_nanos()
        };
        let other = {
            let mut other = syn.clone();
            other[37] = 81;
            other
        };
        let passed = gate.try_packet(&other, runs).expect("it runs").1.as_nanos();
        let policed = [nanos([10, 66, 1, 1]), nanos([20, 9, 9, 9]), nanos([99, 1, 1, 1])];
        eprintln!(
            "{rules} rules, {shares} partitions: a policed SYN {policed:?} ns (own rule, one of many, any); one to another port {passed} ns"
        );
        let most = policed.into_iter().max().expect("three");
        if rules == 3 {
            of_few = most;
        } else {
            assert!(most < 3 * of_few + 500, "{most} of many, {of_few} of few");
        }
    }
}
