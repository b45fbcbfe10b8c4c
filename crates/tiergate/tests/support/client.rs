//! A blocking client that sends what it is told, byte by byte if need be, and hides nothing.

use super::PATIENCE;
use super::answer::{Answer, End, end_of, fields, head_len, unchunk};
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Longest answer that is kept in memory.
const ANSWER_LEN_MAX: usize = 64 << 20;

/// A connection to the gateway, or to an origin directly.
#[derive(Debug)]
pub struct Client {
    pub stream: TcpStream,
    /// Received and not used up.
    pub buffer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        Self::try_connect(address).unwrap_or_else(|error| panic!("{address}: {error}"))
    }

    /// # Errors
    /// The system's.
    pub fn try_connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream, buffer: Vec::new() })
    }

    /// A connection from an address of this machine.
    pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let from = SocketAddr::from((from, 0));
        socket.bind(&from.into()).expect("every address of the loopback network is ours");
        socket.connect(&to.into()).unwrap_or_else(|error| panic!("{to}: {error}"));
        let client = Client { stream: socket.into(), buffer: Vec::new() };
        client.patience(PATIENCE);
        client
    }

    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).expect("the connection takes what is sent");
    }

    /// Sends what may meet a closed connection.
    pub fn send_anyway(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Ends this side.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    pub fn patience(&self, patience: Duration) {
        self.stream.set_read_timeout(Some(patience)).expect("not zero");
    }

    fn more(&mut self) -> io::Result<usize> {
        let mut piece = [0; 16 * 1024];
        let count = self.stream.read(&mut piece)?;
        self.buffer.extend_from_slice(&piece[..count]);
        if self.buffer.len() > ANSWER_LEN_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "a huge answer"));
        }
        Ok(count)
    }

    fn more_or_broken(&mut self) -> io::Result<()> {
        match self.more()? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Reads a head only.
    ///
    /// # Errors
    /// The connection ended before.
    pub fn try_head(&mut self) -> io::Result<Answer> {
        let len = loop {
            if let Some(len) = head_len(&self.buffer) {
                break len;
            }
            self.more_or_broken()?;
        };
        let head: Vec<u8> = self.buffer.drain(..len).collect();
        let head = String::from_utf8_lossy(&head).into_owned();
        let status = head.get(9..12).and_then(|status| status.parse().ok());
        let Some(status) = status.filter(|_| head.starts_with("HTTP/1.")) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, head));
        };
        Ok(Answer { status, fields: fields(&head), head, ..Answer::default() })
    }

    /// Reads an answer; an interim one counts as one. `to_head`: the request was HEAD.
    ///
    /// # Errors
    /// The connection ended before the answer did, or it is malformed.
    pub fn try_answer(&mut self, to_head: bool) -> io::Result<Answer> {
        let mut answer = self.try_head()?;
        let bodiless = to_head || answer.status < 200 || matches!(answer.status, 204 | 304);
        match if bodiless { End::None } else { end_of(&answer.fields, End::Close) } {
            End::None => {}
            End::Length(len) => {
                while self.buffer.len() < len {
                    self.more_or_broken()?;
                }
                answer.body = self.buffer.drain(..len).collect();
            }
            End::Chunked => loop {
                if let Some(whole) = unchunk(&self.buffer)? {
                    self.buffer.drain(..whole.len);
                    (answer.body, answer.trailers) = (whole.body, whole.trailers);
                    break;
                }
                self.more_or_broken()?;
            },
            End::Close => {
                while self.more()? > 0 {}
                answer.body = std::mem::take(&mut self.buffer);
            }
        }
        Ok(answer)
    }

    pub fn answer(&mut self) -> Answer {
        self.try_answer(false).expect("a whole answer")
    }

    /// Sends a GET and reads the answer.
    pub fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: example.test\r\n\r\n"));
        self.answer()
    }

    /// What comes until the other side closes; a reset counts as a close.
    pub fn rest(&mut self) -> Vec<u8> {
        loop {
            match self.more() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => panic!("the connection was not closed: {error}"),
            }
        }
        std::mem::take(&mut self.buffer)
    }

    /// Reads exactly so many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        while self.buffer.len() < len {
            self.more_or_broken().expect("so many bytes come");
        }
        self.buffer.drain(..len).collect()
    }
}

/// One GET on a connection of its own.
pub fn get(address: SocketAddr, path: &str) -> Answer {
    Client::connect(address).get(path)
}
