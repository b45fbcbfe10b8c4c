//! What a connection has brought so far, for when something must be shed: how important its client is,
//! how many answers it has got, and whether a request is a continuation.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | importance, answered, continuations | the connection's tasks | the same |
//!
//! All tasks of a connection are on one thread: the atomics only say so to the compiler.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use tiergate_core::admit::feasible;

/// What a connection has brought so far. 8 bytes.
#[derive(Debug, Default)]
pub struct ConnectionHistory {
    /// One more than its importance; 0: nothing has said any.
    importance: AtomicU16,
    /// Continuations that answers entitle to and that have not come yet.
    continuations: AtomicU16,
    answered: AtomicU32,
}

impl ConnectionHistory {
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

    /// The origin answered another request, and the whole answer was passed on.
    pub fn answer(&self) {
        let answered = self.answered.load(Ordering::Relaxed).saturating_add(1);
        self.answered.store(answered, Ordering::Relaxed);
        let more = u16::from(feasible::goes_on(answered));
        let left = self.continuations.load(Ordering::Relaxed).saturating_add(more);
        self.continuations.store(left, Ordering::Relaxed);
    }

    /// Whether a request is a continuation. Each answer entitles to one: many at once, as over HTTP/2,
    /// have to wait for as many. `takes`: the request is the one.
    pub fn is_continuation(&self, takes: bool) -> bool {
        let left = self.continuations.load(Ordering::Relaxed);
        self.continuations.store(left.saturating_sub(u16::from(takes)), Ordering::Relaxed);
        left > 0
    }

    /// Requests that were answered.
    pub fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// A hash of a client's connection, by its address and port: even, and no client can aim at a value,
/// because the process has a secret for it.
pub fn hash_of(client: SocketAddr) -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    SECRET.get_or_init(RandomState::new).hash_one(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_counts_and_silence_changes_nothing() {
        let history = ConnectionHistory::default();
        assert_eq!(history.importance_after(None), None);
        assert_eq!(history.importance_after(Some(255)), Some(255));
        assert_eq!(history.importance_after(None), Some(255));
        assert_eq!(history.importance_after(Some(0)), Some(0));
        assert_eq!(history.importance_after(None), Some(0));
        history.answer();
        assert_eq!(history.answered(), 1);
    }

    #[test]
    fn each_answer_entitles_to_one_continuation() {
        let history = ConnectionHistory::default();
        assert!(!history.is_continuation(true), "a new connection");
        history.answer();
        assert!(history.is_continuation(false), "only asked");
        assert!(history.is_continuation(true));
        assert!(!history.is_continuation(true), "a second at the same time");
        (0..98).for_each(|_| history.answer());
        assert_eq!((0..200).filter(|_| history.is_continuation(true)).count(), 98);
        history.answer();
        assert!(!history.is_continuation(true), "the hundredth");
        history.answer();
        assert!(history.is_continuation(true));
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
