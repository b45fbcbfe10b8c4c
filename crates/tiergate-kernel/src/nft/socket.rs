//! The socket by which the kernel's nf_tables is told and asked. What it has made with an owner is gone when it is closed, however the process ends.

use super::command::Command;
use super::expression::COUNTER;
use super::message::{Batch, GET_OBJECT, INET, NEW_OBJECT, REQUEST, SUBSYSTEM};
use super::writer::{Head, Message, Writer, attributes};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt::SndBufForce};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::HashMap;
use std::io::{self, Read};
use std::time::Duration;

/// How long an answer may take: the kernel has it when the request has been sent.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes of a datagram from the kernel: an error has the message that it is about with it.
const DATAGRAM_LEN_MAX: usize = 128 << 10;
/// Room beside the messages.
const SPARE: usize = 4096;
const DONE: u16 = 3;
const ERROR: u16 = 2;
const DUMP: u16 = 0x300;

/// The socket.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
    /// What it may send at once.
    room: usize,
    answer: Vec<u8>,
}

/// What the kernel did not take: nothing of the transaction has been done.
#[derive(Debug)]
pub(crate) struct Refused {
    /// Place of the command; `None`: the whole.
    pub(crate) place: Option<usize>,
    /// Why.
    pub(crate) error: io::Error,
}

impl Refused {
    fn whole(error: io::Error) -> Self {
        Refused { place: None, error }
    }
}

impl Netlink {
    /// In this thread's network namespace.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn open() -> io::Result<Self> {
        let family = Domain::from(libc::AF_NETLINK);
        let protocol = Protocol::from(libc::NETLINK_NETFILTER);
        let socket = Socket::new(family, Type::RAW, Some(protocol))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        Ok(Netlink { socket, sequence: 1, room: 0, answer: vec![0; DATAGRAM_LEN_MAX] })
    }

    /// Does all of it at once, or nothing.
    pub(crate) fn transact(&mut self, table: &str, commands: &[Command]) -> Result<(), Refused> {
        let batch = Batch::of(table, commands, self.sequence);
        if batch.is_empty() {
            return Ok(());
        }
        self.sequence = batch.last().wrapping_add(2) & (u32::MAX >> 1);
        self.make_room(batch.bytes().len());
        self.send(batch.bytes()).map_err(Refused::whole)?;
        self.wait(&batch)
    }

    /// Packets of each counter of the table.
    pub(crate) fn counters(&mut self, table: &str) -> io::Result<HashMap<String, u64>> {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1) & (u32::MAX >> 1);
        let kind = SUBSYSTEM << 8 | GET_OBJECT;
        let head = Head { kind, flags: REQUEST | DUMP, sequence, family: INET, resource: 0 };
        let mut writer = Writer::default();
        writer.message(head, |body| {
            body.text(1, table);
            body.number(3, COUNTER);
        });
        self.send(writer.bytes())?;
        let mut found = HashMap::new();
        loop {
            let len = (&self.socket).read(&mut self.answer)?;
            for message in Message::all(&self.answer[..len]).filter(|it| it.sequence == sequence) {
                match message.kind {
                    DONE => return Ok(found),
                    ERROR => return Err(of_number(message.error())),
                    kind if kind == SUBSYSTEM << 8 | NEW_OBJECT => {
                        found.extend(counter(&message));
                    }
                    _ => {}
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        match self.socket.send(bytes)? {
            len if len == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// A transaction is one datagram.
    fn make_room(&mut self, len: usize) {
        if len + SPARE <= self.room {
            return;
        }
        let room = len + SPARE;
        // Beyond what the machine allows only with CAP_NET_ADMIN; without it, sending says so.
        let forced = setsockopt(&self.socket, SndBufForce, &room).is_ok();
        if forced || self.socket.set_send_buffer_size(room).is_ok() {
            self.room = room;
        }
    }

    /// Until the last command is acknowledged. Of several errors the first is the cause.
    fn wait(&mut self, batch: &Batch) -> Result<(), Refused> {
        let mut refused = None;
        loop {
            let len = (&self.socket).read(&mut self.answer).map_err(Refused::whole)?;
            let answers = Message::all(&self.answer[..len]).filter(|it| it.kind == ERROR);
            for answer in answers.filter(|it| batch.has(it.sequence)) {
                let place = batch.place(answer.sequence);
                let is_error = answer.error() != Some(0);
                if is_error && refused.is_none() {
                    refused = Some(Refused { place, error: of_number(answer.error()) });
                }
                // An error of the whole may be all that is said.
                if answer.sequence == batch.last() || is_error && place.is_none() {
                    return refused.map_or(Ok(()), Err);
                }
            }
        }
    }
}

fn of_number(error: Option<i32>) -> io::Error {
    match error {
        Some(error @ ..0) => io::Error::from_raw_os_error(error.saturating_neg()),
        _ => io::ErrorKind::InvalidData.into(),
    }
}

/// The name of a counter, and its packets.
fn counter(message: &Message<'_>) -> Option<(String, u64)> {
    let value = |kind: u16| message.attributes().find(|it| it.0 == kind).map(|it| it.1);
    let name = value(2)?.split(|byte| *byte == 0).next()?;
    let packets = attributes(value(4)?).find(|it| it.0 == 2)?.1;
    let packets = u64::from_be_bytes(packets.try_into().ok()?);
    Some((String::from_utf8_lossy(name).into_owned(), packets))
}
