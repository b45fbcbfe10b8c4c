//! QUIC as `h3` sees it: `quinn`, with a bound on what `h3` is given to hold.
//!
//! Own code rather than the crate `h3-quinn`, which has no way to learn that a client has given up a request before
//! something is written, cannot bound what `h3` holds, and panics if reading is stopped while it waits (docs/adr/0050).

use super::frames::{Cut, Frames, varint};
use super::line::Line;
use arrayvec::ArrayVec;
use bytes::Bytes;
use h3::error::Code;
use h3::quic::{
    self, ConnectionErrorIncoming, OpenStreams, StreamErrorIncoming, StreamId, WriteBuf,
};
use quinn::{ConnectionError, ReadError, VarInt, WriteError};
use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

/// Bytes that a client's own streams (control, QPACK) may bring at first: settings and a few priorities.
const CONTROL_BYTES_MAX: u64 = 16 * 1024;
/// How many more with each request, up to that: browsers say its priority, and say it again.
const CONTROL_BYTES_A_REQUEST: u64 = 256;
/// For how many a piece counts at least, which is held by itself.
const PIECE_LEN_MIN: usize = 32;
/// Most that is read from a stream at once. What has been read and not gone on is in addition to QUIC's windows, of each stream.
const READ_MAX: usize = 16 * 1024;
/// Of a header block, compressed: what it stands for is bounded by the policy, and QPACK without a dynamic table makes
/// nothing much longer than it is.
const HEADERS_SLACK: u64 = 1024;

/// The error of an operation of `h3`'s.
type Failure = StreamErrorIncoming;
/// What is awaited of `quinn`, which has only futures for it.
type Awaited<T> = Option<Pin<Box<dyn Future<Output = Result<T, ConnectionError>> + Send + Sync>>>;

/// A connection.
pub(super) struct Transport {
    connection: quinn::Connection,
    next_request: Awaited<(quinn::SendStream, quinn::RecvStream)>,
    next_other: Awaited<quinn::RecvStream>,
    opening: Awaited<quinn::SendStream>,
    /// The sending side of the stream that was accepted last.
    accepted: Option<Arc<Line>>,
    /// Streams that come now are not served: GOAWAY has said so.
    pub(super) rejects: bool,
    /// Bytes that the client's own streams may still bring.
    control_left: Arc<AtomicU64>,
    /// A request's stream has ended within a frame, which ends the connection.
    is_cut_off: Arc<AtomicBool>,
    headers_len_max: u64,
}

impl Transport {
    /// `head_len_max`: bytes of the longest head.
    pub(super) fn new(connection: quinn::Connection, head_len_max: u64) -> Self {
        Transport {
            connection,
            next_request: None,
            next_other: None,
            opening: None,
            accepted: None,
            rejects: false,
            control_left: Arc::new(AtomicU64::new(CONTROL_BYTES_MAX)),
            is_cut_off: Arc::default(),
            headers_len_max: head_len_max.saturating_add(HEADERS_SLACK),
        }
    }

    /// Whether the connection has ended because one of its streams did within a frame.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Relaxed)
    }

    /// The sending side of the stream that was accepted last.
    pub(super) fn accepted(&mut self) -> Option<Arc<Line>> {
        self.accepted.take()
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Transport")
    }
}

impl quic::Connection<Bytes> for Transport {
    type RecvStream = Receiver;
    type OpenStreams = Opener;

    fn poll_accept_recv(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Receiver, ConnectionErrorIncoming>> {
        let connection = &self.connection;
        let next = self.next_other.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.accept_uni().await })
        });
        let stream = ready!(next.as_mut().poll(context));
        self.next_other = None;
        let stream = stream.map_err(lost)?;
        let (left, connection) = (self.control_left.clone(), self.connection.clone());
        let bound = Bound::Own(Own { left, connection, kind: Kind::Unknown(ArrayVec::new()) });
        Poll::Ready(Ok(Receiver { stream, held: Bytes::new(), bound }))
    }

    fn poll_accept_bidi(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Result<Stream, ConnectionErrorIncoming>> {
        loop {
            let connection = &self.connection;
            let next = self.next_request.get_or_insert_with(|| {
                let connection = connection.clone();
                Box::pin(async move { connection.accept_bi().await })
            });
            let accepted = ready!(next.as_mut().poll(context));
            self.next_request = None;
            let (mut send, mut receive) = accepted.map_err(lost)?;
            if self.rejects {
                let code = number(Code::H3_REQUEST_REJECTED.value());
                let _ = send.reset(code);
                let _ = receive.stop(code);
                continue;
            }
            let more = |left: u64| Some((left + CONTROL_BYTES_A_REQUEST).min(CONTROL_BYTES_MAX));
            let _ = self.control_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
            let line = Arc::new(Line::new(send));
            self.accepted = Some(line.clone());
            let frames = Frames::new(self.headers_len_max);
            let ending = Ending(self.connection.clone(), self.is_cut_off.clone());
            let bound = Bound::Frames(frames, line.clone(), ending);
            let receiver = Receiver { stream: receive, held: Bytes::new(), bound };
            return Poll::Ready(Ok(Stream { sender: Sender { line, waits: true }, receiver }));
        }
    }

    fn opener(&self) -> Opener {
        Opener(self.connection.clone())
    }
}

impl OpenStreams<Bytes> for Transport {
    type BidiStream = Stream;
    type SendStream = Sender;

    fn poll_open_bidi(&mut self, context: &mut Context<'_>) -> Poll<Result<Stream, Failure>> {
        OpenStreams::<Bytes>::poll_open_bidi(&mut Opener(self.connection.clone()), context)
    }

    fn poll_open_send(&mut self, context: &mut Context<'_>) -> Poll<Result<Sender, Failure>> {
        let connection = &self.connection;
        let opening = self.opening.get_or_insert_with(|| {
            let connection = connection.clone();
            Box::pin(async move { connection.open_uni().await })
        });
        let opened = ready!(opening.as_mut().poll(context));
        self.opening = None;
        let line = Arc::new(Line::new(opened.map_err(connection_lost)?));
        Poll::Ready(Ok(Sender { line, waits: false }))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.connection.close(number(code.value()), reason);
    }
}

/// What opens streams to the client: nothing does, beyond those that a connection begins with.
pub(super) struct Opener(quinn::Connection);

impl OpenStreams<Bytes> for Opener {
    type BidiStream = Stream;
    type SendStream = Sender;

    fn poll_open_bidi(&mut self, _: &mut Context<'_>) -> Poll<Result<Stream, Failure>> {
        Poll::Ready(Err(Failure::Unknown("a server opens no requests".into())))
    }

    fn poll_open_send(&mut self, _: &mut Context<'_>) -> Poll<Result<Sender, Failure>> {
        Poll::Ready(Err(Failure::Unknown("all streams are open".into())))
    }

    fn close(&mut self, code: Code, reason: &[u8]) {
        self.0.close(number(code.value()), reason);
    }
}

/// A request's stream.
pub(super) struct Stream {
    sender: Sender,
    receiver: Receiver,
}

impl quic::BidiStream<Bytes> for Stream {
    type SendStream = Sender;
    type RecvStream = Receiver;

    fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}

impl quic::RecvStream for Stream {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        self.receiver.poll_data(context)
    }

    fn stop_sending(&mut self, code: u64) {
        self.receiver.stop_sending(code);
    }

    fn recv_id(&self) -> StreamId {
        self.receiver.recv_id()
    }
}

impl quic::SendStream<Bytes> for Stream {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.sender.poll_ready(context)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), Failure> {
        self.sender.send_data(data)
    }

    fn poll_finish(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.sender.poll_finish(context)
    }

    fn reset(&mut self, code: u64) {
        self.sender.reset(code);
    }

    fn send_id(&self) -> StreamId {
        self.sender.send_id()
    }
}

/// A stream's sending side.
pub(super) struct Sender {
    line: Arc<Line>,
    /// What is sent waits in the line for the stream's task; else `h3` waits until QUIC has taken it.
    waits: bool,
}

impl quic::SendStream<Bytes> for Sender {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        match self.waits {
            true => Poll::Ready(Ok(())),
            false => self.line.poll_flush(context).map_err(not_written),
        }
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), Failure> {
        let data: WriteBuf<Bytes> = data.into();
        self.line.put(data);
        Ok(())
    }

    fn poll_finish(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        if !self.waits {
            self.line.finish();
        }
        Poll::Ready(Ok(()))
    }

    fn reset(&mut self, code: u64) {
        self.line.reset(code);
    }

    fn send_id(&self) -> StreamId {
        stream_id(self.line.id())
    }
}

/// A stream's receiving side. Dropped before its end, the client is told that the rest is not needed.
pub(super) struct Receiver {
    stream: quinn::RecvStream,
    /// Read, and not given to `h3` yet.
    held: Bytes,
    bound: Bound,
}

enum Bound {
    /// A request's.
    Frames(Frames, Arc<Line>, Ending),
    /// One of the client's own.
    Own(Own),
}

/// One of the client's own streams.
struct Own {
    /// Bytes that all of them may still bring.
    left: Arc<AtomicU64>,
    connection: quinn::Connection,
    kind: Kind,
}

/// The type of a control stream (RFC 9114 §6.2.1).
const CONTROL: u64 = 0;

/// What it is, by its first number.
enum Kind {
    /// What has come of that.
    Unknown(ArrayVec<u8, 8>),
    /// The control stream, of which `h3` gets whole frames only: it would keep what comes for the rest of one.
    Control(Frames),
    Other,
}

impl Own {
    /// What of the bytes is to be passed on next; `None`: more is needed.
    fn cut(&mut self, held: &mut Bytes) -> Option<Result<Bytes, Failure>> {
        if held.is_empty() {
            return None;
        }
        if let Kind::Unknown(number) = &mut self.kind {
            number.push(held[0]);
            match varint(&mut &number[..]) {
                None => {}
                Some(CONTROL) => self.kind = Kind::Control(Frames::of_control()),
                Some(_) => self.kind = Kind::Other,
            }
            return Some(Ok(held.split_to(1)));
        }
        let Kind::Control(frames) = &mut self.kind else { return Some(Ok(std::mem::take(held))) };
        let code = match frames.cut(held) {
            Cut::Part(part) => return Some(Ok(part)),
            Cut::More => return None,
            Cut::TooLong => Code::H3_EXCESSIVE_LOAD,
            Cut::Malformed => Code::H3_FRAME_ERROR,
        };
        self.connection.close(number(code.value()), b"a frame of the control stream is malformed");
        Some(Err(Failure::StreamTerminated { error_code: code.value() }))
    }
}

/// What ends the connection of a stream that ends within a frame, and says why.
struct Ending(quinn::Connection, Arc<AtomicBool>);

impl Receiver {
    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        // The future has no state of its own.
        let chunk = ready!(pin!(self.stream.read_chunk(READ_MAX, true)).poll(context));
        Poll::Ready(chunk.map(|chunk| chunk.map(|chunk| chunk.bytes)).map_err(not_read))
    }
}

impl quic::RecvStream for Receiver {
    type Buf = Bytes;

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Failure>> {
        loop {
            match &mut self.bound {
                Bound::Own(own) => {
                    if let Some(part) = own.cut(&mut self.held) {
                        return Poll::Ready(part.map(Some));
                    }
                    let left = own.left.clone();
                    let Some(chunk) = ready!(self.poll_chunk(context))? else {
                        return Poll::Ready(Ok(None));
                    };
                    let counted = chunk.len().max(PIECE_LEN_MIN) as u64;
                    let less = |left: u64| left.checked_sub(counted);
                    if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err() {
                        return Poll::Ready(Err(self.overdone()));
                    }
                    // A part of a datagram would keep all of it.
                    self.held = Bytes::copy_from_slice(&chunk);
                    continue;
                }
                Bound::Frames(frames, line, _) => match frames.cut(&mut self.held) {
                    Cut::Part(part) => return Poll::Ready(Ok(Some(part))),
                    Cut::TooLong => {
                        line.refuse_head();
                        return Poll::Ready(Err(self.overdone()));
                    }
                    Cut::Malformed => unreachable!("only of the control stream"),
                    Cut::More => {}
                },
            }
            match ready!(self.poll_chunk(context))? {
                Some(chunk) => self.held = chunk,
                None => {
                    let Bound::Frames(frames, _, ending) = &mut self.bound else {
                        unreachable!("above")
                    };
                    if frames.is_cut_off() {
                        // RFC 9114 §7.1 has it end the connection. `h3` would panic when asked for the trailers.
                        let error_code = Code::H3_FRAME_ERROR.value();
                        let Ending(connection, is_cut_off) = ending;
                        is_cut_off.store(true, Ordering::Relaxed);
                        connection.close(number(error_code), b"a stream ends within a frame");
                        return Poll::Ready(Err(Failure::StreamTerminated { error_code }));
                    }
                    return Poll::Ready(Ok(frames.rest()));
                }
            }
        }
    }

    fn stop_sending(&mut self, code: u64) {
        // It fails if all was read.
        let _ = self.stream.stop(number(code));
    }

    fn recv_id(&self) -> StreamId {
        stream_id(self.stream.id().into())
    }
}

impl Receiver {
    /// The client sends what no client has to.
    fn overdone(&mut self) -> Failure {
        let error_code = Code::H3_EXCESSIVE_LOAD.value();
        let _ = self.stream.stop(number(error_code));
        Failure::StreamTerminated { error_code }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // What is left of a request that was answered early is no error (RFC 9114 §4.1); if all was read, nothing is said.
        let _ = self.stream.stop(number(Code::H3_NO_ERROR.value()));
    }
}

fn number(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}

fn stream_id(id: u64) -> StreamId {
    StreamId::try_from(id).expect("QUIC's numbers are within bounds")
}

fn lost(error: ConnectionError) -> ConnectionErrorIncoming {
    match error {
        ConnectionError::ApplicationClosed(close) => {
            ConnectionErrorIncoming::ApplicationClose { error_code: close.error_code.into() }
        }
        ConnectionError::TimedOut => ConnectionErrorIncoming::Timeout,
        other => ConnectionErrorIncoming::Undefined(Arc::new(other)),
    }
}

fn connection_lost(error: ConnectionError) -> Failure {
    Failure::ConnectionErrorIncoming { connection_error: lost(error) }
}

fn not_read(error: ReadError) -> Failure {
    match error {
        ReadError::Reset(code) => Failure::StreamTerminated { error_code: code.into() },
        ReadError::ConnectionLost(error) => connection_lost(error),
        other => Failure::Unknown(Box::new(other)),
    }
}

fn not_written(error: WriteError) -> Failure {
    match error {
        WriteError::Stopped(code) => Failure::StreamTerminated { error_code: code.into() },
        WriteError::ConnectionLost(error) => connection_lost(error),
        other => Failure::Unknown(Box::new(other)),
    }
}
