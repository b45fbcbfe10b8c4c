//! SYNs for which the system's own queue had no room: what a flood of them looks like where no request comes.

use std::fs;

/// The counters of this network namespace.
const COUNTERS: &str = "/proc/self/net/netstat";
/// Whether it sends SYN cookies: 0 never, 1 when a queue is full, 2 always. Missing where the system has none.
const COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";

/// SYNs of which nothing came, of all listeners of this network namespace: those that were dropped because the queue of half-open connections was full, and those that were
/// answered by a SYN cookie which did not come back.
///
/// Where cookies are off (`tcp_syncookies = 0`), a listener that accepts too slowly drops SYNs as a flood has it. The queue is full then at three quarters of `tcp_max_syn_backlog`, too, beyond which only clients that
/// the system knows get in; these drops are in the count of all alone. So of all that are dropped those are left out that found the queue of connections to accept full. Where cookies are on, nothing is dropped for a full queue, and what else is in the count of
/// all is no flood: SYNs to which there is no way back, as where somebody keeps a network out by a route (`blackhole`), and those that a security module refuses. Cost: a file of two kilobytes a look. Source:
/// `tcp_conn_request`, `inet_csk_route_req`, `cookie_v4_check` in Linux.
#[derive(Debug, Default)]
pub(super) struct Unqueued {
    former: Option<Counters>,
    total: u64,
}

/// As the system counts them, from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counters {
    /// Because the queue was full.
    full: u64,
    /// For this or any other reason but a full queue of connections to accept.
    dropped: u64,
    cookies_sent: u64,
    cookies_back: u64,
}

impl Unqueued {
    /// How many there were since the first look. A look at which the system says nothing finds none.
    pub(super) fn look(&mut self) -> u64 {
        let now = fs::read_to_string(COUNTERS).ok();
        let has_cookies = fs::read_to_string(COOKIES).is_ok_and(|it| it.trim() != "0");
        self.sees(now.and_then(|text| counters(&text)), has_cookies)
    }

    fn sees(&mut self, now: Option<Counters>, has_cookies: bool) -> u64 {
        if let Some(now) = now
            && let Some(former) = self.former.replace(now)
        {
            let since = |now: u64, former: u64| now.saturating_sub(former);
            let sent = since(now.cookies_sent, former.cookies_sent);
            // While accept queues are full, a client's acknowledgement counts each time that it is repeated: for this look, and not for those to come.
            let back = since(now.cookies_back, former.cookies_back);
            let dropped = match has_cookies {
                true => since(now.full, former.full),
                false => since(now.dropped, former.dropped),
            };
            self.total += dropped + sent.saturating_sub(back);
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
    Some(Counters { full: value("TCPReqQFullDrop")?, dropped, cookies_sent, cookies_back })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(dropped: u64, cookies_sent: u64, cookies_back: u64) -> Option<Counters> {
        Some(Counters { full: 60, dropped, cookies_sent, cookies_back })
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
        assert_eq!(it.sees(seen(5_000, 9_000, 1_000), false), 0);
        assert_eq!(it.sees(seen(5_000, 10_000, 1_900), false), 100);
        assert_eq!(it.sees(None, false), 100);
        assert_eq!(it.sees(seen(5_050, 10_000, 1_900), false), 150);
        // An accept queue that is full: acknowledgements are repeated, and do not hide what comes later.
        assert_eq!(it.sees(seen(5_050, 10_078, 2_400), false), 150);
        assert_eq!(it.sees(seen(5_050, 20_078, 2_400), false), 10_150);
    }

    #[test]
    fn where_there_are_cookies_no_other_drop_counts() {
        let mut it = Unqueued::default();
        assert_eq!(it.sees(seen(5_000, 0, 0), true), 0);
        assert_eq!(it.sees(seen(9_000, 0, 0), true), 0, "there is no way back to them");
        assert_eq!(it.sees(seen(9_070, 0, 0), false), 70, "cookies are off from now on");
        assert_eq!(it.sees(seen(9_900, 30, 10), true), 90);
    }

    #[test]
    fn this_system_tells() {
        let text = fs::read_to_string(COUNTERS).expect("Linux");
        assert!(counters(&text).is_some(), "{text}");
    }
}
