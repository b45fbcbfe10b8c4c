//! A stream that has become a tunnel (RFC 8441): bytes both ways, as DATA frames.

use super::incoming::io_error;
use super::payload::{Held, Payload};
use crate::buffers::{Buffer, SMALL};
use bytes::{Buf, Bytes};
use h2::{Reason, RecvStream, SendStream};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that has become a tunnel.
pub(super) struct Tunnel<'b> {
    /// Read, and not passed on yet.
    data: Bytes,
    body: &'b mut RecvStream,
    sending: SendStream<Payload>,
    held: Arc<Held>,
    is_shut: bool,
}

impl<'b> Tunnel<'b> {
    /// Of the bytes that have come already, and what follows.
    pub(super) fn new(
        (data, body): (Bytes, &'b mut RecvStream),
        sending: SendStream<Payload>,
        held: Arc<Held>,
    ) -> Self {
        Tunnel { data, body, sending, held, is_shut: false }
    }

    /// It has broken.
    pub(super) fn reset(&mut self) {
        self.sending.send_reset(Reason::CANCEL);
    }
}

impl AsyncRead for Tunnel<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // A frame may be empty, which is not the end.
        while this.data.is_empty() {
            match ready!(this.body.poll_data(context)) {
                Some(Ok(data)) => this.data = data,
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let len = this.data.len().min(buffer.remaining());
        buffer.put_slice(&this.data[..len]);
        this.data.advance(len);
        // It may send as much again. An error means that the stream is gone, which reading tells.
        let _ = this.body.flow_control().release_capacity(len);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tunnel<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.sending.reserve_capacity(bytes.len());
        while this.sending.capacity() == 0 {
            match ready!(this.sending.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let len = this.sending.capacity().min(bytes.len());
        let mut buffer = if len <= SMALL { Buffer::small() } else { Buffer::large() };
        let taken = buffer.append(&bytes[..len]);
        let payload = Payload::of(buffer, &this.held);
        match this.sending.send_data(payload, false) {
            Ok(()) => Poll::Ready(Ok(taken)),
            Err(error) => Poll::Ready(Err(io_error(error))),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !std::mem::replace(&mut this.is_shut, true) {
            this.sending.send_data(Payload::default(), true).map_err(io_error)?;
        }
        Poll::Ready(Ok(()))
    }
}
