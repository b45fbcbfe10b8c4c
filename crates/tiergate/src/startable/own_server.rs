//! Servers that are the gateway itself by an address that only this machine knows to be its own: where a listener has all addresses.

use super::subject::Subject;
use crate::config::meant::Policy;
use crate::config::server::{Server, address_of};
use std::net::{IpAddr, SocketAddr};
use tiergate_kernel::local_addresses;

/// What is to be said of each such server. Names are not looked up.
pub(super) fn own_servers(policy: &Policy) -> Vec<(Subject, String)> {
    let of_all = policy.listeners.iter().map(|it| (it.address, it.only_v6));
    let of_all = of_all.chain(policy.admin.map(|it| (it, false)));
    let listeners: Vec<(SocketAddr, bool)> =
        of_all.filter(|(it, _)| it.ip().to_canonical().is_unspecified()).collect();
    if listeners.is_empty() {
        return Vec::new();
    }
    let own = local_addresses().unwrap_or_default();
    let mut found = Vec::new();
    for (pool, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        for (number, server) in origin.servers.iter().enumerate() {
            let Server::Tcp(host, port) = server else { continue };
            let Some(ip) = address_of(host) else { continue };
            // Those are found without a look at the machine.
            if ip.to_canonical().is_loopback() {
                continue;
            }
            let comes_back =
                |it: &&(SocketAddr, bool)| takes(**it, SocketAddr::new(ip, *port), &own);
            if let Some((listener, _)) = listeners.iter().find(comes_back) {
                let message = format!(
                    "is this gateway itself, which listens on {listener}: each request would come back to it; name the web server's address"
                );
                found.push((Subject::Server { pool, number }, message));
            }
        }
    }
    found
}

/// Whether a listener at all addresses takes connections to that one, of which those in `own` are this machine's.
fn takes((listener, only_v6): (SocketAddr, bool), server: SocketAddr, own: &[IpAddr]) -> bool {
    let (all, ip) = (listener.ip().to_canonical(), server.ip().to_canonical());
    // A listener of all addresses of IPv6 may have those of IPv4, too.
    let is_of_kind = all.is_ipv4() == ip.is_ipv4() || all.is_ipv6() && !only_v6;
    listener.port() == server.port() && is_of_kind && own.contains(&ip)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    /// How many servers are said to be the gateway itself.
    fn count(listeners: &str, rest: &str) -> usize {
        let policy = parse(&format!("admin = false\n{listeners}\n{rest}"), "policy.toml");
        own_servers(&policy.expect("it is valid")).len()
    }

    #[test]
    fn a_listener_of_all_addresses_takes_what_this_machine_has() {
        let at = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let own = ["192.0.2.7", "2001:db8::7"].map(|it| it.parse().expect("an address"));
        for (listener, only_v6, server, expected) in [
            ("0.0.0.0:80", false, "192.0.2.7:80", true),
            ("0.0.0.0:80", false, "192.0.2.7:81", false),
            ("0.0.0.0:80", false, "192.0.2.8:80", false),
            ("0.0.0.0:80", false, "[2001:db8::7]:80", false),
            ("0.0.0.0:80", false, "[::ffff:192.0.2.7]:80", true),
            ("[::ffff:0.0.0.0]:80", false, "192.0.2.7:80", true),
            ("[::]:80", false, "192.0.2.7:80", true),
            ("[::]:80", true, "192.0.2.7:80", false),
            ("[::]:80", true, "[2001:db8::7]:80", true),
        ] {
            let found = takes((at(listener), only_v6), at(server), &own);
            assert_eq!(found, expected, "{listener} {only_v6} {server}");
        }
    }

    #[test]
    fn a_server_at_an_address_of_this_machine_is_the_gateway_itself() {
        let local = local_addresses().expect("this machine has some");
        let Some(own) = local.iter().find(|it| it.is_ipv4() && !it.is_loopback()) else { return };
        let all = "[[listener]]\naddress = \"0.0.0.0:8080\"";
        let origin = |port| format!("[origin]\nservers = [\"{own}:{port}\"]");
        assert_eq!(count(all, &origin(8080)), 1);
        assert_eq!(count(all, &origin(8081)), 0);
        assert_eq!(count(all, "[origin]\nservers = [\"192.0.2.7:8080\"]"), 0);
        assert_eq!(count("[[listener]]\naddress = \"127.0.0.1:8080\"", &origin(8080)), 0);
        let mapped = "[[listener]]\naddress = \"[::ffff:0.0.0.0]:8080\"";
        assert_eq!(count(mapped, &origin(8080)), 1);
        let admin = "admin = \"0.0.0.0:8434\"\nadmin_token_file = \"/token\"\n[[listener]]\naddress = \"127.0.0.1:8080\"";
        let text = format!("{admin}\n{}", origin(8434));
        let policy = parse(&text, "policy.toml").expect("it is valid");
        assert_eq!(own_servers(&policy).len(), 1);
        let pool = format!(
            "[origin]\nservers = [\"192.0.2.7:80\"]\n[[pool]]\nname = \"a\"\nservers = [\"192.0.2.8:80\", \"{own}:8080\"]"
        );
        assert_eq!(count(all, &pool), 1);
    }
}
