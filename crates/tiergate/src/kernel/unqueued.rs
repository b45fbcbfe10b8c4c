//! SYNs for which the system's own queue had no room: what a flood of them looks like where no request comes.

use std::fs;

/// The counters of this network namespace.
const COUNTERS: &str = "/proc/self/net/netstat";

/// SYNs of which nothing came, of all listeners of this network namespace: those that were dropped because the queue of half-open connections was full, and those that were
/// answered by a SYN cookie which did not come back.
///
/// Where cookies are off (`tcp_syncookies = 0`), a listener that accepts too slowly drops SYNs as a flood has it. The queue is full then at three quarters of `tcp_max_syn_backlog`, too, beyond which only clients that
/// the system knows get in; these drops are in the count of all alone. So of all that are dropped those are left out that found the queue of connections to accept full. Cost: a file of two kilobytes a look. Source:
/// `tcp_conn_request`, `cookie_v4_check` in Linux.
#[derive(Debug, Default)]
pub(super) struct Unqueued {
    former: Option<Counters>,
    total: u64,
}

/// As the system counts them, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    dropped: u64,
    cookies_sent: u64,
    cookies_back: u64,
}

impl Unqueued {
    /// How many there were since the first look. A look at which the system says nothing finds none.
    pub(super) fn look(&mut self) -> u64 {
        let now = fs::read_to_string(COUNTERS).ok();
        self.sees(now.and_then(|text| counters(&text)))
    }

    fn sees(&mut self, now: Option<Counters>) -> u64 {
        if let Some(now) = now
            && let Some(former) = self.former.replace(now)
        {
            let since = |now: u64, former: u64| now.saturating_sub(former);
            let sent = since(now.cookies_sent, former.cookies_sent);
            // While accept queues are full, a client's acknowledgement counts each time that it is repeated: for this look, and not for those to come.
            let back = since(now.cookies_back, former.cookies_back);
            self.total += since(now.dropped, former.dropped) + sent.saturating_sub(back);
        }
        self.total
    }
}

fn counters(text: &str) -> Option<Counters> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let value = |wanted: &str| {
        let mut both = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        both.find(|(name, _)| *name == wanted)?.1.parse::<u64>().ok()
    };
    // Not `TCPReqQFullDoCookies`, which counts those, too, that find the accept queue full, and get no cookie.
    let (cookies_sent, cookies_back) = (value("SyncookiesSent")?, value("SyncookiesRecv")?);
    let dropped = value("ListenDrops")?.saturating_sub(value("ListenOverflows")?);
    Some(Counters { dropped, cookies_sent, cookies_back })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dropped: u64, cookies_sent: u64, cookies_back: u64) -> Option<Counters> {
        Some(Counters { dropped, cookies_sent, cookies_back })
    }

    #[test]
    fn what_the_system_says_is_read() {
        let text = "TcpExt: SyncookiesSent SyncookiesRecv Pruned ListenOverflows ListenDrops TCPReqQFullDrop\n\
                    TcpExt: 900 40 7 300 400 60\nIpExt: InNoRoutes InTruncatedPkts\nIpExt: 5 6\n";
        assert_eq!(counters(text), seen(100, 900, 40));
        for wrong in ["", "TcpExt: SyncookiesRecv\n", &text.replace("ListenDrops", "Listen")] {
            assert_eq!(counters(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn those_who_come_back_do_not_count_and_a_silent_look_adds_nothing() {
        let mut it = Unqueued::default();
        // Since boot: nothing of this.
        assert_eq!(it.sees(seen(5_000, 9_000, 1_000)), 0);
        assert_eq!(it.sees(seen(5_000, 10_000, 1_900)), 100);
        assert_eq!(it.sees(None), 100);
        assert_eq!(it.sees(seen(5_050, 10_000, 1_900)), 150);
        // An accept queue that is full: acknowledgements are repeated, and do not hide what comes later.
        assert_eq!(it.sees(seen(5_050, 10_078, 2_400)), 150);
        assert_eq!(it.sees(seen(5_050, 20_078, 2_400)), 10_150);
    }

    #[test]
    fn this_system_tells() {
        let text = fs::read_to_string(COUNTERS).expect("Linux");
        assert!(counters(&text).is_some(), "{text}");
    }
}
