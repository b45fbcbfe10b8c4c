//! What may fail, for a person.

use crate::occupant::Occupant;
use std::io;

/// Why the kernel does not do it.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The build had no clang.
    #[error("this build has no programs for the kernel: install clang and build again")]
    NotBuilt,
    /// The program cannot be loaded.
    #[error("the kernel does not load the program: {}", explained(.0, "CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON", "Linux 5.11 or later with CONFIG_BPF_SYSCALL"))]
    Load(io::Error),
    /// It cannot be attached.
    #[error("the program cannot be attached to {interface}: {}", explained(.error, "CAP_BPF and CAP_NET_ADMIN", "Linux 6.6 or later"))]
    Attach {
        /// To what.
        interface: String,
        /// Why.
        error: io::Error,
    },
    /// Another one is there, and there is room for one.
    #[error("the program cannot be attached to {interface}: {occupant}; {}", .occupant.remedy())]
    Taken {
        /// Where.
        interface: String,
        /// What is there.
        occupant: Occupant,
    },
    /// No such interface.
    #[error("there is no interface {0:?} in this network namespace")]
    NoInterface(String),
    /// nftables cannot be used.
    #[error("nftables cannot be used: {}", explained(.0, "CAP_NET_ADMIN", NF_TABLES))]
    Nftables(io::Error),
    /// Rules of nftables cannot be put at an interface.
    #[error("rules of nftables cannot be put at {interface}: {}", explained(.error, "CAP_NET_ADMIN", NF_TABLES))]
    Hook {
        /// At which.
        interface: String,
        /// Why.
        error: io::Error,
    },
    /// Rules of nftables are not taken.
    #[error("the kernel does not take `{command}` of nftables: {error}")]
    Rules {
        /// The step of the transaction, of which nothing was done.
        command: String,
        /// Why.
        error: io::Error,
    },
    /// SYNs are policed neither by a program nor by nftables.
    #[error("{ebpf}; {nftables}")]
    Neither {
        /// Why not by a program.
        ebpf: Box<Fault>,
        /// Why not by nftables.
        nftables: Box<Fault>,
    },
    /// A map cannot be changed or read.
    #[error("the program's map {map}: {error}")]
    Map {
        /// Which.
        map: &'static str,
        /// Why.
        error: io::Error,
    },
}

const NF_TABLES: &str = "Linux 5.12 or later with CONFIG_NF_TABLES_INET";

fn explained(error: &io::Error, rights: &str, kernel: &str) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => format!("{error}; it needs {rights}"),
        Some(22 | 93 | 95 | 97) => format!("{error}; it needs {kernel}"),
        _ => error.to_string(),
    }
}

#[cfg(feature = "load")]
/// What libbpf says, as what the system said below it.
pub(crate) fn io_error(error: libbpf_rs::Error) -> io::Error {
    let kind = error.kind();
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(inner) = source {
        if let Some(code) = inner.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) {
            return io::Error::from_raw_os_error(code);
        }
        source = inner.source();
    }
    match kind {
        libbpf_rs::ErrorKind::PermissionDenied => io::Error::from_raw_os_error(1),
        libbpf_rs::ErrorKind::InvalidInput => io::Error::from_raw_os_error(22),
        _ => io::Error::other(format!("{error:#}")),
    }
}
