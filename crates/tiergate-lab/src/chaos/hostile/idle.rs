//! More idle connections than the gateway accepts.

use super::place::{PAUSE, connect};
use fastrand::Rng;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// How long a connection may wait in the listen queue.
const PATIENCE: Duration = Duration::from_millis(300);

/// Opens so many and keeps opening, as the gateway closes them.
pub(crate) async fn hold(to: SocketAddr, connections: usize, mut random: Rng) {
    let mut open: VecDeque<TcpStream> = VecDeque::new();
    loop {
        if open.len() >= connections {
            open.pop_front();
            sleep(PAUSE).await;
        }
        let connecting = timeout(PATIENCE, connect(to, &mut random));
        let Ok(Some(mut stream)) = connecting.await else { continue };
        // Some have had a request, or begin HTTP/2.
        let first: &[u8] = match random.u8(..8) {
            0 => b"GET /basic/i HTTP/1.1\r\nHost: idle\r\n\r\n",
            1 => b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            _ => b"",
        };
        let _ = stream.write_all(first).await;
        open.push_back(stream);
        sleep(Duration::from_millis(1)).await;
    }
}
