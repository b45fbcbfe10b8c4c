//! A response, taken apart by a reader of its own, so that the gateway's parser is not its own judge.

use std::io;

/// Names and values, as received.
pub type Fields = Vec<(String, String)>;

/// A whole response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Status line and fields as received, with the blank line.
    pub head: String,
    pub fields: Vec<(String, String)>,
    /// Without the chunks around it.
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Answer {
    /// A field's value, if the field is there once.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(it, _)| it.eq_ignore_ascii_case(name));
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is repeated in {}", self.head);
        value
    }

    pub fn closes(&self) -> bool {
        self.field("connection").is_some_and(|it| it.to_ascii_lowercase().contains("close"))
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// What must be the same through the gateway as without it: everything but what concerns one
    /// connection only, the time, and the gateway's own mark.
    pub fn essence(&self) -> (u16, Fields, Vec<u8>, Fields) {
        let ours = ["connection", "keep-alive", "date", "via", "transfer-encoding"];
        let lower = |(name, value): &(String, String)| (name.to_ascii_lowercase(), value.clone());
        let mut fields: Vec<_> = self.fields.iter().map(lower).collect();
        fields.retain(|(name, _)| !ours.contains(&name.as_str()));
        fields.sort();
        (self.status, fields, self.body.clone(), self.trailers.clone())
    }
}

/// Where a head ends in `bytes`.
pub fn head_len(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// The fields of a head, first line left out.
pub fn fields(head: &str) -> Vec<(String, String)> {
    let lines = head.split("\r\n").skip(1).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            (name.to_owned(), value.trim().to_owned())
        })
        .collect()
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    None,
    Length(usize),
    Chunked,
    Close,
}

/// How the body ends that follows these fields; `otherwise` if they do not say.
pub fn end_of(fields: &[(String, String)], otherwise: End) -> End {
    let value = |wanted: &str| {
        let found = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str())
    };
    if value("transfer-encoding").is_some_and(|it| it.eq_ignore_ascii_case("chunked")) {
        return End::Chunked;
    }
    match value("content-length").map(str::parse) {
        Some(Ok(len)) => End::Length(len),
        _ => otherwise,
    }
}

/// A body's chunks taken off: what it says, its trailers, and how long it was with them.
#[derive(Debug)]
pub struct Unchunked {
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
    pub len: usize,
}

/// Takes the chunks off; `None` while the body is not whole.
///
/// # Errors
/// It is not framed as it should be.
pub fn unchunk(bytes: &[u8]) -> io::Result<Option<Unchunked>> {
    let bad = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why.to_owned()));
    let mut body = Vec::new();
    let mut at = 0;
    loop {
        let Some(line) = bytes[at..].windows(2).position(|two| two == b"\r\n") else {
            return Ok(None);
        };
        let size = String::from_utf8_lossy(&bytes[at..at + line]).into_owned();
        let digits = size.split(';').next().unwrap_or_default();
        let Ok(size) = usize::from_str_radix(digits, 16) else { return bad("chunk size") };
        at += line + 2;
        if size == 0 {
            let rest = &bytes[at..];
            if rest.starts_with(b"\r\n") {
                return Ok(Some(Unchunked { body, trailers: Vec::new(), len: at + 2 }));
            }
            let Some(len) = head_len(rest) else { return Ok(None) };
            let text = format!("\r\n{}", String::from_utf8_lossy(&rest[..len]));
            return Ok(Some(Unchunked { body, trailers: fields(&text), len: at + len }));
        }
        let Some(data) = bytes.get(at..at + size + 2) else { return Ok(None) };
        if &data[size..] != b"\r\n" {
            return bad("no CRLF after a chunk");
        }
        body.extend_from_slice(&data[..size]);
        at += size + 2;
    }
}
