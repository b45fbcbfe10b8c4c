//! Addresses of a policy that meet: two sockets cannot listen on one, and a gateway that is its own server would ask itself for ever.

use super::listener::{DEFAULT, ListenerKeys, check_lanes};
use super::place::{At, Place};
use super::policy::Root;
use super::server::{Server, Written, address_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Reports listeners of which one takes the other's address, an admin listener that has one of theirs, and servers that are the gateway itself.
/// `place`: that of the policy.
pub(super) fn check(raw: &Root, place: &Place) {
    let written = raw.listener.iter().filter_map(|it| Some((it.value.address?, Some(it))));
    let mut listeners: Vec<(SocketAddr, Option<&At<ListenerKeys>>)> = written.collect();
    if raw.listener.is_empty() {
        listeners.push((DEFAULT, None));
    }
    check_lanes(&raw.listener, !raw.lane.is_empty());
    let shares = |it: &At<ListenerKeys>| it.value.share_port;
    for (index, (address, this)) in listeners.iter().enumerate() {
        let both_share = |other: &Option<&At<ListenerKeys>>| {
            this.is_some_and(shares) && other.is_some_and(shares)
        };
        let other = listeners[..index].iter().filter(|it| !both_share(&it.1)).map(|it| it.0);
        // That two are the same is reported with them.
        let other = other.filter(|it| it != address).find(|it| meet(*it, *address));
        if let (Some(other), Some(At { place, .. })) = (other, this) {
            let (all, one) =
                if other.ip().is_unspecified() { (other, *address) } else { (*address, other) };
            place.fault_at("address", format!("another listener has {other}, and {all} takes connections to {one} as well; leave one out"));
        }
    }
    if let Some(admin) = raw.admin
        && let Some((other, _)) = listeners.iter().find(|it| keeps_from(admin, it.0))
    {
        place.fault_at(
            "admin",
            format!("must be another address than that of the listener, {other}, got {admin}"),
        );
    }
    for (address, place) in listeners.iter().filter_map(|it| Some((it.0, &it.1?.place))) {
        check_kind(address, &place.key("address"));
        if address.port() == 0 {
            place.warn(format!(
                "{}: {address} has the system pick a port, another one for each thread and at each start: name one",
                place.key("address").key
            ));
        }
    }
    if let Some(admin) = raw.admin {
        check_kind(admin, &place.key("admin"));
    }
    let all: Vec<SocketAddr> = listeners.iter().map(|it| it.0).collect();
    check_servers(raw, &all);
}

/// Reports servers that are the gateway itself.
fn check_servers(raw: &Root, listeners: &[SocketAddr]) {
    let own = raw.origin.iter().flat_map(|it| &it.servers).map(|it| (true, it));
    let pools = raw.pool.iter().flat_map(|it| &it.value.servers).map(|it| (false, it));
    for (is_default, At { value: Written { address, .. }, place }) in own.chain(pools) {
        let met = listeners.iter().find(|it| is_reached_by(**it, address));
        match (met, raw.admin.filter(|it| is_reached_by(*it, address))) {
            (Some(own), _) if listeners.len() == 1 => {
                place.fault(format!("is this gateway itself, which listens on {own}: each request would come back to it; name the web server's address"));
            }
            // One of several may be where it belongs: requests of the others.
            (Some(own), _) => place.warn(format!(
                "{}: {address} is this gateway itself, which listens on {own}: requests that come there and go to this server come back to it for ever",
                place.key
            )),
            (None, Some(admin)) if is_default => {
                place.fault(format!("is this gateway's admin listener, {admin}; name the web server's address"));
            }
            // What a pool is for may be to serve metrics.
            (None, Some(admin)) => place.warn(format!(
                "{}: {address} is this gateway's admin listener, {admin}: clients whose requests go there see and change what operators do",
                place.key
            )),
            (None, None) => {}
        }
    }
}

/// Reports addresses that no client can connect to.
fn check_kind(address: SocketAddr, place: &Place) {
    let ip = address.ip().to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    if ip.is_multicast() || is_broadcast {
        place.fault(format!("must be the address of one machine, got {ip}, which is of many"));
    }
    if let SocketAddr::V6(address) = address
        && address.ip().is_unicast_link_local()
        && address.scope_id() == 0
    {
        let (ip, port) = (address.ip(), address.port());
        place.fault(format!("must say on which interface, as that address is on each: \"[{ip}%2]:{port}\", where `ip link` shows 2 before the interface's name"));
    }
}

/// Whether only one of them can be listened on.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let (one_ip, other_ip) = (one.ip().to_canonical(), other.ip().to_canonical());
    let is_all = |ip: IpAddr, of: IpAddr| match ip {
        // Whether a socket for all addresses of IPv6 takes those of IPv4, too, the system decides.
        IpAddr::V6(ip) => ip.is_unspecified() && of.is_ipv6(),
        IpAddr::V4(ip) => ip.is_unspecified() && of.is_ipv4(),
    };
    let same_port = one.port() == other.port() && one.port() != 0;
    same_port && (one_ip == other_ip || is_all(one_ip, other_ip) || is_all(other_ip, one_ip))
}

/// Whether the admin listener, which is bound first, keeps a listener from being bound. Of IPv6, one of all addresses takes those of IPv4, too.
fn keeps_from(admin: SocketAddr, listener: SocketAddr) -> bool {
    let takes_all = admin.is_ipv6() && admin.ip().is_unspecified() && admin.port() != 0;
    let is_v4 = listener.ip().to_canonical().is_ipv4();
    meet(admin, listener) || takes_all && is_v4 && admin.port() == listener.port()
}

/// Whether connections to the server surely come to the listener. Names are not looked up, but for `localhost`, which is this machine (RFC 6761 §6.3).
fn is_reached_by(listener: SocketAddr, server: &Server) -> bool {
    let Server::Tcp(host, port) = server else { return false };
    addresses(host).into_iter().any(|ip| {
        // An address of another machine is none of ours, though a listener has all that are.
        let is_ours = ip.is_loopback() || ip == listener.ip().to_canonical();
        let is_all = listener.is_ipv6() && listener.ip().is_unspecified();
        // One of all addresses of IPv6 has those of IPv4, too, unless another one of this gateway has them.
        let takes =
            meet(listener, SocketAddr::new(ip, *port)) || is_all && listener.port() == *port;
        is_ours && takes
    })
}

/// What a host surely is: none if it must be looked up.
fn addresses(host: &str) -> Vec<IpAddr> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    if name == "localhost" || name.ends_with(".localhost") {
        return loopback.to_vec();
    }
    let Some(ip) = address_of(host) else {
        return Vec::new();
    };
    // What goes to no address goes to this machine.
    match ip.to_canonical() {
        IpAddr::V4(ip) if ip.is_unspecified() => vec![loopback[0]],
        IpAddr::V6(ip) if ip.is_unspecified() => vec![loopback[1]],
        ip => vec![ip],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn sockets_meet_where_one_has_all_addresses() {
        for (one, other, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("0.0.0.0:80", "192.0.2.1:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("[::]:80", "192.0.2.1:80", false),
            ("[::]:80", "[2001:db8::1]:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
        ] {
            assert_eq!(meet(address(one), address(other)), expected, "{one} {other}");
            assert_eq!(meet(address(other), address(one)), expected, "{other} {one}");
        }
    }

    #[test]
    fn an_admin_listener_of_all_addresses_takes_those_of_ipv4() {
        for (admin, listener, expected) in [
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "0.0.0.0:80", true),
            ("[::]:80", "[::ffff:0.0.0.0]:80", true),
            ("[::ffff:0.0.0.0]:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "[::]:80", false),
        ] {
            assert_eq!(
                keeps_from(address(admin), address(listener)),
                expected,
                "{admin} {listener}"
            );
        }
    }

    #[test]
    fn a_server_is_the_gateway_where_its_connections_surely_come_back() {
        for (listener, host, port, expected) in [
            ("127.0.0.1:80", "127.0.0.1", 80, true),
            ("0.0.0.0:80", "localhost", 80, true),
            ("127.0.0.1:80", "LOCALHOST.", 80, true),
            ("[::1]:80", "app.localhost", 80, true),
            ("192.0.2.1:80", "localhost", 80, false),
            ("127.0.0.1:80", "127.1", 80, true),
            ("127.0.0.1:80", "2130706433", 80, true),
            ("127.0.0.1:80", "127.2", 80, false),
            ("[::]:80", "127.0.0.1", 80, true),
            ("[::]:80", "192.0.2.1", 80, false),
            ("127.0.0.1:80", "0.0.0.0", 80, true),
            ("0.0.0.0:80", "0.0.0.0", 80, true),
            ("[::]:80", "::", 80, true),
            ("192.0.2.1:80", "0.0.0.0", 80, false),
            ("[::]:80", "::1", 80, true),
            ("0.0.0.0:80", "192.0.2.1", 80, false),
            ("192.0.2.1:80", "192.0.2.1", 80, true),
            ("192.0.2.1:80", "127.0.0.1", 80, false),
            ("0.0.0.0:80", "app.internal", 80, false),
            ("0.0.0.0:80", "127.0.0.1", 81, false),
        ] {
            let server = Server::Tcp(host.to_owned(), port);
            assert_eq!(is_reached_by(address(listener), &server), expected, "{listener} {host}");
        }
        assert!(!is_reached_by(address("0.0.0.0:80"), &Server::Unix("/a".into())));
    }
}
