//! Requests as a scenario or a log tells them, before a policy has classified them.

use fastrand::Rng;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tiergate_core::gate::Arrival;
use tiergate_core::request::Field;

/// One of the requests that a population sends, as written in a scenario for a policy.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// The method.
    #[serde(default = "get")]
    pub method: String,
    /// The path, with its query if there is one.
    pub path: String,
    /// Header fields beside those of the population.
    #[serde(default)]
    pub header: BTreeMap<String, String>,
    /// How often it is sent, relative to the population's others.
    #[serde(default = "one")]
    pub weight: f64,
    /// How many times the work that the server draws it is.
    #[serde(default = "one")]
    pub times: f64,
    /// Bytes of its answer, for policies whose shares are counted in bytes.
    #[serde(default)]
    pub bytes: u64,
}

fn get() -> String {
    "GET".to_owned()
}

/// For what is a factor or a share where nothing is said.
pub(crate) fn one() -> f64 {
    1.0
}

/// What the gateway would find out about a client and its connection, told instead.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Known {
    /// The listener, by its name or address; empty: the first.
    pub listener: String,
    /// The server name of the TLS handshake.
    pub sni: String,
    /// The verified name by reverse DNS.
    pub client_name: String,
    /// The country, such as `DE`; empty: by the policy's database.
    pub country: String,
    /// The autonomous system; 0: by the policy's database.
    pub asn: u32,
    /// The name in the client's verified certificate.
    pub certificate: String,
    /// The verified subject of a token or key.
    pub subject: String,
    /// The code point of the client's packets, 0 to 63.
    pub dscp: Option<u8>,
}

/// A request told whole, for the policy's classifier.
#[derive(Clone, Debug)]
pub struct Described<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The path as sent, without the query.
    pub path: &'a [u8],
    /// The query without its `?`; empty: none.
    pub query: &'a [u8],
    /// The host without port; empty: not known.
    pub host: &'a [u8],
    /// Header fields.
    pub fields: &'a [Field<'a>],
    /// The client.
    pub client: IpAddr,
    /// What else is known of it.
    pub known: &'a Known,
}

/// What a policy says of a request.
#[derive(Clone, Copy, Debug)]
pub struct Sorted {
    /// The request as the gate sees it.
    pub arrival: Arrival,
    /// Its rule refuses it, whatever the load.
    pub refused: bool,
    /// Whether it is safe to repeat, so that it may be preempted where the policy says so.
    pub repeatable: bool,
}

/// Splits a target at its first `?`.
pub fn split_query(target: &str) -> (&str, &str) {
    let target = target.split('#').next().unwrap_or(target);
    target.split_once('?').unwrap_or((target, ""))
}

/// Most addresses that one population comes from.
pub const CLIENTS_MAX: u32 = 65_536;

/// The addresses of a population: one, or those of a network.
///
/// # Errors
/// What is expected instead.
pub fn clients(text: &str) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(vec![address]);
    }
    let expected =
        || format!("must be an address or a network such as \"10.1.0.0/24\", got {text:?}");
    let network: IpNet = text.parse().map_err(|_| expected())?;
    let most = CLIENTS_MAX as usize;
    let all: Vec<IpAddr> = match network.trunc() {
        // Without the addresses of the network and of its broadcast, as hosts are numbered.
        IpNet::V4(net) => net.hosts().take(most + 1).map(IpAddr::V4).collect(),
        IpNet::V6(net) => net.hosts().take(most + 1).map(IpAddr::V6).collect(),
    };
    match all.len() > most {
        true => Err(format!("must have at most {most} addresses, such as \"10.1.0.0/16\" has")),
        false => Ok(all),
    }
}

/// A population's requests: which are drawn how often, by which clients.
///
/// Their [`Demand`](crate::trial::Demand)s lie one behind another: all clients of the first request,
/// all of the second, and so on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mix {
    /// The first demand.
    pub first: u32,
    /// How many clients there are; 0 counts as 1.
    pub clients: u32,
    /// Weights added up, request by request; empty: there is one.
    pub weights: Vec<f64>,
}

impl Mix {
    /// One request from one client.
    pub fn single(demand: u32) -> Self {
        Mix { first: demand, clients: 1, weights: Vec::new() }
    }

    /// A client at random. Draws nothing where there is no choice.
    pub(crate) fn client(&self, rng: &mut Rng) -> u32 {
        if self.clients > 1 { rng.u32(..self.clients) } else { 0 }
    }

    /// The demand of one of the requests at random, by a client.
    pub(crate) fn draw(&self, client: u32, rng: &mut Rng) -> u32 {
        let request = match self.weights.last() {
            Some(&sum) if self.weights.len() > 1 => {
                let at = rng.f64() * sum;
                self.weights.partition_point(|&weight| weight <= at).min(self.weights.len() - 1)
            }
            _ => 0,
        };
        self.of(request, client)
    }

    /// The demand of the request at that place of a session, by a client: the last one goes on.
    pub(crate) fn step(&self, place: u32, client: u32) -> u32 {
        self.of((place as usize).min(self.weights.len().saturating_sub(1)), client)
    }

    /// Which client's demand that is.
    pub(crate) fn client_of(&self, demand: u32) -> u32 {
        demand.saturating_sub(self.first) % self.clients.max(1)
    }

    fn of(&self, request: usize, client: u32) -> u32 {
        let clients = self.clients.max(1);
        self.first + request as u32 * clients + client % clients
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_the_hosts_of_a_network() {
        assert_eq!(clients("192.0.2.7"), Ok(vec!["192.0.2.7".parse().unwrap()]));
        assert_eq!(clients("192.0.2.77/30").map(|all| all.len()), Ok(2));
        assert_eq!(clients("10.0.0.0/16").map(|all| all.len()), Ok(65_534));
        assert_eq!(clients("2001:db8::/112").map(|all| all.len()), Ok(65_536));
        assert!(clients("10.0.0.0/8").is_err() && clients("::/0").is_err());
        assert!(clients("shop").unwrap_err().contains("10.1.0.0/24"));
    }

    #[test]
    fn requests_are_drawn_by_their_weights() {
        let mix = Mix { first: 100, clients: 10, weights: vec![1.0, 4.0] };
        let mut rng = Rng::with_seed(1);
        let mut counts = [0; 2];
        for _ in 0..100_000 {
            let demand = mix.draw(7, &mut rng);
            assert_eq!((demand - 100) % 10, 7);
            counts[(demand as usize - 100) / 10] += 1;
        }
        assert!((24_000..26_000).contains(&counts[0]), "{counts:?}");
        assert_eq!([mix.step(0, 3), mix.step(1, 3), mix.step(9, 3)], [103, 113, 113]);
        assert_eq!(Mix::single(5).draw(0, &mut rng), 5);
    }

    #[test]
    fn a_target_ends_at_its_query() {
        assert_eq!(split_query("/a?b=c?d#e"), ("/a", "b=c?d"));
        assert_eq!(split_query("/a#b?c"), ("/a", ""));
    }
}
