//! What the request path says of clients, for the kernel's maps.

use super::status::KernelStatus;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tiergate_core::time::Moment;

/// Most flows of refused requests whose clients are known, and most clients that are let in and remembered; beyond, all are forgotten.
const KNOWN_MAX: usize = 8192;
/// Most clients that wait to be let in.
const WAITING_MAX: usize = 1024;
/// A client is let in anew once so much of the time has passed.
const ANEW: u32 = 4;

/// Clients by flow, and those to be let in. Nothing is kept while the kernel does not ask for it.
#[derive(Debug, Default)]
pub struct Clients {
    wants_flows: AtomicBool,
    wants_sessions: AtomicBool,
    flows: Mutex<HashMap<u64, IpAddr>>,
    let_in: Mutex<LetIn>,
    status: Mutex<Option<KernelStatus>>,
}

#[derive(Debug, Default)]
struct LetIn {
    lasting: Duration,
    known: HashMap<IpAddr, Moment>,
    waiting: Vec<IpAddr>,
}

impl Clients {
    /// What is asked for; `let_in`: for how long clients of sessions are let in.
    pub(super) fn want(&self, flows: bool, let_in: Option<Duration>) {
        self.wants_flows.store(flows, Ordering::Relaxed);
        self.wants_sessions.store(let_in.is_some(), Ordering::Relaxed);
        if !flows {
            self.flows.lock().expect("nothing panics within").clear();
        }
        let mut known = self.let_in.lock().expect("nothing panics within");
        *known = LetIn { lasting: let_in.unwrap_or_default(), ..LetIn::default() };
    }

    /// Whether flows of refused requests are asked for. No lock.
    pub fn wants_flows(&self) -> bool {
        self.wants_flows.load(Ordering::Relaxed)
    }

    /// Whether clients of running sessions are asked for. No lock.
    pub fn wants_sessions(&self) -> bool {
        self.wants_sessions.load(Ordering::Relaxed)
    }

    /// A request of this flow is refused, or may be; it has come straight from the client, whose the flow is.
    pub fn refused(&self, flow: u64, client: IpAddr) {
        let mut flows = self.flows.lock().expect("nothing panics within");
        if flows.len() >= KNOWN_MAX {
            flows.clear();
        }
        flows.insert(flow, client);
    }

    /// A request of a running session has come straight from the client.
    pub fn in_session(&self, now: Moment, client: IpAddr) {
        let LetIn { lasting, known, waiting } =
            &mut *self.let_in.lock().expect("nothing panics within");
        let is_known = |at: &Moment| now.since(*at) < *lasting / ANEW;
        if known.get(&client).is_some_and(is_known) || waiting.len() >= WAITING_MAX {
            return;
        }
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(client, now);
        waiting.push(client);
    }

    /// Whose flow it is.
    pub(super) fn client(&self, flow: u64) -> Option<IpAddr> {
        self.flows.lock().expect("nothing panics within").get(&flow).copied()
    }

    /// Those who are to be let in since the last time, and for how long.
    pub(super) fn take_let_in(&self) -> (Vec<IpAddr>, Duration) {
        let mut let_in = self.let_in.lock().expect("nothing panics within");
        (std::mem::take(&mut let_in.waiting), let_in.lasting)
    }

    /// What the kernel does; `None`: the policy asks for nothing of it.
    pub fn status(&self) -> Option<KernelStatus> {
        self.status.lock().expect("nothing panics within").clone()
    }

    pub(super) fn set_status(&self, status: Option<KernelStatus>) {
        *self.status.lock().expect("nothing panics within") = status;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> IpAddr {
        IpAddr::from(number.to_be_bytes())
    }

    #[test]
    fn a_client_is_let_in_once_in_a_while() {
        let clients = Clients::default();
        clients.want(false, Some(Duration::from_secs(100)));
        for second in 0..60 {
            clients.in_session(Moment::from_millis(second * 1000), client(1));
        }
        clients.in_session(Moment::from_millis(60_000), client(2));
        let (let_in, lasting) = clients.take_let_in();
        assert_eq!(let_in, [client(1), client(1), client(1), client(2)]);
        assert_eq!(lasting, Duration::from_secs(100));
        assert!(clients.take_let_in().0.is_empty());
    }

    #[test]
    fn what_is_known_is_bounded() {
        let clients = Clients::default();
        clients.want(true, Some(Duration::from_secs(100)));
        for number in 0..3 * KNOWN_MAX as u32 {
            clients.refused(number.into(), client(number));
            clients.in_session(Moment::ZERO, client(number));
        }
        assert!(clients.flows.lock().expect("whole").len() <= KNOWN_MAX);
        assert!(clients.let_in.lock().expect("whole").known.len() <= KNOWN_MAX);
        assert_eq!(clients.take_let_in().0.len(), WAITING_MAX);
        assert_eq!(
            clients.client(3 * KNOWN_MAX as u64 - 1),
            Some(client(3 * KNOWN_MAX as u32 - 1))
        );
        clients.want(false, None);
        assert_eq!(clients.client(3 * KNOWN_MAX as u64 - 1), None);
    }
}
