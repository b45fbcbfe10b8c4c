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
    #[error("the program's map {map}: {}", of_map(.error))]
    Map {
        /// Which.
        map: &'static str,
        /// Why.
        error: io::Error,
    },
}

const NF_TABLES: &str = "Linux 5.12 or later with CONFIG_NF_TABLES_INET";

/// E2BIG and ENOSPC, as maps of different kinds have it.
fn of_map(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(7 | 28) => "the policy has more than it has room for".to_owned(),
        _ => error.to_string(),
    }
}

fn explained(error: &io::Error, rights: &str, kernel: &str) -> String {
    match error.raw_os_error() {
        Some(1 | 13) => format!("{error}; it needs {rights}"),
        // What libbpf says where it finds no types of the kernel.
        Some(3) => "it needs /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)".to_owned(),
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
        _ => {
            // Of an error without another below it only the words are to be had.
            let words = format!("{error:#}");
            code(&words).map_or_else(|| io::Error::other(words), io::Error::from_raw_os_error)
        }
    }
}

/// The number that the system's words end with.
#[cfg(feature = "load")]
fn code(words: &str) -> Option<i32> {
    words.strip_suffix(')')?.rsplit_once("(os error ")?.1.parse().ok()
}

#[cfg(all(test, feature = "load"))]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_put_into_words() {
        let fault = |code| {
            let error = io_error(libbpf_rs::Error::from_raw_os_error(code));
            Fault::Load(error).to_string()
        };
        let without_types = "the kernel does not load the program: it needs /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)";
        assert_eq!(fault(libc::ESRCH), without_types);
        assert!(fault(libc::EPERM).ends_with("; it needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"));
        let error = io_error(libbpf_rs::Error::from_raw_os_error(libc::E2BIG));
        let full = Fault::Map { map: "services", error }.to_string();
        assert_eq!(full, "the program's map services: the policy has more than it has room for");
    }
}
