//! The gate in the kernel: programs (eBPF, in C) that refuse before user space wakes, their loader and their maps; and rules of nftables that police SYNs where programs cannot be had.
//!
//! What is refused is decided elsewhere ([`tiergate_core::early`]); this carries it out. Programs are attached by links that end with the process, however it ends: when the gateway is gone,
//! everything passes, and nothing is left behind. So it is with the table of nftables, which belongs to a socket.
//!
//! | file | what it has |
//! |---|---|
//! | `http` | first requests policed at an interface (tcx) |
//! | `keys` | keys of maps that programs share |
//! | `nodes` | the table of tries that the program of `syn` reads |
//! | `steer` | connections steered to a foreign server's listeners, in a network namespace (sk_lookup) |
//! | `syn` | SYN policing on an interface (XDP) |
//! | `clock` | the clock that programs read |
//! | `counts` | what is said of it, with or without a program |
//! | `absent` | what stands for the program in a build without libbpf |
//! | `buckets` | the buckets of a program |
//! | `link` | attaching, by links |
//! | `occupant` | whose program is where another one is to be |
//! | `object` | loading the programs that the build has compiled |
//! | `nft` | SYN policing by rules of nftables |
//! | `interface` | interfaces by name |
//! | `fault` | what may fail, and which right or tool it takes |
//!
//! Without clang at build time there are no programs ([`is_built`]), and loading says so.

#[cfg(not(feature = "load"))]
mod absent;
#[cfg(feature = "load")]
mod buckets;
#[cfg(feature = "load")]
mod clock;
mod counts;
mod fault;
#[cfg(feature = "load")]
mod http;
mod interface;
#[cfg(feature = "load")]
mod keys;
#[cfg(feature = "load")]
mod link;
mod nft;
#[cfg(feature = "load")]
mod nodes;
#[cfg(feature = "load")]
mod object;
mod occupant;
#[cfg(feature = "load")]
mod steer;
#[cfg(feature = "load")]
mod syn;

#[cfg(not(feature = "load"))]
pub use absent::{HttpGate, SteerGate, SynGate};
pub use counts::{BucketCounts, Lists, Service, SteerCounts, Switches, SynCounts, Way};
pub use fault::Fault;
#[cfg(feature = "load")]
pub use http::HttpGate;
pub use nft::NftGate;
pub use occupant::Occupant;
#[cfg(feature = "load")]
pub use steer::SteerGate;
#[cfg(feature = "load")]
pub use syn::SynGate;

/// Whether this build has programs at all.
pub const fn is_built() -> bool {
    cfg!(all(programs, feature = "load"))
}

/// The addresses of this network namespace's interfaces, for listeners at all of them. Those that packets are passed on to are none of them.
///
/// # Errors
/// What the system says.
pub fn local_addresses() -> std::io::Result<Vec<std::net::IpAddr>> {
    let address = |it: nix::ifaddrs::InterfaceAddress| {
        let storage = it.address?;
        let v4 = storage.as_sockaddr_in().map(|it| it.ip().into());
        v4.or_else(|| storage.as_sockaddr_in6().map(|it| it.ip().into()))
    };
    let mut all: Vec<std::net::IpAddr> = nix::ifaddrs::getifaddrs()?.filter_map(address).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

#[cfg(all(test, feature = "load"))]
mod tests;
