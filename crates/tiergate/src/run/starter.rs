//! Who has started this process, and whether that ends a successor together with it.
//!
//! A successor takes over while its former ends, and who has started the former may not know it: the first process of a container ends with
//! the last child that it looks after, and everything else in the container with it; systemd ends what is left of a unit whose main process
//! has ended, unless it is told that another is the main process now.

use std::path::Path;

/// The number of the machine's own namespace of processes. Source: `PROC_PID_INIT_INO` in Linux, `include/linux/proc_ns.h`.
const NAMESPACE_OF_THE_MACHINE: &str = "pid:[4026531836]";

/// Why a successor would not live, if so. To be asked at the start: once its parent has gone, a process has the first process as its parent.
/// `is_successor`: this process is one itself, so that what started the first has let one live.
pub(super) fn why_no_successor(is_successor: bool) -> Option<&'static str> {
    Starter::of_this_process(is_successor).why_no_successor()
}

/// What is known of who has started a process.
#[derive(Clone, Copy, Debug, Default)]
struct Starter {
    /// The process is the first of its namespace.
    is_first: bool,
    /// It is a child of that.
    is_child_of_first: bool,
    /// The namespace is one of a container.
    is_in_container: bool,
    /// Systemd has started it as the main process of a unit.
    is_unit: bool,
    /// Systemd hears what it says (`NOTIFY_SOCKET`).
    is_heard: bool,
    /// A former process has started it.
    is_successor: bool,
}

impl Starter {
    fn of_this_process(is_successor: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some();
        let namespace = std::fs::read_link("/proc/self/ns/pid");
        // Where several containers share their processes, the first is outside: its number is 0.
        let is_child_of_first = std::os::unix::process::parent_id() <= 1;
        // What a unit's process starts inherits INVOCATION_ID: a shell in a terminal, a job of a CI runner.
        let is_main = match std::env::var("SYSTEMD_EXEC_PID") {
            Ok(number) => number.parse() == Ok(std::process::id()),
            // Before systemd 248.
            Err(_) => is_child_of_first,
        };
        Starter {
            is_first: std::process::id() == 1,
            is_child_of_first,
            is_in_container: namespace.is_ok_and(|it| it != Path::new(NAMESPACE_OF_THE_MACHINE)),
            is_unit: is_main && is_set("INVOCATION_ID"),
            is_heard: is_set("NOTIFY_SOCKET"),
            is_successor,
        }
    }

    fn why_no_successor(self) -> Option<&'static str> {
        if self.is_first {
            return Some(
                "this is the first process of its container, which would end with it: start the container anew instead",
            );
        }
        if self.is_successor {
            return None;
        }
        if self.is_unit {
            return (!self.is_heard).then_some(
                "systemd would end a successor together with this process, because the unit is not of Type=notify: set that in the unit, or restart it instead",
            );
        }
        (self.is_child_of_first && self.is_in_container).then_some(
            "this is a child of the first process of its container, which would end with it (as by docker run --init): start the container anew instead",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_successor_needs_a_starter_that_lets_it_live() {
        let shell = Starter::default();
        let first = Starter { is_first: true, is_in_container: true, ..shell };
        let unit = Starter { is_unit: true, is_child_of_first: true, ..shell };
        let by_init = Starter { is_child_of_first: true, is_in_container: true, ..shell };
        for (starter, expected) in [
            (shell, None),
            (Starter { is_in_container: true, ..shell }, None),
            (first, Some("first process")),
            (Starter { is_heard: true, ..first }, Some("first process")),
            (unit, Some("Type=notify")),
            (Starter { is_heard: true, ..unit }, None),
            // Systemd as the first process of a container (systemd-nspawn).
            (Starter { is_in_container: true, is_heard: true, ..unit }, None),
            (by_init, Some("docker run --init")),
            // Podman hands the socket of the container's own unit on.
            (Starter { is_heard: true, ..by_init }, Some("docker run --init")),
            // Left by its former, as a daemon is by what started it.
            (Starter { is_child_of_first: true, ..shell }, None),
            (Starter { is_successor: true, ..by_init }, None),
            (Starter { is_successor: true, ..unit }, None),
        ] {
            let said = starter.why_no_successor();
            let is_expected = match (said, expected) {
                (Some(said), Some(expected)) => said.contains(expected),
                (said, expected) => said == expected,
            };
            assert!(is_expected, "{starter:?}: {said:?}");
        }
    }
}
