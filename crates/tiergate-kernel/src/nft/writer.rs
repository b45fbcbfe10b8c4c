//! Netlink messages as bytes: attributes in attributes, padded to four bytes.

/// Attributes with attributes within are marked so.
const NESTED: u16 = 1 << 15;
/// The head of a message, and behind it the family's.
const HEAD_LEN: usize = 16 + 4;
/// The head of an attribute.
const ATTRIBUTE_LEN: usize = 4;

/// Messages one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
}

/// The head of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    /// What is asked for.
    pub(crate) kind: u16,
    /// How.
    pub(crate) flags: u16,
    /// What an answer names it by.
    pub(crate) sequence: u32,
    /// Of the protocol.
    pub(crate) family: u8,
    /// What a batch is for.
    pub(crate) resource: u16,
}

impl Writer {
    /// What has been written.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A message.
    pub(crate) fn message(&mut self, head: Head, body: impl FnOnce(&mut Writer)) {
        let begin = self.bytes.len();
        self.bytes.extend([0; 4]);
        self.bytes.extend(head.kind.to_ne_bytes());
        self.bytes.extend(head.flags.to_ne_bytes());
        self.bytes.extend(head.sequence.to_ne_bytes());
        self.bytes.extend([0; 4]);
        self.bytes.extend([head.family, 0]);
        self.bytes.extend(head.resource.to_be_bytes());
        body(self);
        let len = (self.bytes.len() - begin) as u32;
        self.bytes[begin..begin + 4].copy_from_slice(&len.to_ne_bytes());
    }

    /// An attribute. `data`: at most 65,531 bytes.
    pub(crate) fn bytes_of(&mut self, kind: u16, data: &[u8]) {
        let len = u16::try_from(ATTRIBUTE_LEN + data.len()).expect("attributes are bounded");
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(data);
        self.pad();
    }

    /// A text, with the 0 at its end.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        self.bytes_of(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// A number of 32 bits.
    pub(crate) fn number(&mut self, kind: u16, number: u32) {
        self.bytes_of(kind, &number.to_be_bytes());
    }

    /// A number of 64 bits.
    pub(crate) fn long(&mut self, kind: u16, number: u64) {
        self.bytes_of(kind, &number.to_be_bytes());
    }

    /// An attribute of attributes; at most 65,531 bytes.
    pub(crate) fn nested(&mut self, kind: u16, body: impl FnOnce(&mut Writer)) {
        let begin = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend((kind | NESTED).to_ne_bytes());
        body(self);
        let len = u16::try_from(self.bytes.len() - begin).expect("attributes are bounded");
        self.bytes[begin..begin + 2].copy_from_slice(&len.to_ne_bytes());
    }

    fn pad(&mut self) {
        let len = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(len, 0);
    }
}

/// A message that the kernel has sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// What it is.
    pub(crate) kind: u16,
    /// What is said of it.
    pub(crate) flags: u16,
    /// What it answers.
    pub(crate) sequence: u32,
    /// Behind the netlink head.
    body: &'a [u8],
}

impl<'a> Message<'a> {
    /// Those in a datagram. What cannot be read ends it.
    pub(crate) fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Message<'a>> {
        std::iter::from_fn(move || {
            let len = usize::try_from(word(bytes, 0)?).ok()?;
            let body = bytes.get(16..len)?;
            let kind = half(bytes, 4)?;
            let flags = half(bytes, 6)?;
            let sequence = word(bytes, 8)?;
            bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
            Some(Message { kind, flags, sequence, body })
        })
    }

    /// Of an error message the number, which is negative; 0: an acknowledgement.
    pub(crate) fn error(&self) -> Option<i32> {
        word(self.body, 0).map(|it| it as i32)
    }

    /// Its attributes.
    pub(crate) fn attributes(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        attributes(self.body.get(HEAD_LEN - 16..).unwrap_or_default())
    }
}

/// Attributes one after the other.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(half(bytes, 0)?);
        let data = bytes.get(ATTRIBUTE_LEN..len)?;
        let kind = half(bytes, 2)? & !NESTED;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, data))
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let head = Head { kind: 2578, flags: 1, sequence: 7, family: 1, resource: 0 };
        let mut writer = Writer::default();
        for _ in 0..2 {
            writer.message(head, |body| {
                body.text(1, "tiergate_1");
                body.nested(4, |inner| inner.long(2, 50));
                body.number(3, 1);
            });
        }
        assert!(writer.bytes().len().is_multiple_of(4));
        let messages: Vec<Message<'_>> = Message::all(writer.bytes()).collect();
        assert_eq!(messages.len(), 2);
        for message in messages {
            assert_eq!((message.kind, message.flags, message.sequence), (2578, 1, 7));
            let all: Vec<(u16, &[u8])> = message.attributes().collect();
            assert_eq!(all.len(), 3);
            assert_eq!(all[0], (1, &b"tiergate_1\0"[..]));
            let inner: Vec<(u16, &[u8])> = attributes(all[1].1).collect();
            assert_eq!(inner, [(2, &50_u64.to_be_bytes()[..])]);
            assert_eq!(all[2], (3, &[0, 0, 0, 1][..]));
        }
    }

    #[test]
    fn whatever_the_kernel_sends_is_read_to_an_end() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let bytes: Vec<u8> =
                (0..random.usize(..80)).map(|_| random.u8(..) >> random.u8(..8)).collect();
            let count = Message::all(&bytes).map(|it| it.attributes().count()).sum::<usize>();
            assert!(count <= bytes.len());
        }
    }
}
