//! A client over HTTP/1.1.

use super::choices::Choices;
use super::texts;
use super::world::{Recorder, Tape, TapeEnd};
use std::time::Duration;
use tiergate::memory::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};

const REQUESTS_MAX: usize = 4;
const PIECES_MAX: usize = 5;

/// What a client sends, and how it reads.
#[derive(Debug)]
pub(crate) struct Script {
    /// What is sent, each after a pause.
    pieces: Vec<(Duration, Vec<u8>)>,
    then: Then,
    /// How much is read at a time, and the pause before.
    bytes: usize,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// Reads until the gateway closes.
    Read,
    /// The same, with nothing more to send.
    HalfClose,
    Leave,
    Reset,
}

/// Times between the events of a game.
pub(crate) fn pause(choices: &mut Choices<'_>) -> Duration {
    Duration::from_millis(choices.pick(&[0, 0, 0, 1, 1, 20, 300, 300, 2_500, 7_000]))
}

/// Cuts `bytes` into pieces, each with a pause before.
pub(crate) fn pieces(choices: &mut Choices<'_>, mut bytes: Vec<u8>) -> Vec<(Duration, Vec<u8>)> {
    let mut pieces = Vec::new();
    for _ in 0..choices.below(PIECES_MAX) {
        let rest = bytes.split_off(choices.below(bytes.len().min(65_000) + 1));
        pieces.push((pause(choices), std::mem::replace(&mut bytes, rest)));
    }
    pieces.push((Duration::ZERO, bytes));
    pieces
}

impl Script {
    pub(crate) fn read(choices: &mut Choices<'_>, client: usize) -> Self {
        let mut all = Vec::new();
        let mut sent = Vec::new();
        for number in 0..=choices.below(REQUESTS_MAX) {
            sent.extend(texts::request(choices, &format!("c{client}n{number}")));
            // Some requests follow each other at once.
            if !choices.one_in(3) {
                all.extend(pieces(choices, std::mem::take(&mut sent)));
                all.push((pause(choices), Vec::new()));
            }
        }
        all.extend(pieces(choices, sent));
        let bytes = choices.pick(&[65_536, 65_536, 100, 3]);
        Script {
            pieces: all,
            then: match choices.below(10) {
                0..=5 => Then::Read,
                6..=7 => Then::HalfClose,
                8 => Then::Leave,
                _ => Then::Reset,
            },
            bytes,
            // A client that reads little at a time must come to an end, too.
            pause: match bytes {
                65_536 => choices.pick(&[Duration::ZERO, Duration::from_secs(1)]),
                _ => Duration::ZERO,
            },
        }
    }
}

pub(crate) async fn play(end: End, script: Script, recorder: Recorder) {
    let place = {
        let mut tapes = recorder.tapes();
        tapes.clients.push(Tape::default());
        tapes.clients.len() - 1
    };
    let (mut from, mut to) = split(end);
    let writing = write(&mut to, &script, &recorder, place);
    let reading = read(&mut from, &script, &recorder, place);
    tokio::select! {
        biased;
        seen = reading => recorder.tapes().clients[place].end = seen,
        () = writing => {}
    }
    let end = from.unsplit(to);
    if script.then == Then::Reset {
        end.reset();
    }
}

/// Writes what is scripted; returns when the client leaves.
async fn write(to: &mut WriteHalf<End>, script: &Script, recorder: &Recorder, place: usize) {
    for (pause, piece) in &script.pieces {
        tokio::time::sleep(*pause).await;
        let mut rest = &piece[..];
        while !rest.is_empty() {
            let Ok(count) = to.write(rest).await else { return std::future::pending().await };
            recorder.tapes().clients[place].sent.extend_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
    }
    match script.then {
        Then::Read => std::future::pending().await,
        Then::HalfClose => {
            let _ = to.shutdown().await;
            std::future::pending().await
        }
        Then::Leave | Then::Reset => {}
    }
}

async fn read(
    from: &mut ReadHalf<End>,
    script: &Script,
    recorder: &Recorder,
    place: usize,
) -> TapeEnd {
    let mut bytes = vec![0; script.bytes];
    loop {
        tokio::time::sleep(script.pause).await;
        match from.read(&mut bytes).await {
            Ok(0) => return TapeEnd::Closed,
            Ok(count) => {
                recorder.tapes().clients[place].received.extend_from_slice(&bytes[..count]);
            }
            Err(_) => return TapeEnd::Reset,
        }
    }
}
