//! The listen queue of a server on this machine: connections that it has not accepted yet.

use super::probe::{Probe, Roots};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Instant;
use tiergate_core::sense::Quantity;

/// A socket that listens, in the kernel's tables.
const LISTENS: &str = "0A";

/// Connections in the listen queues of all sockets at an address. Those of the gateway's network namespace only.
pub(super) struct ListenQueue {
    address: SocketAddr,
    tables: [PathBuf; 2],
}

impl ListenQueue {
    pub(super) fn new(address: SocketAddr, roots: &Roots) -> Self {
        let net = roots.proc.join("net");
        ListenQueue { address, tables: [net.join("tcp"), net.join("tcp6")] }
    }
}

impl Probe for ListenQueue {
    fn take(&mut self, _: Instant) -> Result<Option<Quantity>> {
        let (mut sockets, mut waiting) = (0, 0u32);
        for table in &self.tables {
            for socket in listening(table)?.iter().filter(|it| takes(it.address, self.address)) {
                sockets += 1;
                waiting = waiting.saturating_add(socket.waiting);
            }
        }
        if sockets == 0 {
            bail!("nothing listens on {} in this network namespace", self.address);
        }
        Ok(Some(Quantity::QueueLen(waiting)))
    }
}

/// A socket that listens.
struct Listening {
    address: SocketAddr,
    /// Connections that it has not accepted yet.
    waiting: u32,
    inode: u64,
}

/// The inodes of the sockets of this network namespace that connections to an address come to.
pub(super) fn inodes(address: SocketAddr, roots: &Roots) -> Result<Vec<u64>> {
    let queue = ListenQueue::new(address, roots);
    let mut inodes = Vec::new();
    for table in &queue.tables {
        let sockets = listening(table)?;
        inodes.extend(sockets.iter().filter(|it| takes(it.address, address)).map(|it| it.inode));
    }
    Ok(inodes)
}

/// Whether connections to `wanted` come to a socket that listens on `bound`.
pub(crate) fn takes(bound: SocketAddr, wanted: SocketAddr) -> bool {
    let is_any = match bound.ip() {
        IpAddr::V4(_) => bound.ip().is_unspecified() && wanted.is_ipv4(),
        // As a rule those of IPv4, too.
        IpAddr::V6(_) => bound.ip().is_unspecified(),
    };
    let is_same = bound.ip().to_canonical() == wanted.ip().to_canonical();
    bound.port() == wanted.port() && (is_any || is_same)
}

/// The sockets that listen, each with its queue. They stand first in the table, so that reading ends
/// before the thousands of connections.
fn listening(table: &Path) -> Result<Vec<Listening>> {
    let fault = || format!("{} cannot be read", table.display());
    let file = match File::open(table) {
        // A kernel without IPv6.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && table.ends_with("tcp6") => {
            return Ok(Vec::new());
        }
        file => file.with_context(fault)?,
    };
    let mut found = Vec::new();
    for line in BufReader::new(file).lines().skip(1) {
        let line = line.with_context(fault)?;
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, local, _, state, queues, ..] = fields[..] else { break };
        if state != LISTENS {
            break;
        }
        let queue = queues.split_once(':').and_then(|(_, it)| u32::from_str_radix(it, 16).ok());
        // Timer, retransmissions, user and time-outs are between queues and inode.
        let inode = fields.get(9).and_then(|it| it.parse().ok()).unwrap_or(0);
        let socket = socket_address(local).zip(queue);
        found.extend(socket.map(|(address, waiting)| Listening { address, waiting, inode }));
    }
    Ok(found)
}

/// An address as the tables have it: each four bytes as a number of the machine's byte order.
fn socket_address(hex: &str) -> Option<SocketAddr> {
    let (ip, port) = hex.split_once(':')?;
    let words: Option<Vec<u32>> = (0..ip.len() / 8)
        .map(|word| u32::from_str_radix(ip.get(word * 8..word * 8 + 8)?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let ip = match bytes.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    #[test]
    fn connections_wait_until_they_are_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("an address");
        let address = listener.local_addr().expect("bound");
        let mut probe = ListenQueue::new(address, &Roots::default());
        let mut waiting = || probe.take(Instant::now()).expect("it listens").expect("a number");
        assert_eq!(waiting(), Quantity::QueueLen(0));
        let clients: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        assert_eq!(waiting(), Quantity::QueueLen(3));
        listener.accept().expect("there are three");
        assert_eq!(waiting(), Quantity::QueueLen(2));
        drop((listener, clients));
        // A child of another test may have it until it is another program.
        let until = Instant::now() + Duration::from_secs(5);
        while probe.take(Instant::now()).is_ok() && Instant::now() < until {
            std::thread::yield_now();
        }
        let fault = probe.take(Instant::now()).expect_err("nobody listens").to_string();
        assert!(fault.contains(&format!("nothing listens on {address}")), "{fault}");
    }

    #[test]
    fn who_listens_on_all_addresses_is_meant_too() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let wanted = at("127.0.0.1:80");
        for (bound, is_it) in [
            ("127.0.0.1:80", true),
            ("0.0.0.0:80", true),
            ("[::]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:81", false),
            ("10.0.0.1:80", false),
            ("[::1]:80", false),
        ] {
            assert_eq!(takes(at(bound), wanted), is_it, "{bound}");
        }
        assert!(!takes(at("0.0.0.0:80"), at("[::1]:80")));
        assert!(takes(at("127.0.0.1:80"), at("[::ffff:127.0.0.1]:80")));
    }
}
