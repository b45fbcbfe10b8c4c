//! Transactions as nf_tables wants them (linux/netfilter/nf_tables.h): the numbers are of that file, and `nft --debug=netlink,mnl` shows the same for the text of each command.

use super::command::{Command, Version};
use super::expression::{COUNTER, GOTO, LIMIT, limit_of, statement, verdict};
use super::writer::{Head, Writer};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tiergate_core::early::ranges::Range;

/// `NFNL_SUBSYS_NFTABLES`.
pub(crate) const SUBSYSTEM: u16 = 10;
/// `NFPROTO_INET`.
pub(crate) const INET: u8 = 1;
/// `NFT_MSG_GETOBJ`, `NFT_MSG_NEWOBJ`.
pub(crate) const GET_OBJECT: u16 = 19;
pub(crate) const NEW_OBJECT: u16 = 18;

const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;

pub(crate) const REQUEST: u16 = 1;
const ACK: u16 = 4;
const EXCLUSIVE: u16 = 0x200;
const CREATE: u16 = 0x400;
const APPEND: u16 = 0x800;

/// Most ranges of a message, whose list of them may have 65,531 bytes: two elements each, with the name of a chain.
const RANGES_MAX: usize = 256;
/// The same of services.
const PORTS_MAX: usize = 512;
/// Longest name of a chain, a map or a counter.
const NAME_LEN_MAX: usize = 31;

/// A transaction, and which command each of its messages is of.
#[derive(Debug)]
pub(crate) struct Batch {
    writer: Writer,
    table: String,
    first: u32,
    places: Vec<usize>,
}

impl Batch {
    /// The messages of these commands; they are numbered from `first`.
    pub(crate) fn of(table: &str, commands: &[Command], first: u32) -> Batch {
        let mut batch =
            Batch { writer: Writer::default(), table: table.to_owned(), first, places: Vec::new() };
        batch.edge(BATCH_BEGIN, first);
        let last = commands.iter().rposition(|command| chunks(command) > 0);
        for (place, command) in commands.iter().enumerate() {
            batch.command(place, command, Some(place) == last);
        }
        batch.edge(BATCH_END, batch.last() + 1);
        batch
    }

    /// As it is sent.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.writer.bytes()
    }

    /// Whether it has no command.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of its last command's last message, which the kernel acknowledges.
    pub(crate) fn last(&self) -> u32 {
        self.first + self.places.len() as u32
    }

    /// Whether the number is of one of its messages.
    pub(crate) fn has(&self, sequence: u32) -> bool {
        sequence >= self.first && sequence <= self.last()
    }

    /// Whose message has the number; `None`: it is of the whole.
    pub(crate) fn place(&self, sequence: u32) -> Option<usize> {
        let offset = sequence.checked_sub(self.first + 1)?;
        self.places.get(offset as usize).copied()
    }

    fn edge(&mut self, kind: u16, sequence: u32) {
        let head = Head { kind, flags: REQUEST, sequence, family: 0, resource: SUBSYSTEM };
        self.writer.message(head, |_| ());
    }

    fn command(&mut self, place: usize, command: &Command, is_last: bool) {
        let (kind, flags) = kind(command);
        let chunks = chunks(command);
        for chunk in 0..chunks {
            self.places.push(place);
            let ack = if is_last && chunk + 1 == chunks { ACK } else { 0 };
            let head = Head {
                kind: SUBSYSTEM << 8 | kind,
                flags: REQUEST | flags | ack,
                sequence: self.last(),
                family: INET,
                resource: 0,
            };
            let (table, number) = (&self.table, self.places.len() as u32);
            self.writer.message(head, |body| body_of(body, table, command, chunk, number));
        }
    }
}

/// How many messages a command takes.
fn chunks(command: &Command) -> usize {
    match command {
        Command::Ranges(_, _, ranges) => ranges.len().div_ceil(RANGES_MAX),
        Command::Ports(_, ports) => ports.len().div_ceil(PORTS_MAX),
        _ => 1,
    }
}

/// What a command asks for (`NFT_MSG_…`), and how.
fn kind(command: &Command) -> (u16, u16) {
    match command {
        Command::Table => (0, CREATE | EXCLUSIVE),
        Command::Chain(_) | Command::Hook { .. } => (3, CREATE | EXCLUSIVE),
        Command::DeleteChain(_) => (5, 0),
        Command::Rule(..) => (6, CREATE | APPEND),
        Command::FlushChain(_) => (8, 0),
        Command::Clients(..) | Command::Services(..) | Command::List(..) => (9, CREATE | EXCLUSIVE),
        Command::DeleteMap(_) => (11, 0),
        Command::Ranges(..) | Command::Ports(..) | Command::Element(..) => (12, CREATE),
        Command::DeleteElement(..) | Command::FlushSet(_) => (14, 0),
        Command::Counter(_) | Command::Limit(..) => (18, CREATE | EXCLUSIVE),
        Command::DeleteCounter(_) | Command::DeleteLimit(_) => (20, 0),
    }
}

fn body_of(body: &mut Writer, table: &str, command: &Command, chunk: usize, number: u32) {
    body.text(1, table);
    let name = |body: &mut Writer, kind: u16, name: &str| {
        debug_assert!(name.len() <= NAME_LEN_MAX, "{name}");
        body.text(kind, name);
    };
    match command {
        // NFT_TABLE_F_OWNER
        Command::Table => body.number(2, 2),
        Command::Chain(chain) | Command::DeleteChain(chain) => name(body, 3, chain),
        Command::Hook { chain, interface } => {
            name(body, 3, chain);
            hook(body, interface);
        }
        Command::FlushChain(chain) => name(body, 2, chain),
        Command::Rule(chain, statements) => {
            name(body, 2, chain);
            body.nested(4, |all| statements.iter().for_each(|it| statement(all, it)));
        }
        Command::Clients(map, version) => {
            name(body, 2, map);
            map_of(body, INTERVAL, key(*version), number);
        }
        Command::Services(map, version) => {
            name(body, 2, map);
            let (kind, len) = key(*version);
            map_of(body, 0, (kind << 6 | INET_SERVICE, len + 4), number);
        }
        Command::List(set, version) => {
            name(body, 2, set);
            set_of(body, TIMEOUT, key(*version), number);
        }
        Command::DeleteMap(set) | Command::FlushSet(set) => name(body, 2, set),
        Command::Ranges(set, ..)
        | Command::Ports(set, _)
        | Command::Element(set, ..)
        | Command::DeleteElement(set, _) => {
            name(body, 2, set);
            body.nested(3, |list| elements_of(list, command, chunk));
        }
        Command::Counter(counter) => {
            name(body, 2, counter);
            body.number(3, COUNTER);
            body.nested(4, |data| {
                data.long(1, 0);
                data.long(2, 0);
            });
        }
        Command::Limit(object, limit) => {
            name(body, 2, object);
            body.number(3, LIMIT);
            body.nested(4, |data| limit_of(data, limit));
        }
        Command::DeleteCounter(object) => {
            name(body, 2, object);
            body.number(3, COUNTER);
        }
        Command::DeleteLimit(object) => {
            name(body, 2, object);
            body.number(3, LIMIT);
        }
    }
}

/// The elements of a message.
fn elements_of(list: &mut Writer, command: &Command, chunk: usize) {
    match command {
        Command::Ranges(_, version, ranges) => {
            let all = ranges.chunks(RANGES_MAX).nth(chunk).unwrap_or_default();
            elements_of_ranges(list, *version, all, chunk == 0);
        }
        Command::Ports(_, ports) => {
            for (local, chain) in ports.chunks(PORTS_MAX).nth(chunk).unwrap_or_default() {
                let value = Some(chain.as_str());
                element(list, &Element { value, ..Element::of(&port_key(*local)) });
            }
        }
        Command::Element(_, address, lasting) => {
            element(list, &Element { lasting: *lasting, ..Element::of(&address_key(*address)) });
        }
        Command::DeleteElement(_, address) => {
            element(list, &Element::of(&address_key(*address)));
        }
        _ => {}
    }
}

/// A base chain: its type, its hook (`NF_INET_INGRESS`) and what becomes of packets at its end.
fn hook(body: &mut Writer, interface: &str) {
    const INGRESS: u32 = 5;
    body.text(7, "filter");
    body.number(5, 1);
    body.nested(4, |hook| {
        hook.number(1, INGRESS);
        hook.number(2, 0);
        hook.text(3, interface);
    });
}

const INTERVAL: u32 = 4;
const MAP: u32 = 8;
const TIMEOUT: u32 = 0x10;
/// What `nft` calls keys' types, so that it shows them as they are.
const INET_SERVICE: u32 = 13;

/// The type and the length of an address.
fn key(version: Version) -> (u32, u32) {
    match version {
        Version::V4 => (7, 4),
        Version::V6 => (8, 16),
    }
}

fn set_of(body: &mut Writer, flags: u32, (kind, len): (u32, u32), number: u32) {
    body.number(3, flags);
    body.number(4, kind);
    body.number(5, len);
    body.number(10, number);
}

fn map_of(body: &mut Writer, flags: u32, key: (u32, u32), number: u32) {
    // NFT_DATA_VERDICT
    const VERDICT: u32 = 0xffff_ff00;
    set_of(body, flags | MAP, key, number);
    body.number(6, VERDICT);
    body.number(7, 0);
}

/// An element of a set or a map.
struct Element<'a> {
    key: &'a [u8],
    /// The chain that it leads to.
    value: Option<&'a str>,
    /// Whether an interval ends before it.
    is_end: bool,
    lasting: Option<Duration>,
}

impl<'a> Element<'a> {
    fn of(key: &'a [u8]) -> Self {
        Element { key, value: None, is_end: false, lasting: None }
    }
}

fn element(list: &mut Writer, Element { key, value, is_end, lasting }: &Element<'_>) {
    list.nested(1, |element| {
        if *is_end {
            element.number(3, 1);
        }
        element.nested(1, |data| data.bytes_of(1, key));
        if let Some(chain) = value {
            element.nested(2, |data| verdict(data, GOTO, Some(*chain)));
        }
        if let Some(lasting) = lasting {
            element.long(4, u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX).max(1));
        }
    });
}

/// Each begins with an element and ends before another. What lies before the first ends there, too, as `nft` writes it.
fn elements_of_ranges(
    list: &mut Writer,
    version: Version,
    ranges: &[Range<String>],
    is_first: bool,
) {
    let key = |number| address_key(version.address(number));
    let end = |list: &mut Writer, number| {
        element(list, &Element { is_end: true, ..Element::of(&key(number)) });
    };
    if is_first && ranges.first().is_some_and(|it| it.first > 0) {
        end(list, 0);
    }
    let most = match version {
        Version::V4 => u128::from(u32::MAX),
        Version::V6 => u128::MAX,
    };
    for Range { first, last, value } in ranges {
        element(list, &Element { value: Some(value.as_str()), ..Element::of(&key(*first)) });
        if *last < most {
            end(list, last + 1);
        }
    }
}

fn address_key(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}

/// Parts of a key have four bytes each, or a multiple of it.
fn port_key(local: SocketAddr) -> Vec<u8> {
    let port = local.port().to_be_bytes();
    [&address_key(local.ip())[..], &port, &[0, 0]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nft::writer::Message;

    #[test]
    fn messages_are_numbered_and_name_their_command() {
        let many = |count: u32| {
            let range = |number: u32| Range {
                first: (2 * number).into(),
                last: (2 * number).into(),
                value: "x".repeat(NAME_LEN_MAX),
            };
            (0..count).map(range).collect::<Vec<_>>()
        };
        let commands = [
            Command::Table,
            Command::Ranges("clients".into(), Version::V4, many(10_000)),
            Command::Ranges("clients".into(), Version::V6, Vec::new()),
            Command::DeleteMap("clients".into()),
        ];
        let batch = Batch::of("t", &commands, 100);
        let messages: Vec<Message<'_>> = Message::all(batch.bytes()).collect();
        let of_ranges = 10_000_usize.div_ceil(RANGES_MAX);
        assert_eq!(messages.len(), 2 + 1 + of_ranges + 1);
        assert!(messages.iter().zip(100..).all(|(it, number)| it.sequence == number));
        let last = 100 + 1 + of_ranges as u32 + 1;
        assert_eq!(batch.last(), last);
        assert_eq!(
            [100, 101, 102, last].map(|it| batch.place(it)),
            [None, Some(0), Some(1), Some(3)]
        );
        assert!(batch.has(100) && batch.has(last) && !batch.has(99) && !batch.has(last + 1));
        // The longest list is as long as an attribute may be.
        let longest = Batch::of("t", &[Command::Ranges("c".into(), Version::V6, many(256))], 1);
        assert!(longest.bytes().len() < usize::from(u16::MAX), "{}", longest.bytes().len());
    }

    /// As `nft --debug=mnl` 1.0.6 prints it of the same text.
    #[test]
    fn an_element_of_a_map_is_that_of_nft() {
        let range = Range { first: 0x0a00_0000, last: 0x0aff_ffff, value: "p5_0".to_owned() };
        let mut writer = Writer::default();
        writer.nested(3, |list| elements_of_ranges(list, Version::V4, &[range], true));
        let hex: String = writer.bytes().iter().map(|it| format!("{it:02x}")).collect();
        let wanted = [
            "60000380",
            "180001800800030000000001",
            "0c0001800800010000000000",
            "2c000280",
            "0c000180080001000a000000",
        ];
        // Attributes of an element may come in any order; of nft's the flags come first, as here.
        assert!(hex.starts_with(&wanted[..3].concat()), "{hex}");
        assert!(hex.contains("08000100fffffffc0900020070355f3000000000"), "{hex}");
        assert!(hex.ends_with("1800018008000300000000010c000180080001000b000000"), "{hex}");
        assert_eq!(hex.len(), 2 * 96);
    }
}
