//! The body of a request on its way: bytes of HTTP/1.1 as DATA and trailers, as the server's windows let them through.

use bytes::Bytes;
use h2::{Reason, SendStream};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use std::io;
use std::task::{Context, Poll, ready};
use tiergate_wire::http1::ChunkScanner;

/// A body on its way.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) stream: SendStream<Bytes>,
    pub(super) frames: Frames,
    /// What the server's windows do not let through yet.
    pub(super) pending: Bytes,
    /// What ends the body, once all of it is pending.
    pub(super) end: Option<HeaderMap>,
}

/// How it is written to the stream.
#[derive(Debug)]
pub(super) enum Frames {
    Length(u64),
    Chunked(Box<ChunkScanner>),
    Tunnel,
}

impl Upload {
    /// Takes bytes of the body over; how many.
    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (consumed, data, end) = match &mut self.frames {
            Frames::Tunnel => (bytes.len(), bytes, None),
            Frames::Length(left) => {
                let len = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= len as u64;
                (len, &bytes[..len], (*left == 0).then(HeaderMap::new))
            }
            Frames::Chunked(scanner) => {
                let step = scanner.step(bytes).map_err(|error| io::Error::other(error.why))?;
                let end = step.done.then(|| trailers(scanner));
                (step.consumed, &bytes[step.data], end)
            }
        };
        self.pending = Bytes::copy_from_slice(data);
        self.end = end;
        Ok(consumed)
    }

    /// Sends what the server's windows let through. Ready when nothing is pending; says whether the body has ended.
    pub(super) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<Result<bool, h2::Error>> {
        while !self.pending.is_empty() {
            self.stream.reserve_capacity(self.pending.len());
            let room = self.stream.capacity().min(self.pending.len());
            if room == 0 {
                match ready!(self.stream.poll_capacity(context)) {
                    Some(Ok(_)) => continue,
                    Some(Err(error)) => return Poll::Ready(Err(error)),
                    None => return Poll::Ready(Err(Reason::CANCEL.into())),
                }
            }
            let piece = self.pending.split_to(room);
            let is_last =
                self.pending.is_empty() && self.end.as_ref().is_some_and(HeaderMap::is_empty);
            self.stream.send_data(piece, is_last)?;
            if is_last {
                return Poll::Ready(Ok(true));
            }
        }
        match self.end.take() {
            None => Poll::Ready(Ok(false)),
            Some(trailers) => {
                match trailers.is_empty() {
                    true => self.stream.send_data(Bytes::new(), true)?,
                    false => self.stream.send_trailers(trailers)?,
                }
                Poll::Ready(Ok(true))
            }
        }
    }
}

fn trailers(scanner: &ChunkScanner) -> HeaderMap {
    let fields = scanner.trailers();
    fields
        .filter_map(|field| {
            let name = HeaderName::from_bytes(field.name).ok()?;
            Some((name, HeaderValue::from_bytes(field.value).ok()?))
        })
        .collect()
}
