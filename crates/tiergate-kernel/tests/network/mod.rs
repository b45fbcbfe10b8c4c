//! Two network namespaces with a link between them, and packets on it.

pub(crate) mod held;
pub(crate) mod policing;

use nix::sched::{CloneFlags, setns};
use socket2::{Domain, Protocol, Socket, Type};
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use tiergate_kernel::{Fault, SynGate};

/// The interface of the server's namespace, and its addresses.
pub(crate) const INTERFACE: &str = "in";
pub(crate) const SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
pub(crate) const SERVER_V6: &str = "fd78::2";
/// Another one, which the client reaches from another address.
pub(crate) const SERVER_OTHER: Ipv4Addr = Ipv4Addr::new(10, 79, 0, 2);

/// Runs a test of times and rates up to three times, until it passes: other programs may delay what is timed.
pub(crate) fn undisturbed(test: fn()) {
    for _ in 0..2 {
        if std::panic::catch_unwind(test).is_ok() {
            return;
        }
        eprintln!("it may have been disturbed: once more");
    }
    test();
}

/// A client and a server. One at a time in a process: a flood takes all processors.
pub(crate) struct Network {
    client: String,
    server: String,
    _alone: MutexGuard<'static, ()>,
}

impl Network {
    /// `None`, and says so, without the rights or the programs.
    pub(crate) fn start() -> Option<Network> {
        let network = Network::without_programs()?;
        if let Err(fault @ (Fault::NotBuilt | Fault::Load(_))) = SynGate::load() {
            eprintln!("not tested: {fault}");
            return None;
        }
        Some(network)
    }

    /// `None`, and says so, without the rights.
    pub(crate) fn without_programs() -> Option<Network> {
        static ALONE: Mutex<()> = Mutex::new(());
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |which| format!("tgkern{}-{number}{which}", std::process::id());
        let network = Network { client: name('c'), server: name('s'), _alone: alone };
        let (c, s) = (&network.client, &network.server);
        if !ip(&format!("netns add {c}")) {
            eprintln!("not tested: network namespaces cannot be made here");
            return None;
        }
        for words in [
            format!("netns add {s}"),
            format!("link add out netns {c} type veth peer name in netns {s}"),
            format!("-n {c} addr add 10.78.0.1/16 dev out"),
            format!("-n {s} addr add 10.78.0.2/16 dev in"),
            format!("-n {c} addr add fd78::1/64 dev out nodad"),
            format!("-n {s} addr add fd78::2/64 dev in nodad"),
            format!("-n {c} link set lo up"),
            format!("-n {s} link set lo up"),
            format!("-n {c} link set out up"),
            format!("-n {s} link set in up"),
            format!("-n {c} addr add 10.79.0.1/24 dev out"),
            format!("-n {s} addr add 10.79.0.2/24 dev in"),
        ] {
            assert!(ip(&words), "ip {words}");
        }
        Some(network)
    }

    /// Does it on a thread of the client's namespace.
    pub(crate) fn on_client<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.client, work)
    }

    /// The same of the server's.
    pub(crate) fn on_server<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        within(&self.server, work)
    }

    /// Something that runs in the server's namespace.
    pub(crate) fn server_command(&self, program: &std::path::Path) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.server)).arg(program);
        command
    }

    /// Takes the server's namespace away.
    pub(crate) fn remove_server(&self) {
        assert!(ip(&format!("netns del {}", self.server)));
    }

    /// IPv4 packets that the server's network layer has received.
    pub(crate) fn received(&self) -> u64 {
        self.on_server(|| {
            // Not /proc/net: that is of the process's first thread.
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("it is there");
            let mut lines = text.lines().filter(|line| line.starts_with("Ip:"));
            let mut words = || lines.next().expect("two lines").split(' ').map(str::to_owned);
            let (names, values) = (words().collect::<Vec<_>>(), words().collect::<Vec<_>>());
            let place = names.iter().position(|name| name == "InReceives").expect("it is there");
            values[place].parse().expect("a number")
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.client, &self.server] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        output.status.success()
    })
}

fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/run/netns/{name}")).expect("it exists");
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            setns(&namespace, CloneFlags::CLONE_NEWNET).expect("we have made it");
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Sends SYNs from an address of each of these networks in turn until it is told to stop, or so many; counts them. In the client's namespace. The server's system counts them, and does not answer: their checksum is wrong.
pub(crate) fn flood(from: &[[u8; 2]], port: u16, most: u64, stop: &AtomicBool, sent: &AtomicU64) {
    send_syns(from, port, most, stop, sent, |_| {});
}

/// As [`flood`], of SYNs that the server's system answers.
pub(crate) fn flood_answered(
    from: &[[u8; 2]],
    port: u16,
    most: u64,
    stop: &AtomicBool,
    sent: &AtomicU64,
) {
    send_syns(from, port, most, stop, sent, |packet| {
        let word = |it: &[u8]| u32::from(u16::from_be_bytes([it[0], it[1]]));
        packet[36..38].fill(0);
        // Addresses, and all of the TCP header; its protocol and length.
        let sum = packet[12..].chunks_exact(2).map(word).sum::<u32>() + 6 + 20;
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        packet[36..38].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    });
}

fn send_syns(
    from: &[[u8; 2]],
    port: u16,
    most: u64,
    stop: &AtomicBool,
    sent: &AtomicU64,
    finish: impl Fn(&mut [u8; 40]),
) {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(255))).expect("a right");
    let to: SocketAddr = (SERVER, 0).into();
    let mut packet = [0_u8; 40];
    packet[..12].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0]);
    packet[16..20].copy_from_slice(&SERVER.octets());
    packet[22..24].copy_from_slice(&port.to_be_bytes());
    packet[32..36].copy_from_slice(&[0x50, 2, 0xff, 0xff]);
    for number in 0..most {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let [a, b] = from[number as usize % from.len()];
        let [.., c, d] = number.to_be_bytes();
        packet[12..16].copy_from_slice(&[a, b, c, d]);
        packet[20..22].copy_from_slice(&(1024 + number as u16 % 60_000).to_be_bytes());
        finish(&mut packet);
        // A full queue of the interface only costs this one.
        if socket.send_to(&packet, &to.into()).is_ok() {
            sent.fetch_add(1, Ordering::Relaxed);
        }
    }
}
