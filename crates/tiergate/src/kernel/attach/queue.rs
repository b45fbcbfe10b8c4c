//! How full listen queues are. The kernel is asked by netlink (sock_diag), which also says how much a queue holds; /proc/net/tcp does not.

use crate::sensors::takes;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

// Of the kernel's interface (uapi linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h).
const AF_NETLINK: i32 = 16;
const NETLINK_SOCK_DIAG: i32 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const HEADER_LEN: usize = 16;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
const IPPROTO_TCP: u8 = 6;
const TCP_LISTEN: u32 = 10;
/// Where `struct inet_diag_msg` has what is read of it.
const PORT: usize = 4;
const ADDRESS: usize = 8;
const WAITING: usize = 56;
const LIMIT: usize = 60;
const LEN: usize = 72;

/// Most parts of an answer: each has some hundred sockets.
const PARTS_MAX: usize = 1000;
/// The kernel answers at once; nothing else is waited for longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A socket that listens.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Listening {
    address: SocketAddr,
    /// Connections that were not accepted yet.
    waiting: u32,
    /// How many there may be.
    limit: u32,
}

/// The fullest listen queue of the sockets of this network namespace that take connections to these addresses, as a part of what it holds; `None`: there is no such socket. Needs no right.
///
/// # Errors
/// The kernel has no sock_diag, or what it says.
pub(super) fn fullest(addresses: &[SocketAddr]) -> io::Result<Option<f64>> {
    let mut fullest: Option<f64> = None;
    for family in [AF_INET, AF_INET6] {
        let found = match listening(family) {
            // A kernel without IPv6.
            Err(error) if family == AF_INET6 && error.kind() == io::ErrorKind::NotFound => continue,
            found => found?,
        };
        for socket in found {
            if addresses.iter().any(|it| takes(socket.address, *it)) {
                let part = f64::from(socket.waiting) / f64::from(socket.limit.max(1));
                fullest = Some(fullest.map_or(part, |most| most.max(part)));
            }
        }
    }
    Ok(fullest)
}

fn listening(family: u8) -> io::Result<Vec<Listening>> {
    let protocol = Protocol::from(NETLINK_SOCK_DIAG);
    let mut socket = Socket::new(Domain::from(AF_NETLINK), Type::RAW, Some(protocol))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.send(&request(family))?;
    let (mut found, mut part) = (Vec::new(), vec![0; 64 << 10]);
    for _ in 0..PARTS_MAX {
        let len = socket.read(&mut part)?;
        if len == 0 || read(&part[..len], &mut found)? {
            return Ok(found);
        }
    }
    Err(io::Error::other("the list of sockets has no end"))
}

/// Asks for all sockets that listen.
fn request(family: u8) -> [u8; 72] {
    let mut request = [0; 72];
    request[..4].copy_from_slice(&72_u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    request[HEADER_LEN..HEADER_LEN + 2].copy_from_slice(&[family, IPPROTO_TCP]);
    request[20..24].copy_from_slice(&(1_u32 << TCP_LISTEN).to_ne_bytes());
    request
}

/// Reads a part of an answer; whether it was the last.
fn read(mut part: &[u8], found: &mut Vec<Listening>) -> io::Result<bool> {
    while part.len() >= HEADER_LEN {
        let len = number(part, 0) as usize;
        let Some(message) = part.get(HEADER_LEN..len) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match u16::from_ne_bytes([part[4], part[5]]) {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR if message.len() >= 4 => {
                return match number(message, 0) as i32 {
                    0 => Ok(true),
                    error => Err(io::Error::from_raw_os_error(-error)),
                };
            }
            SOCK_DIAG_BY_FAMILY => found.extend(socket(message)),
            _ => {}
        }
        part = &part[len.next_multiple_of(4).min(part.len())..];
    }
    Ok(false)
}

fn socket(message: &[u8]) -> Option<Listening> {
    let message: &[u8; LEN] = message.first_chunk()?;
    let bytes: [u8; 16] = *message[ADDRESS..].first_chunk()?;
    let [a, b, c, d, ..] = bytes;
    let ip: IpAddr = match message[0] {
        AF_INET => Ipv4Addr::new(a, b, c, d).into(),
        AF_INET6 => Ipv6Addr::from(bytes).into(),
        _ => return None,
    };
    let port = u16::from_be_bytes([message[PORT], message[PORT + 1]]);
    let [waiting, limit] = [WAITING, LIMIT].map(|at| number(message, at));
    Some(Listening { address: SocketAddr::new(ip, port), waiting, limit })
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn the_fullest_queue_is_found() {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a port");
        listener.listen(4).expect("it listens");
        let listener: TcpListener = listener.into();
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let [address, empty] = [&listener, &other].map(|it| it.local_addr().expect("bound"));
        let of = |addresses: &[SocketAddr]| fullest(addresses).expect("the kernel says");
        assert_eq!(of(&[address, empty]), Some(0.0));
        let clients: Vec<TcpStream> =
            (0..3).map(|_| TcpStream::connect(address).expect("it listens")).collect();
        assert_eq!(of(&[empty, address]), Some(0.75));
        assert_eq!((of(&[empty]), of(&[])), (Some(0.0), None));
        drop((listener, clients));
        // A child of another test may have it until it is another program.
        let until = Instant::now() + Duration::from_secs(5);
        while of(&[address]).is_some() && Instant::now() < until {
            std::thread::yield_now();
        }
        assert_eq!(of(&[address]), None);
    }

    #[test]
    fn what_the_kernel_does_not_say_so_is_an_error() {
        let mut found = Vec::new();
        let mut message = request(AF_INET).to_vec();
        message[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        message[HEADER_LEN..HEADER_LEN + 4].copy_from_slice(&(-2_i32).to_ne_bytes());
        let error = read(&message, &mut found).expect_err("it says so");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        for len in [0_u32, 15, 73, u32::MAX] {
            message[..4].copy_from_slice(&len.to_ne_bytes());
            assert!(read(&message, &mut found).is_err(), "{len}");
        }
        assert!(!read(&[], &mut found).expect("nothing"));
        assert!(found.is_empty());
    }
}
