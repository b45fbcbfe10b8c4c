//! The limit of open files, and how many client connections fit below it.

use crate::config::meant::{Limits, Policy};
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
        let wanted = policy.limits.connections_max;
        lower(&mut policy.limits, most);
        tracing::warn!(
            "limits.connections_max is {most}, not {wanted}, and tunnels_max {}: there may be {open} open files (ulimit -n), of which \
             {OPEN_FILES_RESERVED} are kept for logs and the like and each connection may need {each}",
            policy.limits.tunnels_max
        );
    }
}

/// Lowers the number of connections. Tunnels keep their part of them, so that idle ones leave the others as much room as they were to.
fn lower(limits: &mut Limits, most: usize) {
    let part = most as f64 / limits.connections_max as f64;
    let tunnels = (limits.tunnels_max as f64 * part) as usize;
    limits.tunnels_max = tunnels.max(1).min(limits.tunnels_max);
    limits.connections_max = most;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn tunnels_keep_their_part_of_fewer_connections() {
        for (keys, most, expected) in [
            ("", 448, 224),
            ("tunnels_max = 8000", 448, 448),
            ("tunnels_max = 1", 448, 1),
            ("tunnels_max = 0", 448, 0),
            ("connections_max = 10000000\ntunnels_max = 10000000", 1, 1),
        ] {
            let text = format!("[origin]\nservers = [\"a:1\"]\n[limits]\n{keys}\n");
            let mut limits = parse(&text, "p.toml").expect("a policy").limits;
            lower(&mut limits, most);
            assert_eq!((limits.connections_max, limits.tunnels_max), (most, expected), "{keys}");
        }
    }
}
