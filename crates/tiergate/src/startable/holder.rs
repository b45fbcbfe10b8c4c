//! Which process has an address, as far as this user may know: by the kernel's tables of sockets, and the descriptors of processes.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
    /// One that this user may not look into, of the user of this number, if that is known.
    Unknown(Option<u32>),
    /// Something that does not listen there: a socket that only has the address, or a connection from it.
    Silent,
}

/// The state of a TCP socket that listens (`include/net/tcp_states.h`).
const LISTENS: &str = "0A";
/// The program that passes sockets on, to the gateway or others.
const SYSTEMD: &str = "systemd";
/// What the names of the gateway's programs begin with, whatever this one is called.
const GATEWAY: &str = "tiergate";
/// Its laboratory.
const LAB: &str = "tiergate-lab";

impl Holder {
    /// What has an address; of several, one that is no gateway. Reads the descriptors of all processes of this user: for a fault, not for a request.
    pub(super) fn of(address: SocketAddr, protocol: Protocol) -> Holder {
        let tables = match protocol {
            Protocol::Tcp => ["tcp", "tcp6"],
            Protocol::Udp => ["udp", "udp6"],
        };
        let tables = tables.map(|it| fs::read_to_string(format!("/proc/net/{it}")));
        let lines = tables.iter().flatten().flat_map(|it| it.lines());
        let found: Vec<(&str, Option<u32>)> =
            lines.filter_map(|line| socket(line, address, protocol)).collect();
        if found.is_empty() && tables.iter().all(Result::is_ok) {
            return Holder::Silent;
        }
        let mut all = Vec::new();
        for (inode, _) in &found {
            let socket = [format!("socket:[{inode}]")];
            let holders: Vec<Holder> = processes()
                .filter(|number| has_one(*number, &socket))
                .map(|number| Holder::Process { name: name(number).unwrap_or_default(), number })
                .collect();
            // Who passed a socket on to a gateway may have kept it.
            let is_gateway = |it: &Holder| {
                let kind = it.kind(None);
                (matches!(kind, HolderKind::MayBeGateway | HolderKind::OtherGateway), kind)
            };
            // Of several alike the first: a child that is no other program yet has all that its parent has.
            all.extend(holders.into_iter().rev().max_by_key(is_gateway));
        }
        // Of several sockets, the one that keeps the address from a gateway.
        let user = found.first().and_then(|(_, user)| *user);
        all.into_iter().min_by_key(|it| it.kind(None)).unwrap_or(Holder::Unknown(user))
    }

    /// What kind of program it is, where that policy is to be loaded.
    pub(super) fn kind(&self, policy: Option<&Path>) -> HolderKind {
        let own = std::process::id();
        match self {
            Holder::Silent => HolderKind::Other,
            Holder::Process { name, .. } if name == SYSTEMD => HolderKind::Systemd,
            Holder::Process { number, .. } if *number == own => HolderKind::MayBeGateway,
            Holder::Process { number, name } if is_gateway(*number, name) => match policy {
                Some(policy) if !may_have(*number, policy) => HolderKind::OtherGateway,
                _ => HolderKind::MayBeGateway,
            },
            Holder::Process { .. } => HolderKind::Other,
            // Root sees the sockets of every process that this place can see: it is of another one, such as a container.
            Holder::Unknown(_) if rustix::process::geteuid().is_root() => HolderKind::Other,
            // Each process has a name and a user, but not each shows its sockets.
            Holder::Unknown(user) => {
                let is_theirs = |number: u32| {
                    let of = fs::metadata(format!("/proc/{number}")).ok().map(|it| it.uid());
                    user.is_none_or(|user| of == Some(user))
                };
                let gateways = processes().filter(|number| {
                    *number != own && name(*number).is_some_and(|it| is_gateway(*number, &it))
                });
                let theirs: Vec<u32> = gateways.filter(|it| is_theirs(*it)).collect();
                let has_policy = |it: &u32| policy.is_none_or(|policy| may_have(*it, policy));
                match theirs.iter().any(has_policy) {
                    true => HolderKind::MayBeGateway,
                    false if theirs.is_empty() => HolderKind::Other,
                    false => HolderKind::OtherGateway,
                }
            }
        }
    }
}

/// Whether a process is a gateway, by the name of its program or by the file of it.
fn is_gateway(number: u32, program: &str) -> bool {
    let file = fs::read_link(format!("/proc/{number}/exe")).ok();
    let file = file.as_ref().and_then(|it| it.file_name()?.to_str()).unwrap_or_default();
    let own = name(std::process::id());
    let is_named = |it: &str| it.starts_with(GATEWAY) && !it.starts_with(LAB);
    is_named(program) || is_named(file) || own.is_some_and(|own| own == program)
}

/// Whether a gateway may have been started with that policy: by its arguments.
fn may_have(number: u32, policy: &Path) -> bool {
    let process = Path::new("/proc").join(number.to_string());
    let Ok(arguments) = fs::read(process.join("cmdline")) else { return true };
    let Ok(policy) = policy.canonicalize() else { return false };
    let folder = fs::read_link(process.join("cwd")).ok();
    arguments.split(|byte| *byte == 0).skip(1).filter(|it| !it.is_empty()).any(|argument| {
        let file = PathBuf::from(std::ffi::OsStr::from_bytes(argument));
        let file = match (&folder, file.is_absolute()) {
            (_, true) => file,
            (Some(folder), false) => folder.join(file),
            // Where it was started this user may not know.
            (None, false) => return file.file_name() == policy.file_name(),
        };
        file.canonicalize().is_ok_and(|it| it == policy)
    })
}

/// What kind of program has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HolderKind {
    /// None that knows of this gateway.
    Other,
    /// A gateway that was started with another policy.
    OtherGateway,
    /// A gateway: perhaps the one that is to load the policy.
    MayBeGateway,
    /// It keeps sockets for others, perhaps for a gateway.
    Systemd,
}

/// The inode of the socket in a line of the kernel's table, and its user, if it has the address.
fn socket(line: &str, address: SocketAddr, protocol: Protocol) -> Option<(&str, Option<u32>)> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (local, state) = (fields.next()?, fields.nth(1)?);
    if protocol == Protocol::Tcp && state != LISTENS {
        return None;
    }
    let (ip, port) = local.split_once(':')?;
    let (ip, wanted) = (ip_of(ip)?, address.ip().to_canonical());
    let is_all = ip.is_unspecified() || wanted.is_unspecified();
    let is_it = (is_all || ip == wanted)
        && u16::from_str_radix(port, 16).is_ok_and(|it| it == address.port());
    if !is_it {
        return None;
    }
    // Behind the state: queues, timer, retransmissions, user, time-out, inode.
    let user = fields.nth(3)?.parse().ok();
    Some((fields.nth(1)?, user))
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
            assert_eq!(found.kind(None), HolderKind::MayBeGateway);
            assert_eq!(Holder::of(address, Protocol::Udp), Holder::Silent);
        }
    }

    /// A program that has a socket as its standard input, and this one no more.
    fn having(program: &Path, socket: TcpListener) -> Ends {
        let mut command = std::process::Command::new(program);
        command.arg("20").stdin(OwnedFd::from(socket));
        Ends(command.spawn().expect("a program that sleeps"))
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
        let _keeper = having(&systemd, kept);
        assert_eq!(of([127, 0, 0, 2]).kind(None), HolderKind::Systemd);
        assert_eq!(of([0, 0, 0, 0]).kind(None), HolderKind::MayBeGateway);
        let Ok(other) = at("127.0.0.3") else { return };
        let sleep = having(Path::new("/bin/sleep"), other);
        let found = Holder::Process { name: "sleep".to_owned(), number: sleep.0.id() };
        assert_eq!((of([0, 0, 0, 0]), found.kind(None)), (found.clone(), HolderKind::Other));
    }

    #[test]
    fn a_gateway_with_another_policy_is_told_from_the_one_that_is_to_load_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let policy = |name: &str| {
            let file = folder.path().join(name);
            std::fs::write(&file, "").expect("our own folder");
            file
        };
        let (own, other) = (policy("a.toml"), policy("b.toml"));
        // A gateway by its name and its arguments, which sleeps.
        let gateway = folder.path().join("tiergate-0.2");
        // By a program of its own: a child of another test that has it open to be written could keep it from being run.
        let copied = std::process::Command::new("cp").arg("/bin/sh").arg(&gateway).status();
        assert!(copied.is_ok_and(|it| it.success()), "our own folder");
        let mut command = std::process::Command::new(&gateway);
        command.args(["-c", "read line", "run"]).arg("a.toml").current_dir(folder.path());
        let child = command.stdin(std::process::Stdio::piped()).spawn().expect("a program");
        let number = child.id();
        let _ends = Ends(child);
        let holder = Holder::Process { name: "tiergate-0.2".to_owned(), number };
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !may_have(number, &own) && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(holder.kind(Some(&own)), HolderKind::MayBeGateway);
        assert_eq!(holder.kind(Some(&other)), HolderKind::OtherGateway);
        assert_eq!(holder.kind(Some(Path::new("/nowhere"))), HolderKind::OtherGateway);
        assert_eq!(holder.kind(None), HolderKind::MayBeGateway);
        // By another name it is known by its file.
        let renamed = Holder::Process { name: "tg".to_owned(), number };
        assert_eq!(renamed.kind(Some(&own)), HolderKind::MayBeGateway);
        let others = Holder::Process { name: "nginx".to_owned(), number: 1 };
        assert_eq!(others.kind(Some(&own)), HolderKind::Other);
    }

    /// A process that ends with the test.
    struct Ends(std::process::Child);

    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn what_does_not_listen_is_no_gateway() {
        let (socket, address) = bound();
        assert_eq!(Holder::of(address, Protocol::Tcp), Holder::Silent);
        assert_eq!(Holder::Silent.kind(None), HolderKind::Other);
        drop(socket);
    }

    /// A socket that only has an address.
    fn bound() -> (socket2::Socket, SocketAddr) {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.expect("a socket");
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        socket.bind(&any.into()).expect("a port");
        let address = socket.local_addr().expect("bound").as_socket().expect("of IP");
        (socket, address)
    }

    #[test]
    fn lines_of_the_kernels_table_are_read() {
        let line = "   0: 00000000:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0";
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(socket(line, at("127.0.0.1:8080"), Protocol::Tcp), Some(("4711", Some(1000))));
        assert_eq!(socket(line, at("127.0.0.1:8081"), Protocol::Tcp), None);
        let mapped = at("[::ffff:127.0.0.1]:8080");
        assert_eq!(socket(line, mapped, Protocol::Tcp), Some(("4711", Some(1000))));
        let connected = line.replace(" 0A ", " 01 ");
        assert_eq!(socket(&connected, at("127.0.0.1:8080"), Protocol::Tcp), None);
        assert_eq!(socket("  sl  local_address", at("127.0.0.1:8080"), Protocol::Tcp), None);
    }
}
