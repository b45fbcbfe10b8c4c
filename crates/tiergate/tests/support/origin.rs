//! An origin within the test: answers as told, and records every byte that it gets.

use super::PATIENCE;
use super::answer::{End, end_of, fields, head_len, unchunk};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A request as the origin got it.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Request {
    /// Every value of a field.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let found = self.fields.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str()).collect()
    }
}

/// A connection that the origin has accepted.
#[derive(Debug)]
pub struct Accepted {
    pub stream: TcpStream,
    /// Which one it is, counted from 0.
    pub number: usize,
    buffer: Vec<u8>,
    log: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Accepted {
    /// More bytes; `false` at the end.
    pub fn more(&mut self) -> bool {
        let mut piece = [0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(count) if count > 0 => {
                self.buffer.extend_from_slice(&piece[..count]);
                self.log.lock().expect("no panic")[self.number].extend_from_slice(&piece[..count]);
                true
            }
            _ => false,
        }
    }

    /// What was received and is not used up.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// The next whole request; `None` when there is no more.
    pub fn request(&mut self) -> Option<Request> {
        loop {
            if let Some((request, len)) = parse(&self.buffer) {
                self.buffer.drain(..len);
                return Some(request);
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// The next request's head; the body stays to be read.
    pub fn head(&mut self) -> Option<Request> {
        loop {
            if let Some(len) = head_len(&self.buffer) {
                let (request, _) = parse_head(&self.buffer[..len]);
                self.buffer.drain(..len);
                return Some(request);
            }
            if !self.more() {
                return None;
            }
        }
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.try_send(bytes);
    }

    pub fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        self.stream.write_all(bytes.as_ref())
    }

    /// Sends 200 with a body.
    pub fn ok(&mut self, body: impl AsRef<[u8]>) {
        self.send(ok(body));
    }

    /// Closes so that the other side sees a reset.
    pub fn reset(self) {
        let _ = socket2::SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }
}

/// A response with status 200.
pub fn ok(body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

fn parse_head(head: &[u8]) -> (Request, End) {
    let head = String::from_utf8_lossy(head).into_owned();
    let mut words = head.split("\r\n").next().unwrap_or_default().split(' ');
    let mut word = || words.next().unwrap_or_default().to_owned();
    let request = Request {
        method: word(),
        target: word(),
        fields: fields(&head),
        body: Vec::new(),
        trailers: Vec::new(),
    };
    let end = end_of(&request.fields, End::None);
    (request, end)
}

/// A whole request at the start of `bytes`, and its length.
pub fn parse(bytes: &[u8]) -> Option<(Request, usize)> {
    let len = head_len(bytes)?;
    let (mut request, end) = parse_head(&bytes[..len]);
    match end {
        End::None | End::Close => Some((request, len)),
        End::Length(body) => {
            request.body = bytes.get(len..len + body)?.to_vec();
            Some((request, len + body))
        }
        End::Chunked => {
            let whole = unchunk(&bytes[len..]).ok()??;
            (request.body, request.trailers) = (whole.body, whole.trailers);
            Some((request, len + whole.len))
        }
    }
}

/// An origin within the test.
#[derive(Debug)]
pub struct Origin {
    pub address: SocketAddr,
    log: Arc<Mutex<Vec<Vec<u8>>>>,
    open: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Origin {
    /// Gives each connection to `serve`, in a thread of its own.
    pub fn start(serve: impl Fn(Accepted) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        Self::start_on(listener, serve)
    }

    pub fn start_on(
        listener: TcpListener,
        serve: impl Fn(Accepted) + Send + Sync + 'static,
    ) -> Self {
        let origin = Origin {
            address: listener.local_addr().expect("bound"),
            log: Arc::default(),
            open: Arc::default(),
            stop: Arc::default(),
        };
        let (log, open, stop) = (origin.log.clone(), origin.open.clone(), origin.stop.clone());
        let serve = Arc::new(serve);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let _ = stream.set_nodelay(true);
                let _ = stream.set_read_timeout(Some(PATIENCE * 3));
                let _ = stream.set_write_timeout(Some(PATIENCE));
                let number = {
                    let mut log = log.lock().expect("no panic");
                    log.push(Vec::new());
                    log.len() - 1
                };
                open.fetch_add(1, Ordering::SeqCst);
                let counted = Open(open.clone());
                let accepted = Accepted { stream, number, buffer: Vec::new(), log: log.clone() };
                let serve = serve.clone();
                thread::spawn(move || {
                    let _counted = counted;
                    serve(accepted);
                });
            }
        });
        origin
    }

    /// Answers each whole request by what `answer` makes of it.
    pub fn answering(answer: impl Fn(&Request) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::start(move |mut connection| {
            while let Some(request) = connection.request() {
                connection.send(answer(&request));
            }
        })
    }

    /// Answers each request with its method and target.
    pub fn echo() -> Self {
        Self::answering(|request| ok(format!("{} {}", request.method, request.target)))
    }

    /// Answers each request with a head of about so many bytes and nothing else, that says nothing that was said before, and hardly anything that can be said in fewer bits.
    pub fn heads(len: usize) -> Self {
        let random = Mutex::new(fastrand::Rng::with_seed(1));
        Self::answering(move |_| {
            let mut random = random.lock().expect("no panic");
            let pad: String = (0..len).map(|_| random.alphanumeric()).collect();
            format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Pad: {pad}\r\n\r\n").into_bytes()
        })
    }

    pub fn server(&self) -> String {
        self.address.to_string()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> usize {
        self.log.lock().expect("no panic").len()
    }

    /// Connections that are being served.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Everything received, by connection.
    pub fn received(&self) -> Vec<Vec<u8>> {
        self.log.lock().expect("no panic").clone()
    }

    /// Everything received taken apart: whole requests, and what was left of each connection.
    pub fn requests(&self) -> (Vec<Request>, Vec<Vec<u8>>) {
        let (mut whole, mut rests) = (Vec::new(), Vec::new());
        for mut bytes in self.received() {
            while let Some((request, len)) = parse(&bytes) {
                whole.push(request);
                bytes.drain(..len);
            }
            if !bytes.is_empty() {
                rests.push(bytes);
            }
        }
        (whole, rests)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _: io::Result<TcpStream> = TcpStream::connect_timeout(&self.address, PATIENCE);
    }
}
