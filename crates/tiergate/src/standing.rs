//! What a connection is worth when somebody must go: how important its client is, how much it has got,
//! and whether it goes on with something.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | importance, answered, may go on | the connection's tasks | the same |
//!
//! All tasks of a connection are on one thread: the atomics only say so to the compiler.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use tiergate_core::admit::feasible;

/// What a connection is worth. 8 bytes.
#[derive(Debug, Default)]
pub struct Standing {
    /// One more than its importance; 0: nothing has said any.
    importance: AtomicU16,
    /// Requests that answers let go on and that have not come yet.
    going_on: AtomicU16,
    answered: AtomicU32,
}

impl Standing {
    /// The connection's importance after a request of which rules say `said`. The latest word counts,
    /// and lowers too; a request of which nothing is said leaves it as it is, so that pictures of an
    /// important page are as important as the page.
    ///
    /// Source: Voigt C §3, "the importance of a persistent connection changes over its lifetime"; there
    /// a request without the cookie is unimportant whatever came before.
    pub fn importance_after(&self, said: Option<u8>) -> Option<u8> {
        if let Some(said) = said {
            self.importance.store(u16::from(said) + 1, Ordering::Relaxed);
        }
        let known = self.importance.load(Ordering::Relaxed);
        known.checked_sub(1).map(|importance| importance as u8)
    }

    /// Another request was answered by the origin.
    pub fn answer(&self) {
        let answered = self.answered.load(Ordering::Relaxed).saturating_add(1);
        self.answered.store(answered, Ordering::Relaxed);
        let more = u16::from(feasible::goes_on(answered));
        let going_on = self.going_on.load(Ordering::Relaxed).saturating_add(more);
        self.going_on.store(going_on, Ordering::Relaxed);
    }

    /// Whether a request goes on after an answer. Each answer lets one do so: many at once, as over
    /// HTTP/2, have to wait for as many. `takes`: the request is to be the one.
    pub fn goes_on(&self, takes: bool) -> bool {
        let going_on = self.going_on.load(Ordering::Relaxed);
        self.going_on.store(going_on.saturating_sub(u16::from(takes)), Ordering::Relaxed);
        going_on > 0
    }

    /// Requests that were answered.
    pub fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// A hash of a client's connection, by its address and port: even, and nobody can aim at it, because
/// the process has a secret for it.
pub fn hash_of(client: SocketAddr) -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    SECRET.get_or_init(RandomState::new).hash_one(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_counts_and_silence_changes_nothing() {
        let standing = Standing::default();
        assert_eq!(standing.importance_after(None), None);
        assert_eq!(standing.importance_after(Some(255)), Some(255));
        assert_eq!(standing.importance_after(None), Some(255));
        assert_eq!(standing.importance_after(Some(0)), Some(0));
        assert_eq!(standing.importance_after(None), Some(0));
        standing.answer();
        assert_eq!(standing.answered(), 1);
    }

    #[test]
    fn each_answer_lets_one_request_go_on() {
        let standing = Standing::default();
        assert!(!standing.goes_on(true), "a newcomer");
        standing.answer();
        assert!(standing.goes_on(false), "only asked");
        assert!(standing.goes_on(true));
        assert!(!standing.goes_on(true), "a second at the same time");
        (0..98).for_each(|_| standing.answer());
        assert_eq!((0..200).filter(|_| standing.goes_on(true)).count(), 98);
        standing.answer();
        assert!(!standing.goes_on(true), "the hundredth");
        standing.answer();
        assert!(standing.goes_on(true));
    }

    #[test]
    fn the_hash_is_the_same_for_a_connection_and_even_over_all() {
        let clients: Vec<SocketAddr> =
            (1..=1000).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let upper = clients.iter().filter(|client| hash_of(**client) > u64::MAX / 2).count();
        assert!((400..600).contains(&upper), "{upper} of 1000");
        assert_eq!(hash_of(clients[0]), hash_of(clients[0]));
    }
}
