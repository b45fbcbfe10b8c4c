//! `tiergate calibrate`, the program: origins that are well, and origins that are not.

use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// What an origin does with a request.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// So many workers, each asleep for as long.
    Works(usize, Duration),
    /// The same, and an answer of as many bytes as the path says costs as many µs more for each KiB.
    Sizes(usize, Duration, u64),
    /// 503 beyond so many at once, each of which takes as long.
    Refuses(usize, Duration),
    /// Works, and after so many requests no longer exists.
    Dies(usize),
    /// Works, and a request takes a fifth longer with each second.
    Tires(Duration),
    Status(u16),
    NeverAnswers,
    /// Chunks, again and again.
    NeverEnds,
    /// Closes after each answer.
    Closes(Duration),
    /// Closes a connection instead of answering a second request.
    Silent,
    /// Closes a connection in the middle of the second answer.
    BreaksOff,
}

struct Origin {
    address: SocketAddr,
    most: Arc<AtomicUsize>,
    served: Arc<AtomicUsize>,
    methods: Arc<std::sync::Mutex<Vec<String>>>,
    _runtime: tokio::runtime::Runtime,
}

struct State {
    does: Does,
    workers: Semaphore,
    begun: Instant,
    inside: AtomicUsize,
    most: Arc<AtomicUsize>,
    served: Arc<AtomicUsize>,
    methods: Arc<std::sync::Mutex<Vec<String>>>,
}

impl Origin {
    fn start(does: Does) -> Self {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().expect("a runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("an address");
        let address = listener.local_addr().expect("bound");
        let workers = match does {
            Does::Works(workers, _) | Does::Sizes(workers, ..) => workers,
            Does::Tires(_) => 4,
            _ => 1000,
        };
        let (most, served, methods) = (Arc::default(), Arc::default(), Arc::default());
        let state = Arc::new(State {
            does,
            workers: Semaphore::new(workers),
            begun: Instant::now(),
            inside: AtomicUsize::new(0),
            most: Arc::clone(&most),
            served: Arc::clone(&served),
            methods: Arc::clone(&methods),
        });
        runtime.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                if is_dead(&state) {
                    return;
                }
                tokio::spawn(serve(stream, state.clone()));
            }
        });
        Origin { address, most, served, methods, _runtime: runtime }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl State {
    fn note(&self, method: String) {
        let mut methods = self.methods.lock().expect("no panic");
        if !methods.contains(&method) {
            methods.push(method);
        }
    }
}

fn is_dead(state: &State) -> bool {
    matches!(state.does, Does::Dies(after) if state.served.load(Ordering::Relaxed) >= after)
}

async fn serve(stream: TcpStream, state: Arc<State>) -> Option<()> {
    let (read, mut write) = stream.into_split();
    let mut lines = BufReader::new(read).lines();
    for number in 0.. {
        let first = lines.next_line().await.ok()??;
        while !lines.next_line().await.ok()??.is_empty() {}
        let mut words = first.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        state.note(method);
        let inside = state.inside.fetch_add(1, Ordering::Relaxed) + 1;
        state.most.fetch_max(inside, Ordering::Relaxed);
        let goes_on = answer(&path, inside, number == 0, &mut write, &state).await;
        state.inside.fetch_sub(1, Ordering::Relaxed);
        state.served.fetch_add(1, Ordering::Relaxed);
        goes_on?;
        if is_dead(&state) {
            return None;
        }
    }
    None
}

async fn answer(
    path: &str,
    inside: usize,
    is_first: bool,
    write: &mut OwnedWriteHalf,
    state: &State,
) -> Option<()> {
    let mut bytes = 2;
    let mut status = 200;
    match state.does {
        Does::Works(_, time) => {
            let _worker = state.workers.acquire().await.ok()?;
            sleep(time).await;
        }
        Does::Sizes(_, time, us) => {
            let kib: u64 = path.trim_start_matches('/').parse().unwrap_or(1);
            bytes = kib as usize * 1024;
            let _worker = state.workers.acquire().await.ok()?;
            sleep(time + Duration::from_micros(us * kib)).await;
        }
        Does::Refuses(most, _) if inside > most => status = 503,
        Does::Refuses(_, time) | Does::Closes(time) => sleep(time).await,
        Does::Dies(_) => sleep(Duration::from_millis(5)).await,
        Does::Tires(time) => {
            let _worker = state.workers.acquire().await.ok()?;
            sleep(time.mul_f64(1.2f64.powf(state.begun.elapsed().as_secs_f64()))).await;
        }
        Does::Silent | Does::BreaksOff if is_first => sleep(Duration::from_millis(2)).await,
        Does::Silent => return None,
        Does::BreaksOff => {
            let part = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\na part";
            write.write_all(part.as_bytes()).await.ok()?;
            return None;
        }
        Does::Status(is) => status = is,
        Does::NeverAnswers => std::future::pending().await,
        Does::NeverEnds => {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            write.write_all(head.as_bytes()).await.ok()?;
            loop {
                write.write_all(b"5\r\nagain\r\n").await.ok()?;
                sleep(Duration::from_millis(5)).await;
            }
        }
    }
    let close = matches!(state.does, Does::Closes(_));
    let connection = if close { "Connection: close\r\n" } else { "" };
    let head = format!("HTTP/1.1 {status} X\r\n{connection}Content-Length: {bytes}\r\n\r\n");
    let whole = [head.as_bytes(), &vec![b'x'; bytes]].concat();
    write.write_all(&whole).await.ok()?;
    (!close).then_some(())
}

fn calibrate(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.arg("calibrate").args(words).stdin(Stdio::null()).output().expect("it was built")
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn json(words: &[&str]) -> Value {
    let output = calibrate(&[words, &["--json"]].concat());
    let (stdout, stderr) = said(&output);
    serde_json::from_str(&stdout).unwrap_or_else(|fault| panic!("{fault}: {stdout} {stderr}"))
}

/// Tries a measurement up to three times, since other programs on this machine may keep its processors busy for seconds.
fn undisturbed(measure: impl Fn() + std::panic::RefUnwindSafe) {
    for _ in 0..2 {
        if std::panic::catch_unwind(&measure).is_ok() {
            return;
        }
    }
    measure();
}

#[test]
fn workers_that_sleep_are_found_and_a_policy_is_written() {
    undisturbed(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("first.toml").display().to_string();
        let origin = Origin::start(Does::Works(4, Duration::from_millis(40)));
        let output = calibrate(&[&origin.url(), "--write", &file, "--time", "12s"]);
        let (stdout, stderr) = said(&output);
        assert_eq!(output.status.code(), Some(0), "{stdout} {stderr}");
        let line = stdout.lines().find_map(|line| line.strip_prefix("capacity: ")).expect("a line");
        // Where others keep this machine busy, there may be no time to see it a second time.
        let line = line.trim_start_matches("at least ");
        let rate: f64 = line.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
        assert!((85.0..=105.0).contains(&rate), "4 workers, 40 ms: {line}");
        assert!(stdout.contains("bottleneck: the origin's own concurrency"), "{stdout}");
        assert!(!stdout.contains('\x1b'), "colours are for terminals: {stdout}");
        assert!(stderr.contains("At most 256 requests at once"), "{stderr}");
        let most = origin.most.load(Ordering::Relaxed);
        assert!(most <= 16, "{most} at once");
        assert_eq!(*origin.methods.lock().expect("no panic"), ["GET"]);
        // The policy is one, and is not written twice.
        let policy = tiergate::config::load(Path::new(&file)).expect("a policy");
        assert_eq!(tiergate::cli::check::warnings(&policy), [] as [&str; 0]);
        let again = calibrate(&[&origin.url(), "--write", &file]);
        assert_eq!(again.status.code(), Some(1));
        assert!(said(&again).1.contains("never overwrites"), "{:?}", said(&again));
    });
}

#[test]
fn a_request_and_a_mebibyte_are_told_apart() {
    undisturbed(|| {
        // 10 ms, and 100 µs a KiB, of two workers: 5 ms and 51.2 ms of the whole origin.
        let origin = Origin::start(Does::Sizes(2, Duration::from_millis(10), 100));
        let url = format!("{}8", origin.url());
        let found = json(&[&url, "/128", "--time", "10s"]);
        let of = |name: &str| found["cost"][name]["value"].as_f64().expect("a number");
        let (request, mebibyte) = (of("request") * 1e3, of("mebibyte") * 1e3);
        // Sleeping takes a millisecond longer than it should.
        assert!((4.5..=6.5).contains(&request), "{request} ms: {found:#}");
        assert!((45.0..=58.0).contains(&mebibyte), "{mebibyte} ms: {found:#}");
    });
}

#[test]
fn an_origin_that_refuses_is_not_pressed() {
    undisturbed(|| {
        let origin = Origin::start(Does::Refuses(8, Duration::from_millis(40)));
        let found = json(&[&origin.url(), "--time", "11s"]);
        let resource = &found["resources"][0];
        assert_eq!(resource["end"], "refused", "{found:#}");
        assert_eq!(resource["capacity"]["knee"]["concurrency"], 8, "{found:#}");
        assert!(origin.most.load(Ordering::Relaxed) <= 16);
    });
}

#[test]
fn an_origin_that_dies_is_reported_with_what_was_seen() {
    undisturbed(|| {
        let origin = Origin::start(Does::Dies(900));
        let output = calibrate(&[&origin.url(), "--time", "15s"]);
        let (stdout, stderr) = said(&output);
        assert_eq!(output.status.code(), Some(1), "{stdout} {stderr}");
        assert!(stdout.contains("at least") && stdout.contains("requests failed:"), "{stdout}");
        assert!(stderr.contains("tiergate: http://127.0.0.1:"), "{stderr}");
        let served = origin.served.load(Ordering::Relaxed);
        assert!(served < 1000, "{served}");
    });
}

#[test]
fn an_origin_that_becomes_slower_has_no_capacity() {
    undisturbed(|| {
        let origin = Origin::start(Does::Tires(Duration::from_millis(10)));
        let found = json(&[&origin.url(), "--time", "8s"]);
        let resource = &found["resources"][0];
        // Also where the time was over before the load had gone back: then nothing confirms it.
        assert_eq!(resource["is_capacity"], false, "{found:#}");
        assert!(origin.most.load(Ordering::Relaxed) <= 32);
    });
}

#[test]
fn connections_that_close_are_no_failures() {
    undisturbed(|| {
        let origin = Origin::start(Does::Closes(Duration::from_millis(20)));
        let found = json(&[&origin.url(), "--time", "12s", "--concurrency", "4"]);
        let resource = &found["resources"][0];
        assert_eq!(
            (&resource["end"], &resource["failure"]),
            (&"concurrency".into(), &Value::Null),
            "{found:#}"
        );
    });
}

#[test]
fn what_is_sent_once_more_counts_and_answers_that_break_off_are_failures() {
    undisturbed(|| {
        let origin = Origin::start(Does::Silent);
        let found = json(&[&origin.url(), "--requests", "100", "--time", "6s"]);
        assert_eq!(found["resources"][0]["end"], "requests", "{found:#}");
        let served = origin.served.load(Ordering::Relaxed);
        assert!((50..=101).contains(&served), "{served}");
        let origin = Origin::start(Does::BreaksOff);
        let found = json(&[&origin.url(), "--time", "6s"]);
        assert_eq!(found["resources"][0]["end"], "failed", "{found:#}");
        let why = found["fault"].as_str().expect("it failed");
        assert!(why.contains("the answer broke off"), "{why}");
    });
}

#[test]
fn bounds_hold() {
    let origin = Origin::start(Does::Works(1000, Duration::from_millis(10)));
    let begun = Instant::now();
    let found = json(&[&origin.url(), "--time", "3s"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(found["resources"][0]["end"], "time");
    // Those that it was working on when the time was over.
    std::thread::sleep(Duration::from_millis(200));
    let before = origin.served.load(Ordering::Relaxed);
    let found = json(&[&origin.url(), "--requests", "150", "--time", "10s"]);
    assert_eq!(found["resources"][0]["end"], "requests", "{found:#}");
    // And the one before any load.
    assert!(origin.served.load(Ordering::Relaxed) - before <= 151);
    let found = json(&[&origin.url(), "--rate", "150", "--time", "6s"]);
    let resource = &found["resources"][0];
    assert_eq!(resource["end"], "rate", "{found:#}");
    assert!(resource["capacity"]["rate"]["value"].as_f64() <= Some(160.0), "{found:#}");
}

#[test]
fn what_does_not_answer_as_it_should_is_not_loaded() {
    // Bound and not listening, so that no other program gets the port.
    let held = tokio::net::TcpSocket::new_v4().expect("a socket");
    held.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let nobody = format!("http://{}/", held.local_addr().expect("bound"));
    let fault = |words: &[&str]| {
        let output = calibrate(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        said(&output).1
    };
    assert!(fault(&[&nobody]).contains("Connection refused"), "{}", fault(&[&nobody]));
    assert!(fault(&["https://127.0.0.1/"]).contains("https is not supported"));
    assert!(fault(&["http://no-such-host.invalid/"]).contains("no such host"));
    let public = fault(&["http://203.0.113.1/"]);
    assert!(
        public.contains("neither loopback nor private") && public.contains("--yes"),
        "{public}"
    );
    for (does, why) in [
        (Does::Status(404), "answers 404"),
        (Does::Status(302), "give the address that it leads to"),
        (Does::Status(500), "before any load"),
        (Does::Status(503), "before any load"),
        (Does::NeverAnswers, "no complete answer within 700ms"),
        (Does::NeverEnds, "no complete answer within 700ms"),
    ] {
        let origin = Origin::start(does);
        let said = fault(&[&origin.url(), "--timeout", "700ms"]);
        assert!(said.contains(why), "{does:?}: {said}");
        assert!(origin.most.load(Ordering::Relaxed) <= 1, "{does:?}");
    }
}

#[test]
fn ctrl_c_ends_it_with_what_was_seen() {
    let origin = Origin::start(Does::Works(100, Duration::from_millis(20)));
    let child = Command::new(env!("CARGO_BIN_EXE_tiergate"))
        .args(["calibrate", &origin.url(), "--time", "15s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    std::thread::sleep(Duration::from_millis(2500));
    let pid = rustix::process::Pid::from_raw(child.id() as i32).expect("a process has a number");
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let begun = Instant::now();
    let output = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let (stdout, stderr) = said(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout} {stderr}");
    assert!(
        stdout.contains("interrupted") && stderr.contains("tiergate: interrupted"),
        "{stdout} {stderr}"
    );
    // Those that it was working on.
    std::thread::sleep(Duration::from_millis(300));
    let served = origin.served.load(Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(origin.served.load(Ordering::Relaxed), served, "nothing is sent any more");
}
