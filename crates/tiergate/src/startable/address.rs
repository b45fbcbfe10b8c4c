//! Whether an address can be listened on.

use super::holder::{Holder, HolderKind, Protocol};
use rustix::io::Errno;
use socket2::{Domain, Socket, Type};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// What is to be said of an address beforehand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A start fails.
    Fault(String),
    /// A start may fail: that depends on who starts it.
    Warning(String),
}

/// How long after an address was taken by something unknown it is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Why an address cannot be listened on, and what to do about it.
pub(crate) fn cannot_listen(address: SocketAddr, protocol: Protocol, fault: &Error) -> String {
    let holder = match fault.kind() {
        ErrorKind::AddrInUse => Holder::of(address, protocol),
        _ => Holder::Unknown(None),
    };
    words(address, protocol, fault, &holder)
}

fn words(address: SocketAddr, protocol: Protocol, fault: &Error, holder: &Holder) -> String {
    let (how, option) = match protocol {
        Protocol::Tcp => ("", 't'),
        Protocol::Udp => (" by UDP, for HTTP/3", 'u'),
    };
    let why = match fault.kind() {
        ErrorKind::AddrInUse => match holder {
            Holder::Process { number, .. } if *number == std::process::id() => {
                "this gateway itself has it, and opens what is new before it closes what is old; restart it with this policy, or name another port".to_owned()
            }
            it if it.kind(None) == HolderKind::Systemd => {
                "systemd keeps it for a socket unit, which `systemctl list-sockets` shows; stop that unit, or name another port".to_owned()
            }
            Holder::Process { name, number } => {
                format!("{name} (process {number}) has it; stop that, or name another port")
            }
            Holder::Silent => format!(
                "a socket that does not listen, or a connection, has it; as root `ss -an{option}p | grep :{}` may say whose; wait until it is closed, stop that program, or name another port",
                address.port()
            ),
            Holder::Unknown(_) => format!(
                "another program has it, and as root `ss -ln{option}p` says which; stop that, or name another port"
            ),
        },
        _ if Errno::from_io_error(fault) == Some(Errno::AFNOSUPPORT) => format!(
            "this machine has no IPv6; write \"0.0.0.0:{}\" for IPv4",
            address.port()
        ),
        ErrorKind::AddrNotAvailable => {
            "this machine does not have the address; `ip address` lists those that it has"
                .to_owned()
        }
        ErrorKind::PermissionDenied => format!(
            "this user may not listen on port {}; give the gateway CAP_NET_BIND_SERVICE (systemd: AmbientCapabilities=CAP_NET_BIND_SERVICE, as in \
             the unit of the package), or name a port from 1024",
            address.port()
        ),
        _ => fault.to_string(),
    };
    format!("cannot listen on {address}{how}: {why}")
}

/// An address on which the gateway is to listen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) address: SocketAddr,
    pub(super) protocol: Protocol,
    /// Of IPv6 alone.
    pub(super) only_v6: bool,
    /// With others that do so, too.
    pub(super) share: bool,
}

/// What is to be said of it; nothing if a gateway has it that may be the one that is to load the policy of that file.
pub(super) fn judge(wanted: Wanted, policy: Option<&Path>) -> Option<Verdict> {
    let Wanted { address, protocol, .. } = wanted;
    let fault = bind(wanted).err()?;
    if fault.kind() == ErrorKind::AddrInUse {
        let holder = Holder::of(address, protocol);
        // What had it may have let go of it meanwhile, as a gateway that is being restarted does.
        if !matches!(holder, Holder::Process { .. }) {
            std::thread::sleep(AGAIN);
            if bind(wanted).is_ok() {
                return None;
            }
        }
        let said = || words(address, protocol, &fault, &holder);
        return match (holder.kind(policy), &holder) {
            (HolderKind::MayBeGateway, _) => None,
            (HolderKind::OtherGateway, _) => Some(Verdict::Warning(format!(
                "{}; where this policy is to replace that gateway's, that is no fault",
                said()
            ))),
            (HolderKind::Systemd, _) => Some(Verdict::Warning(format!(
                "{}; where it is the gateway's own, that is no fault",
                said()
            ))),
            (HolderKind::Other, Holder::Unknown(_)) => Some(Verdict::Warning(said())),
            (HolderKind::Other, _) => Some(Verdict::Fault(said())),
        };
    }
    let said = words(address, protocol, &fault, &Holder::Unknown(None));
    match fault.kind() {
        ErrorKind::PermissionDenied => Some(Verdict::Warning(format!(
            "{said}; where another user starts it, or systemd passes it the socket, that is no fault, and --other-machine leaves it out"
        ))),
        _ => Some(Verdict::Fault(said)),
    }
}

/// Binds an address as the listeners do, without taking connections.
fn bind(Wanted { address, protocol, only_v6, share }: Wanted) -> Result<(), Error> {
    if protocol == Protocol::Udp {
        return crate::quic::bind(address, 1, only_v6).map(drop);
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if only_v6 {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_taken_address_is_the_gateways_or_a_fault() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = tcp.local_addr().expect("bound");
        // This very program has it.
        let judged = |address, protocol| {
            judge(Wanted { address, protocol, only_v6: false, share: false }, None)
        };
        assert_eq!(judged(address, Protocol::Tcp), None);
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let address = udp.local_addr().expect("bound");
        assert_eq!(judged(address, Protocol::Udp), None);
        let fault = Error::from(ErrorKind::AddrInUse);
        let said = cannot_listen(address, Protocol::Udp, &fault);
        assert!(said.contains("this gateway itself has it, and opens what is new"), "{said}");
        assert!(said.starts_with(&format!("cannot listen on {address} by UDP, for HTTP/3: ")));
    }

    #[test]
    fn a_machine_without_ipv6_is_told_from_one_without_the_address() {
        let said = |address: &str, fault: Errno| {
            let address = address.parse().expect("an address");
            cannot_listen(address, Protocol::Tcp, &Error::from(fault))
        };
        let without = "this machine has no IPv6; write \"0.0.0.0:8080\" for IPv4";
        for (address, fault, expected) in [
            ("[::]:8080", Errno::AFNOSUPPORT, without),
            ("[2001:db8::7]:8080", Errno::ADDRNOTAVAIL, "does not have the address"),
        ] {
            let said = said(address, fault);
            assert!(said.contains(expected), "{address}: {said}");
        }
    }

    /// Who stops process 1 stops the machine.
    #[test]
    fn what_systemd_keeps_is_its_unit_s() {
        let address = "127.0.0.1:22".parse().expect("an address");
        let holder = Holder::Process { name: "systemd".to_owned(), number: 1 };
        let fault = Error::from(ErrorKind::AddrInUse);
        let said = words(address, Protocol::Tcp, &fault, &holder);
        assert!(
            said.ends_with("`systemctl list-sockets` shows; stop that unit, or name another port"),
            "{said}"
        );
    }

    #[test]
    fn what_depends_on_the_user_is_no_fault_of_the_policy() {
        let address: SocketAddr = "127.0.0.1:80".parse().expect("an address");
        let fault = Error::from(ErrorKind::PermissionDenied);
        let said = cannot_listen(address, Protocol::Tcp, &fault);
        assert!(said.contains("may not listen on port 80; give the gateway CAP_NET_BIND_SERVICE"));
    }
}
