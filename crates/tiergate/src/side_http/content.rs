//! What an answer consists of: whole, or in pieces as they come.

use http_body_util::Full;
use hyper::body::{Body, Bytes, Frame, SizeHint};
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// The content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    /// All of it.
    Whole(Full<Bytes>),
    /// Pieces, until their sender is dropped.
    Pieces(mpsc::Receiver<Bytes>),
}

/// Sends the pieces of an answer.
pub(crate) type Pieces = mpsc::Sender<Bytes>;

impl Content {
    pub(crate) fn whole(bytes: impl Into<Bytes>) -> Self {
        Content::Whole(Full::new(bytes.into()))
    }
}

/// Content of which at most so many pieces wait to be written.
pub(crate) fn pieces(waiting_max: usize) -> (Pieces, Content) {
    let (sender, receiver) = mpsc::channel(waiting_max);
    (sender, Content::Pieces(receiver))
}

impl Body for Content {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Content::Whole(whole) => Pin::new(whole).poll_frame(context),
            Content::Pieces(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|it| Ok(Frame::data(it))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Content::Whole(whole) => whole.is_end_stream(),
            Content::Pieces(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Content::Whole(whole) => whole.size_hint(),
            Content::Pieces(_) => SizeHint::default(),
        }
    }
}
