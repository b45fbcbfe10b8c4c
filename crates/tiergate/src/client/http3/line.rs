//! The sending side of a stream: what `h3` has encoded waits here until QUIC takes it, so that none of its futures ever has
//! to be kept; bodies go past `h3`, from our buffers.
//!
//! | state | who reads and writes | lock |
//! |---|---|---|
//! | the line | the stream's task, itself and by `h3` | never contended |

use super::frames;
use bytes::{Buf, BufMut, BytesMut};
use quinn::{SendStream, StoppedError, VarInt, WriteError};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};

/// The sending side of a stream.
#[derive(Debug)]
pub(super) struct Line(Mutex<State>);

#[derive(Debug)]
struct State {
    stream: SendStream,
    /// To go before anything else.
    out: BytesMut,
    /// A page that goes behind that, and how much of it has gone. It is everyone's: many may be told the same and read nothing.
    page: Option<(Arc<str>, usize)>,
    is_finished: bool,
    is_reset: bool,
    head_is_too_long: bool,
}

impl Line {
    pub(super) fn new(stream: SendStream) -> Self {
        Line(Mutex::new(State {
            stream,
            out: BytesMut::new(),
            page: None,
            is_finished: false,
            is_reset: false,
            head_is_too_long: false,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while it holds the line")
    }

    /// The stream's number.
    pub(super) fn id(&self) -> u64 {
        self.state().stream.id().into()
    }

    /// Takes what is to be sent next.
    pub(super) fn put(&self, bytes: impl Buf) {
        self.state().out.put(bytes);
    }

    /// Begins a frame of DATA with so many bytes.
    pub(super) fn put_data_head(&self, len: usize) {
        self.put(&frames::data_head(len)[..]);
    }

    /// Takes a whole frame of DATA, which is the last.
    pub(super) fn put_page(&self, page: Arc<str>) {
        self.put_data_head(page.len());
        self.state().page = Some((page, 0));
    }

    /// Hands QUIC what waits here.
    ///
    /// # Errors
    /// The client takes no more.
    pub(super) fn poll_flush(&self, context: &mut Context<'_>) -> Poll<Result<(), WriteError>> {
        let state = &mut *self.state();
        while !state.out.is_empty() {
            let sent = ready!(Pin::new(&mut state.stream).poll_write(context, &state.out))?;
            state.out.advance(sent);
        }
        while let Some((page, sent)) = &mut state.page {
            let rest = &page.as_bytes()[*sent..];
            *sent += ready!(Pin::new(&mut state.stream).poll_write(context, rest))?;
            if *sent == page.len() {
                state.page = None;
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Hands QUIC some of the bytes, and says how many. Once all that waited here has gone.
    ///
    /// # Errors
    /// The client takes no more.
    pub(super) fn poll_write(
        &self,
        bytes: &[u8],
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, WriteError>> {
        let mut state = self.state();
        debug_assert!(state.out.is_empty());
        Pin::new(&mut state.stream).poll_write(context, bytes)
    }

    /// Nothing follows; once all that waited here has gone.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        if !state.is_finished {
            state.is_finished = true;
            // It fails if the stream was reset, and then there is no client to tell.
            let _ = state.stream.finish();
        }
    }

    /// Gives the answer up.
    pub(super) fn reset(&self, code: u64) {
        let mut state = self.state();
        (state.is_finished, state.is_reset) = (true, true);
        state.out.clear();
        state.page = None;
        // It fails if the client has it all, or has gone.
        let _ = state.stream.reset(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
    }

    /// Whether it was given up by us: there is nothing to wait for, and QUIC would not tell when it is over.
    pub(super) fn is_reset(&self) -> bool {
        self.state().is_reset
    }

    /// Ready when the client wants no more of it, has all of it, or is gone; not when it was reset by us.
    pub(super) fn stopped(
        &self,
    ) -> impl Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync + 'static {
        self.state().stream.stopped()
    }

    /// The request's head is longer than may be read.
    pub(super) fn refuse_head(&self) {
        self.state().head_is_too_long = true;
    }

    pub(super) fn head_is_too_long(&self) -> bool {
        self.state().head_is_too_long
    }
}

/// Whether the client wants no more of the answer, has all of it, or is gone.
pub(super) struct Stopped<'t> {
    pub(super) future:
        Pin<&'t mut (dyn Future<Output = Result<Option<VarInt>, StoppedError>> + Send + Sync)>,
    pub(super) is_over: bool,
}

impl Stopped<'_> {
    /// Ready when it is so.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_over {
            let _ = ready!(self.future.as_mut().poll(context));
            self.is_over = true;
        }
        Poll::Ready(())
    }
}
