//! Clients that leave: in the middle of a head, an upload, a wait, an answer; with requests behind; or
//! with one side only.

use super::place::{connect, moment};
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// Asks and leaves, again and again.
pub(crate) async fn leave(to: SocketAddr, mut random: Rng) {
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        let bytes = requests(&mut random);
        let cut = if random.bool() { bytes.len() } else { random.usize(1..=bytes.len()) };
        if stream.write_all(&bytes[..cut]).await.is_err() {
            continue;
        }
        // Half of them end their side only, and take what comes for a while.
        if random.bool() {
            let _ = stream.shutdown().await;
            let mut sink = [0; 4096];
            let wait = Duration::from_millis(random.u64(10..800));
            let read = async { while let Ok(1..) = stream.read(&mut sink).await {} };
            let _ = timeout(wait, read).await;
        }
        sleep(moment(&mut random, 120)).await;
    }
}

/// One request or several behind each other, some with bodies.
fn requests(random: &mut Rng) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..[1, 1, 1, 2, 5, 30][random.usize(..6)] {
        let id = random.u32(..);
        let size = [10, 1000, 300_000][random.usize(..3)];
        let say = ["ok", "slow", "trickle", "cut", "stall"][random.usize(..5)];
        let target = format!("/basic/l{id}?bytes={size}&say={say}");
        let upload = "x".repeat([0, 0, 10, 20_000, 200_000][random.usize(..5)]);
        let request = if upload.is_empty() {
            format!("GET {target} HTTP/1.1\r\nHost: leaver\r\n\r\n")
        } else {
            let len = upload.len();
            format!(
                "POST {target} HTTP/1.1\r\nHost: leaver\r\nContent-Length: {len}\r\n\r\n{upload}"
            )
        };
        bytes.extend_from_slice(request.as_bytes());
    }
    bytes
}
