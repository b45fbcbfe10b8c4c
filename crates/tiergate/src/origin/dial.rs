//! Connections to a pool's servers, as the policy has them spoken to.

use super::stream::{Lease, OriginStream};
use super::{Origin, http2};
use std::io;
use std::time::Duration;

impl Origin {
    /// A new connection to the server at that place, ready for a request.
    pub(super) async fn connect(
        &self,
        place: usize,
        within: Duration,
        idle: impl FnMut() -> Option<Lease>,
    ) -> io::Result<Lease> {
        let server = &self.servers[place];
        match &self.transport {
            None => server.connect(within, idle).await,
            // In a box: a request over plain TCP shall not keep room for it.
            Some(it) if it.is_multiplexed() => {
                Box::pin(http2::lease(server, it, self.named(place), within)).await
            }
            Some(it) => Box::pin(it.connect(server, self.named(place), within, idle)).await,
        }
    }

    /// The same, shared with no request.
    pub(super) async fn connect_alone(
        &self,
        place: usize,
        within: Duration,
    ) -> io::Result<OriginStream> {
        let server = &self.servers[place];
        match &self.transport {
            None => Ok(server.connect(within, || None).await?.stream),
            Some(it) => it.connect_alone(server, self.named(place), within).await,
        }
    }
}
