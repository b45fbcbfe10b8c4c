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
/// Something was changed while it was read: it may be neither the former state nor the new one (`NLM_F_DUMP_INTR`).
const INTERRUPTED: u16 = 0x10;
/// So often counters are read where that happens each time: another program changes tables again and again.
const ATTEMPTS_MAX: u32 = 8;

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

    /// Packets of each counter of the table. Read again where a table of the namespace was changed meanwhile.
    ///
    /// # Errors
    /// What the system says, or that they were changed at each of [`ATTEMPTS_MAX`] attempts.
    pub(crate) fn counters(&mut self, table: &str) -> io::Result<HashMap<String, u64>> {
        for _ in 0..ATTEMPTS_MAX {
            if let Some(found) = self.counters_at_once(table)? {
                return Ok(found);
            }
        }
        let what = "other tables are changed again and again while the counters are read";
        Err(io::Error::new(io::ErrorKind::ResourceBusy, what))
    }

    /// `None`: something was changed while they were read.
    fn counters_at_once(&mut self, table: &str) -> io::Result<Option<HashMap<String, u64>>> {
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
        let (mut found, mut is_whole) = (HashMap::new(), true);
        loop {
            let len = (&self.socket).read(&mut self.answer)?;
            for message in Message::all(&self.answer[..len]).filter(|it| it.sequence == sequence) {
                is_whole &= message.flags & INTERRUPTED == 0;
                match message.kind {
                    DONE => return Ok(is_whole.then_some(found)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket whose other end answers each question with a counter, by how often it was asked, and says of the first ones that something was changed meanwhile: in the message, or in that of the end.
    fn answered(interrupted: u32) -> Netlink {
        let (socket, kernel) = Socket::pair(Domain::UNIX, Type::SEQPACKET, None).expect("a pair");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        // Ends when the socket is dropped.
        std::thread::spawn(move || {
            let mut question = [0; 4096];
            let mut asked = 0_u32;
            while let Ok(len @ 1..) = (&kernel).read(&mut question) {
                asked += 1;
                let sequence = Message::all(&question[..len]).next().expect("a message").sequence;
                let (is_whole, is_early) = (asked > interrupted, asked.is_multiple_of(2));
                let flags = |is_said: bool| if is_whole || !is_said { 2 } else { 2 | INTERRUPTED };
                let head = |kind, flags| Head { kind, flags, sequence, family: 0, resource: 0 };
                let mut answer = Writer::default();
                let kind = SUBSYSTEM << 8 | NEW_OBJECT;
                answer.message(head(kind, flags(is_early)), |body| {
                    body.text(2, "seen");
                    body.nested(4, |data| data.long(2, asked.into()));
                });
                answer.message(head(DONE, flags(!is_early)), |body| body.number(1, 0));
                if kernel.send(answer.bytes()).is_err() {
                    return;
                }
            }
        });
        Netlink { socket, sequence: 1, room: 0, answer: vec![0; DATAGRAM_LEN_MAX] }
    }

    #[test]
    fn what_was_changed_while_it_was_read_is_read_again_but_not_for_ever() {
        for interrupted in [0, 1, 2, 3, ATTEMPTS_MAX - 1] {
            let found = answered(interrupted).counters("t").expect("it is whole in the end");
            let wanted = HashMap::from([("seen".to_owned(), u64::from(interrupted) + 1)]);
            assert_eq!(found, wanted);
        }
        let error = answered(ATTEMPTS_MAX).counters("t").expect_err("never whole");
        assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    }
}
