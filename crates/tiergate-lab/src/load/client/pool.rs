//! The idle connections of a population, and how many may be open.

use super::connection::Connection;
use std::sync::{Mutex, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Connections that wait for the next request.
pub(crate) struct Pool {
    /// At most as many as there are places: one is opened only when none is idle.
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Pool {
    /// None yet, and at most so many at once.
    pub(crate) fn new(connections_max: usize) -> Self {
        Self { idle: Mutex::new(Vec::new()), places: Semaphore::new(connections_max) }
    }

    /// Waits for the right to use a connection. Cancel safe.
    pub(crate) async fn place(&self) -> SemaphorePermit<'_> {
        self.places.acquire().await.expect("never closed")
    }

    /// The connection that was used last, and nothing else has taken.
    pub(crate) fn take(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(connection) = idle.pop() {
            if connection.is_idle() {
                return Some(connection);
            }
        }
        None
    }

    /// A connection that can be used again.
    pub(crate) fn put(&self, connection: Connection) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    }
}
