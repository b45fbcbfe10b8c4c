//! The field lines of a head: parsing them, and telling apart those that concern us.

use super::framing::ControlFields;
use super::kind::Kind;
use super::message::{HeadError, Stop, malformed};
use super::scan::{token_len, trim_end, trim_start, value_end};
use arrayvec::ArrayVec;
use tiergate_core::request::Field;

/// Field lines that a [`FieldTable`] has room for, whatever the policy allows.
pub const FIELDS_CAPACITY: usize = 128;

/// Room for fields of one head.
pub type FieldRoom<'b> = ArrayVec<Field<'b>, FIELDS_CAPACITY>;

/// What an origin reports of its load, as it was sent (ORCA).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadReport<'b> {
    /// Nothing.
    None,
    /// The value of `endpoint-load-metrics`.
    Text(&'b [u8]),
    /// The value of `endpoint-load-metrics-bin`.
    Binary(&'b [u8]),
    /// More than one: which one holds cannot be told.
    Several,
}

/// Where a field stands in the head, and what becomes of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) kind: Kind,
    /// Offset of its first byte.
    pub(super) start: u32,
    /// Offset after its CRLF.
    pub(super) end: u32,
}

/// The fields of one head, borrowed from the buffer it was read into. Lives on the stack and
/// allocates nothing.
#[derive(Debug)]
pub struct FieldTable<'b> {
    pub(super) fields: ArrayVec<Field<'b>, FIELDS_CAPACITY>,
    pub(super) lines: ArrayVec<Line, FIELDS_CAPACITY>,
    pub(super) control: ControlFields<'b>,
    /// What the offsets in `lines` count from; empty if the fields came another way.
    pub(super) head: &'b [u8],
    /// Offset from which `head` may be copied byte by byte: its first line if that can be passed
    /// on as it is, else its first field.
    pub(super) verbatim_from: usize,
    /// Offset after the last field line.
    pub(super) fields_end: usize,
    /// `Host` stands among the lines that are copied byte by byte.
    pub(super) host_verbatim: bool,
    /// So does `Content-Length`.
    pub(super) length_verbatim: bool,
}

impl Default for FieldTable<'_> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<'b> FieldTable<'b> {
    /// A table without fields.
    // Made where it is to stay: returned from a call, its 5 KiB without content are copied.
    #[inline(always)]
    pub fn new() -> Self {
        Self {
            fields: ArrayVec::new(),
            lines: ArrayVec::new(),
            control: ControlFields::new(),
            head: &[],
            verbatim_from: 0,
            fields_end: 0,
            host_verbatim: false,
            length_verbatim: false,
        }
    }

    /// Every field, in the order received.
    #[inline]
    pub fn fields(&self) -> &[Field<'b>] {
        &self.fields
    }

    /// The report of its load that an origin sent with its answer. Costs nothing where there is none.
    #[inline]
    pub fn load_report(&self) -> LoadReport<'b> {
        match self.control.has_load {
            true => self.find_load_report(),
            false => LoadReport::None,
        }
    }

    #[cold]
    fn find_load_report(&self) -> LoadReport<'b> {
        // By their names: what `Connection` names is of another kind by now.
        let mut reports = self.fields.iter().filter(|field| Kind::of(field.name) == Kind::Load);
        match (reports.next(), reports.next()) {
            (None, _) => LoadReport::None,
            (Some(_), Some(_)) => LoadReport::Several,
            (Some(field), None) if Kind::load_is_binary(field.name) => {
                LoadReport::Binary(field.value)
            }
            (Some(field), None) => LoadReport::Text(field.value),
        }
    }

    /// The fields that rules may look at: of a peer that is not trusted, without those that only trusted
    /// peers may say, which the origin does not get from it either. `room` holds them if any is left out;
    /// costs nothing otherwise.
    #[inline]
    pub fn believed<'r>(&'r self, trusted: bool, room: &'r mut FieldRoom<'b>) -> &'r [Field<'b>] {
        if trusted || !self.control.has_guarded {
            return &self.fields;
        }
        self.unguarded(room)
    }

    #[cold]
    fn unguarded<'r>(&'r self, room: &'r mut FieldRoom<'b>) -> &'r [Field<'b>] {
        // By their names: what `Connection` names is of another kind by now.
        let unguarded = |field: &&Field<'b>| !Kind::of_any(field.name).is_guarded();
        room.clear();
        room.extend(self.fields.iter().filter(unguarded).copied());
        room
    }

    /// Adds a field that did not come by HTTP/1.1 (HTTP/2, a test). The table must not have been
    /// filled by a parser.
    ///
    /// # Errors
    /// 400 if the field could not stand in an HTTP/1.1 head or contradicts an earlier one; 431 if
    /// the table is full.
    pub fn push(&mut self, field: Field<'b>) -> Result<(), HeadError> {
        let (name_len, underscore) = token_len(field.name);
        if name_len == 0 || name_len < field.name.len() {
            return Err(HeadError::bad("field name is not a token"));
        }
        if value_end(field.value) < field.value.len() {
            return Err(HeadError::bad("control byte in a field value"));
        }
        if self.fields.is_full() {
            return Err(HeadError::new(431, "too many fields"));
        }
        let kind = if underscore { Kind::of_underscored(field.name) } else { Kind::of(field.name) };
        self.control.note(kind, &field)?;
        let kind = if kind == Kind::Date { Kind::Copy } else { kind };
        self.fields.push(field);
        self.lines.push(Line { kind, start: 0, end: 0 });
        Ok(())
    }

    /// Parses field lines of `head` from offset `from` to the blank line; returns the offset after it.
    #[inline]
    pub(super) fn parse(
        &mut self,
        head: &'b [u8],
        from: usize,
        fields_max: usize,
    ) -> Result<usize, Stop> {
        self.fields.clear();
        self.lines.clear();
        self.control = ControlFields::new();
        self.head = head;
        self.verbatim_from = from;
        self.host_verbatim = false;
        self.length_verbatim = false;
        let fields_max = fields_max.min(FIELDS_CAPACITY);
        let mut at = from;
        while !is_blank_line(&head[at..])? {
            if self.fields.len() == fields_max {
                return Err(HeadError::new(431, "too many fields").into());
            }
            let raw = parse_line(&head[at..])?;
            let end = at + raw.len;
            let kind = self.classify(&raw)?;
            self.lines.push(Line { kind, start: at as u32, end: end as u32 });
            self.fields.push(raw.field);
            at = end;
        }
        self.fields_end = at;
        if !self.control.named.is_empty() {
            self.end_named();
        }
        Ok(at + 2)
    }

    #[inline]
    fn classify(&mut self, raw: &RawLine<'b>) -> Result<Kind, HeadError> {
        let field = &raw.field;
        let kind =
            if raw.underscore { Kind::of_underscored(field.name) } else { Kind::of(field.name) };
        if kind == Kind::Copy {
            return Ok(if raw.plain { Kind::Verbatim } else { Kind::Copy });
        }
        self.control.note(kind, field)?;
        // The commonest special fields mostly say what we would write ourselves.
        match kind {
            Kind::Date if raw.plain => Ok(Kind::Verbatim),
            Kind::Date => Ok(Kind::Copy),
            Kind::ContentLength if raw.plain && (field.value[0] != b'0' || field.value == b"0") => {
                self.length_verbatim = true;
                Ok(Kind::Verbatim)
            }
            Kind::Host if raw.plain => {
                self.host_verbatim = true;
                Ok(Kind::Verbatim)
            }
            kind => Ok(kind),
        }
    }

    /// Ends the fields that `Connection` names. Framing and `Host` are ours to write and cannot be
    /// named away (RFC 9110 §7.6.1 forbids to name them).
    #[cold]
    fn end_named(&mut self) {
        for (field, line) in self.fields.iter().zip(&mut self.lines) {
            let named = |name: &&[u8]| field.name.eq_ignore_ascii_case(name);
            let kept = matches!(
                Kind::of(field.name),
                Kind::Host | Kind::ContentLength | Kind::TransferEncoding
            );
            if !kept && self.control.named.iter().any(named) {
                line.kind = Kind::Hop;
            }
        }
    }

    /// Leaves `Range` and `If-Range` out of what is written: the answer is to be whole, which a server may always send
    /// (RFC 9110 §14.2).
    pub fn leave_out_ranges(&mut self) {
        self.set_kind(b"range", Kind::Hop);
        self.set_kind(b"if-range", Kind::Hop);
    }

    /// Leaves every field of that name out of what is written, or of one that is [alike](is_alike).
    pub fn leave_out(&mut self, name: &[u8]) {
        for (field, line) in self.fields.iter().zip(&mut self.lines) {
            if is_alike(field.name, name) {
                line.kind = Kind::Hop;
            }
        }
    }

    /// Makes the line of `Host` one that is not copied.
    #[cold]
    pub(super) fn drop_host_line(&mut self) {
        self.host_verbatim = false;
        self.set_kind(b"host", Kind::Host);
    }

    /// Makes the line of `Content-Length` one that is not copied.
    #[cold]
    pub(super) fn drop_length_line(&mut self) {
        self.length_verbatim = false;
        self.set_kind(b"content-length", Kind::ContentLength);
    }

    fn set_kind(&mut self, name: &[u8], kind: Kind) {
        for (field, line) in self.fields.iter().zip(&mut self.lines) {
            if field.name.eq_ignore_ascii_case(name) {
                line.kind = kind;
            }
        }
    }
}

/// Whether two names are the same to a program behind CGI or WSGI, which takes underscores for hyphens.
pub fn is_alike(name: &[u8], other: &[u8]) -> bool {
    let are_same = |(one, other): (&u8, &u8)| match other {
        b'-' | b'_' => matches!(one, b'-' | b'_'),
        other => one.eq_ignore_ascii_case(other),
    };
    name.len() == other.len() && name.iter().zip(other).all(are_same)
}

struct RawLine<'b> {
    field: Field<'b>,
    /// Bytes of the line, CRLF included.
    len: usize,
    underscore: bool,
    /// Written as `name: value CRLF` with exactly one space.
    plain: bool,
}

/// Whether `bytes` begins with the blank line.
#[inline]
fn is_blank_line(bytes: &[u8]) -> Result<bool, Stop> {
    match bytes {
        [] | [b'\r'] => Err(Stop::Partial),
        [b'\r', b'\n', ..] => Ok(true),
        [b'\r', ..] => malformed("bare CR"),
        _ => Ok(false),
    }
}

/// Parses one field line (RFC 9112 §5) at the start of `bytes`, which is not empty.
#[inline]
fn parse_line(bytes: &[u8]) -> Result<RawLine<'_>, Stop> {
    let (name_len, underscore) = token_len(bytes);
    let &colon = bytes.get(name_len).ok_or(Stop::Partial)?;
    if colon != b':' || name_len == 0 {
        return Err(name_error(name_len, colon).into());
    }
    let after_colon = &bytes[name_len + 1..];
    let value_len = value_end(after_colon);
    match &after_colon[value_len..] {
        [] | [b'\r'] => return Err(Stop::Partial),
        [b'\r', b'\n', ..] => {}
        [b'\r', ..] => return malformed("bare CR"),
        [b'\n', ..] => return malformed("bare LF"),
        _ => return malformed("control byte in a field value"),
    }
    let spaced = &after_colon[..value_len];
    let value = trim_end(trim_start(spaced));
    Ok(RawLine {
        field: Field { name: &bytes[..name_len], value },
        len: name_len + 1 + value_len + 2,
        underscore,
        plain: spaced.len() == value.len() + 1 && spaced[0] == b' ',
    })
}

#[cold]
fn name_error(name_len: usize, found: u8) -> HeadError {
    HeadError::bad(match (name_len, found) {
        (0, b' ' | b'\t') => "folded field or white space before the first field",
        (0, b':') => "empty field name",
        (_, b' ' | b'\t') => "white space in or after a field name",
        (_, b'\n') => "bare LF",
        (_, b'\r') => "field line without colon",
        _ => "field name is not a token",
    })
}

/// Parses the field line at the start of `bytes`, as in a trailer section; returns its length too. Whether the
/// field may stand there is not looked at: [`may_be_trailer`].
pub(super) fn parse_trailer(bytes: &[u8]) -> Result<(Field<'_>, usize), Stop> {
    let raw = parse_line(bytes)?;
    Ok((raw.field, raw.len))
}

/// Whether a field may stand in a trailer section.
pub fn may_be_trailer(name: &[u8]) -> bool {
    let (_, underscore) = token_len(name);
    let kind = if underscore { Kind::of_underscored(name) } else { Kind::of(name) };
    matches!(kind, Kind::Copy | Kind::Date) && !forbidden_trailer(name)
}

/// Fields besides our special ones that a recipient must know before the body, and those that the gateway writes in a head. Source:
/// RFC 9110 §6.5.1: routing, request modifiers, authentication, response control, content format.
fn forbidden_trailer(name: &[u8]) -> bool {
    const FORBIDDEN: [&[u8]; 21] = [
        b"traceparent",
        b"tracestate",
        b"x-request-id",
        b"trailer",
        b"authorization",
        b"www-authenticate",
        b"cookie",
        b"set-cookie",
        b"content-encoding",
        b"content-type",
        b"content-range",
        b"range",
        b"cache-control",
        b"location",
        b"age",
        b"via",
        b"retry-after",
        b"ratelimit",
        b"ratelimit-policy",
        b"alt-svc",
        b"cdn-cache-control",
    ];
    FORBIDDEN.iter().any(|known| is_alike(name, known))
}

/// Tells when it is worth to parse a head that arrives in pieces, so that no byte is looked at more
/// than a few times. One per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadSearch {
    /// Bytes already searched.
    seen: usize,
}

impl HeadSearch {
    /// Whether a parser may now say something else than [`super::Parsed::Partial`]. `buf` is the head from
    /// its first byte, longer with every call.
    ///
    /// The first call says yes if there is anything: most heads arrive whole. Then only what is new
    /// is searched, for the end as the most lenient recipient would see it. What is wrong within
    /// the head is thus found at its end, at the limit, or by the caller's timeout.
    #[inline]
    pub fn ready(&mut self, buf: &[u8], head_len_max: usize) -> bool {
        let first = self.seen == 0;
        let from = self.seen.saturating_sub(2);
        self.seen = buf.len();
        if first || buf.len() >= head_len_max {
            return !buf.is_empty();
        }
        memchr::memchr_iter(b'\n', &buf[from..])
            .any(|lf| matches!(&buf[from + lf + 1..], [b'\n', ..] | [b'\r', b'\n', ..]))
    }
}
