//! A request's body as `h3` has it.

use super::transport::Receiver;
use crate::client::streams::incoming::Incoming;
use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use h3::server::RequestStream;
use http::HeaderMap;
use std::io;
use std::task::{Context, Poll, ready};

/// A request's body.
pub(super) struct Body {
    stream: RequestStream<Receiver, Bytes>,
    stage: Stage,
    /// Read together with the head.
    early: Option<Early>,
    /// Bytes that must still come, by the request's own account.
    left: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Data,
    Trailers,
    Ended,
    /// It is not whole and will not be. Said whenever it is read.
    Failed,
}

enum Early {
    Data(Bytes),
    Trailers(HeaderMap),
}

impl Body {
    /// `len`: bytes that `content-length` says.
    pub(super) fn new(stream: RequestStream<Receiver, Bytes>, len: Option<u64>) -> Self {
        Body { stream, stage: Stage::Data, early: None, left: len }
    }

    /// Takes in the first of what follows the head, often that nothing does. Ready when anything has come.
    pub(super) fn poll_early(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.early.is_some() {
            return Poll::Ready(());
        }
        // A failure shows again when more is read.
        if self.stage == Stage::Data {
            match ready!(self.poll_data(context)) {
                Ok(None) => {}
                Ok(Some(data)) => {
                    self.early = Some(Early::Data(data));
                    return Poll::Ready(());
                }
                Err(_) => return Poll::Ready(()),
            }
        }
        if let Ok(Some(trailers)) = ready!(self.poll_trailers(context)) {
            self.early = Some(Early::Trailers(trailers));
        }
        Poll::Ready(())
    }

    /// So many bytes have come, or the end of them: as the request says, or it is malformed (RFC 9114 §4.1.2). The origin
    /// would take what is too much for another request.
    fn count(&mut self, came: Option<usize>) -> io::Result<()> {
        let Some(left) = &mut self.left else { return Ok(()) };
        let rest = match came {
            Some(len) => left.checked_sub(len as u64),
            None => (*left == 0).then_some(0),
        };
        match rest {
            Some(rest) => {
                *left = rest;
                Ok(())
            }
            None => {
                self.stream.stop_sending(Code::H3_MESSAGE_ERROR);
                let why = "the body is not as long as content-length says";
                Err(io::Error::new(io::ErrorKind::InvalidData, why))
            }
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let data = ready!(self.stream.poll_recv_data(context)).map_err(io_error)?;
        let data = data.map(|mut data| data.copy_to_bytes(data.remaining()));
        self.count(data.as_ref().map(Bytes::len))?;
        Poll::Ready(Ok(data))
    }
}

impl Incoming for Body {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self.early.take() {
            Some(Early::Data(data)) => return Poll::Ready(Ok(Some(data))),
            trailers => self.early = trailers,
        }
        match self.stage {
            Stage::Data => {}
            Stage::Trailers | Stage::Ended => return Poll::Ready(Ok(None)),
            Stage::Failed => return Poll::Ready(Err(broken())),
        }
        let data = ready!(self.poll_next(context));
        match data {
            Ok(Some(_)) => {}
            Ok(None) => self.stage = Stage::Trailers,
            Err(_) => self.stage = Stage::Failed,
        }
        Poll::Ready(data)
    }

    fn poll_trailers(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Option<HeaderMap>>> {
        if let Some(Early::Trailers(trailers)) = self.early.take() {
            return Poll::Ready(Ok(Some(trailers)));
        }
        match self.stage {
            Stage::Data | Stage::Trailers => {}
            Stage::Ended => return Poll::Ready(Ok(None)),
            Stage::Failed => return Poll::Ready(Err(broken())),
        }
        let trailers = ready!(self.stream.poll_recv_trailers(context)).map_err(io_error);
        self.stage = if trailers.is_ok() { Stage::Ended } else { Stage::Failed };
        Poll::Ready(trailers)
    }

    fn is_ended(&self) -> bool {
        self.stage == Stage::Ended && self.early.is_none()
    }

    /// QUIC's windows move as it is read, which happens one part at a time.
    fn release(&mut self, _: usize) {}
}

fn io_error(error: StreamError) -> io::Error {
    match error {
        StreamError::StreamError { .. } => broken(),
        error => io::Error::new(io::ErrorKind::ConnectionReset, error),
    }
}

fn broken() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
