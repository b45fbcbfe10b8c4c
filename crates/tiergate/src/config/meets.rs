//! Addresses of a policy that meet: two sockets cannot listen on one, and a gateway that is its own server would ask itself for ever.

use super::listener::{DEFAULT, ListenerKeys, check_lanes};
use super::place::{At, Place};
use super::policy::Root;
use super::server::{Server, Written};
use std::net::{IpAddr, SocketAddr};

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
        && let Some((other, _)) = listeners.iter().find(|it| meet(it.0, admin))
    {
        place.fault_at(
            "admin",
            format!("must be another address than that of the listener, {other}, got {admin}"),
        );
    }
    let own = raw.origin.iter().flat_map(|it| &it.servers);
    let pools = raw.pool.iter().flat_map(|it| &it.value.servers);
    for At { value: Written { address, .. }, place } in own.chain(pools) {
        // One of several may be where it belongs: requests of the others.
        if let [(own, _)] = &listeners[..]
            && is_reached_by(*own, address)
        {
            place.fault(format!("is this gateway itself, which listens on {own}: each request would come back to it; name the web server's address"));
        }
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

/// Whether connections to the server surely come to the listener. Names are not looked up.
fn is_reached_by(listener: SocketAddr, server: &Server) -> bool {
    let Server::Tcp(host, port) = server else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let Ok(ip) = host.parse::<IpAddr>() else { return false };
    // An address of another machine is none of ours, though a listener has all that are.
    let is_ours = ip.to_canonical().is_loopback() || ip == listener.ip();
    is_ours && meet(listener, SocketAddr::new(ip, *port))
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
    fn a_server_is_the_gateway_where_its_connections_surely_come_back() {
        for (listener, host, port, expected) in [
            ("127.0.0.1:80", "127.0.0.1", 80, true),
            ("0.0.0.0:80", "localhost", 80, false),
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
