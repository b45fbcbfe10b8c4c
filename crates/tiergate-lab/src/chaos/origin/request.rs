//! What an origin reads of a request.

use super::answer::Say;
use crate::chaos::body::{Digest, UNREAD};
use anyhow::{Result, bail, ensure};
use bytes::{Buf, BytesMut};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::timeout;

/// Longest head read.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// How long a connection may be silent: longer than any client here sends slowly.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// What a request asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Request {
    /// The last segment of its path.
    pub(super) id: String,
    pub(super) say: Say,
    /// Length of the answer's pattern.
    pub(super) bytes: usize,
    /// Whether it is the gateway's health check.
    pub(super) health: bool,
    /// Whether the answer comes in chunks.
    pub(super) chunked: bool,
    upload: Upload,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Upload {
    Length(usize),
    Chunked,
}

/// Reads requests from a connection.
pub(super) struct Reader<R> {
    from: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(from: R) -> Self {
        Self { from, buffer: BytesMut::new() }
    }

    /// The next request; `None` at the end of the connection.
    pub(super) async fn head(&mut self) -> Result<Option<Request>> {
        loop {
            if let Some((len, request)) = parse(&self.buffer)? {
                self.buffer.advance(len);
                return Ok(Some(request));
            }
            ensure!(self.buffer.len() < HEAD_BYTES_MAX, "a head without end");
            if !self.fill().await? {
                ensure!(self.buffer.is_empty(), "half a head");
                return Ok(None);
            }
        }
    }

    /// Reads the upload to its end and says what its digest is.
    pub(super) async fn upload(&mut self, request: &Request) -> Result<String> {
        let mut digest = Digest::new();
        match request.upload {
            Upload::Length(len) => self.part(len, &mut digest).await?,
            Upload::Chunked => loop {
                let size = usize::from_str_radix(self.line().await?.trim(), 16)?;
                if size == 0 {
                    // Trailers, of which the clients here send none, end with an empty line.
                    while !self.line().await?.is_empty() {}
                    break;
                }
                self.part(size, &mut digest).await?;
                ensure!(self.line().await?.is_empty(), "a chunk longer than announced");
            },
        }
        Ok(digest.text())
    }

    /// What is said instead of the digest of an upload that is not read.
    pub(super) fn unread(request: &Request) -> Option<String> {
        (request.upload != Upload::Length(0)).then(|| UNREAD.to_owned())
    }

    async fn part(&mut self, len: usize, digest: &mut Digest) -> Result<()> {
        let mut left = len;
        while left > 0 {
            if self.buffer.is_empty() && !self.fill().await? {
                bail!("half an upload");
            }
            let here = left.min(self.buffer.len());
            digest.add(&self.buffer[..here]);
            self.buffer.advance(here);
            left -= here;
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..end]).into_owned();
                self.buffer.advance(end + 2);
                return Ok(line);
            }
            ensure!(self.buffer.len() < HEAD_BYTES_MAX && self.fill().await?, "half a line");
        }
    }

    async fn fill(&mut self) -> Result<bool> {
        Ok(timeout(SILENCE_MAX, self.from.read_buf(&mut self.buffer)).await?? > 0)
    }
}

/// A head and its length; `None`: more is needed.
fn parse(bytes: &[u8]) -> Result<Option<(usize, Request)>> {
    let mut fields = [httparse::EMPTY_HEADER; 100];
    let mut head = httparse::Request::new(&mut fields);
    let httparse::Status::Complete(len) = head.parse(bytes)? else { return Ok(None) };
    let target = head.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let asked =
        |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    let field = |name: &str| {
        let field = head.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name));
        field.map(|field| String::from_utf8_lossy(field.value).into_owned())
    };
    let upload = match (field("transfer-encoding"), field("content-length")) {
        (Some(_), _) => Upload::Chunked,
        (None, Some(len)) => Upload::Length(len.parse()?),
        (None, None) => Upload::Length(0),
    };
    let request = Request {
        id: path.rsplit('/').next().unwrap_or_default().to_owned(),
        say: asked("say").and_then(|name| name.parse().ok()).unwrap_or(Say::Ok),
        bytes: asked("bytes").and_then(|len| len.parse().ok()).unwrap_or(0),
        health: path == "/health",
        chunked: asked("chunked").is_some(),
        upload,
    };
    Ok(Some((len, request)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::body::digest;

    #[tokio::test]
    async fn requests_are_read_one_after_the_other() {
        let bytes: &[u8] =
            b"POST /basic/b1?say=early&bytes=7 HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi\
            POST /basic/b2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n\
            GET /health HTTP/1.1\r\n\r\n";
        let mut reader = Reader::new(bytes);
        let first = reader.head().await.unwrap().unwrap();
        assert_eq!((first.id.as_str(), first.say, first.bytes), ("b1", Say::Early, 7));
        assert_eq!(reader.upload(&first).await.unwrap(), digest(b"hi"));
        let second = reader.head().await.unwrap().unwrap();
        assert_eq!(reader.upload(&second).await.unwrap(), digest(b"hi"));
        assert!(reader.head().await.unwrap().unwrap().health);
        assert_eq!(reader.head().await.unwrap(), None);
    }
}
