//! A DNS server beside the gateway, which knows the names of the clients' addresses: dnsmasq.

use super::network::Network;
use crate::process::{Program, Running, find};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// Where it listens, on the gateway's machine; policies name it.
pub(super) const ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 5300);

/// Which clients belong to a domain: the first of their addresses and how many. Others have no name.
pub(super) type Names = BTreeMap<String, (u8, u8)>;

/// Starts it; returns when it listens.
pub(super) async fn start(
    names: &Names,
    scratch: &Path,
    namespace: &str,
    processors: Option<&str>,
) -> Result<Running> {
    let path = find("dnsmasq").context("dnsmasq is not installed; run scripts/setup.sh")?;
    let mut running = Program::new("dnsmasq", path)
        .args(["--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root"])
        .args(["--no-resolv", "--no-hosts", "--bind-interfaces"])
        .args([format!("--listen-address={}", ADDRESS.ip()), format!("--port={}", ADDRESS.port())])
        .args(records(names))
        .namespace(Some(namespace))
        .processors(processors)
        .start(&scratch.join("dnsmasq"))?;
    running.ready(ADDRESS).await?;
    Ok(running)
}

/// A name for each address, both ways.
fn records(names: &Names) -> Vec<String> {
    let of = |(domain, (first, count)): (&String, &(u8, u8))| {
        let record = move |n: u8, domain: &str| {
            format!("--host-record=client-{n}.{domain},{}", Network::client(n))
        };
        let all = *first..first.saturating_add(*count);
        all.map(|n| record(n, domain)).collect::<Vec<_>>()
    };
    names.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_name() {
        let names = Names::from([("unl.edu".into(), (0, 2)), ("example.org".into(), (120, 1))]);
        let expected = [
            "--host-record=client-120.example.org,10.77.0.122",
            "--host-record=client-0.unl.edu,10.77.0.2",
            "--host-record=client-1.unl.edu,10.77.0.3",
        ];
        assert_eq!(records(&names), expected);
    }

    #[test]
    fn the_policy_by_domain_asks_this_server() {
        let policy = include_str!("../../peers/lab/diffserver-domain/tiergate.toml");
        assert!(policy.contains(&format!("servers = [\"{ADDRESS}\"]")));
    }
}
