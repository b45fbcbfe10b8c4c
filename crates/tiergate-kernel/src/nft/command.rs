//! What the kernel is told, one step of a transaction each, and how nftables writes it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tiergate_core::early::limit::Limit;
use tiergate_core::early::ranges::Range;

/// Which IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V4,
    V6,
}

impl Version {
    pub(crate) const BOTH: [Version; 2] = [Version::V4, Version::V6];

    /// That of an address.
    pub(crate) fn of(address: IpAddr) -> Version {
        if address.is_ipv4() { Version::V4 } else { Version::V6 }
    }

    /// As names of sets end.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Version::V4 => "v4",
            Version::V6 => "v6",
        }
    }

    /// The address of a number.
    pub(crate) fn address(self, number: u128) -> IpAddr {
        match self {
            // IPv4 addresses are numbers of 32 bits.
            Version::V4 => IpAddr::from((number as u32).to_be_bytes()),
            Version::V6 => IpAddr::from(number.to_be_bytes()),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Version::V4 => "ip",
            Version::V6 => "ip6",
        }
    }
}

/// A step of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// The table, which ends with the socket.
    Table,
    /// A counter of packets.
    Counter(String),
    /// A limit that several rules share.
    Limit(String, Limit),
    /// A chain.
    Chain(String),
    /// A chain that packets go through as they come in by an interface.
    Hook {
        chain: String,
        interface: String,
    },
    /// Takes a chain's rules away.
    FlushChain(String),
    /// A further rule of a chain.
    Rule(String, Vec<Statement>),
    /// Which chain a client's address leads to.
    Clients(String, Version),
    /// Which chain a listener's address leads to.
    Services(String, Version),
    /// Addresses for a while.
    List(String, Version),
    /// Addresses of a map of clients, and the chain that they lead to.
    Ranges(String, Version, Vec<Range<String>>),
    /// Addresses of a map of services.
    Ports(String, Vec<(SocketAddr, String)>),
    /// An address, for a while; `None`: without an end.
    Element(String, IpAddr, Option<Duration>),
    /// Takes it away.
    DeleteElement(String, IpAddr),
    /// Takes all away.
    FlushSet(String),
    DeleteChain(String),
    DeleteMap(String),
    DeleteCounter(String),
    DeleteLimit(String),
}

/// A part of a rule: those behind it are for packets that it lets through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Statement {
    /// It begins a connection.
    IsSyn,
    /// The client is on a list; IPv6 by the /64.
    From(String, Version),
    /// To the chain that the client leads to.
    ByClient(String, Version),
    /// To the chain that the listener's address and port lead to.
    ByService(String, Version),
    /// There is a token.
    Limit(Limit),
    /// There is a token of a shared limit.
    LimitOf(String),
    /// Counts it.
    Count(String),
    Accept,
    Drop,
    Goto(String),
}

impl Command {
    /// As `nft` reads it.
    pub(crate) fn in_table<'a>(&'a self, table: &'a str) -> impl fmt::Display + 'a {
        Written { table, command: self }
    }
}

struct Written<'a> {
    table: &'a str,
    command: &'a Command,
}

impl fmt::Display for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = self.table;
        match self.command {
            Command::Table => write!(f, "add table inet {table} {{ flags owner; }}"),
            Command::Counter(name) => write!(f, "add counter inet {table} {name}"),
            Command::Limit(name, limit) => {
                write!(f, "add limit inet {table} {name} {{ {}; }}", rate(limit))
            }
            Command::Chain(name) => write!(f, "add chain inet {table} {name}"),
            Command::Hook { chain, interface } => write!(
                f,
                "add chain inet {table} {chain} {{ type filter hook ingress device \"{interface}\" priority 0; policy accept; }}"
            ),
            Command::FlushChain(name) => write!(f, "flush chain inet {table} {name}"),
            Command::Rule(chain, statements) => {
                write!(f, "add rule inet {table} {chain}")?;
                statements.iter().try_for_each(|it| write!(f, " {it}"))
            }
            Command::Clients(name, version) => {
                let key = key(*version);
                write!(f, "add map inet {table} {name} {{ type {key} : verdict; flags interval; }}")
            }
            Command::Services(name, version) => {
                let key = key(*version);
                write!(f, "add map inet {table} {name} {{ type {key} . inet_service : verdict; }}")
            }
            Command::List(name, version) => {
                let key = key(*version);
                write!(f, "add set inet {table} {name} {{ type {key}; flags timeout; }}")
            }
            Command::Ranges(map, version, ranges) => {
                let range = |it: &Range<String>| {
                    let [first, last] = [it.first, it.last].map(|it| version.address(it));
                    format!("{first}-{last} : goto {}", it.value)
                };
                elements(f, "add", table, map, ranges.iter().map(range))
            }
            Command::Ports(map, ports) => {
                let port = |(local, chain): &(SocketAddr, String)| {
                    format!("{} . {} : goto {chain}", local.ip(), local.port())
                };
                elements(f, "add", table, map, ports.iter().map(port))
            }
            Command::Element(set, address, lasting) => {
                let lasting = lasting.map(|it| format!(" timeout {}ms", it.as_millis()));
                let element = format!("{address}{}", lasting.unwrap_or_default());
                elements(f, "add", table, set, [element].into_iter())
            }
            Command::DeleteElement(set, address) => {
                elements(f, "delete", table, set, [address.to_string()].into_iter())
            }
            Command::FlushSet(name) => write!(f, "flush set inet {table} {name}"),
            Command::DeleteChain(name) => write!(f, "delete chain inet {table} {name}"),
            Command::DeleteMap(name) => write!(f, "delete map inet {table} {name}"),
            Command::DeleteCounter(name) => write!(f, "delete counter inet {table} {name}"),
            Command::DeleteLimit(name) => write!(f, "delete limit inet {table} {name}"),
        }
    }
}

fn elements(
    f: &mut fmt::Formatter<'_>,
    word: &str,
    table: &str,
    set: &str,
    all: impl Iterator<Item = String>,
) -> fmt::Result {
    let all: Vec<String> = all.collect();
    write!(f, "{word} element inet {table} {set} {{ {} }}", all.join(", "))
}

fn key(version: Version) -> &'static str {
    match version {
        Version::V4 => "ipv4_addr",
        Version::V6 => "ipv6_addr",
    }
}

fn rate(Limit { tokens, per, burst }: &Limit) -> String {
    format!("rate {tokens}/{} burst {burst} packets", per.name())
}

impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Statement::IsSyn => write!(f, "tcp flags & (syn|rst|ack) == syn"),
            Statement::From(set, Version::V4) => write!(f, "ip saddr @{set}"),
            Statement::From(set, Version::V6) => {
                write!(f, "ip6 saddr & ffff:ffff:ffff:ffff:: @{set}")
            }
            Statement::ByClient(map, version) => {
                write!(f, "{} saddr vmap @{map}", version.word())
            }
            Statement::ByService(map, version) => {
                write!(f, "{} daddr . tcp dport vmap @{map}", version.word())
            }
            Statement::Limit(limit) => write!(f, "limit {}", rate(limit)),
            Statement::LimitOf(name) => write!(f, "limit name \"{name}\""),
            Statement::Count(name) => write!(f, "counter name \"{name}\""),
            Statement::Accept => write!(f, "accept"),
            Statement::Drop => write!(f, "drop"),
            Statement::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}
