//! The limit of open files, and how many client connections fit below it.

use crate::config::meant::Policy;
use crate::workers;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files that are not client connections or their origin's: logs, listeners, epoll, admin.
const OPEN_FILES_RESERVED: u64 = 128;

/// Raises the limit as far as the process may.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    workers::have_open_files(limit.current);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays at {:?}", limit.current);
    }
}

/// Each client connection may need another to the origin, and a file for the request's body: more than half,
/// or a third, of the open files would end in failed connects instead of a full listen queue.
pub(super) fn bound_connections(policy: &mut Policy) {
    let limit = getrlimit(Resource::Nofile);
    let files = limit.current.unwrap_or(u64::MAX).saturating_sub(OPEN_FILES_RESERVED);
    let each = if policy.spooling.is_some() { 3 } else { 2 };
    let most = usize::try_from(files / each).unwrap_or(usize::MAX).max(1);
    if policy.limits.connections_max > most {
        let open = limit.current.unwrap_or(u64::MAX);
        tracing::warn!(
            "limits.connections_max is {most}, not {}: there may be {open} open files (ulimit -n), of which \
             {OPEN_FILES_RESERVED} are kept for logs and the like and each connection may need {each}",
            policy.limits.connections_max
        );
        policy.limits.connections_max = most;
    }
}
