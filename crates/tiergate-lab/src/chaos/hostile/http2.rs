//! HTTP/2 clients that hold back or cancel, written frame by frame.
//!
//! Source: RFC 9113 sections 4.1 (frames), 6.5 (settings), 6.9 (windows); RFC 7541 section 6.2.2.

use super::place::{connect, moment};
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const WINDOW: u8 = 8;
const END_STREAM_AND_HEADERS: u8 = 5;
const ACKNOWLEDGED: u8 = 1;
/// Streams of one connection.
const STREAMS: u32 = 20;

/// Asks for large answers and takes them one byte at a time.
pub(crate) async fn tiny_windows(to: SocketAddr, mut random: Rng) {
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        // SETTINGS_INITIAL_WINDOW_SIZE is 1.
        let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1])].concat();
        for number in 0..STREAMS {
            bytes.extend(request(2 * number + 1, 100_000, random.u32(..)));
        }
        bytes.extend(frame(SETTINGS, ACKNOWLEDGED, 0, &[]));
        if stream.write_all(&bytes).await.is_err() {
            continue;
        }
        let mut sink = [0; 4096];
        for _ in 0..random.usize(10..100) {
            let id = 2 * random.u32(..STREAMS) + 1;
            let more = frame(WINDOW, 0, id, &1_u32.to_be_bytes());
            if stream.write_all(&more).await.is_err() {
                break;
            }
            let _ = timeout(Duration::from_millis(20), stream.read(&mut sink)).await;
            sleep(moment(&mut random, 60)).await;
        }
    }
}

/// Asks and cancels at once, as fast as the gateway takes it.
pub(crate) async fn reset_flood(to: SocketAddr, mut random: Rng) {
    loop {
        let Some(stream) = connect(to, &mut random).await else { continue };
        let (mut from, mut to) = stream.into_split();
        let flood = async {
            to.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await?;
            to.write_all(&frame(SETTINGS, ACKNOWLEDGED, 0, &[])).await?;
            for number in 0..random.u32(50..400) {
                let id = 2 * number + 1;
                let mut bytes = request(id, 1000, random.u32(..));
                bytes.extend(frame(RESET, 0, id, &8_u32.to_be_bytes()));
                to.write_all(&bytes).await?;
                sleep(Duration::from_millis(random.u64(0..3))).await;
            }
            std::io::Result::Ok(())
        };
        let mut sink = vec![0; 16 << 10];
        let listen = async { while let Ok(1..) = from.read(&mut sink).await {} };
        tokio::select! {
            _ = flood => {}
            () = listen => {}
        }
        sleep(moment(&mut random, 100)).await;
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u32).to_be_bytes();
    let head = [len[1], len[2], len[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// A GET, its head without compression.
fn request(stream: u32, bytes: usize, id: u32) -> Vec<u8> {
    let path = format!("/basic/w{id}?bytes={bytes}");
    // :method GET, :scheme http, :path and :authority as literals.
    let mut block = vec![0x82, 0x86, 0x04, path.len() as u8];
    block.extend_from_slice(path.as_bytes());
    block.extend_from_slice(&[0x01, 4]);
    block.extend_from_slice(b"tiny");
    frame(HEADERS, END_STREAM_AND_HEADERS, stream, &block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_have_their_length_in_front() {
        assert_eq!(frame(WINDOW, 0, 5, &[0, 0, 0, 1]), [0, 0, 4, 8, 0, 0, 0, 0, 5, 0, 0, 0, 1]);
        let request = request(1, 10, 0);
        assert_eq!(usize::from(request[2]), request.len() - 9);
    }
}
