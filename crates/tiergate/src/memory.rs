//! Connections in memory, with the manners of TCP: for tests and fuzzers of the whole request path.
//!
//! | state | who reads | who writes |
//! |---|---|---|
//! | one direction (`Way`) | both ends, under its lock | both ends, under its lock |
//! | the connector | its own thread only | its own thread only |

use crate::stream::ClientStream;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes on their way from one end to the other.
#[derive(Debug, Default)]
struct Way {
    bytes: VecDeque<u8>,
    /// Bytes that it holds at most.
    room: usize,
    /// The sender has ended its side: what is there is all.
    ended: bool,
    /// The connection was reset: after what is there comes an error.
    reset: bool,
    /// The receiver is gone: what is sent is lost.
    abandoned: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Way {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// One end of a connection. Dropped, it is closed; if bytes were left unread, by a reset.
#[derive(Debug)]
pub struct End {
    incoming: Arc<Mutex<Way>>,
    outgoing: Arc<Mutex<Way>>,
    resets: AtomicBool,
}

/// Both ends of a connection that holds at most `room` bytes each way.
pub fn pair(room: usize) -> (End, End) {
    let way = || Arc::new(Mutex::new(Way { room, ..Way::default() }));
    let (there, back) = (way(), way());
    let end = |incoming: &Arc<_>, outgoing: &Arc<_>| End {
        incoming: Arc::clone(incoming),
        outgoing: Arc::clone(outgoing),
        resets: AtomicBool::new(false),
    };
    (end(&there, &back), end(&back, &there))
}

fn lock(way: &Mutex<Way>) -> MutexGuard<'_, Way> {
    way.lock().unwrap_or_else(PoisonError::into_inner)
}

impl End {
    /// Whether nothing has arrived: neither bytes, nor an end.
    pub fn is_fresh(&self) -> bool {
        let incoming = lock(&self.incoming);
        incoming.bytes.is_empty() && !incoming.ended && !incoming.reset
    }

    /// Resets the connection, at once.
    pub fn reset(&self) {
        for way in [&self.incoming, &self.outgoing] {
            let mut way = lock(way);
            way.reset = true;
            way.wake();
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        let lost = {
            let mut incoming = lock(&self.incoming);
            incoming.abandoned = true;
            incoming.wake();
            !incoming.bytes.is_empty()
        };
        if lost || self.resets.load(Ordering::Relaxed) {
            return self.reset();
        }
        let mut outgoing = lock(&self.outgoing);
        outgoing.ended = true;
        outgoing.wake();
    }
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut way = lock(&self.incoming);
        if way.bytes.is_empty() {
            if way.reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            if way.ended {
                return Poll::Ready(Ok(()));
            }
            way.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = buffer.remaining().min(way.bytes.len());
        for byte in way.bytes.drain(..count) {
            buffer.put_slice(&[byte]);
        }
        if let Some(writer) = way.writer.take() {
            writer.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut way = lock(&self.outgoing);
        if way.reset || way.ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if way.abandoned {
            // The other system answers by a reset, which the next call meets.
            drop(way);
            self.reset();
            return Poll::Ready(Ok(slices.iter().map(|slice| slice.len()).sum()));
        }
        let mut count = 0;
        for slice in slices {
            let part = slice.len().min(way.room - way.bytes.len());
            way.bytes.extend(&slice[..part]);
            count += part;
        }
        if count == 0 && slices.iter().any(|slice| !slice.is_empty()) {
            way.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        if let Some(reader) = way.reader.take() {
            reader.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut way = lock(&self.outgoing);
        way.ended = true;
        way.wake();
        Poll::Ready(Ok(()))
    }
}

impl ClientStream for End {
    fn is_ended(&self) -> bool {
        let way = lock(&self.incoming);
        way.ended || way.reset
    }

    fn is_reset(&self) -> bool {
        lock(&self.incoming).reset
    }

    fn reset_at_close(&self) {
        self.resets.store(true, Ordering::Relaxed);
    }
}

/// Opens a connection to the origin: the gateway's end of it, or why there is none.
type Connector = Box<dyn FnMut() -> io::Result<End>>;

thread_local! {
    static CONNECTOR: RefCell<Option<Connector>> = const { RefCell::new(None) };
}

/// Has this thread's connections to every server of the origin be opened by `connector`.
pub fn connect_by(connector: impl FnMut() -> io::Result<End> + 'static) {
    CONNECTOR.set(Some(Box::new(connector)));
}

/// A connection to the origin; `None`: by the network.
pub(crate) fn connect() -> Option<io::Result<End>> {
    CONNECTOR.with_borrow_mut(|connector| connector.as_mut().map(|connect| connect()))
}
