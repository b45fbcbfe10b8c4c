//! Slow clients: heads and bodies byte by byte, large answers read in drops.

use super::place::{PAUSE, connect, moment};
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Between two bytes.
const BYTE_MS: u64 = 60;
/// Size of the answer to a slow reader.
const LARGE: usize = 2 << 20;

/// Sends heads byte by byte.
pub(crate) async fn heads(to: SocketAddr, mut random: Rng) {
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        let head = format!("GET /basic/h{} HTTP/1.1\r\nHost: slow\r\n\r\n", random.u32(..));
        // Some stop in the middle, others reach the end.
        let stop = random.usize(1..=head.len());
        drip(&mut stream, &head.as_bytes()[..stop], &mut random).await;
        until_closed(&mut stream).await;
        sleep(PAUSE).await;
    }
}

/// Sends bodies byte by byte, of known length or in chunks.
pub(crate) async fn bodies(to: SocketAddr, mut random: Rng) {
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        let chunked = random.bool();
        let framing = if chunked { "Transfer-Encoding: chunked" } else { "Content-Length: 60" };
        let head =
            format!("POST /basic/u{} HTTP/1.1\r\nHost: slow\r\n{framing}\r\n\r\n", random.u32(..));
        let body = if chunked { "1\r\nx\r\n".repeat(12) + "0\r\n\r\n" } else { "x".repeat(60) };
        if stream.write_all(head.as_bytes()).await.is_ok() {
            let stop = random.usize(1..=body.len());
            drip(&mut stream, &body.as_bytes()[..stop], &mut random).await;
            until_closed(&mut stream).await;
        }
        sleep(PAUSE).await;
    }
}

/// Reads large answers in drops; some stop reading.
pub(crate) async fn readers(to: SocketAddr, mut random: Rng) {
    let mut drop = vec![0; 4 << 10];
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        let id = random.u32(..);
        let request = format!("GET /basic/r{id}?bytes={LARGE} HTTP/1.1\r\nHost: slow\r\n\r\n");
        if stream.write_all(request.as_bytes()).await.is_err() {
            continue;
        }
        for _ in 0..random.usize(1..60) {
            match timeout(Duration::from_secs(3), stream.read(&mut drop)).await {
                Ok(Ok(1..)) => sleep(moment(&mut random, 200)).await,
                _ => break,
            }
        }
        if random.bool() {
            sleep(moment(&mut random, 4000)).await;
        }
    }
}

async fn drip(stream: &mut TcpStream, bytes: &[u8], random: &mut Rng) {
    for byte in bytes {
        if stream.write_all(&[*byte]).await.is_err() {
            return;
        }
        sleep(moment(random, 2 * BYTE_MS)).await;
    }
}

/// Reads until the end, for a bounded time.
async fn until_closed(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    while let Ok(Ok(1..)) = timeout(Duration::from_secs(4), stream.read(&mut bytes)).await {}
}
