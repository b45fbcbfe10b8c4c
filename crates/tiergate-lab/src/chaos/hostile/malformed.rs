//! What is no request, or may be read in two ways.

use super::place::{connect, moment};
use fastrand::Rng;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Sends one after the other, each on a connection of its own.
pub(crate) async fn send(to: SocketAddr, mut random: Rng) {
    let mut sink = [0; 4096];
    loop {
        let Some(mut stream) = connect(to, &mut random).await else { continue };
        let bytes = one(&mut random);
        let exchange = async {
            if stream.write_all(&bytes).await.is_ok() {
                while let Ok(1..) = stream.read(&mut sink).await {}
            }
        };
        let _ = timeout(PATIENCE, exchange).await;
        sleep(moment(&mut random, 60)).await;
    }
}

fn one(random: &mut Rng) -> Vec<u8> {
    let with = |fields: &str| format!("POST /basic/m HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let text = match random.u8(..20) {
        0 => {
            let mut bytes = vec![0; random.usize(1..3000)];
            random.fill(&mut bytes);
            return bytes;
        }
        1 => with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n") + "0\r\n\r\nGET /basic/s",
        2 => with("Content-Length: 5\r\nContent-Length: 6\r\n") + "hello!",
        3 => with("Transfer-Encoding: chunked, identity\r\n") + "5\r\nhello\r\n0\r\n\r\n",
        4 => with("Transfer-Encoding : chunked\r\n") + "0\r\n\r\n",
        5 => with("Content-Length: +5\r\n") + "hello",
        6 => with("Transfer-Encoding: chunked\r\n") + "zz\r\nhello\r\n0\r\n\r\n",
        7 => with("Transfer-Encoding: chunked\r\n") + "ffffffffffffffff1\r\nx",
        8 => with(&format!("X: {}\r\n", "x".repeat(random.usize(8_000..200_000)))),
        9 => with(&"A: b\r\n".repeat(random.usize(101..2000))),
        10 => format!("GET /basic/{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(9000)),
        11 => "GET /basic/..%2f%00 HTTP/1.1\r\nHost: x\r\n\r\n".into(),
        12 => "GET /basic/m HTTP/1.1\r\n\r\n".into(),
        13 => "GET /basic/m HTTP/9.9\r\nHost: x\r\n\r\n".into(),
        14 => "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n".into(),
        15 => "\r\n\r\n\r\n\r\nGET /basic/m HTTP/1.1\nHost: x\n\n".into(),
        16 => with("Content-Length: 99999999999\r\n") + "x",
        17 => with("X: a\r\n folded\r\n"),
        18 => with("Expect: 200-maybe\r\nContent-Length: 1\r\n") + "x",
        _ => {
            let header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\x0a\0\0\x01\x0a\0\0\x02\0\x01\0\x02";
            return header.to_vec();
        }
    };
    text.into_bytes()
}
