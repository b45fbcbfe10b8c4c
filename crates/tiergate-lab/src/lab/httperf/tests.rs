use super::figures::{Figures, Sessions, merge, read};
use super::*;
use crate::load::counts::Counts;
use crate::process::free_address;

/// Half of the answers 503: what httperf 0.9.0 printed, as all below.
const CONNECTIONS: &str = "Maximum connect burst length: 1

Total: connections 100 requests 100 replies 100 test-duration 1.992 s

Connection rate: 50.2 conn/s (19.9 ms/conn, <=2 concurrent connections)
Connection time [ms]: min 8.5 avg 12.9 max 24.0 median 11.5 stddev 3.1
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 1.000

Request rate: 50.2 req/s (19.9 ms/req)
Request size [B]: 66.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 12.9 transfer 0.0
Reply size [B]: header 121.0 content 500.0 footer 0.0 (total 621.0)
Reply status: 1xx=0 2xx=50 3xx=0 4xx=0 5xx=50

CPU time [s]: user 0.26 system 1.02 (user 13.2% system 51.1% total 64.3%)
Net I/O: 33.7 KB/s (0.3*10^6 bps)

Errors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";

/// One in four takes longer than the client waits.
const TIMEOUTS: &str = "Maximum connect burst length: 2

Total: connections 100 requests 100 replies 75 test-duration 2.824 s

Connection rate: 35.4 conn/s (28.2 ms/conn, <=18 concurrent connections)
Connection time [ms]: min 10.5 avg 13.2 max 20.3 median 12.5 stddev 2.7
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 1.000

Request rate: 35.4 req/s (28.2 ms/req)
Request size [B]: 66.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 13.1 transfer 0.0
Reply size [B]: header 113.0 content 500.0 footer 0.0 (total 613.0)
Reply status: 1xx=0 2xx=75 3xx=0 4xx=0 5xx=0

CPU time [s]: user 0.11 system 1.74 (user 4.0% system 61.5% total 65.5%)
Net I/O: 18.2 KB/s (0.1*10^6 bps)

Errors: total 25 client-timo 25 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";

/// Nobody listens.
const REFUSED: &str = "Maximum connect burst length: 1

Total: connections 20 requests 0 replies 0 test-duration 0.382 s

Connection rate: 52.3 conn/s (19.1 ms/conn, <=1 concurrent connections)
Connection time [ms]: min 0.0 avg 0.0 max 0.0 median 0.0 stddev 0.0
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 0.000

Request rate: 0.0 req/s (0.0 ms/req)
Request size [B]: 0.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 0.0 transfer 0.0
Reply size [B]: header 0.0 content 0.0 footer 0.0 (total 0.0)
Reply status: 1xx=0 2xx=0 3xx=0 4xx=0 5xx=0

CPU time [s]: user 0.05 system 0.21 (user 12.5% system 55.5% total 68.0%)
Net I/O: 0.0 KB/s (0.0*10^6 bps)

Errors: total 20 client-timo 0 socket-timo 0 connrefused 20 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0
";

/// Sessions of four calls, one call in three refused.
const SESSIONS: &str = "Maximum connect burst length: 1

Total: connections 20 requests 55 replies 55 test-duration 3.975 s

Connection rate: 5.0 conn/s (198.8 ms/conn, <=2 concurrent connections)
Connection time [ms]: min 13.6 avg 174.8 max 439.9 median 159.5 stddev 88.1
Connection time [ms]: connect 0.0
Connection length [replies/conn]: 2.750

Request rate: 13.8 req/s (72.3 ms/req)
Request size [B]: 67.0

Reply rate [replies/s]: min 0.0 avg 0.0 max 0.0 stddev 0.0 (0 samples)
Reply time [ms]: response 12.6 transfer 12.3
Reply size [B]: header 118.0 content 500.0 footer 0.0 (total 618.0)
Reply status: 1xx=0 2xx=36 3xx=0 4xx=0 5xx=19

CPU time [s]: user 0.43 system 2.18 (user 10.9% system 54.9% total 65.8%)
Net I/O: 9.3 KB/s (0.1*10^6 bps)

Errors: total 0 client-timo 0 socket-timo 0 connrefused 0 connreset 0
Errors: fd-unavail 0 addrunavail 0 ftab-full 0 other 0

Session rate [sess/s]: min 0.00 avg 0.25 max 0.00 stddev 0.00 (1/20)
Session: avg 1.00 connections/session
Session lifetime [s]: 0.3
Session failtime [s]: 0.2
Session length histogram: 0 1 5 12 2
";

#[test]
fn figures_of_connections_are_read() {
    let figures = read(CONNECTIONS, false).unwrap();
    let expected = Figures {
        counts: Counts { sent: 100, ok: 50, refused: 50, ..Counts::default() },
        mean_ms: 12.9,
        p50_ms: Some(11.5),
        seconds: 1.992,
        ..Figures::default()
    };
    assert_eq!(figures, expected);
    let figures = read(TIMEOUTS, false).unwrap();
    assert_eq!((figures.counts.sent, figures.counts.ok, figures.counts.timed_out), (100, 75, 25));
    let figures = read(REFUSED, false).unwrap();
    assert_eq!((figures.counts.sent, figures.counts.ok, figures.counts.failed), (20, 0, 20));
    assert_eq!(read("httperf: no such server", false), None);
    assert_eq!(read(CONNECTIONS, true), None, "no sessions there");
}

#[test]
fn figures_of_sessions_are_read() {
    let figures = read(SESSIONS, true).unwrap();
    assert_eq!(figures.sessions, Some(Sessions { begun: 20, completed: 1 }));
    assert_eq!((figures.counts.sent, figures.counts.ok, figures.counts.refused), (55, 36, 19));
    assert_eq!((figures.mean_ms, figures.p50_ms), (12.6, None));
}

#[test]
fn a_client_that_is_the_bottleneck_voids_its_figures() {
    assert_eq!(read(CONNECTIONS, false).unwrap().void(), None);
    let starved = CONNECTIONS.replace("fd-unavail 0", "fd-unavail 7");
    let figures = read(&starved, false).unwrap();
    assert_eq!((figures.unsent, figures.counts.sent), (7, 100));
    assert!(figures.void().unwrap().contains("7 connections"));
    let late = |late_ms| Figures { late_ms, ..read(CONNECTIONS, false).unwrap() };
    assert_eq!(late(49.0).void(), None);
    assert!(late(60.0).void().unwrap().contains("60 ms behind its schedule"));
}

#[test]
fn processes_of_a_workload_sum_up() {
    let part = |ok, mean_ms, p50_ms| Figures {
        counts: Counts { sent: ok + 1, ok, timed_out: 1, ..Counts::default() },
        mean_ms,
        p50_ms: Some(p50_ms),
        seconds: mean_ms,
        ..Figures::default()
    };
    let sum = merge(&[part(10, 20.0, 15.0), part(30, 40.0, 35.0)]);
    assert_eq!((sum.counts.sent, sum.counts.ok, sum.counts.timed_out), (42, 40, 2));
    assert_eq!((sum.mean_ms, sum.p50_ms, sum.seconds), (35.0, Some(30.0), 40.0));
    let sessions = read(SESSIONS, true).unwrap();
    let both = merge(&[sessions.clone(), sessions]);
    assert_eq!(both.sessions, Some(Sessions { begun: 40, completed: 2 }));
    assert_eq!(both.p50_ms, None);
}

fn gold() -> Population {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Population {
        name: "gold".into(),
        paths: vec!["/gold?x=1".into()],
        headers: vec![header("Cookie", "user=gold"), header("X-A", "b")],
        patience: Duration::from_secs(10),
        ..Population::default()
    }
}

fn thinking(requests: u32, think: Duration) -> Population {
    let session = Some(Session { requests: Some(requests), think, marked: None });
    Population { session, ..gold() }
}

fn workload(population: &Population, rate: f64) -> Workload<'_> {
    let step = Step { rate, lasting: Duration::from_secs(5) };
    Workload { population, step, uris: population.paths.clone() }
}

fn place(target: SocketAddr, scratch: &Path) -> Place<'_> {
    Place { target, scratch, namespace: None, processors: None }
}

#[test]
fn a_rate_is_split_so_that_descriptors_suffice() {
    let population = gold();
    let gold = workload(&population, 200.0);
    let long = |mut workload: Workload<'_>| {
        workload.step.lasting = Duration::from_secs(60);
        workload.processes().unwrap()
    };
    assert_eq!(long(gold.clone()), 3, "2,000 connections open at once");
    assert_eq!(gold.processes().unwrap(), 2, "1,000 in all");
    let target = "127.0.0.1:80".parse().unwrap();
    let args = |part| gold.args(part, 3, &place(target, Path::new("/"))).unwrap();
    let expected = [
        "--server=127.0.0.1",
        "--port=80",
        "--client=1/3",
        "--timeout=10",
        "--period=e0.015000000",
        "--uri=/gold?x=1",
        "--num-conns=333",
        "--add-header=Cookie: user=gold\\nX-A: b\\n",
    ];
    assert_eq!(args(1), expected);
    assert!(args(0).contains(&"--num-conns=334".into()), "1,000 in all");
    let processes = |population, rate| workload(population, rate).processes();
    assert_eq!(processes(&population, 90.0).unwrap(), 1);
    let sessions = thinking(10, Duration::from_secs(1));
    assert_eq!(long(workload(&sessions, 90.0)), 2, "90 a second, 20 s each");
    assert_eq!(processes(&sessions, 90.0).unwrap(), 1, "450 in all");
    assert!(processes(&population, 1e5).is_err());
    assert!(processes(&population, 0.0).is_err());
    let headers = vec![("A".into(), "b\\nHost: c".into())];
    let injected = Population { headers, ..population };
    assert!(workload(&injected, 1.0).args(0, 1, &place(target, Path::new("/"))).is_err());
}

/// Answers every request with what it asked for, by a server of the lab's own.
async fn serve(target: SocketAddr) -> tokio::task::JoinHandle<()> {
    let listener = tokio::net::TcpListener::bind(target).await.unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let service = hyper::service::service_fn(async |request: http::Request<_>| {
                    let _: &hyper::body::Incoming = request.body();
                    let gold = request.headers().get("cookie").is_some_and(|v| v == "user=gold");
                    let status = match request.uri().path() {
                        "/refused" => 503,
                        "/gold" if gold => 200,
                        "/0/0.html" | "/0/1.html" | "/0/2.html" => 200,
                        _ => 404,
                    };
                    let body = http_body_util::Full::new(bytes::Bytes::from_static(b"page"));
                    http::Response::builder().status(status).body(body)
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(hyper_util::rt::TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

#[tokio::test]
async fn several_workloads_run_at_once_and_their_figures_are_told_apart() {
    let scratch = tempfile::tempdir().unwrap();
    let target = free_address().unwrap();
    let server = serve(target).await;
    let (single, sessions) = (gold(), thinking(3, Duration::ZERO));
    // Two processes: more begin than one may have open.
    let patient = Population { patience: Duration::from_secs(20), ..gold() };
    let of = |population, uris: &[&str]| {
        let step = Step { rate: 50.0, lasting: Duration::from_secs(2) };
        Workload { population, step, uris: uris.iter().map(|uri| (*uri).into()).collect() }
    };
    let site = super::super::surge::paths(3);
    let workloads = [
        of(&single, &["/gold?x=1"]),
        of(&single, &["/refused"]),
        Workload {
            step: Step { rate: 460.0, lasting: Duration::from_secs(2) },
            uris: site,
            ..of(&patient, &[])
        },
        of(&sessions, &["/gold?x=1"]),
    ];
    let figures = run(&workloads, &place(target, scratch.path())).await.unwrap();
    server.abort();
    let counts: Vec<_> =
        figures.iter().map(|f| (f.counts.sent, f.counts.ok, f.counts.refused)).collect();
    assert_eq!(counts, [(100, 100, 0), (100, 0, 100), (920, 920, 0), (300, 300, 0)]);
    assert_eq!(workloads[2].processes().unwrap(), 2);
    assert_eq!(figures[3].sessions, Some(Sessions { begun: 100, completed: 100 }));
    for figures in &figures {
        assert_eq!((figures.counts.failed, figures.counts.timed_out, figures.unsent), (0, 0, 0));
        assert!(figures.mean_ms < 2000.0 && figures.seconds > 1.0, "{figures:?}");
    }
}
