//! Servers that are the gateway itself by an address that only this machine knows to be its own: where a listener has all addresses.

use super::subject::Subject;
use crate::config::meant::{Listener, Policy};
use crate::config::server::Server;
use std::net::{IpAddr, SocketAddr};
use tiergate_kernel::local_addresses;

/// What is to be said of each such server. Names are not looked up.
pub(super) fn own_servers(policy: &Policy) -> Vec<(Subject, String)> {
    let is_of_all = |it: &&Listener| it.address.ip().is_unspecified();
    let listeners: Vec<&Listener> = policy.listeners.iter().filter(is_of_all).collect();
    if listeners.is_empty() {
        return Vec::new();
    }
    let own = local_addresses().unwrap_or_default();
    let mut found = Vec::new();
    for (pool, origin) in std::iter::once(&policy.origin).chain(&policy.pools).enumerate() {
        for (number, server) in origin.servers.iter().enumerate() {
            let Server::Tcp(host, port) = server else { continue };
            let Ok(ip) = host.parse::<IpAddr>() else { continue };
            let comes_back = |it: &&&Listener| takes(it, SocketAddr::new(ip, *port), &own);
            if let Some(listener) = listeners.iter().find(comes_back) {
                let message = format!(
                    "is this gateway itself, which listens on {}: each request would come back to it; name the web server's address",
                    listener.address
                );
                found.push((Subject::Server { pool, number }, message));
            }
        }
    }
    found
}

/// Whether a listener at all addresses takes connections to that one, of which those in `own` are this machine's.
fn takes(listener: &Listener, server: SocketAddr, own: &[IpAddr]) -> bool {
    let ip = server.ip().to_canonical();
    // A listener of all addresses of IPv6 may have those of IPv4, too.
    let is_of_kind = listener.address.is_ipv4() == ip.is_ipv4()
        || listener.address.is_ipv6() && !listener.only_v6;
    listener.address.port() == server.port() && is_of_kind && own.contains(&ip)
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
    fn a_server_at_an_address_of_this_machine_is_the_gateway_itself() {
        let local = local_addresses().expect("this machine has some");
        let Some(own) = local.iter().find(|it| it.is_ipv4() && !it.is_loopback()) else { return };
        let all = "[[listener]]\naddress = \"0.0.0.0:8080\"";
        let origin = |port| format!("[origin]\nservers = [\"{own}:{port}\"]");
        assert_eq!(count(all, &origin(8080)), 1);
        assert_eq!(count(all, &origin(8081)), 0);
        assert_eq!(count(all, "[origin]\nservers = [\"192.0.2.7:8080\"]"), 0);
        assert_eq!(count("[[listener]]\naddress = \"127.0.0.1:8080\"", &origin(8080)), 0);
        let pool = format!(
            "[origin]\nservers = [\"192.0.2.7:80\"]\n[[pool]]\nname = \"a\"\nservers = [\"192.0.2.8:80\", \"{own}:8080\"]"
        );
        assert_eq!(count(all, &pool), 1);
    }
}
