//! What the names of servers stand for.
//!
//! A name with several addresses stands for as many servers, each with its own health, connections and part of the load: of one
//! that is dead, or does not answer any more, the others know nothing. Where a name has an address of each family, as
//! `localhost` has, they are two ways to one server, and the one that takes connections is kept to.

use crate::config::meant::Server;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;
use tiergate_core::origin::SERVERS_MAX;

/// Addresses of one name that are kept.
const ADDRESSES_MAX: usize = 16;

/// Longest time of a look-up.
const LOOKUP_MAX: Duration = Duration::from_secs(5);

/// What a name stands for.
#[derive(Debug)]
struct Known {
    addresses: Vec<SocketAddr>,
    /// Whether its addresses are servers of their own. They stay so: else each change would replace them all.
    is_several: bool,
}

/// What the names of a pool's servers stand for, as far as they were looked up.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<Server, Known>);

impl Names {
    /// A name was looked up.
    pub(super) fn found(&mut self, name: &Server, mut addresses: Vec<SocketAddr>) {
        addresses.dedup();
        addresses.truncate(ADDRESSES_MAX);
        let former = self.0.get(name);
        let is_another =
            former.is_some_and(|former| !addresses.iter().any(|it| former.addresses.contains(it)));
        let was_several = former.is_some_and(|former| former.is_several);
        let is_several = was_several || is_another || family(&addresses).len() > 1;
        self.0.insert(name.clone(), Known { addresses, is_several });
    }

    /// The addresses of a name, in the resolver's order; none if it was not looked up.
    pub(super) fn addresses(&self, name: &Server) -> &[SocketAddr] {
        self.0.get(name).map_or(&[], |known| &known.addresses)
    }

    /// The servers that the policy's stand for, each with the place of its name there; each once, in an order that looking up
    /// again does not change.
    pub(super) fn servers(&self, named: &[Server]) -> Vec<(Server, usize)> {
        let mut servers: Vec<(Server, usize)> = Vec::with_capacity(named.len());
        for (place, name) in named.iter().enumerate() {
            let several = self.0.get(name).filter(|known| known.is_several);
            let several = several.map_or_else(Vec::new, |known| family(&known.addresses));
            match several.is_empty() {
                true => servers.push((name.clone(), place)),
                false => servers.extend(
                    several
                        .iter()
                        .map(|address| (Server::Tcp(host(address), address.port()), place)),
                ),
            }
        }
        let mut seen = std::collections::HashSet::new();
        servers.retain(|(server, _)| seen.insert(server.clone()));
        servers.truncate(SERVERS_MAX);
        servers
    }
}

/// An address's host, as a policy has it.
fn host(address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    }
}

/// The addresses of the family that has more; of the first one's if they have as many. Sorted.
fn family(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let of = |is_ipv4| addresses.iter().filter(move |it| it.is_ipv4() == is_ipv4);
    let first = addresses.first().is_some_and(SocketAddr::is_ipv4);
    let larger = if of(!first).count() > of(first).count() { !first } else { first };
    let mut family: Vec<SocketAddr> = of(larger).copied().collect();
    family.sort();
    family
}

/// Looks a name up. `None`, and said in the log, if it stands for nothing.
pub(super) async fn look_up(host: &str, port: u16) -> Option<Vec<SocketAddr>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match tokio::time::timeout(LOOKUP_MAX, tokio::net::lookup_host((bare, port))).await {
        Ok(Ok(found)) => Some(found.collect()).filter(|found: &Vec<_>| !found.is_empty()),
        Ok(Err(error)) => {
            tracing::warn!(%host, %error, "origin name not resolved");
            None
        }
        Err(_) => {
            tracing::warn!(%host, "origin name not resolved within {LOOKUP_MAX:?}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &mut Names, addresses: &[&str]) {
        let addresses = addresses.iter().map(|it| it.parse().expect("an address")).collect();
        names.found(&name(), addresses);
    }

    fn name() -> Server {
        Server::Tcp("app.test".into(), 80)
    }

    fn servers(names: &Names) -> Vec<String> {
        let named = [Server::Tcp("10.0.0.9".into(), 80), name()];
        let servers = names.servers(&named).into_iter();
        servers.map(|(server, place)| format!("{server} of {place}")).collect()
    }

    #[test]
    fn a_name_with_several_addresses_is_as_many_servers() {
        let mut names = Names::default();
        assert_eq!(servers(&names), ["10.0.0.9:80 of 0", "app.test:80 of 1"]);
        found(&mut names, &["10.0.0.1:80"]);
        assert_eq!(servers(&names), ["10.0.0.9:80 of 0", "app.test:80 of 1"], "it has a name");
        found(&mut names, &["10.0.0.2:80", "10.0.0.1:80", "[fd00::1]:80"]);
        let several = ["10.0.0.9:80 of 0", "10.0.0.1:80 of 1", "10.0.0.2:80 of 1"];
        assert_eq!(servers(&names), several);
        found(&mut names, &["10.0.0.1:80", "10.0.0.2:80"]);
        assert_eq!(servers(&names), several, "whatever the order");
        found(&mut names, &["10.0.0.2:80", "10.0.0.9:80"]);
        assert_eq!(servers(&names), ["10.0.0.9:80 of 0", "10.0.0.2:80 of 1"], "each once");
        found(&mut names, &["10.0.0.2:80"]);
        assert_eq!(servers(&names), ["10.0.0.9:80 of 0", "10.0.0.2:80 of 1"], "it stays the same");
    }

    #[test]
    fn two_ways_to_one_server_are_one_and_another_address_is_another_server() {
        let mut names = Names::default();
        found(&mut names, &["[::1]:80", "127.0.0.1:80"]);
        assert_eq!(servers(&names)[1..], ["app.test:80 of 1"]);
        found(&mut names, &["127.0.0.2:80"]);
        assert_eq!(servers(&names)[1..], ["127.0.0.2:80 of 1"]);
    }
}
