use super::*;
use crate::lab::{httperf, surge};
use crate::load::{Arrivals, Population, Step};
use crate::process::{Program, free_address, output};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

fn read(text: &str) -> Result<Server, toml::de::Error> {
    toml::from_str(text)
}

#[test]
fn a_file_says_what_the_server_is() {
    let workers = read(
        "kind = 'workers'\nworkers = 16\nservice = '40ms'\ndist = 'exponential'\nwork = 'cpu'\n\
         routes = ['/report=200ms']\ntimeline = '8s:workers=8'\nthrash = '16:0.5'\n",
    )
    .unwrap();
    assert_eq!((workers.capacity(), workers.slots()), (None, 16), "routes: it depends");
    let Server::Workers(settings) = &workers else { panic!("{workers:?}") };
    assert_eq!(settings.dist, origin::Spread::Exponential);
    assert_eq!((settings.kind, settings.timeline.0.len()), (origin::Kind::Cpu, 1));
    let written = toml::to_string(&workers).unwrap();
    assert_eq!(read(&written).unwrap(), workers, "{written}");
    assert_eq!(read("kind = 'workers'").unwrap().capacity(), Some(400.0));
    let apache = read("kind = 'apache'\nworkers = 8\nkeep_alive = '0'").unwrap();
    assert_eq!((apache.capacity(), apache.slots()), (None, 8));
    assert_eq!(read("kind = 'nginx'").unwrap().slots(), Nginx::default().slots);
    assert_eq!(read("kind = 'app'\nworkers = 5").unwrap().slots(), 5);
    for (text, slots) in [
        ("kind = 'gunicorn'\nworkers = 3\nthreads = 4", 12),
        ("kind = 'node'\nslots = 5", 5),
        ("kind = 'go'", 8),
        ("kind = 'jetty'\nthreads = 50", 50),
        ("kind = 'php'\nchildren = 6", 6),
        ("kind = 'postgres'\nthreads = 2", 4),
    ] {
        let server = read(text).unwrap();
        assert_eq!((server.capacity(), server.slots()), (None, slots), "{text}");
        assert!(server.computes(), "{text}");
        assert_eq!(read(&toml::to_string(&server).unwrap()).unwrap(), server);
    }
}

#[test]
fn mistakes_in_a_file_are_told() {
    for (wrong, why) in [
        ("kind = 'iis'", "iis"),
        ("workers = 1", "kind"),
        ("kind = 'workers'\nworker = 1", "worker"),
        ("kind = 'workers'\nservice = '40'", "40ms"),
        ("kind = 'workers'\ntimeline = '8s'", "TIME:CHANGE"),
        ("kind = 'workers'\nlisten = '127.0.0.1:1'", "listen"),
        ("kind = 'app'\nservice = '1s'", "service"),
        ("kind = 'apache'\nthreads = 1", "threads"),
        ("kind = 'nginx'\nworkers = 1", "workers"),
        ("kind = 'gunicorn'\nslots = 1", "slots"),
        ("kind = 'node'\nworkers = 1", "workers"),
        ("kind = 'php'\nthreads = 1", "threads"),
        ("kind = 'postgres'\nconnections = 1", "connections"),
    ] {
        let error = read(wrong).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn configurations_are_filled_in_whole() {
    let (listen, scratch) = (free_address().unwrap(), Path::new("/scratch"));
    let place = Place { scratch, listen, namespace: None, processors: None };
    let files = Path::new("/scratch/files");
    let apache = Apache::default().configuration(&place, files).unwrap();
    for text in [apache, nginx::configuration(&place, files)] {
        assert!(!text.contains('@'), "{text}");
        assert!(text.contains(&listen.to_string()) && text.contains("/scratch/files"), "{text}");
    }
    let none = Apache { workers: 0, ..Apache::default() };
    assert!(none.configuration(&place, files).is_err());
}

#[test]
fn the_origins_account_is_its_last_line() {
    let said =
        "origin on 127.0.0.1:1, capacity 400 requests/s\n{\"served\":5898,\"wasted\":1751}\n";
    assert_eq!(counts_in(said), Some(Counts { served: 5898, wasted: 1751 }));
    assert_eq!(counts_in("nginx: no such file\n"), None);
}

/// Status and length of an answer, by curl.
async fn curl(address: SocketAddr, path: &str) -> (u16, usize) {
    let url = format!("http://{address}{path}");
    let program = Program::new("curl", "curl").args([
        "-s",
        "-m",
        "10",
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{size_download}",
        &url,
    ]);
    let said = output(program, Duration::from_secs(20)).await.unwrap();
    let (status, bytes) = said.split_once(' ').unwrap();
    (status.parse().unwrap(), bytes.parse().unwrap())
}

async fn start(server: &Server, scratch: &Path) -> (Started, SocketAddr) {
    let listen = free_address().unwrap();
    let place = Place { scratch, listen, namespace: None, processors: None };
    (server.start(&place).await.unwrap(), listen)
}

#[tokio::test]
async fn apache_serves_files_and_pages_and_ends_with_all_its_processes() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::Apache(Apache { workers: 4, files: 20, ..Apache::default() });
    let (mut started, address) = start(&server, scratch.path()).await;
    for path in started.paths.clone() {
        let file = scratch.path().join("origin/files").join(&path[1..]);
        let bytes = std::fs::metadata(file).unwrap().len() as usize;
        assert_eq!(curl(address, &path).await, (200, bytes), "{path}");
    }
    assert_eq!(curl(address, "/cgi-bin/page").await, (200, 8192));
    assert_eq!(curl(address, "/cgi-bin/page?us=100&bytes=2204").await, (200, 2204));
    assert_eq!(curl(address, "/cgi-bin/page?bytes=6401").await, (200, 6401));
    assert_eq!(curl(address, "/none").await.0, 404);
    assert!(started.ended().is_none());
    // Ended in the middle of long pages, nothing of it stays.
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(tokio::spawn(curl_quietly(address)));
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let group = started.running[0].pid();
    assert!(members(group).len() > 4, "{:?}", members(group));
    assert_eq!(started.stop(), None);
    assert_eq!(members(group), Vec::<u32>::new());
    for task in busy {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn applications_serve_their_pages_and_leave_nothing_behind() {
    for kind in ["gunicorn", "node", "go", "jetty", "php", "postgres"] {
        let server = read(&format!("kind = '{kind}'")).unwrap();
        if let Err(why) = server.installed() {
            println!("not tested: {why:#}");
            continue;
        }
        let scratch = crate::process::scratch().unwrap();
        let (mut started, address) = start(&server, scratch.path()).await;
        assert_eq!(curl(address, "/none").await.0, 404, "{kind}");
        for page in ["/checkout", "/browse"] {
            let (status, bytes) = curl(address, page).await;
            assert!(status == 200 && bytes > 1000, "{kind} {page}: {status}, {bytes} bytes");
        }
        assert_eq!(started.ended(), None, "{kind}");
        let groups: Vec<u32> = started.running.iter().map(Running::pid).collect();
        assert!(groups.iter().all(|group| !members(*group).is_empty()), "{kind}");
        assert_eq!(started.stop(), None, "{kind}");
        for group in groups {
            assert_eq!(members(group), Vec::<u32>::new(), "{kind}");
        }
    }
}

#[test]
fn applications_are_filled_in_whole() {
    let scratch = tempfile::tempdir().unwrap();
    let listen = free_address().unwrap();
    let place = Place { scratch: scratch.path(), listen, namespace: None, processors: None };
    std::fs::create_dir_all(place.dir()).unwrap();
    let values = [("TOLD", String::new()), ("WORKERS", "2".into()), ("THREADS", "8".into())];
    let template = include_str!("../../../origins/gunicorn/gunicorn.conf.py");
    let text = std::fs::read_to_string(place.write("x", template, &values).unwrap()).unwrap();
    assert!(!text.contains('@') && text.contains(&format!("bind = \"{listen}\"")), "{text}");
    let values = [("USER", String::new()), ("CHILDREN", "16".into())];
    let text = place.filled(include_str!("../../../origins/php/php-fpm.conf"), &values);
    assert!(!text.contains('@') && text.contains("pm.max_children = 16"), "{text}");
    let text = place.filled(include_str!("../../../origins/php/nginx.conf"), &[]);
    assert!(!text.contains('@'), "{text}");
}

/// A page of ten seconds, given up when the server ends.
async fn curl_quietly(address: SocketAddr) {
    let url = format!("http://{address}/cgi-bin/page?us=10000000");
    let program = Program::new("curl", "curl").args(["-s", "-m", "10", &url]);
    let _ = output(program, Duration::from_secs(20)).await;
}

/// The processes of a process group.
fn members(group: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // After the name in parentheses: state, parent, group.
        let mut fields = stat.rsplit(')').next().unwrap_or("").split_ascii_whitespace();
        let zombie = fields.next() == Some("Z");
        !zombie && fields.nth(1) == Some(&group.to_string())
    })
    .collect()
}

#[tokio::test]
async fn nginx_serves_files_and_ends() {
    let scratch = tempfile::tempdir().unwrap();
    let server = Server::Nginx(Nginx { files: 20, ..Nginx::default() });
    let (started, address) = start(&server, scratch.path()).await;
    for path in started.paths.clone() {
        let file = scratch.path().join("origin/files").join(&path[1..]);
        let bytes = std::fs::metadata(file).unwrap().len() as usize;
        assert_eq!(curl(address, &path).await, (200, bytes), "{path}");
    }
    assert_eq!(curl(address, "/none").await.0, 404);
    let group = started.running[0].pid();
    assert_eq!(members(group).len(), 2);
    assert_eq!(started.stop(), None);
    assert_eq!(members(group), Vec::<u32>::new());
}

/// A network namespace with nothing but loopback; removed when dropped.
struct Namespace(String);

impl Namespace {
    /// `None`: we may not.
    fn make() -> Option<Self> {
        let name = format!("tgtest-{}", std::process::id());
        ip(&["netns", "add", &name]).then(|| {
            assert!(ip(&["-n", &name, "link", "set", "lo", "up"]));
            Self(name)
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "del", &self.0]);
    }
}

fn ip(args: &[&str]) -> bool {
    std::process::Command::new("ip").args(args).status().is_ok_and(|status| status.success())
}

#[tokio::test]
async fn a_site_is_asked_by_popularity_in_a_network_of_its_own() {
    let Some(network) = Namespace::make() else {
        eprintln!("not tested: making a network namespace needs root");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    let listen = SocketAddr::from(([127, 0, 0, 1], 80));
    let namespace = Some(network.0.as_str());
    let place = Place { scratch: scratch.path(), listen, namespace, processors: Some("0") };
    for server in [Server::Nginx(Nginx::default()), Server::Apache(Apache::default())] {
        let mut started = server.start(&place).await.unwrap();
        let population = Population {
            patience: Duration::from_secs(5),
            arrivals: Arrivals::Constant,
            ..Population::default()
        };
        let workload = httperf::Workload {
            population: &population,
            step: Step { rate: 100.0, lasting: Duration::from_secs(2) },
            uris: surge::requests(&started.paths, 1000, 1),
        };
        let (target, processors, scratch) = (listen, place.processors, scratch.path());
        let clients = httperf::Place { target, scratch, namespace, processors };
        let figures = httperf::run(&[workload], &clients).await.unwrap();
        let figures = &figures[0];
        assert_eq!(
            (figures.counts.ok, figures.counts.sent, figures.unsent),
            (200, 200, 0),
            "{figures:?}"
        );
        assert_eq!(started.ended(), None);
        started.stop();
    }
}
