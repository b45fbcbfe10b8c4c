//! Idle connections to the origin's servers: a thread's own, last used first taken.

use super::servers::OriginServer;
use super::stream::OriginStream;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::time::Moment;

struct Idle {
    server: Arc<OriginServer>,
    /// Oldest first.
    connections: Vec<(Moment, OriginStream)>,
}

thread_local! {
    static IDLE: RefCell<Vec<Idle>> = const { RefCell::new(Vec::new()) };
}

/// Takes an idle connection to the server that nothing has arrived on.
pub(super) fn take(server: &Arc<OriginServer>) -> Option<OriginStream> {
    IDLE.with_borrow_mut(|idle| {
        let idle = idle.iter_mut().find(|idle| Arc::ptr_eq(&idle.server, server))?;
        loop {
            let (_, stream) = idle.connections.pop()?;
            if stream.is_fresh() {
                return Some(stream);
            }
        }
    })
}

/// Keeps a connection for the next request, unless there are `kept_max` already.
pub(super) fn give(server: &Arc<OriginServer>, stream: OriginStream, now: Moment, kept_max: usize) {
    IDLE.with_borrow_mut(|idle| {
        let known = idle.iter().position(|idle| Arc::ptr_eq(&idle.server, server));
        let place = known.unwrap_or_else(|| {
            idle.push(Idle { server: server.clone(), connections: Vec::new() });
            idle.len() - 1
        });
        let connections = &mut idle[place].connections;
        if connections.len() < kept_max {
            connections.push((now, stream));
        }
    });
}

/// Closes connections that were idle for longer than `idle_max`, and those that their server closed.
pub fn sweep(now: Moment, idle_max: Duration) {
    IDLE.with_borrow_mut(|idle| {
        for idle in idle.iter_mut() {
            idle.connections
                .retain(|(since, stream)| now.since(*since) < idle_max && stream.is_fresh());
        }
        idle.retain(|idle| !idle.connections.is_empty());
    });
}
