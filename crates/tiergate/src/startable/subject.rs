//! What of a policy may fail to be opened, and the keys that lead to it.

use crate::config::Step;

/// What of a policy cannot be opened. The numbers are places in the policy's lists, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The certificates and keys of a listener.
    ListenerTls(usize),
    /// The files for TLS to the servers of the default pool.
    OriginTls,
    /// The same of another pool.
    PoolTls(usize),
    /// A server of a pool; pool 0 is the default one, the others are behind it.
    Server {
        /// The pool.
        pool: usize,
        /// Which of its servers.
        number: usize,
    },
    /// The address of a listener.
    Listener(usize),
    /// The address of metrics and status.
    Admin,
    /// The file of the access log.
    AccessLog,
}

impl Subject {
    /// The keys that lead to it.
    pub(super) fn steps(self) -> Vec<Step> {
        let of = |list, index, key| vec![Step::Key(list), Step::Element(index), Step::Key(key)];
        match self {
            Subject::ListenerTls(index) => of("listener", index, "tls"),
            Subject::OriginTls => vec![Step::Key("origin"), Step::Key("tls")],
            Subject::PoolTls(index) => of("pool", index, "tls"),
            Subject::Server { pool, number } => {
                let mut steps = match pool.checked_sub(1) {
                    None => vec![Step::Key("origin"), Step::Key("servers")],
                    Some(index) => of("pool", index, "servers"),
                };
                steps.push(Step::Element(number));
                steps
            }
            Subject::Listener(index) => of("listener", index, "address"),
            Subject::Admin => vec![Step::Key("admin")],
            Subject::AccessLog => vec![Step::Key("access_log"), Step::Key("path")],
        }
    }
}

/// The files for TLS to servers; `index`: 0 is the default pool, the others are behind it.
pub(crate) fn pool_tls(index: usize) -> Subject {
    index.checked_sub(1).map_or(Subject::OriginTls, Subject::PoolTls)
}
