//! Idle connections to the origin's servers: a thread's own, last used first taken.

use super::servers::OriginServer;
use super::stream::OriginStream;
use super::transport::Transport;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;
use tiergate_core::time::Moment;

struct Idle {
    server: Arc<OriginServer>,
    /// What they speak; `None`: HTTP/1.1 over plain TCP. They serve no pool that speaks otherwise.
    transport: Option<Arc<Transport>>,
    /// Oldest first.
    connections: Vec<(Moment, OriginStream)>,
}

impl Idle {
    fn is_of(&self, server: &Arc<OriginServer>, transport: Option<&Arc<Transport>>) -> bool {
        let same = match (&self.transport, transport) {
            (None, None) => true,
            (Some(mine), Some(transport)) => Arc::ptr_eq(mine, transport),
            _ => false,
        };
        same && Arc::ptr_eq(&self.server, server)
    }
}

thread_local! {
    static IDLE: RefCell<Vec<Idle>> = const { RefCell::new(Vec::new()) };
}

/// Takes an idle connection to the server that nothing has arrived on.
pub(super) fn take(
    server: &Arc<OriginServer>,
    transport: Option<&Arc<Transport>>,
) -> Option<OriginStream> {
    IDLE.with_borrow_mut(|idle| {
        let idle = idle.iter_mut().find(|idle| idle.is_of(server, transport))?;
        loop {
            let (_, mut stream) = idle.connections.pop()?;
            if stream.is_fresh() {
                return Some(stream);
            }
        }
    })
}

/// Keeps a connection for the next request, unless there are `kept_max` already.
pub(super) fn give(
    server: &Arc<OriginServer>,
    transport: Option<&Arc<Transport>>,
    stream: OriginStream,
    now: Moment,
    kept_max: usize,
) {
    if stream.is_multiplexed() {
        // Its connection is not its own.
        return;
    }
    IDLE.with_borrow_mut(|idle| {
        let known = idle.iter().position(|idle| idle.is_of(server, transport));
        let place = known.unwrap_or_else(|| {
            let (server, transport) = (server.clone(), transport.cloned());
            idle.push(Idle { server, transport, connections: Vec::new() });
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
                .retain_mut(|(since, stream)| now.since(*since) < idle_max && stream.is_fresh());
        }
        idle.retain(|idle| !idle.connections.is_empty());
    });
}
