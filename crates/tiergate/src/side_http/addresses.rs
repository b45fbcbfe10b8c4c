//! Where a server is: its name's addresses, looked up apart from who asks.
//!
//! The system's look-up blocks a thread for as long as the resolver is silent. So one is in flight at most for each name, however often
//! it is asked for, and what was found before is used meanwhile.

use anyhow::{Context, Result, anyhow};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
/// How long addresses are used before they are looked up again.
const FRESH: Duration = Duration::from_secs(30);
/// The part of the time that a new look-up is waited for if the addresses found before may do.
const LOOK_UP_PART: u32 = 4;

/// The addresses of a server, shared by all who ask it.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    /// Host and port.
    authority: Arc<str>,
    known: Arc<watch::Sender<Known>>,
}

/// What is known of a name. Each asker writes it, and the look-up.
#[derive(Debug, Default)]
struct Known {
    /// The addresses found last, first the one that worked last.
    addresses: Vec<SocketAddr>,
    /// When they are to be looked up again; `None`: now.
    fresh_until: Option<Instant>,
    /// Whether that is in flight.
    is_looking: bool,
    /// Why the last look-up failed.
    fault: Option<String>,
}

impl Addresses {
    /// Those of a host and port.
    pub(crate) fn of(authority: &str) -> Self {
        Addresses { authority: authority.into(), known: Arc::default() }
    }

    /// The host and port.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// A connection, by the first address that takes one, each of which has its part of the time.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn connect(&self, until: Instant) -> Result<TcpStream> {
        let addresses = self.find(until).await?;
        let mut last = io::ErrorKind::NotFound.into();
        for (place, &address) in addresses.iter().enumerate() {
            let left = until.saturating_duration_since(Instant::now());
            let part = Instant::now() + left / (addresses.len() - place) as u32;
            match timeout_at(part, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    if place > 0 {
                        self.prefer(address);
                    }
                    return Ok(stream);
                }
                Ok(Err(fault)) => last = fault,
                Err(_) => last = io::ErrorKind::TimedOut.into(),
            }
        }
        // It may have moved.
        self.known.send_modify(|known| known.fresh_until = None);
        Err(last).context("cannot connect")
    }

    fn prefer(&self, address: SocketAddr) {
        self.known.send_modify(|known| {
            if let Some(place) = known.addresses.iter().position(|it| *it == address) {
                known.addresses[..=place].rotate_right(1);
            }
        });
    }

    /// What the name stands for.
    async fn find(&self, until: Instant) -> Result<Vec<SocketAddr>> {
        if let Ok(address) = self.authority.parse() {
            return Ok(vec![address]);
        }
        let now = Instant::now();
        let (mut begins, mut is_fresh, mut has_some) = (false, false, false);
        self.known.send_modify(|known| {
            is_fresh = known.fresh_until.is_some_and(|until| now < until);
            has_some = !known.addresses.is_empty();
            begins = !is_fresh && !known.is_looking;
            known.is_looking |= begins;
        });
        if begins {
            tokio::spawn(self.clone().look_up());
        }
        if !is_fresh {
            let left = until.saturating_duration_since(now);
            let waits = if has_some { left / LOOK_UP_PART } else { left };
            let mut watched = self.known.subscribe();
            let _late = timeout(waits, watched.wait_for(|known| !known.is_looking)).await;
        }
        let known = self.known.borrow();
        if known.addresses.is_empty() {
            let fault = known.fault.as_deref().unwrap_or("there is no answer");
            return Err(anyhow!("cannot look up its name: {fault}"));
        }
        Ok(known.addresses.clone())
    }

    async fn look_up(self) {
        let found = tokio::net::lookup_host(&*self.authority).await;
        self.found(found.map(Iterator::collect));
    }

    /// What a look-up has found. The address that worked last stays the first.
    fn found(&self, found: io::Result<Vec<SocketAddr>>) {
        self.known.send_modify(|known| {
            known.is_looking = false;
            match found {
                Ok(mut found) if !found.is_empty() => {
                    let worked = known.addresses.first().copied();
                    found.sort_by_key(|it| Some(*it) != worked);
                    found.truncate(ADDRESSES_MAX);
                    known.addresses = found;
                    known.fresh_until = Some(Instant::now() + FRESH);
                    known.fault = None;
                }
                Ok(_) => known.fault = Some("it has no address".to_owned()),
                Err(fault) => known.fault = Some(fault.to_string()),
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A listener that takes no more connections, and those that fill it: a further one is not answered.
    async fn dead() -> (tokio::net::TcpListener, Vec<TcpStream>, SocketAddr) {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind("127.0.0.1:0".parse().expect("an address")).expect("free");
        let listener = socket.listen(1).expect("it listens");
        let address = listener.local_addr().expect("bound");
        let mut filling = Vec::new();
        while let Ok(Ok(stream)) =
            timeout(Duration::from_millis(200), TcpStream::connect(address)).await
        {
            filling.push(stream);
        }
        (listener, filling, address)
    }

    #[tokio::test]
    async fn an_address_that_is_dead_leaves_time_for_the_next_which_is_first_from_then_on() {
        let (_listener, _filling, dead) = dead().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free");
        let live = listener.local_addr().expect("bound");
        let name = Addresses::of("agent.test:9180");
        name.found(Ok(vec![dead, live]));
        let connect = |millis| name.connect(Instant::now() + Duration::from_millis(millis));
        let begun = Instant::now();
        let stream = connect(2000).await.expect("the second one takes it");
        // Over loopback, it takes one even where no time is left.
        assert!(begun.elapsed() < Duration::from_millis(1800), "{:?}", begun.elapsed());
        assert_eq!(stream.peer_addr().ok(), Some(live));
        let begun = Instant::now();
        connect(2000).await.expect("at once");
        assert!(begun.elapsed() < Duration::from_millis(900), "{:?}", begun.elapsed());
        // Found again, in the resolver's order.
        name.found(Ok(vec![dead, live]));
        assert_eq!(name.known.borrow().addresses, [live, dead]);
    }

    #[tokio::test]
    async fn while_a_resolver_is_silent_what_was_found_is_used_and_no_second_look_up_begins() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free");
        let live = listener.local_addr().expect("bound");
        let name = Addresses::of("agent.test:9180");
        name.found(Ok(vec![live]));
        // It has begun and does not end.
        name.known.send_modify(|known| (known.fresh_until, known.is_looking) = (None, true));
        for _ in 0..3 {
            let begun = Instant::now();
            let until = begun + Duration::from_millis(2000);
            name.connect(until).await.expect("by the address that was known");
            assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
        }
        name.found(Err(io::ErrorKind::NotFound.into()));
        assert_eq!(name.known.borrow().addresses, [live], "a failed look-up takes nothing away");

        let unknown = Addresses::of("agent.test:9180");
        unknown.known.send_modify(|known| known.is_looking = true);
        let until = Instant::now() + Duration::from_millis(50);
        let fault = unknown.connect(until).await.expect_err("nothing is known").to_string();
        assert_eq!(fault, "cannot look up its name: there is no answer");
    }

    #[tokio::test]
    async fn a_name_is_looked_up_and_a_literal_is_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("free");
        let port = listener.local_addr().expect("bound").port();
        for host in ["localhost", "127.0.0.1"] {
            let name = Addresses::of(&format!("{host}:{port}"));
            let until = Instant::now() + Duration::from_secs(5);
            name.connect(until).await.unwrap_or_else(|fault| panic!("{host}: {fault:#}"));
        }
    }
}
