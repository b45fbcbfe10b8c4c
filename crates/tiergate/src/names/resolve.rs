//! Forward-confirmed reverse DNS: the name that an address says it has, if the name agrees.
//!
//! Whoever has an address writes its PTR record, and may write anybody's name into it. Only the name's
//! owner writes its A and AAAA records, so a name counts if these have the address (RFC 8499 "FCrDNS",
//! Apache's `HostnameLookups Double`).

use super::Name;
use super::set::Said;
use crate::config::meant;
use hickory_resolver::config::{
    ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::rr::{Name as DnsName, RData, RecordType};
use hickory_resolver::{Resolver, TokioResolver};
use std::net::IpAddr;
use std::time::Duration;

/// Names of an address that are confirmed, in alphabetical order; one with more has too many to be any.
const PTR_MAX: usize = 4;

/// Seconds for which an address is left alone after its look-up failed: a server that is down is not
/// asked for each request, and one that is up again is noticed soon.
const FAILED_TTL: u32 = 10;

/// How a look-up ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The address has a name that agrees.
    Confirmed,
    /// It has none.
    Nameless,
    /// It has one that does not agree.
    Unconfirmed,
    /// No server gave an answer in time.
    Failed,
}

impl Ended {
    /// Every end, in the order of their indices.
    pub const ALL: [Ended; 4] =
        [Ended::Confirmed, Ended::Nameless, Ended::Unconfirmed, Ended::Failed];

    /// The name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Ended::Confirmed => "confirmed",
            Ended::Nameless => "nameless",
            Ended::Unconfirmed => "unconfirmed",
            Ended::Failed => "failed",
        }
    }
}

/// Asks the servers.
#[derive(Debug)]
pub(super) struct Asker {
    dns: TokioResolver,
    timeout: Duration,
    ttl_min: u32,
    ttl_max: u32,
}

impl Asker {
    /// Reads the system's settings if the policy names no servers.
    ///
    /// # Errors
    /// What is wrong with the system's settings.
    pub(super) fn new(settings: &meant::Names) -> Result<Self, NetError> {
        let provider = TokioRuntimeProvider::default();
        let mut builder = if settings.servers.is_empty() {
            Resolver::builder(provider)?
        } else {
            let server = |address: &std::net::SocketAddr| {
                let at = |mut connection: ConnectionConfig| {
                    connection.port = address.port();
                    connection
                };
                let connections = vec![at(ConnectionConfig::udp()), at(ConnectionConfig::tcp())];
                NameServerConfig::new(address.ip(), true, connections)
            };
            let servers = settings.servers.iter().map(server).collect();
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            Resolver::builder_with_config(config, provider)
        };
        options(builder.options_mut(), settings);
        Ok(Asker {
            dns: builder.build()?,
            timeout: settings.timeout,
            ttl_min: whole_seconds(settings.ttl_min),
            ttl_max: whole_seconds(settings.ttl_max),
        })
    }

    /// The name of an address, if it has one that agrees. Never fails and takes no longer than the
    /// policy's `timeout`: what goes wrong is an answer without a name.
    pub(super) async fn ask(&self, address: IpAddr) -> (Ended, Said) {
        match tokio::time::timeout(self.timeout, self.confirmed(address)).await {
            Ok(Ok((name, ttl))) => {
                let name = Some(Name::from(name));
                (Ended::Confirmed, Said { name, ttl: self.bounded(ttl), failed: false })
            }
            Ok(Err(Without { ended: Ended::Failed, .. })) | Err(_) => {
                (Ended::Failed, Said { name: None, ttl: FAILED_TTL, failed: true })
            }
            Ok(Err(Without { ended, ttl })) => {
                (ended, Said { name: None, ttl: self.bounded(ttl), failed: false })
            }
        }
    }

    async fn confirmed(&self, address: IpAddr) -> Result<(String, u32), Without> {
        let reverse = DnsName::from(address);
        let pointers = self.dns.lookup(reverse, RecordType::PTR).await.map_err(without)?;
        let ttl = ttl_of(&pointers);
        let mut names: Vec<(String, &DnsName)> = pointers
            .answers()
            .iter()
            .filter_map(|record| match &record.data {
                RData::PTR(pointer) => Some((written(&pointer.0)?, &pointer.0)),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        let mut without = Without { ended: Ended::Unconfirmed, ttl };
        for (text, name) in names.into_iter().take(PTR_MAX) {
            let kind = match address {
                IpAddr::V4(_) => RecordType::A,
                IpAddr::V6(_) => RecordType::AAAA,
            };
            match self.dns.lookup(name.clone(), kind).await {
                Ok(addresses) => {
                    let agrees = addresses.answers().iter().any(|record| match &record.data {
                        RData::A(its) => IpAddr::V4(its.0) == address,
                        RData::AAAA(its) => IpAddr::V6(its.0) == address,
                        _ => false,
                    });
                    if agrees {
                        return Ok((text, ttl.min(ttl_of(&addresses))));
                    }
                    without.ttl = without.ttl.min(ttl_of(&addresses));
                }
                Err(error) if error.is_no_records_found() => {}
                Err(_) => without.ended = Ended::Failed,
            }
        }
        Err(without)
    }

    fn bounded(&self, ttl: u32) -> u32 {
        ttl.clamp(self.ttl_min, self.ttl_max)
    }
}

/// Why there is no name, and for how many seconds.
struct Without {
    ended: Ended,
    ttl: u32,
}

fn without(error: NetError) -> Without {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(no)) => {
            Without { ended: Ended::Nameless, ttl: no.negative_ttl.unwrap_or(0) }
        }
        _ => Without { ended: Ended::Failed, ttl: 0 },
    }
}

/// Seconds for which all that was answered holds.
fn ttl_of(lookup: &Lookup) -> u32 {
    lookup.answers().iter().map(|record| record.ttl).min().unwrap_or(0)
}

fn options(options: &mut ResolverOpts, settings: &meant::Names) {
    // A lost packet is sent once more within the time that the policy gives.
    options.timeout = settings.timeout / 2;
    options.attempts = 2;
    options.max_active_requests = settings.lookups_max.max(options.max_active_requests);
    // Ours is the only cache: it is bounded, and knows who asks.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.case_randomization = false;
    options.preserve_intermediates = true;
}

/// At least one second.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1)
}

/// A name as rules see it: lower case, no final dot; `None` if it is not made of letters, digits,
/// hyphens and underscores, so that nothing else ever gets into logs.
fn written(name: &DnsName) -> Option<String> {
    let mut text = String::with_capacity(name.len());
    for label in name.iter() {
        if label.is_empty() {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        for byte in label {
            if !byte.is_ascii_alphanumeric() && !b"-_".contains(byte) {
                return None;
            }
            text.push(byte.to_ascii_lowercase() as char);
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain_and_lower_case() {
        let written = |labels: &[&[u8]]| written(&DnsName::from_labels(labels.to_vec()).unwrap());
        assert_eq!(written(&[b"Crawl-1", b"Example", b"TEST"]).unwrap(), "crawl-1.example.test");
        assert_eq!(written(&[b"_x", b"test"]).unwrap(), "_x.test");
        for wrong in [&b"a.b"[..], b"a b", b"a\"b", b"a\nb", "é".as_bytes()] {
            assert_eq!(written(&[wrong, b"test"]), None, "{wrong:?}");
        }
        assert_eq!(written(&[]), None);
    }
}
