//! The gateway between client and origin, and the tapes of all connections.

use super::choices::Choices;
use super::{check, http1, http2, origin};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;
use tiergate::client::peer::Peer;
use tiergate::memory::{self, End};
use tiergate::observe::counters::Counters;
use tiergate::shared::{Config, Shared};
use tiergate::timers::{self, Timer};
use tiergate::{clock, config, listen, ticks};
use tiergate_core::admit::connections::Bounds;
use tokio::task::JoinSet;

/// The games are of requests: connections are not bounded there.
const UNBOUNDED: Bounds = Bounds { max: usize::MAX, levels: 1 };

/// What went over one connection, as seen from the end that is played.
#[derive(Default)]
pub(crate) struct Tape {
    pub(crate) sent: Vec<u8>,
    pub(crate) received: Vec<u8>,
    pub(crate) end: TapeEnd,
    /// At the origin: when each request's head came, counted over all connections.
    pub(crate) came: Vec<usize>,
    /// At the origin: how much had been received and sent before something was sent that nobody had asked
    /// for.
    pub(crate) junk_at: Option<(usize, usize)>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tape")
            .field("sent", &shown(&self.sent))
            .field("received", &shown(&self.received))
            .field("end", &self.end)
            .field("came", &self.came)
            .field("junk_at", &self.junk_at)
            .finish()
    }
}

/// The beginning of what may be long.
pub(crate) fn shown(bytes: &[u8]) -> String {
    let text = bytes[..bytes.len().min(SHOWN_MAX)].escape_ascii();
    format!("{text} ({} bytes)", bytes.len())
}

/// Bytes of a tape that are shown.
const SHOWN_MAX: usize = 1_000;

/// How a connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TapeEnd {
    /// The end that is played left first, or has not seen the other's.
    #[default]
    Left,
    /// By the gateway, properly.
    Closed,
    /// By the gateway, with a reset.
    Reset,
}

/// What a client over HTTP/2 asked for, and what became of it.
pub(crate) struct Exchange {
    pub(crate) id: String,
    pub(crate) method: String,
    pub(crate) target: String,
    /// What was handed to `h2` of the body, and whether that is all.
    pub(crate) body: Vec<u8>,
    pub(crate) whole: bool,
    /// The status, and the answer's id if it has one.
    pub(crate) answer: Option<(u16, Option<String>)>,
    /// The names of its fields.
    pub(crate) answer_fields: Vec<String>,
    pub(crate) answer_body: Vec<u8>,
    /// The answer's end was seen.
    pub(crate) answer_whole: bool,
}

impl std::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Exchange { id, method, target, whole, answer, answer_whole, .. } = self;
        let (body, answer_body) = (shown(&self.body), shown(&self.answer_body));
        write!(
            f,
            "{method} {target} ({id}) {body}, whole: {whole}; {answer:?} {answer_body}, whole: {answer_whole}"
        )
    }
}

/// Everything that was seen.
#[derive(Debug, Default)]
pub(crate) struct Tapes {
    /// Of clients over HTTP/1.1.
    pub(crate) clients: Vec<Tape>,
    /// Of clients over HTTP/2.
    pub(crate) exchanges: Vec<Exchange>,
    pub(crate) origins: Vec<Tape>,
    /// A client sent frames at random: what it asked for is unknown.
    pub(crate) noise: bool,
    pub(crate) clock: usize,
    pub(crate) answers: usize,
}

/// The tapes, shared by all that are played.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Tapes>>);

impl Recorder {
    pub(crate) fn tapes(&self) -> MutexGuard<'_, Tapes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a game came to, to see that games get deep.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Report {
    /// Requests that came to the origin.
    pub(crate) forwarded: usize,
    /// Answers of the origin that a client got whole.
    pub(crate) answered: usize,
    /// Answers of the gateway's own.
    pub(crate) own: usize,
    /// Requests that came over a connection that an earlier one had used.
    pub(crate) reused: usize,
    /// Requests whose body was written to a file.
    pub(crate) spooled: usize,
}

thread_local! {
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Counts panics of this thread, also those that a runtime catches.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // A debug assertion of h2's: it fails where a connection ends before its streams, as it may
            // (https://github.com/hyperium/h2/issues/907).
            if info.location().is_some_and(|at| at.file().ends_with("proto/streams/counts.rs")) {
                return;
            }
            PANICS.set(PANICS.get() + 1);
            former(info);
        }));
    });
}

/// Longest time that anything may take. All of the gateway's time-outs are far below.
const STUCK: Duration = Duration::from_secs(900);

const CONNECTIONS_MAX: usize = 3;

/// Plays what `bytes` say.
///
/// # Panics
/// If something does not hold that must.
pub(crate) fn play(bytes: &[u8]) -> Report {
    count_panics();
    let before = PANICS.get();
    fastrand::seed(1);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O");
    let report = runtime.block_on(game(bytes));
    drop(runtime);
    assert_eq!(PANICS.get(), before, "a task panicked");
    report
}

async fn game(bytes: &[u8]) -> Report {
    let mut choices = Choices::new(bytes);
    clock::now();
    let shared = gateway(&mut choices, spooling(bytes));
    let recorder = Recorder::default();
    let connections = 1 + choices.below(CONNECTIONS_MAX);
    let mut clients = JoinSet::new();
    let mut served = JoinSet::new();
    let mut scripts = Vec::new();
    for _ in 0..connections {
        let room = choices.pick(&[65_536, 65_536, 1_000, 17]);
        let (ours, theirs) = memory::pair(room);
        served.spawn(serve(theirs, shared.clone()));
        scripts.push(match choices.below(10) {
            0..=6 => Script::Http1(ours, http1::Script::read(&mut choices, scripts.len())),
            7..=8 => Script::Http2(ours, http2::Script::read(&mut choices, scripts.len())),
            _ => Script::Noise(ours, http2::noise(&mut choices)),
        });
    }
    for script in scripts {
        let recorder = recorder.clone();
        match script {
            Script::Http1(end, script) => clients.spawn(http1::play(end, script, recorder)),
            Script::Http2(end, script) => clients.spawn(http2::play(end, script, recorder)),
            Script::Noise(end, bytes) => clients.spawn(http2::play_noise(end, bytes, recorder)),
        };
    }
    // What is left decides what the origin does.
    let origin = origin::Origin::new(choices, recorder.clone());
    origin.listen();
    let all = async {
        while let Some(ended) = clients.join_next().await {
            ended.expect("a client does not panic");
        }
        // Panics are counted.
        while served.join_next().await.is_some() {}
        while !is_at_rest(&shared) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    if tokio::time::timeout(STUCK, all).await.is_err() {
        let gate = shared.door.gate();
        let states: Vec<_> = gate.states().collect();
        let buffered = shared.counters.buffered.used();
        panic!("stuck: {states:?}, {buffered} bytes buffered, {:?}", recorder.tapes());
    }
    tiergate::origin::idle::sweep(clock::now(), Duration::ZERO);
    let closed = tokio::time::timeout(STUCK, origin.ended()).await;
    assert!(closed.is_ok(), "connections to the origin stay open: {:?}", recorder.tapes());
    let tapes = recorder.tapes();
    if std::env::var_os("TIERGATE_SHOW").is_some() {
        println!("{tapes:#?}");
    }
    accounts(&shared, &tapes);
    let spooled = shared.counters.spool.requests.total() as usize;
    Report { spooled, ..check::check(&tapes) }
}

enum Script {
    Http1(End, http1::Script),
    Http2(End, http2::Script),
    Noise(End, Vec<u8>),
}

/// Whether and how bodies are spooled: said by all bytes together, so that former choices keep their meaning.
fn spooling(bytes: &[u8]) -> Option<[&'static str; 2]> {
    let sum = bytes.iter().fold(0, |sum: u8, byte| sum.wrapping_mul(31).wrapping_add(*byte));
    match sum % 8 {
        0 | 1 => Some(["64MiB", "1GiB"]),
        2 => Some(["3KiB", "1GiB"]),
        3 => Some(["64MiB", "5KiB"]),
        _ => None,
    }
}

fn gateway(choices: &mut Choices<'_>, spooling: Option<[&'static str; 2]>) -> Arc<Shared> {
    let slots = choices.pick(&["2", "1", "16"]);
    let gathered = choices.pick(&["64KiB", "0B", "1KiB"]);
    let ahead = choices.pick(&["256KiB", "0B", "1KiB"]);
    let memory = choices.pick(&["256MiB", "256MiB", "4KiB", "0B"]);
    let on_cancel = choices.pick(&["learn", "finish", "abort"]);
    let via = choices.one_in(2);
    let [spool_max, spool] = match spooling {
        Some([request, all]) => {
            let directory = std::env::temp_dir();
            let keys = format!("spool_directory = {directory:?}\nspool_request = \"{request}\"\n");
            [format!("spool_max = \"{all}\"\n"), keys]
        }
        None => Default::default(),
    };
    let text = format!(
        "[origin]\nservers = [\"10.0.0.1:80\"]\nslots = {slots}\non_cancel = \"{on_cancel}\"\n\
         failures_max = 0\n[[listener]]\naddress = \"127.0.0.1:80\"\n\
         [forwarding]\npath = \"as_received\"\nbuffer_request = \"{gathered}\"\n\
         buffer_response = \"{ahead}\"\nvia = {via}\n{spool}\
         [limits]\nbuffers_max = \"{memory}\"\n{spool_max}\
         [timeouts]\nrequest_head = \"2s\"\nrequest_body = \"3s\"\nidle = \"4s\"\n\
         response_head = \"6s\"\nresponse_body = \"6s\"\nwrite = \"3s\"\ntunnel_idle = \"5s\"\n"
    );
    start(&text)
}

/// A gateway by the policy in `text`.
pub(crate) fn start(text: &str) -> Arc<Shared> {
    let policy = config::parse(text, "policy.toml").unwrap_or_else(|faults| panic!("{faults}"));
    let counters = Counters::new(1);
    let config = Config::new(policy, 1, None, &counters).expect("one server");
    let shared = Arc::new(Shared::new(config, counters));
    tokio::spawn(timers::run(|| false));
    let ticking = shared.clone();
    tokio::spawn(async move { ticks::run(&ticking.door).await });
    shared
}

/// The gateway's side of a client's connection, as behind a listener.
pub(crate) async fn serve(stream: End, shared: Arc<Shared>) {
    let from: SocketAddr = ([192, 0, 2, 1], 4711).into();
    let local: SocketAddr = ([127, 0, 0, 1], 80).into();
    let entered = shared.connections.enter(from.ip(), UNBOUNDED, || None).await;
    let open = entered.connection.expect("there is room");
    let peer = Box::new(Peer::new(from, local, local, false));
    listen::plain(stream, peer, None, Timer::new(), true, (&open, &shared)).await;
}

fn is_at_rest(shared: &Shared) -> bool {
    let gate = shared.door.gate();
    let holds = |state: tiergate_core::gate::ClassState| {
        state.waiting + state.running + state.requests + state.streams > 0
    };
    let busy = gate.states().any(holds);
    !busy
        && shared.counters.buffered.used() == 0
        && shared.counters.spool.bytes.used() + shared.counters.spool.files.used() == 0
        && shared.connections.open() == 0
        && shared.tunnels.load(std::sync::atomic::Ordering::Relaxed) == 0
}

/// Every request is counted once.
fn accounts(shared: &Shared, tapes: &Tapes) {
    let gate = shared.door.gate();
    let mut arrived = 0;
    for class in &gate.account().classes {
        let ended = class.finished_total() + class.refused_total() + class.cancelled_waiting;
        assert_eq!(class.arrived, ended, "requests at the gate: {class:?}");
        arrived += class.arrived;
    }
    let counted: u64 = shared.counters.sums(|thread| &thread.requests).iter().sum();
    assert!(arrived <= counted, "{arrived} requests at the gate, {counted} counted");
    let most = check::requests_sent(tapes);
    assert!(tapes.noise || counted <= most as u64, "{counted} requests counted, {most} sent");
}
