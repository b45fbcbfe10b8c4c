//! What a connection is worth when the least important must go: how important its client is, and how
//! much it has got.
//!
//! | state | who writes | who reads |
//! |---|---|---|
//! | importance, answered | the connection's tasks | the same |
//!
//! All tasks of a connection are on one thread: the atomics only say so to the compiler.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// What a connection is worth. 8 bytes.
#[derive(Debug, Default)]
pub struct Standing {
    /// One more than its importance; 0: nothing has said any.
    importance: AtomicU16,
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
        let answered = self.answered.load(Ordering::Relaxed);
        self.answered.store(answered.saturating_add(1), Ordering::Relaxed);
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
    fn the_hash_is_the_same_for_a_connection_and_even_over_all() {
        let clients: Vec<SocketAddr> =
            (1..=1000).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
        let upper = clients.iter().filter(|client| hash_of(**client) > u64::MAX / 2).count();
        assert!((400..600).contains(&upper), "{upper} of 1000");
        assert_eq!(hash_of(clients[0]), hash_of(clients[0]));
    }
}
