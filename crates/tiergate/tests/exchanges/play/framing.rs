//! HTTP/1.1 as a reader sees it that was written for clarity, from RFC 9112 alone. It shares no code with the
//! gateway's, and takes nothing that two recipients could read differently.

/// A message, as far as it came.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    /// The words of its first line.
    pub(crate) first: [String; 3],
    /// Names in lower case, values one char a byte.
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) framing: Framing,
    /// Bytes of it, those of the head included.
    pub(crate) len: usize,
    /// Its end was seen. Of one framed by the connection's close it never is.
    pub(crate) whole: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length,
    Chunked,
    Close,
}

/// What stands at the beginning of some bytes.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    Nothing,
    /// Part of a head.
    Head,
    Message(Message),
    Bad(&'static str),
}

impl Message {
    pub(crate) fn values(&self, name: &str) -> Vec<&str> {
        let named = self.fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn has(&self, name: &str, member: &str) -> bool {
        let mut members = self.values(name).into_iter().flat_map(|value| value.split(','));
        members.any(|found| found.trim().eq_ignore_ascii_case(member))
    }

    pub(crate) fn status(&self) -> u16 {
        self.first[1].parse().expect("read as digits")
    }

    /// Whether its connection may carry another.
    pub(crate) fn keeps(&self) -> bool {
        let version =
            if self.first[0].starts_with("HTTP/") { &self.first[0] } else { &self.first[2] };
        !self.has("connection", "close")
            && (version == "HTTP/1.1" || self.has("connection", "keep-alive"))
    }
}

/// Reads a request.
pub(crate) fn request(bytes: &[u8]) -> Read {
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    read(bytes, skipped, |first, fields| {
        let [method, target, version] = first;
        if method.is_empty() || !method.chars().all(is_token) || target.is_empty() {
            return Err("request line");
        }
        if target.contains(|c: char| !c.is_ascii_graphic()) || !is_version(version) {
            return Err("request line");
        }
        let hosts = fields.iter().filter(|(name, _)| name == "host").count();
        if hosts > 1 || hosts == 0 && version == "HTTP/1.1" {
            return Err("not one host");
        }
        framing(fields, version).map(|framing| framing.unwrap_or((Framing::None, 0)))
    })
}

/// Reads a response to a request by `method`.
pub(crate) fn response(bytes: &[u8], method: &str) -> Read {
    read(bytes, 0, |first, fields| {
        let [version, status, _] = first;
        if !is_version(version) || status.len() != 3 || !status.chars().all(|c| c.is_ascii_digit())
        {
            return Err("status line");
        }
        let announced = framing(fields, version)?;
        let status: u16 = status.parse().expect("digits");
        match status {
            ..100 => Err("status"),
            100..200 | 204 | 304 => Ok((Framing::None, 0)),
            _ if method == "HEAD" => Ok((Framing::None, 0)),
            _ => Ok(announced.unwrap_or((Framing::Close, 0))),
        }
    })
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

fn is_version(version: &str) -> bool {
    matches!(version, "HTTP/1.0" | "HTTP/1.1")
}

type Fields = [(String, String)];

/// The framing that the fields announce, and the length.
fn framing(fields: &Fields, version: &str) -> Result<Option<(Framing, usize)>, &'static str> {
    let values = |name: &str| -> Vec<&str> {
        let named = fields.iter().filter(|(known, _)| known == name);
        named.map(|(_, value)| value.as_str()).collect()
    };
    match (values("content-length").as_slice(), values("transfer-encoding").as_slice()) {
        ([], []) => Ok(None),
        ([len], []) if !len.is_empty() && len.chars().all(|c| c.is_ascii_digit()) => {
            len.parse().map(|len| Some((Framing::Length, len))).map_err(|_| "length")
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && version == "HTTP/1.1" => {
            Ok(Some((Framing::Chunked, 0)))
        }
        _ => Err("framing"),
    }
}

type Framed = Result<(Framing, usize), &'static str>;

fn read(bytes: &[u8], skipped: usize, frame: impl Fn(&[String; 3], &Fields) -> Framed) -> Read {
    if bytes.len() <= skipped {
        return if bytes.is_empty() { Read::Nothing } else { Read::Head };
    }
    let Some(end) = bytes.windows(4).skip(skipped).position(|four| four == b"\r\n\r\n") else {
        return Read::Head;
    };
    let len = skipped + end + 4;
    let text: String = bytes[skipped..len - 4].iter().map(|&byte| char::from(byte)).collect();
    let mut lines = text.split("\r\n");
    let line = lines.next().expect("there is always one");
    let mut words = line.splitn(3, ' ').map(String::from);
    let mut word = || words.next().unwrap_or_default();
    let first = [word(), word(), word()];
    if line.contains(is_control) {
        return Read::Bad("control byte");
    }
    let mut fields = Vec::new();
    for line in lines {
        match field(line) {
            Some(field) => fields.push(field),
            None => return Read::Bad("field line"),
        }
    }
    let (framing, announced) = match frame(&first, &fields) {
        Ok(framing) => framing,
        Err(why) => return Read::Bad(why),
    };
    let rest = &bytes[len..];
    let mut message = Message { first, fields, body: Vec::new(), framing, len, whole: true };
    match framing {
        Framing::None => {}
        Framing::Length => {
            message.body = rest[..announced.min(rest.len())].to_vec();
            message.whole = message.body.len() == announced;
            message.len += message.body.len();
        }
        Framing::Close => {
            message.body = rest.to_vec();
            message.whole = false;
            message.len = bytes.len();
        }
        Framing::Chunked => match chunks(rest) {
            Err((data, why)) => {
                message.whole = false;
                message.body = data;
                message.len = bytes.len();
                message.fields.push((BROKEN.into(), why.into()));
            }
            Ok((data, len)) => {
                message.whole = len.is_some();
                message.body = data;
                message.len = len.map_or(bytes.len(), |end| message.len + end);
            }
        },
    }
    Read::Message(message)
}

/// Stands among the fields of a message whose chunks are malformed: no real name has a space.
const BROKEN: &str = "broken chunks";

impl Message {
    /// Its chunks are malformed: what follows them means nothing.
    pub(crate) fn is_broken(&self) -> bool {
        !self.values(BROKEN).is_empty()
    }
}

fn is_control(c: char) -> bool {
    c.is_ascii_control() && c != '\t'
}

fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let good = !name.is_empty() && name.chars().all(is_token) && !value.contains(is_control);
    let value = value.trim_matches([' ', '\t']);
    good.then(|| (name.to_ascii_lowercase(), value.to_owned()))
}

/// The data of some chunks, and where they end if they do; or what is wrong, with the data in front of it.
type Chunks = Result<(Vec<u8>, Option<usize>), (Vec<u8>, &'static str)>;

fn chunks(bytes: &[u8]) -> Chunks {
    let mut data = Vec::new();
    let mut at = 0;
    // A line and its CRLF; `None`: it has not ended.
    let line = |at: usize| -> Result<Option<&[u8]>, &'static str> {
        let Some(len) = bytes[at..].iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = &bytes[at..at + len];
        match line.strip_suffix(b"\r") {
            Some(line) if !line.contains(&b'\r') => Ok(Some(line)),
            _ => Err("line"),
        }
    };
    loop {
        let size_line = match line(at) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok((data, None)),
            Err(why) => return Err((data, why)),
        };
        at += size_line.len() + 2;
        let digits = size_line.split(|&byte| byte == b';').next().expect("there is always one");
        let number: String = digits.iter().map(|&byte| char::from(byte)).collect();
        let extension = &size_line[digits.len()..];
        let good = number.chars().all(|c| c.is_ascii_hexdigit()) && (1..16).contains(&number.len());
        if !good || extension.iter().any(|&byte| !(byte == b'\t' || (b' '..=b'~').contains(&byte)))
        {
            return Err((data, "size"));
        }
        let size = usize::from_str_radix(&number, 16).expect("few digits");
        if size == 0 {
            break;
        }
        let rest = &bytes[at..];
        data.extend_from_slice(&rest[..size.min(rest.len())]);
        match rest.get(size..).map(|after| &after[..after.len().min(2)]) {
            None | Some([] | [b'\r']) => return Ok((data, None)),
            Some(b"\r\n") => at += size + 2,
            Some(_) => return Err((data, "no CRLF after the data")),
        }
    }
    loop {
        let trailer = match line(at) {
            Ok(Some(line)) => line,
            Ok(None) => return Ok((data, None)),
            Err(why) => return Err((data, why)),
        };
        at += trailer.len() + 2;
        if trailer.is_empty() {
            return Ok((data, Some(at)));
        }
        let text: String = trailer.iter().map(|&byte| char::from(byte)).collect();
        if field(&text).is_none() {
            return Err((data, "trailer"));
        }
    }
}
