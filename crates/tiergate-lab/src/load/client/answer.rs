//! Reading an HTTP/1.1 answer to its end, no faster than told.
//!
//! Source: RFC 9112 sections 4 (status line), 6 (where a body ends), 7.1 (chunks). The body is
//! counted and thrown away.

use super::jar::Jar;
use super::pace::Pace;
use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Longest head read.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Fields of a head.
const FIELDS_MAX: usize = 100;
/// Longest line about a chunk.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Room for what is read at a time.
const ROOM: usize = 16 << 10;

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Its status.
    pub(crate) status: u16,
    /// Bytes of its body.
    pub(crate) bytes: u64,
    /// Whether the connection may be used again.
    pub(super) kept: bool,
}

/// How an answer is taken in.
pub(super) struct Take<'r> {
    /// How fast.
    pub(super) pace: Pace,
    /// Is told how many bytes come, when they come.
    pub(super) received: &'r (dyn Fn(usize) + Send + Sync),
}

/// The connection broke, or what came is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken {
    /// Whether that was before anything came: on a connection that has been idle, it was closed.
    pub(super) early: bool,
}

/// Where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(u64),
    Chunked,
    UntilClose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    len: usize,
    status: u16,
    body: Body,
    kept: bool,
}

/// Reads one answer, and its cookies into the jar; `to_head`: to a HEAD request, whose answer has no
/// body.
pub(super) async fn read<R: AsyncRead + Unpin>(
    from: R,
    take: Take<'_>,
    to_head: bool,
    jar: &mut Jar,
) -> Result<Answer, Broken> {
    let mut reader = Reader { from, take, jar, buffer: BytesMut::new(), any: false };
    match reader.answer(to_head).await {
        // More than an answer: what follows belongs to no request of ours.
        Ok(answer) => Ok(Answer { kept: answer.kept && reader.buffer.is_empty(), ..answer }),
        Err(()) => Err(Broken { early: !reader.any }),
    }
}

struct Reader<'j, 't, R> {
    from: R,
    take: Take<'t>,
    jar: &'j mut Jar,
    buffer: BytesMut,
    /// Whether anything has come.
    any: bool,
}

impl<R: AsyncRead + Unpin> Reader<'_, '_, R> {
    async fn answer(&mut self, to_head: bool) -> Result<Answer, ()> {
        let head = loop {
            match parse(&self.buffer, self.jar)? {
                Some(head) => {
                    self.buffer.advance(head.len);
                    match head.status {
                        101 => return Err(()),
                        100..200 => {}
                        _ => break head,
                    }
                }
                None if self.buffer.len() > HEAD_BYTES_MAX => return Err(()),
                None => self.must_fill().await?,
            }
        };
        let empty = to_head || matches!(head.status, 204 | 304);
        let bytes = match head.body {
            _ if empty => 0,
            Body::Length(len) => {
                self.skip(len).await?;
                len
            }
            Body::Chunked => self.chunks().await?,
            Body::UntilClose => self.rest().await?,
        };
        let kept = head.kept && (empty || head.body != Body::UntilClose);
        Ok(Answer { status: head.status, bytes, kept })
    }

    async fn skip(&mut self, len: u64) -> Result<(), ()> {
        let mut left = len;
        loop {
            let here = left.min(self.buffer.len() as u64);
            self.buffer.advance(here as usize);
            left -= here;
            if left == 0 {
                return Ok(());
            }
            self.must_fill().await?;
        }
    }

    async fn chunks(&mut self) -> Result<u64, ()> {
        let mut bytes = 0_u64;
        loop {
            let line = self.line().await?;
            let size =
                line[..].split(|byte| matches!(byte, b';' | b' ')).next().unwrap_or_default();
            let size = std::str::from_utf8(size).map_err(|_| ())?;
            let size = u64::from_str_radix(size, 16).map_err(|_| ())?;
            if size == 0 {
                break;
            }
            bytes = bytes.checked_add(size).ok_or(())?;
            self.skip(size).await?;
            if !self.line().await?.is_empty() {
                return Err(());
            }
        }
        for _ in 0..=FIELDS_MAX {
            if self.line().await?.is_empty() {
                return Ok(bytes);
            }
        }
        Err(())
    }

    /// The next line without its end.
    async fn line(&mut self) -> Result<BytesMut, ()> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let mut line = self.buffer.split_to(end + 1);
                line.truncate(end - usize::from(end > 0 && line[end - 1] == b'\r'));
                return Ok(line);
            }
            if self.buffer.len() > LINE_BYTES_MAX {
                return Err(());
            }
            self.must_fill().await?;
        }
    }

    async fn rest(&mut self) -> Result<u64, ()> {
        let mut bytes = 0;
        loop {
            bytes += self.buffer.len() as u64;
            self.buffer.clear();
            if self.fill().await? == 0 {
                return Ok(bytes);
            }
        }
    }

    async fn must_fill(&mut self) -> Result<(), ()> {
        if self.fill().await? > 0 { Ok(()) } else { Err(()) }
    }

    /// Reads some more; 0 at the end.
    async fn fill(&mut self) -> Result<usize, ()> {
        let most = self.take.pace.slice().await as u64;
        if self.buffer.capacity() - self.buffer.len() < ROOM / 4 {
            self.buffer.reserve(ROOM);
        }
        let got = (&mut self.from).take(most).read_buf(&mut self.buffer).await.map_err(|_| ())?;
        self.any |= got > 0;
        self.take.pace.moved(got);
        (self.take.received)(got);
        Ok(got)
    }
}

/// Reads a head; `None`: it is not whole yet, and nothing is in the jar.
fn parse(bytes: &[u8], jar: &mut Jar) -> Result<Option<Head>, ()> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(len) = response.parse(bytes).map_err(|_| ())? else {
        return Ok(None);
    };
    let mut body = Body::UntilClose;
    let mut kept = response.version == Some(1);
    for field in response.headers.iter() {
        if field.name.eq_ignore_ascii_case("transfer-encoding") {
            // Ours never asks for other codings than chunked.
            body = Body::Chunked;
        } else if field.name.eq_ignore_ascii_case("content-length") && body != Body::Chunked {
            let text = std::str::from_utf8(field.value).map_err(|_| ())?;
            body = Body::Length(text.trim().parse().map_err(|_| ())?);
        } else if field.name.eq_ignore_ascii_case("connection") {
            let mut options = field.value.split(|byte| *byte == b',');
            kept &= !options.any(|option| option.trim_ascii().eq_ignore_ascii_case(b"close"));
        } else if field.name.eq_ignore_ascii_case("set-cookie") {
            jar.set(field.value);
        }
    }
    Ok(Some(Head { len, status: response.code.ok_or(())?, body, kept }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take() -> Take<'static> {
        Take { pace: Pace::new(None), received: &|_| {} }
    }

    async fn of(text: &str) -> Result<Answer, Broken> {
        read(text.as_bytes(), take(), false, &mut Jar::default()).await
    }

    fn answer(status: u16, bytes: u64, kept: bool) -> Result<Answer, Broken> {
        Ok(Answer { status, bytes, kept })
    }

    #[tokio::test]
    async fn an_answer_ends_where_its_head_says() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", answer(200, 3, true)),
            ("HTTP/1.1 503 No\r\ncontent-length: 0\r\n\r\n", answer(503, 0, true)),
            ("HTTP/1.1 200 OK\r\n\r\nabcd", answer(200, 4, false)),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", answer(200, 1, false)),
            (
                "HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 1\r\n\r\na",
                answer(200, 1, false),
            ),
            ("HTTP/1.1 204 No\r\n\r\n", answer(204, 0, true)),
            (
                "HTTP/1.1 100 Go on\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
                answer(200, 1, true),
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n\
                 0123456789\r\n0\r\nTrailer: x\r\n\r\n",
                answer(200, 13, true),
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", answer(200, 1, false)),
        ] {
            assert_eq!(of(text).await, expected, "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_cut_off_or_no_answer_is_broken() {
        for text in [
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
            "HTTP/1.1 101 Switching\r\n\r\n",
            "SSH-2.0-x\r\n",
        ] {
            assert_eq!(of(text).await, Err(Broken { early: false }), "{text}");
        }
        assert_eq!(of("").await, Err(Broken { early: true }));
    }

    #[tokio::test]
    async fn an_answer_to_head_has_no_body() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        let mut jar = Jar::default();
        let read = read(text.as_bytes(), take(), true, &mut jar);
        assert_eq!(read.await, answer(200, 0, true));
    }

    #[tokio::test]
    async fn cookies_are_taken_from_whole_heads() {
        let mut jar = Jar::default();
        let text = "HTTP/1.1 200 OK\r\nSet-Cookie: id=1\r\nset-cookie: b=2; Path=/\r\n\
                    Content-Length: 0\r\n\r\n";
        assert!(read(&text.as_bytes()[..40], take(), false, &mut jar).await.is_err());
        assert_eq!(jar.line(), b"");
        assert_eq!(read(text.as_bytes(), take(), false, &mut jar).await, answer(200, 0, true));
        assert_eq!(jar.line(), b"Cookie: id=1; b=2\r\n");
    }
}
