//! A client over HTTP/2, and one that sends frames at random.

use super::choices::Choices;
use super::http1::{pause, pieces};
use super::texts;
use super::world::{Exchange, Recorder};
use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Reason, RecvStream, SendStream};
use http::Request;
use std::time::Duration;
use tiergate::memory::End;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

const STREAMS_MAX: usize = 5;

/// Pieces of an answer that a client lets wait.
const PAUSES: usize = 100;

/// What a client asks for.
#[derive(Debug)]
pub(crate) struct Script {
    streams: Vec<Stream>,
    window: u32,
    /// When the client leaves; `None`: when all streams have ended.
    leaves: Option<Duration>,
}

#[derive(Debug)]
struct Stream {
    id: String,
    pause: Duration,
    request: Request<()>,
    target: String,
    /// The length that the head says.
    announced: Option<usize>,
    /// Sent each after a pause; `None`: the head ends the stream.
    body: Option<Vec<(Duration, Vec<u8>)>>,
    /// Reset after so many pieces of the body.
    reset_sending: Option<usize>,
    /// Reset after so many pieces of the answer.
    reset_reading: Option<usize>,
    /// Before the answer is read on.
    read_pause: Duration,
}

impl Script {
    pub(crate) fn read(choices: &mut Choices<'_>, client: usize) -> Self {
        let streams = 1 + choices.below(STREAMS_MAX);
        let streams = (0..streams).map(|number| stream(choices, client, number)).collect();
        Script {
            streams,
            window: choices.pick(&[65_535, 65_535, 1_000, 10]),
            leaves: choices.one_in(6).then(|| pause(choices)),
        }
    }
}

fn stream(choices: &mut Choices<'_>, client: usize, number: usize) -> Stream {
    let id = format!("c{client}n{number}");
    let method = choices.pick(&texts::METHODS);
    let target = match choices.below(4) {
        3 => format!("/{id}?q=1&r"),
        _ => format!("/{id}"),
    };
    let mut request =
        Request::builder().method(method).uri(format!("http://h{target}")).header("x-end", &id);
    if choices.one_in(4) {
        let (name, value) = choices.pick(&[
            ("te", "trailers"),
            ("x-tiergate-class", "best"),
            ("x-forwarded-for", "6.6.6.6"),
            ("proxy-authorization", "secret"),
            ("expect", "100-continue"),
            ("proxy", "http://evil"),
        ]);
        request = request.header(name, value);
    }
    let has_body = match method {
        "GET" | "HEAD" | "OPTIONS" | "DELETE" => choices.one_in(5),
        _ => !choices.one_in(5),
    };
    let body = has_body.then(|| texts::content(&id, texts::len(choices)));
    let announced = body.as_ref().map(Vec::len).filter(|_| choices.one_in(2));
    if let Some(len) = announced {
        request = request.header("content-length", len);
    }
    Stream {
        pause: pause(choices),
        request: request.body(()).expect("a good request"),
        target,
        announced,
        body: body.map(|body| pieces(choices, body)),
        reset_sending: choices.one_in(12).then(|| choices.below(3)),
        reset_reading: choices.one_in(12).then(|| choices.below(3)),
        read_pause: choices.pick(&[Duration::ZERO, Duration::ZERO, Duration::from_millis(400)]),
        id,
    }
}

pub(crate) async fn play(end: End, script: Script, recorder: Recorder) {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(script.window);
    let Ok((client, connection)) = builder.handshake::<_, Bytes>(end).await else { return };
    let streams = async {
        let mut streams = JoinSet::new();
        for stream in script.streams {
            streams.spawn(run(client.clone(), stream, recorder.clone()));
        }
        drop(client);
        while let Some(ended) = streams.join_next().await {
            ended.expect("a stream does not panic");
        }
    };
    let leaving = async {
        match script.leaves {
            Some(pause) => tokio::time::sleep(pause).await,
            None => std::future::pending().await,
        }
    };
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        biased;
        _ = &mut connection => {}
        () = streams => {
            // The last frames are sent before it leaves.
            let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
        }
        () = leaving => {}
    }
}

async fn run(client: SendRequest<Bytes>, stream: Stream, recorder: Recorder) {
    tokio::time::sleep(stream.pause).await;
    let Ok(mut client) = client.ready().await else { return };
    let place = {
        let mut tapes = recorder.tapes();
        tapes.exchanges.push(Exchange {
            id: stream.id.clone(),
            method: stream.request.method().to_string(),
            target: stream.target.clone(),
            body: Vec::new(),
            whole: stream.body.is_none() || stream.announced == Some(0),
            answer: None,
            answer_fields: Vec::new(),
            answer_body: Vec::new(),
            answer_whole: false,
        });
        tapes.exchanges.len() - 1
    };
    let ends = stream.body.is_none();
    let Ok((answer, mut sending)) = client.send_request(stream.request, ends) else { return };
    drop(client);
    let body = stream.body.unwrap_or_default();
    let announced = stream.announced;
    let sending = async {
        let reset = stream.reset_sending;
        if !ends {
            // What becomes of the answer is seen all the same.
            let _ = send(&mut sending, body, announced, reset, &recorder, place).await;
        }
        sending
    };
    let reading = async {
        let Ok(answer) = answer.await else { return };
        let id = answer.headers().get("x-id");
        let id = id.map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
        check_fields(answer.headers());
        let names = answer.headers().keys().map(|name| name.as_str().to_owned()).collect();
        {
            let exchange = &mut recorder.tapes().exchanges[place];
            exchange.answer = Some((answer.status().as_u16(), id));
            exchange.answer_fields = names;
        }
        let (rest, pause) = (stream.reset_reading, stream.read_pause);
        read(answer.into_body(), rest, pause, &recorder, place).await;
    };
    let _ = tokio::join!(sending, reading);
}

fn check_fields(fields: &http::HeaderMap) {
    for name in ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"] {
        assert!(!fields.contains_key(name), "{name} in an answer over HTTP/2: {fields:?}");
    }
    assert!(fields.get_all("content-length").iter().count() <= 1, "{fields:?}");
}

/// Sends the body; `None`: not all of it.
async fn send(
    sending: &mut SendStream<Bytes>,
    body: Vec<(Duration, Vec<u8>)>,
    announced: Option<usize>,
    reset: Option<usize>,
    recorder: &Recorder,
    place: usize,
) -> Option<()> {
    let count = body.len();
    for (number, (pause, piece)) in body.into_iter().enumerate() {
        tokio::time::sleep(pause).await;
        if reset == Some(number) {
            sending.send_reset(Reason::CANCEL);
            return None;
        }
        let mut piece = Bytes::from(piece);
        while !piece.is_empty() {
            sending.reserve_capacity(piece.len());
            let room =
                std::future::poll_fn(|context| sending.poll_capacity(context)).await?.ok()?;
            let part = piece.split_to(room.min(piece.len()));
            {
                let exchange = &mut recorder.tapes().exchanges[place];
                exchange.body.extend_from_slice(&part);
                // A length that is reached ends it as well.
                exchange.whole |= Some(exchange.body.len()) == announced;
            }
            sending.send_data(part, false).ok()?;
        }
        if number + 1 == count {
            sending.send_data(Bytes::new(), true).ok()?;
            recorder.tapes().exchanges[place].whole = true;
        }
    }
    Some(())
}

async fn read(
    mut body: RecvStream,
    reset: Option<usize>,
    pause: Duration,
    recorder: &Recorder,
    place: usize,
) {
    for number in 0.. {
        if reset == Some(number) {
            return;
        }
        match body.data().await {
            Some(Ok(data)) => {
                // A slow client that is in nobody's way is waited for, and must come to an end itself.
                if number < PAUSES {
                    tokio::time::sleep(pause).await;
                }
                let _ = body.flow_control().release_capacity(data.len());
                recorder.tapes().exchanges[place].answer_body.extend_from_slice(&data);
            }
            Some(Err(_)) => return,
            None => break,
        }
    }
    if let Ok(_trailers) = body.trailers().await {
        recorder.tapes().exchanges[place].answer_whole = true;
    }
}

/// The preface, and frames at random.
pub(crate) fn noise(choices: &mut Choices<'_>) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // :method GET, :scheme http, :path /, :authority h, as HPACK's static table has them.
    const HEAD: &[u8] = b"\x82\x86\x84\x41\x01h";
    const POST: &[u8] = b"\x83\x86\x84\x41\x01h";
    for _ in 0..choices.below(24) {
        let stream = choices.pick(&[1u8, 3, 5, 7, 0, 2]);
        let kind = choices.pick(&[1u8, 0, 8, 3, 4, 6, 9, 2, 5, 7, 10]);
        let flags = choices.pick(&[5u8, 4, 1, 0, 8, 32, 255]);
        let payload: Vec<u8> = match choices.below(5) {
            0 => HEAD.to_vec(),
            1 => POST.to_vec(),
            2 => vec![0, 0, 0, 8],
            3 => texts::content("noise", choices.below(100)),
            _ => (0..choices.below(20)).map(|_| choices.below(256) as u8).collect(),
        };
        bytes.extend_from_slice(&[0, 0, payload.len() as u8, kind, flags, 0, 0, 0, stream]);
        bytes.extend_from_slice(&payload);
    }
    bytes
}

pub(crate) async fn play_noise(mut end: End, bytes: Vec<u8>, recorder: Recorder) {
    recorder.tapes().noise = true;
    for piece in bytes.chunks(100) {
        if end.write_all(piece).await.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut bytes = [0; 4096];
    let reading = async { while end.read(&mut bytes).await.is_ok_and(|count| count > 0) {} };
    let _ = tokio::time::timeout(Duration::from_secs(20), reading).await;
}
