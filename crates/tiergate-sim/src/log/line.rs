//! A request of a log.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv6Addr};

/// When a line says that its request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Nanoseconds since 1970.
    pub ns: u64,
    /// Whether the log says it to less than a second.
    pub precise: bool,
}

/// A request of a log.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'l> {
    /// When it came.
    pub stamp: Stamp,
    /// The client, as logged: an address, or a name if the server looked names up.
    pub client: Cow<'l, str>,
    /// The method.
    pub method: Cow<'l, str>,
    /// The target with its query.
    pub target: Cow<'l, str>,
    /// The host; empty: not logged.
    pub host: Cow<'l, str>,
    /// `User-Agent`; empty: none, or not logged.
    pub user_agent: Cow<'l, str>,
    /// `Referer`; empty: none, or not logged.
    pub referer: Cow<'l, str>,
    /// Bytes of the answer's body.
    pub bytes: u64,
    /// How long the server worked on it, in nanoseconds, where the log says so of an answer below 500.
    pub took_ns: Option<u64>,
}

impl Line<'_> {
    /// The client's address. A name has one that it shares with no other, nor with any address of the
    /// Internet: in fd00::/8, by its hash.
    pub fn address(&self) -> IpAddr {
        self.client.parse().unwrap_or_else(|_| {
            // FNV-1a: the same in every run.
            let hash = self.client.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            IpAddr::V6(Ipv6Addr::from_bits(0xfd << 120 | u128::from(hash) << 48))
        })
    }

    /// The client's name, where the log has one instead of an address.
    pub fn name(&self) -> Option<&str> {
        self.client.parse::<IpAddr>().is_err().then_some(&*self.client)
    }
}

/// What the number behind a line of the combined format is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Took {
    /// A whole number is microseconds (`%D` of Apache), one with decimals seconds (`$request_time` of
    /// nginx); several numbers are something else.
    #[default]
    Guess,
    /// The last number, in microseconds.
    Micros,
    /// The last number, in milliseconds.
    Millis,
    /// The last number, in seconds.
    Seconds,
    /// Nothing: times are not taken from the log.
    Ignore,
}
