//! What a process keeps for as long as it lives, whatever a reload says: its threads, its lanes, the admin listener, and the IP versions of
//! an open `[::]`, which no system lets anybody change. A successor has the former's sockets, and with them the last.

use crate::config::meant::{Listener, Policy};
use socket2::{Domain, SockRef, Socket, Type};
use std::net::{SocketAddr, TcpListener};

/// Leaves it in a new policy as it is in the one in force. A sentence on each thing of which the new policy says otherwise.
pub(super) fn for_life(policy: &mut Policy, former: &Policy) -> Vec<String> {
    let mut kept = Vec::new();
    if policy.threads != former.threads {
        policy.threads = former.threads;
        kept.push(at_next_start("threads"));
    }
    if policy.lanes != former.lanes {
        policy.lanes.clone_from(&former.lanes);
        kept.push(at_next_start("lane"));
    }
    if policy.admin != former.admin {
        policy.admin = former.admin;
        kept.push(at_next_start("admin"));
    }
    let opened = |address| {
        let known = former.listeners.iter().find(|it| it.address == address);
        known.map(|it| it.only_v6)
    };
    kept.extend(ip_versions(&mut policy.listeners, opened));
    kept
}

/// Leaves the IP versions of the former process's sockets as they are in the policy that its successor starts with. Sentences as above.
pub(super) fn handed_over(policy: &mut Policy, sockets: &[TcpListener]) -> Vec<String> {
    let is = |socket: &TcpListener, address| socket.local_addr().is_ok_and(|it| it == address);
    ip_versions(&mut policy.listeners, |address| {
        let socket = sockets.iter().find(|it| is(it, address))?;
        SockRef::from(socket).only_v6().ok()
    })
}

/// Why a listener of IPv4 cannot be opened, if an open one of both versions is in the way. `open`: the listeners that are, and whether each is
/// of IPv6 alone.
pub(super) fn held_by_both_versions(
    address: SocketAddr,
    mut open: impl Iterator<Item = (SocketAddr, bool)>,
) -> Option<String> {
    let takes_it = |(it, only_v6): &(SocketAddr, bool)| {
        has_all_of_v6(*it) && !only_v6 && it.port() == address.port() && address.is_ipv4()
    };
    let (all, _) = open.find(takes_it)?;
    Some(format!(
        "cannot listen on {address}: `{all}` was opened for IPv4, too, and an open socket keeps that; restart with this policy, since an upgrade hands the socket on"
    ))
}

fn at_next_start(key: &str) -> String {
    format!("`{key}` takes effect at the next start")
}

/// Has listeners that are open, of IPv6 alone or not, stay so.
fn ip_versions(
    listeners: &mut [Listener],
    opened: impl Fn(SocketAddr) -> Option<bool>,
) -> Vec<String> {
    let mut kept = Vec::new();
    for it in listeners.iter_mut().filter(|it| has_all_of_v6(it.address)) {
        let Some(only_v6) = opened(it.address).filter(|only_v6| *only_v6 != it.only_v6) else {
            continue;
        };
        // A restart changes nothing where the system has it so.
        if only_v6 && is_v6_alone_by_default() {
            continue;
        }
        it.only_v6 = only_v6;
        let does = if only_v6 { "keeps to IPv6" } else { "takes IPv4 as well" };
        kept.push(format!(
            "`{}` {does} until a restart: an upgrade hands the socket on as it was opened",
            it.address
        ));
    }
    kept
}

fn has_all_of_v6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

/// Whether a new socket is of IPv6 alone (`net.ipv6.bindv6only`).
fn is_v6_alone_by_default() -> bool {
    let socket = Socket::new(Domain::IPV6, Type::STREAM, None);
    socket.and_then(|it| it.only_v6()).unwrap_or(false)
}
