//! A scripted HTTP/1.1 server that remembers what it was asked.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server was asked.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Number of the connection, from 0.
    pub(crate) connection: usize,
    pub(crate) peer: IpAddr,
    /// The first line and the fields, each ended by a line feed.
    pub(crate) head: String,
    /// When the head was whole.
    pub(crate) at: Instant,
    /// When the answer had been written.
    pub(crate) answered: Instant,
    /// Bytes of the body, and how long they took to come.
    pub(crate) body: usize,
    pub(crate) upload: Duration,
    /// How long writing the answer took.
    pub(crate) download: Duration,
}

impl Seen {
    pub(crate) fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }
}

/// What the server does about a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) bytes: usize,
    pub(crate) after: Duration,
    /// Says `Connection: close` and closes.
    pub(crate) close: bool,
    /// Closes without having said so.
    pub(crate) hang_up: bool,
    /// Answers before it reads the body.
    pub(crate) early: bool,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        let after = Duration::ZERO;
        Self { status, bytes: 10, after, close: false, hang_up: false, early: false }
    }
}

type Script = dyn Fn(&str, usize, usize) -> Reply + Send + Sync;

/// What all connections share.
struct Shared {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    asked: AtomicUsize,
    resets: AtomicUsize,
    ended: AtomicBool,
}

/// The server; dropped, it accepts nobody any more.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// A server whose script says, by head, number of the request in all and number on its
    /// connection, what to do.
    pub(crate) fn start(
        script: impl Fn(&str, usize, usize) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            asked: AtomicUsize::new(0),
            resets: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().flatten().enumerate() {
                if accepting.ended.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    if let Err(error) = serve(stream, number, &shared)
                        && error.kind() == ErrorKind::ConnectionReset
                    {
                        shared.resets.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { address, shared }
    }

    /// What it was asked so far, in the order of the answers.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Connections that ended by a reset so far.
    pub(crate) fn resets(&self) -> usize {
        self.shared.resets.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(stream: TcpStream, connection: usize, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let peer = stream.peer_addr()?.ip();
    let mut from = BufReader::new(stream.try_clone()?);
    for number in 0.. {
        let mut head = String::new();
        while !head.ends_with("\n\n") {
            if from.read_line(&mut head)? == 0 {
                return Ok(());
            }
            if head.ends_with("\r\n") {
                head.truncate(head.len() - 2);
                head.push('\n');
            }
        }
        let at = Instant::now();
        let all = shared.asked.fetch_add(1, Ordering::Relaxed);
        let reply = (shared.script)(&head, all, number);
        let field = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let length: usize = field.map_or(0, |length| length.parse().expect("a number"));
        if !reply.early {
            std::io::copy(&mut (&mut from).take(length as u64), &mut std::io::sink())?;
        }
        let upload = at.elapsed();
        std::thread::sleep(reply.after);
        let begun = Instant::now();
        answer(&stream, reply)?;
        let download = begun.elapsed();
        shared.seen.lock().unwrap().push(Seen {
            connection,
            peer,
            head,
            at,
            answered: Instant::now(),
            body: length,
            upload,
            download,
        });
        if reply.close || reply.hang_up {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, reply: Reply) -> std::io::Result<()> {
    let close = if reply.close { "Connection: close\r\n" } else { "" };
    let head =
        format!("HTTP/1.1 {} x\r\nContent-Length: {}\r\n{close}\r\n", reply.status, reply.bytes);
    stream.write_all(&[head.as_bytes(), &vec![b'x'; reply.bytes]].concat())
}
