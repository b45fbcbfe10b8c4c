//! Which process has an address, as far as this user may know: by the kernel's tables of sockets, and the descriptors of processes.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

/// What is listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Connections.
    Tcp,
    /// HTTP/3.
    Udp,
}

/// What has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// A process.
    Process {
        /// The name of its program, as the kernel keeps it: 15 bytes at most.
        name: String,
        /// Its number.
        number: u32,
    },
    /// One that this user may not look into.
    Unknown,
}

/// The state of a TCP socket that listens (`include/net/tcp_states.h`).
const LISTENS: &str = "0A";
/// The program that passes sockets on, to the gateway or others.
const SYSTEMD: &str = "systemd";

impl Holder {
    /// What has an address; of several, one that is no gateway. Reads the descriptors of all processes of this user: for a fault, not for a request.
    pub(super) fn of(address: SocketAddr, protocol: Protocol) -> Holder {
        let tables = match protocol {
            Protocol::Tcp => ["tcp", "tcp6"],
            Protocol::Udp => ["udp", "udp6"],
        };
        let tables = tables.map(|it| fs::read_to_string(format!("/proc/net/{it}")));
        let lines = tables.iter().flatten().flat_map(|it| it.lines());
        let sockets: Vec<String> = lines
            .filter_map(|line| socket(line, address, protocol))
            .map(|inode| format!("socket:[{inode}]"))
            .collect();
        let holders = processes()
            .filter(|number| has_one(*number, &sockets))
            .map(|number| Holder::Process { name: name(number).unwrap_or_default(), number });
        // Of several, who keeps it from a gateway.
        holders.min_by_key(Holder::kind).unwrap_or(Holder::Unknown)
    }

    /// What kind of program it is.
    pub(super) fn kind(&self) -> HolderKind {
        let own = name(std::process::id());
        let is_gateway = match self {
            Holder::Process { name, .. } if name == SYSTEMD => return HolderKind::Systemd,
            Holder::Process { name, .. } => Some(name) == own.as_ref(),
            // Of another user: each process has a name, but not each shows its sockets.
            Holder::Unknown => processes()
                .filter(|number| *number != std::process::id())
                .any(|number| own.is_some() && name(number) == own),
        };
        if is_gateway { HolderKind::MayBeGateway } else { HolderKind::Other }
    }
}

/// What kind of program has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HolderKind {
    /// None that knows of this gateway.
    Other,
    /// A gateway: perhaps the one that is to load the policy.
    MayBeGateway,
    /// It keeps sockets for others, perhaps for a gateway.
    Systemd,
}

/// The inode of the socket in a line of the kernel's table, if that has the address.
fn socket(line: &str, address: SocketAddr, protocol: Protocol) -> Option<&str> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    if protocol == Protocol::Tcp && state != LISTENS {
        return None;
    }
    let (ip, port) = local.split_once(':')?;
    let ip = ip_of(ip)?;
    let is_all = ip.is_unspecified() || address.ip().is_unspecified();
    let is_it = (is_all || ip == address.ip())
        && u16::from_str_radix(port, 16).is_ok_and(|it| it == address.port());
    // Behind the state: queues, timer, retransmissions, user, time-out.
    is_it.then(|| fields.nth(5))?
}

/// An address as the kernel writes it: words of 32 bits in the order of this machine.
fn ip_of(text: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(text.get(at * 8..at * 8 + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    let first = word(0)?;
    match text.len() {
        8 => Some(Ipv4Addr::from(first).into()),
        _ => {
            let octets = [first, word(1)?, word(2)?, word(3)?].concat();
            let octets: [u8; 16] = octets.try_into().ok()?;
            Some(Ipv6Addr::from(octets).to_canonical())
        }
    }
}

/// The processes of this machine that can be seen.
fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| it.file_name().to_str()?.parse().ok())
}

/// The name of a process' program.
fn name(number: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{number}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn has_one(number: u32, sockets: &[String]) -> bool {
    let folder = Path::new("/proc").join(number.to_string()).join("fd");
    let descriptors = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut targets = descriptors.filter_map(|it| fs::read_link(it.path()).ok());
    !sockets.is_empty() && targets.any(|it| sockets.iter().any(|socket| it == Path::new(socket)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn the_process_that_has_an_address_is_found() {
        for address in ["127.0.0.1:0", "[::1]:0", "0.0.0.0:0"] {
            let Ok(socket) = TcpListener::bind(address) else { continue };
            let address = socket.local_addr().expect("bound");
            let found = Holder::of(address, Protocol::Tcp);
            assert!(
                matches!(&found, Holder::Process { number, .. } if *number == std::process::id()),
                "{address}: {found:?}"
            );
            assert_eq!(found.kind(), HolderKind::MayBeGateway);
            assert_eq!(Holder::of(address, Protocol::Udp), Holder::Unknown);
        }
    }

    /// A program that has a socket as its standard input, and this one no more; it ends with the test.
    struct Having(std::process::Child);

    impl Having {
        fn start(program: &Path, socket: TcpListener) -> Self {
            let mut command = std::process::Command::new(program);
            command.arg("20").stdin(OwnedFd::from(socket));
            Having(command.spawn().expect("a program that sleeps"))
        }
    }

    impl Drop for Having {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn of_several_that_is_found_which_keeps_an_address_from_the_gateway() {
        let folder = tempfile::tempdir().expect("a folder");
        let systemd = folder.path().join(SYSTEMD);
        symlink("/bin/sleep", &systemd).expect("our own folder");
        let own = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = own.local_addr().expect("bound").port();
        let of = |address: [u8; 4]| Holder::of((address, port).into(), Protocol::Tcp);
        let at = |address: &str| TcpListener::bind((address, port));
        let Ok(kept) = at("127.0.0.2") else { return };
        let _keeper = Having::start(&systemd, kept);
        assert_eq!(of([127, 0, 0, 2]).kind(), HolderKind::Systemd);
        assert_eq!(of([0, 0, 0, 0]).kind(), HolderKind::MayBeGateway);
        let Ok(other) = at("127.0.0.3") else { return };
        let sleep = Having::start(Path::new("/bin/sleep"), other);
        let found = Holder::Process { name: "sleep".to_owned(), number: sleep.0.id() };
        assert_eq!((of([0, 0, 0, 0]), found.kind()), (found.clone(), HolderKind::Other));
    }

    #[test]
    fn lines_of_the_kernels_table_are_read() {
        let line = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0";
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(socket(line, at("127.0.0.1:8080"), Protocol::Tcp), Some("4711"));
        assert_eq!(socket(line, at("127.0.0.1:8081"), Protocol::Tcp), None);
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(socket(&connected, at("127.0.0.1:8080"), Protocol::Tcp), None);
        assert_eq!(socket("  sl  local_address", at("127.0.0.1:8080"), Protocol::Tcp), None);
    }
}
