//! Forward-confirmed reverse DNS: the PTR name of an address, if the name's own records have the address.
//!
//! The owner of an address writes its PTR record, and may write any name into it. Only the owner of the
//! name writes its A and AAAA records, so a name counts if these have the address (RFC 8499 "FCrDNS",
//! Apache's `HostnameLookups Double`).

use super::counters::LookupResult;
use super::set::{Answer, Name};
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

/// PTR names of an address that are tried, in alphabetical order.
const PTR_MAX: usize = 4;

/// Lifetime of a failed lookup in seconds: a server that is down is not asked for each request, and one
/// that is up again is noticed soon.
const FAILED_TTL: u32 = 10;

/// Queries the DNS servers.
#[derive(Debug)]
pub(super) struct DnsClient {
    dns: TokioResolver,
    settings: meant::Names,
}

impl DnsClient {
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
        Ok(DnsClient { dns: builder.build()?, settings: settings.clone() })
    }

    /// The confirmed name of an address. Takes no longer than the policy's `timeout`; a fault is an
    /// answer without a name.
    pub(super) async fn lookup(&self, address: IpAddr) -> (LookupResult, Answer) {
        let meant::Names { timeout, ttl_min, ttl_max, .. } = self.settings;
        let found = tokio::time::timeout(timeout, self.confirmed(address)).await;
        let (result, name, ttl) = match found {
            Ok(Ok((name, ttl))) => (LookupResult::Confirmed, Some(Name::from(name)), ttl),
            Ok(Err(Without { result, ttl })) => (result, None, ttl),
            Err(_) => (LookupResult::Failed, None, 0),
        };
        let failed = result == LookupResult::Failed;
        let bounded = || ttl.clamp(whole_seconds(ttl_min), whole_seconds(ttl_max));
        let ttl = if failed { FAILED_TTL } else { bounded() };
        (result, Answer { name, ttl, failed })
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
        let mut without = Without { result: LookupResult::Unconfirmed, ttl };
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
                Err(_) => without.result = LookupResult::Failed,
            }
        }
        Err(without)
    }
}

/// Why there is no name, and its lifetime in seconds.
struct Without {
    result: LookupResult,
    ttl: u32,
}

fn without(error: NetError) -> Without {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(no)) => {
            Without { result: LookupResult::NoName, ttl: no.negative_ttl.unwrap_or(0) }
        }
        _ => Without { result: LookupResult::Failed, ttl: 0 },
    }
}

/// The shortest TTL of the records, in seconds.
fn ttl_of(lookup: &Lookup) -> u32 {
    lookup.answers().iter().map(|record| record.ttl).min().unwrap_or(0)
}

fn options(options: &mut ResolverOpts, settings: &meant::Names) {
    // A lost packet is retried once within the policy's timeout.
    options.timeout = settings.timeout / 2;
    options.attempts = 2;
    options.max_active_requests = settings.lookups_max.max(options.max_active_requests);
    // `super::cache` is the only cache: it is bounded, by network too.
    options.cache_size = 0;
    options.use_hosts_file = ResolveHosts::Never;
    options.case_randomization = false;
    options.preserve_intermediates = true;
}

/// At least one second.
fn whole_seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX).max(1)
}

/// A name as rules see it: lower case, no final dot; `None` if it has characters other than letters,
/// digits, hyphens and underscores, which keeps them out of logs.
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
