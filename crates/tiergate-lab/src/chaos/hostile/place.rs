//! Where such clients come from, and when.

use crate::chaos::ask;
use fastrand::Rng;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// Pause after something went wrong, so that a client does not spin.
pub(super) const PAUSE: Duration = Duration::from_millis(50);

/// A connection from one of the addresses of such clients.
pub(super) async fn connect(to: SocketAddr, random: &mut Rng) -> Option<TcpStream> {
    match ask::connect(to, address(random)).await {
        Ok(stream) => Some(stream),
        Err(_) => {
            sleep(PAUSE).await;
            None
        }
    }
}

/// One of a few addresses.
pub(super) fn address(random: &mut Rng) -> IpAddr {
    Ipv4Addr::new(127, 3, 0, random.u8(1..=8)).into()
}

/// Up to so many milliseconds.
pub(super) fn moment(random: &mut Rng, most_ms: u64) -> Duration {
    Duration::from_millis(random.u64(0..=most_ms))
}
