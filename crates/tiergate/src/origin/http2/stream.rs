//! A stream of a connection over HTTP/2, as the request's path knows connections: bytes of HTTP/1.1 both ways.

use super::answer::{self, Asked, Framing};
use super::open::OpenStream;
use super::request::{self, Body};
use super::upload::{Frames, Upload};
use bytes::{Buf, Bytes};
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::HeaderMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a request, as they were written, that are kept until its answer begins, to send it again if the server says that it has not
/// looked at it. Heads and the messages of most calls are shorter.
pub(crate) const REPLAY_MAX: usize = 32 * 1024;

/// Longest head of a request: the policy bounds it long before.
const REQUEST_HEAD_MAX: usize = 1 << 20;

/// Interim answers that are dropped while one is passed on to a client that is slow to take it.
const DROPPED_MAX: u32 = 1000;

/// Bytes that a chunk takes beside its data, at most.
const CHUNK_OVERHEAD: usize = 16;

/// How long the end of a stream is awaited whose answer has been read.
const END_AWAITED: Duration = Duration::from_secs(1);

/// A stream of a connection over HTTP/2.
#[derive(Debug)]
pub struct Http2Stream {
    send: SendRequest<Bytes>,
    is_secure: bool,
    up: Up,
    down: Down,
    /// What was written so far, until the answer begins; `None`: too much.
    replay: Option<Vec<u8>>,
    unprocessed: Option<Reason>,
    lost: Option<Lost>,
    /// How often anything had arrived on the connection when the request was sent.
    heard: u64,
    /// Interim answers that were dropped.
    dropped: u32,
    open: Option<OpenStream>,
}

/// How a request's connection was when it failed without a word about the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing had arrived since the request was sent: it may have ended while it was idle.
    Idle,
    /// The server was there after the request was sent, or was asked whether it was and said nothing.
    InUse,
}

/// The request.
#[derive(Debug)]
enum Up {
    /// Its head, as far as it was written.
    Head(Vec<u8>),
    Body(Upload),
    /// All has been handed over, or the server takes no more.
    Over {
        broken: bool,
    },
}

/// The answer.
#[derive(Debug)]
enum Down {
    /// The request has not begun.
    None,
    Head {
        response: ResponseFuture,
        asked: Asked,
        interim: bool,
        out: Bytes,
    },
    Body {
        body: RecvStream,
        framing: Framing,
        out: Bytes,
        data: Bytes,
        ended: bool,
    },
    Failed,
}

impl Http2Stream {
    pub(super) fn new(send: SendRequest<Bytes>, open: OpenStream, is_secure: bool) -> Self {
        Http2Stream {
            send,
            is_secure,
            up: Up::Head(Vec::new()),
            down: Down::None,
            replay: Some(Vec::new()),
            unprocessed: None,
            lost: None,
            heard: 0,
            dropped: 0,
            open: Some(open),
        }
    }

    /// Why the server has not looked at the request, if it says so: `REFUSED_STREAM`, or that of its GOAWAY.
    pub(crate) fn unprocessed(&self) -> Option<Reason> {
        self.unprocessed
    }

    /// Whether it failed because its connection did, without a word.
    pub(crate) fn lost(&self) -> Option<Lost> {
        self.lost
    }

    /// The request has become a tunnel or a stream.
    pub(crate) fn lasts(&mut self) {
        self.open.iter_mut().for_each(OpenStream::lasts);
    }

    /// Drops interim answers that have come, so that they do not gather; the stream fails beyond [`DROPPED_MAX`] of them.
    pub(crate) fn drop_interims(&mut self, context: &mut Context<'_>) {
        let Down::Head { response, interim: true, .. } = &mut self.down else { return };
        while let Poll::Ready(Some(Ok(_))) = response.poll_informational(context) {
            self.dropped += 1;
            if self.dropped > DROPPED_MAX {
                // Without a handle the stream is reset.
                (self.up, self.down) = (Up::Over { broken: true }, Down::Failed);
                self.replay = None;
                return;
            }
        }
    }

    /// What was written of the request, to be written again elsewhere; `None`: that is too long.
    pub(crate) fn take_replay(&mut self) -> Option<Vec<u8>> {
        self.replay.take()
    }

    fn note(&mut self, bytes: &[u8]) {
        if let Some(replay) = &mut self.replay {
            match replay.len() + bytes.len() <= REPLAY_MAX {
                true => replay.extend_from_slice(bytes),
                false => self.replay = None,
            }
        }
    }

    /// Takes bytes of the head; how many of these belong to it.
    fn take_head(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Up::Head(head) = &mut self.up else { unreachable!("the head comes first") };
        let before = head.len();
        head.extend_from_slice(bytes);
        let from = before.saturating_sub(3);
        let Some(at) = memchr::memmem::find(&head[from..], b"\r\n\r\n") else {
            return match head.len() > REQUEST_HEAD_MAX {
                true => Err(io::Error::other("the request's head is too long")),
                false => Ok(bytes.len()),
            };
        };
        let len = from + at + 4;
        head.truncate(len);
        let head = Bytes::from(std::mem::take(head));
        self.begin(head)?;
        Ok(len - before)
    }

    /// Sends the head.
    fn begin(&mut self, head: Bytes) -> io::Result<()> {
        let tunnels = self.send.is_extended_connect_protocol_enabled();
        let Some(translated) = request::translate(head, self.is_secure, tunnels) else {
            (self.up, self.down) = (Up::Over { broken: true }, Down::Failed);
            self.replay = None;
            return Err(io::Error::other("the request has a head that HTTP/2 cannot express"));
        };
        let frames = match translated.body {
            Body::None => None,
            Body::Length(len) => Some(Frames::Length(len)),
            Body::Chunked => Some(Frames::Chunked(Box::default())),
            Body::Tunnel => Some(Frames::Tunnel),
        };
        let asked = Asked {
            is_head: translated.is_head,
            is_tunnel: translated.body == Body::Tunnel,
            websocket_key: translated.websocket_key,
        };
        self.heard = self.open.as_ref().map_or(0, OpenStream::heard);
        match self.send.send_request(translated.request, frames.is_none()) {
            Ok((response, stream)) => {
                self.up = match frames {
                    None => Up::Over { broken: false },
                    Some(frames) => {
                        Up::Body(Upload { stream, frames, pending: Bytes::new(), end: None })
                    }
                };
                self.down = Down::Head { response, asked, interim: true, out: Bytes::new() };
                Ok(())
            }
            Err(error) => {
                // Nothing has been sent.
                self.unprocessed = Some(error.reason().unwrap_or(Reason::NO_ERROR));
                (self.up, self.down) = (Up::Over { broken: true }, Down::Failed);
                Ok(())
            }
        }
    }

    /// The stream has failed.
    fn fail(&mut self, error: h2::Error) -> io::Error {
        let by_server = error.is_remote();
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        let is_before_head = matches!(self.down, Down::Head { .. });
        // Streams that a GOAWAY leaves out were not looked at (RFC 9113 §6.8).
        if by_server && is_before_head && (refused || error.is_go_away()) {
            self.unprocessed = Some(error.reason().unwrap_or(Reason::NO_ERROR));
        }
        let is_idle =
            self.open.as_ref().is_some_and(|it| it.heard() == self.heard && !it.has_missed_ping());
        self.lost = error.is_io().then_some(if is_idle { Lost::Idle } else { Lost::InUse });
        self.down = Down::Failed;
        io::Error::new(io::ErrorKind::ConnectionReset, error)
    }

    /// Sends what the server's windows let through.
    fn poll_up(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Up::Body(upload) = &mut self.up else { return Poll::Ready(()) };
        match ready!(upload.poll_send(context)) {
            Ok(false) => {}
            Ok(true) => self.up = Up::Over { broken: false },
            // The server may have answered before it stopped taking; the answer's side finds out.
            Err(_) => self.up = Up::Over { broken: true },
        }
        Poll::Ready(())
    }

    /// Goes on with the answer until there are bytes to be read; `false`: it has ended.
    fn poll_down(&mut self, room: usize, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        loop {
            match &mut self.down {
                Down::None => return Poll::Pending,
                Down::Failed => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
                Down::Head { out, .. } if !out.is_empty() => return Poll::Ready(Ok(true)),
                Down::Head { response, asked, interim, out } => {
                    if *interim {
                        match response.poll_informational(context) {
                            Poll::Ready(Some(Ok(response))) => {
                                let mut text = Vec::new();
                                if let Err(why) = answer::write_interim(&mut text, &response) {
                                    self.down = Down::Failed;
                                    return Poll::Ready(Err(io::Error::other(why)));
                                }
                                *out = text.into();
                                continue;
                            }
                            Poll::Ready(Some(Err(error))) => {
                                return Poll::Ready(Err(self.fail(error)));
                            }
                            Poll::Ready(None) => *interim = false,
                            Poll::Pending => {}
                        }
                    }
                    let response = match ready!(Pin::new(response).poll(context)) {
                        Ok(response) => response,
                        Err(error) => return Poll::Ready(Err(self.fail(error))),
                    };
                    let mut text = Vec::with_capacity(512);
                    let ends = response.body().is_end_stream();
                    match answer::write_final(&mut text, &response, ends, asked) {
                        Ok(framing) => {
                            let (body, data) = (response.into_body(), Bytes::new());
                            let ended = framing == Framing::None;
                            self.down = Down::Body { body, framing, out: text.into(), data, ended };
                            self.replay = None;
                        }
                        Err(why) => {
                            self.down = Down::Failed;
                            return Poll::Ready(Err(io::Error::other(why)));
                        }
                    }
                }
                Down::Body { out, .. } if !out.is_empty() => return Poll::Ready(Ok(true)),
                Down::Body { framing, data, out, .. } if !data.is_empty() => {
                    // A chunk for what can be read of it now.
                    if *framing == Framing::Chunked {
                        let len = data.len().min(room.saturating_sub(CHUNK_OVERHEAD).max(1));
                        let mut text = format!("{len:x}\r\n").into_bytes();
                        text.extend_from_slice(&data[..len]);
                        text.extend_from_slice(b"\r\n");
                        data.advance(len);
                        *out = text.into();
                    } else {
                        *out = std::mem::take(data);
                    }
                }
                Down::Body { ended: true, .. } => return Poll::Ready(Ok(false)),
                Down::Body { body, framing, data, out, ended } => {
                    match ready!(body.poll_data(context)) {
                        Some(Ok(piece)) => {
                            // The server may go on as its bytes are taken from here, which is one piece at a time.
                            let _ = body.flow_control().release_capacity(piece.len());
                            if let Framing::Length(left) = framing {
                                *left = left.saturating_sub(piece.len() as u64);
                                *ended = *left == 0;
                            }
                            *data = piece;
                        }
                        Some(Err(error)) => return Poll::Ready(Err(self.fail(error))),
                        None if *framing == Framing::Chunked => {
                            let trailers = match ready!(body.poll_trailers(context)) {
                                Ok(trailers) => trailers,
                                Err(error) => return Poll::Ready(Err(self.fail(error))),
                            };
                            let mut text = Vec::new();
                            answer::write_trailers(&mut text, trailers.as_ref());
                            (*out, *ended) = (text.into(), true);
                        }
                        None => *ended = true,
                    }
                }
            }
        }
    }

    /// What is to be read next.
    fn out(&mut self) -> &mut Bytes {
        match &mut self.down {
            Down::Head { out, .. } | Down::Body { out, .. } => out,
            Down::None | Down::Failed => unreachable!("there is nothing to read"),
        }
    }
}

impl AsyncRead for Http2Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // What could not be sent when it was written goes on meanwhile.
        let _ = this.poll_up(context);
        let before = buffer.filled().len();
        while buffer.remaining() > 0 {
            match this.poll_down(buffer.remaining(), context) {
                Poll::Ready(Ok(true)) => {
                    let out = this.out();
                    let len = out.len().min(buffer.remaining());
                    buffer.put_slice(&out[..len]);
                    out.advance(len);
                }
                // What was read goes first; an error comes again.
                _ if buffer.filled().len() > before => break,
                Poll::Ready(Ok(false)) => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if let Up::Head(_) = this.up {
            this.note(bytes);
            let taken = this.take_head(bytes)?;
            if let Some(replay) = &mut this.replay {
                replay.truncate(replay.len() - (bytes.len() - taken));
            }
            return Poll::Ready(Ok(taken));
        }
        ready!(this.poll_up(context));
        let taken = match &mut this.up {
            Up::Body(upload) => upload.take(bytes)?,
            // The request may have to be sent again, whole: none of it is refused before the answer's side knows.
            Up::Over { broken: true }
                if this.replay.as_ref().is_some_and(|it| it.len() + bytes.len() <= REPLAY_MAX) =>
            {
                bytes.len()
            }
            _ => {
                // What is kept lacks this.
                this.replay = None;
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
        };
        this.note(&bytes[..taken]);
        let _ = this.poll_up(context);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends a tunnel's way there. Other requests end with their bodies.
    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Up::Body(Upload { frames: Frames::Tunnel, end, .. }) = &mut this.up {
            end.get_or_insert_with(HeaderMap::new);
        }
        this.poll_up(context).map(Ok)
    }
}

impl Drop for Http2Stream {
    /// A stream that has not ended is cancelled; but where only its end is still to come, that is awaited: servers count clients' resets.
    fn drop(&mut self) {
        let Down::Body { body, framing, ended: true, .. } = &mut self.down else { return };
        if body.is_end_stream()
            || *framing == Framing::Tunnel
            || !matches!(self.up, Up::Over { broken: false })
        {
            return;
        }
        let Down::Body { mut body, .. } = std::mem::replace(&mut self.down, Down::Failed) else {
            return;
        };
        let open = self.open.take();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let ended = poll_fn(|context| body.poll_data(context).map(|_| ()));
                let _ = tokio::time::timeout(END_AWAITED, ended).await;
                drop((body, open));
            });
        }
    }
}
