//! SYNs for which the system's own queue had no room: what a flood of them looks like where no request comes.

use std::fs;

/// The counters of this network namespace.
const COUNTERS: &str = "/proc/self/net/netstat";

/// SYNs that found the queue of half-open connections full, of all listeners of this network namespace, less those whose clients have come with a SYN cookie: nothing came of
/// the others. `None`: the system does not tell.
///
/// Where cookies are sent to everybody (`tcp_syncookies = 2`), nearly all come back. Cost: a file of two kilobytes. Source: `tcp_conn_request`, `cookie_v4_check` in Linux.
pub(super) fn unqueued_syns() -> Option<u64> {
    unqueued(&fs::read_to_string(COUNTERS).ok()?)
}

fn unqueued(counters: &str) -> Option<u64> {
    let mut lines = counters.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut both = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        both.find(|(name, _)| *name == wanted)?.1.parse::<u64>().ok()
    };
    let full = value("TCPReqQFullDoCookies")?.saturating_add(value("TCPReqQFullDrop")?);
    Some(full.saturating_sub(value("SyncookiesRecv")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_came_back_do_not_count() {
        let text = "TcpExt: SyncookiesSent SyncookiesRecv Pruned TCPReqQFullDoCookies TCPReqQFullDrop\n\
                    TcpExt: 900 40 7 900 100\nIpExt: InNoRoutes InTruncatedPkts\nIpExt: 5 6\n";
        assert_eq!(unqueued(text), Some(960));
        assert_eq!(unqueued(&text.replace("900 40", "900 4000")), Some(0));
        for wrong in ["", "TcpExt: SyncookiesRecv\n", &text.replace("FullDrop", "Full")] {
            assert_eq!(unqueued(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_system_tells() {
        assert!(unqueued_syns().is_some());
    }
}
