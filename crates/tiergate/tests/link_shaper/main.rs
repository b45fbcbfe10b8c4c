//! `tiergate link`: the shaper on a link between two network namespaces, by the packets that its classes have sent; and a gateway that
//! marks what it sends. Needs the right to make namespaces.

mod network;
#[path = "../support/mod.rs"]
mod support;

use network::{Network, TO};
use std::process::{Output, Stdio};
use std::time::Duration;
use support::process::{Process, program};
use support::{eventually, eventually_is, eventually_within};

const TIERGATE: &str = env!("CARGO_BIN_EXE_tiergate");
const SEND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/link_shaper/send.py");
const FOREGROUND: &str = "71e9:10";
const BACKGROUND: &str = "71e9:20";
/// The field of the code point LE, and of others near it.
const LE: u8 = 1 << 2;

fn link(network: &Network, words: &[&str]) -> Output {
    network.run(&[&[TIERGATE, "link"], words].concat())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What it prints where it succeeds.
fn done(network: &Network, words: &[&str]) -> String {
    let output = link(network, words);
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// What it says where it fails.
fn fails(network: &Network, words: &[&str]) -> String {
    let output = link(network, words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {}", text(&output.stdout));
    text(&output.stderr)
}

fn setup(network: &Network, capacity: &str) -> String {
    done(network, &["setup", "out", "--capacity", capacity, "--yes"])
}

fn send(network: &Network, to: &str, field: u8, how_many: &str) {
    network.text(&["python3", SEND, to, &field.to_string(), how_many]);
}

/// Packets that both classes have sent, foreground first, once none waits.
fn packets(network: &Network) -> [u64; 2] {
    eventually("nothing waits", || {
        [FOREGROUND, BACKGROUND].iter().all(|class| network.sent(class).waiting == 0)
    });
    [FOREGROUND, BACKGROUND].map(|class| network.sent(class).packets)
}

#[test]
fn marked_packets_and_no_others_are_in_the_background() {
    let Some(network) = Network::start().filter(|_| program("python3").is_some()) else { return };
    let before = network.queues();
    // Without --yes, nothing is changed; what is printed does the same.
    let printed = done(&network, &["setup", "out", "--capacity", "20mbit"]);
    assert_eq!(network.queues(), before);
    let printed_lines: Vec<&str> = printed.lines().collect();
    // Where the kernel has no fq_codel, it goes on without.
    assert_eq!((printed_lines.len(), printed_lines[0]), (9, "set -e"), "{printed}");
    assert!(printed_lines[7..].iter().all(|line| line.ends_with("fq_codel || true")), "{printed}");
    network.text(&["sh", "-c", &printed]);
    assert!(setup(&network, "20mbit").contains("has this shaper already"));
    assert!(done(&network, &["undo", "out"]).contains("tc qdisc del dev out root"));
    assert_eq!(network.queues(), before);
    let run = setup(&network, "20mbit");
    assert_eq!(run.lines().take(6).collect::<Vec<_>>(), printed_lines[1..7]);
    // The lower two bits of the field are ECN's.
    let mut marked = 0;
    for (to, field, count) in
        [(TO[0], LE, 20), (TO[1], LE, 30), (TO[0], LE | 1, 10), (TO[1], LE | 2, 10)]
    {
        send(&network, to, field, &count.to_string());
        marked += count;
    }
    // What finds the neighbour by IPv6 takes its time.
    eventually_is("marked packets", marked, || packets(&network)[1]);
    let [others, _] = packets(&network);
    assert!(others < 30, "only what finds neighbours: {others}");
    let fields = [0, 2 << 2, 8 << 2, 33 << 2, 46 << 2, 63 << 2];
    for to in TO {
        fields.iter().for_each(|field| send(&network, to, *field, "20"));
    }
    let [foreground, still] = packets(&network);
    assert_eq!(still, marked);
    assert!((240..300).contains(&(foreground - others)), "{foreground} - {others}");
    let shown = done(&network, &["show", "out"]);
    assert!(shown.contains("19.6 Mbit/s of a link that carries 20 Mbit/s"), "{shown}");
    let of_background = shown.lines().find(|line| line.contains("  background ")).expect("a line");
    assert!(of_background.split_whitespace().any(|it| it == marked.to_string()), "{shown}");
    // One that was stopped before its last command is completed.
    network.text(&["tc", "filter", "del", "dev", "out", "parent", "71e9:", "prio", "2"]);
    assert!(done(&network, &["show", "out"]).contains("no packet of IPv6"));
    assert_eq!(setup(&network, "20mbit").matches("tc ").count(), 1);
    send(&network, TO[1], LE, "5");
    marked += 5;
    eventually_is("marked packets", marked, || packets(&network)[1]);
    // Another capacity: the classes stay, and what they have counted.
    assert!(!setup(&network, "10mbit").contains("qdisc"));
    assert_eq!(network.sent(BACKGROUND).packets, marked);
    assert!(
        done(&network, &["show", "out"]).contains("9.8 Mbit/s of a link that carries 10 Mbit/s")
    );
    done(&network, &["undo", "out"]);
    assert_eq!(network.queues(), before);
    assert!(done(&network, &["undo", "out"]).contains("nothing to undo"));
}

#[test]
fn the_background_has_what_the_foreground_leaves() {
    let Some(network) = Network::start().filter(|_| program("python3").is_some()) else { return };
    setup(&network, "4mbit");
    // What both have sent while the background wants more than all of it, for two seconds.
    let bytes = || {
        let classes = [FOREGROUND, BACKGROUND];
        let before = classes.map(|class| network.sent(class).bytes);
        send(&network, TO[0], LE, "2s");
        let after = classes.map(|class| network.sent(class).bytes);
        [(after[0] - before[0]) as f64, (after[1] - before[1]) as f64]
    };
    let [_, alone] = bytes();
    packets(&network);
    let [foreground, background] = std::thread::scope(|scope| {
        scope.spawn(|| send(&network, TO[0], 0, "12s"));
        eventually("the foreground has begun", || network.sent(FOREGROUND).waiting > 10);
        bytes()
    });
    assert!(foreground > 10.0 * background, "{foreground} {background}");
    assert!(background > 0.0, "it has 1 % all the same");
    assert!(alone > 10.0 * background, "alone it has all: {alone} {background}");
}

#[test]
fn what_somebody_else_put_there_stays_unless_it_is_to_be_replaced() {
    let Some(network) = Network::start() else { return };
    let tbf = ["tc", "qdisc", "add", "dev", "out", "root", "tbf", "rate", "5mbit"];
    network.text(&[&tbf[..], &["burst", "5kb", "latency", "50ms"]].concat());
    let before = network.queues();
    let asks = ["setup", "out", "--capacity", "10mbit"];
    for words in [&asks[..], &["setup", "out", "--capacity", "10mbit", "--yes"]] {
        let said = fails(&network, words);
        assert!(said.contains("has tbf ") && said.contains("--replace"), "{said}");
    }
    let said = fails(&network, &["undo", "out"]);
    assert!(said.contains("did not make") && said.contains("tc qdisc del dev out root"), "{said}");
    assert!(done(&network, &["show", "out"]).contains("tbf"));
    assert_eq!(network.queues(), before);
    done(&network, &["setup", "out", "--capacity", "10mbit", "--yes", "--replace"]);
    assert!(network.queues().contains("htb 71e9:"));
    // A class that an operator has added is not taken away with ours.
    let add = ["tc", "class", "add", "dev", "out", "parent", "71e9:1", "classid", "71e9:30"];
    network.text(&[&add[..], &["htb", "rate", "1mbit"]].concat());
    let said = fails(&network, &["undo", "out"]);
    assert!(said.contains("not those that `tiergate link setup` makes"), "{said}");
    assert!(network.queues().contains("htb 71e9:"));
}

#[test]
fn what_is_missing_is_said() {
    let Some(network) = Network::start() else { return };
    let said = fails(&network, &["setup", "nowhere", "--capacity", "10mbit", "--yes"]);
    assert!(said.contains("ip link"), "{said}");
    for (name, capacity) in [("--yes", "10mbit"), ("a/b", "10mbit"), ("out", "10"), ("out", "fast")]
    {
        let output = link(&network, &["setup", "--capacity", capacity, "--", name]);
        assert_eq!(output.status.code(), Some(2), "{name} {capacity}");
    }
    if program("setpriv").is_none() {
        return;
    }
    let bound = ["setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin", TIERGATE, "link"];
    let asks = ["setup", "out", "--capacity", "10mbit", "--yes"];
    let output = network.run(&[&bound[..], &asks].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("CAP_NET_ADMIN"), "{}", text(&output.stderr));
    assert!(!network.queues().contains("htb"));
    // To look needs no right.
    setup(&network, "10mbit");
    let output = network.run(&[&bound[..], &["show", "out"]].concat());
    assert!(text(&output.stdout).contains("carries 10 Mbit/s"), "{}", text(&output.stderr));
}

/// A gateway and its origin on `a`, which serves files.
struct Served {
    _processes: [Process; 2],
    _folder: tempfile::TempDir,
}

const ADMIN: &str = "127.0.0.1:9900";
/// How often a gateway reads what an interface carries at least.
const LOOKED_AT_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

impl Served {
    fn start(network: &Network, link: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        for class in ["site", "batch"] {
            std::fs::create_dir_all(path(&format!("files/{class}"))).expect("our own folder");
            std::fs::write(path(&format!("files/{class}/file")), vec![b'x'; 200_000])
                .expect("ours");
        }
        let large = std::fs::File::create(path("files/batch/large")).expect("ours");
        large.set_len(200_000_000).expect("it has holes");
        let policy = format!(
            "admin = \"{ADMIN}\"\nthreads = 1\n[[listener]]\naddress = \"0.0.0.0:8080\"\n\
             [origin]\nservers = [\"127.0.0.1:8081\"]\nslots = 20\n[link]\n{link}\n\
             [[class]]\nname = \"site\"\n[[class]]\nname = \"batch\"\nbackground = true\n\
             [[rule]]\npath = \"/batch/*\"\nclass = \"batch\"\n"
        );
        std::fs::write(path("policy.toml"), policy).expect("ours");
        let files = path("files");
        let python = ["python3", "-m", "http.server", "8081", "--bind", "127.0.0.1", "--directory"];
        let start = |words: &[&str]| {
            let mut command = network.command(true, words);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            Process::start_gentle(&mut command)
        };
        let origin = start(&[&python[..], &[&files]].concat());
        let gateway = start(&[TIERGATE, "run", &path("policy.toml")]);
        let served = Served { _processes: [gateway, origin], _folder: folder };
        eventually("it serves", || got(network, "site") == 200_000);
        served
    }
}

/// What `/status` says that the link carries, in bits a second, and what says so.
fn capacity(network: &Network) -> (Option<u64>, Option<String>) {
    let of = &status(network)["link_capacity"];
    (of["bits_per_second"].as_u64(), of["from"].as_str().map(str::to_owned))
}

/// How many bytes of a file of this class `b` gets.
fn got(network: &Network, class: &str) -> usize {
    let url = format!("http://10.78.0.1:8080/{class}/file");
    let arguments = ["curl", "-s", "-f", "--max-time", "20", &url];
    let output = network.command(false, &arguments).output().expect("ip runs");
    output.stdout.len()
}

fn status(network: &Network) -> serde_json::Value {
    let text = network.text(&["curl", "-s", &format!("http://{ADMIN}/status")]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_gateway_marks_the_background_and_follows_the_shaper() {
    let programs = ["python3", "curl"].iter().all(|it| program(it).is_some());
    let Some(network) = Network::start().filter(|_| programs) else { return };
    setup(&network, "50mbit");
    let _served = Served::start(&network, "interface = \"out\"\nmark = true");
    let sent = |class: &str| {
        packets(&network);
        let before = [FOREGROUND, BACKGROUND].map(|it| network.sent(it).bytes);
        assert_eq!(got(&network, class), 200_000);
        packets(&network);
        let after = [FOREGROUND, BACKGROUND].map(|it| network.sent(it).bytes);
        [after[0] - before[0], after[1] - before[1]]
    };
    let [foreground, background] = sent("batch");
    assert!(background > 200_000 && foreground < 20_000, "{foreground} {background}");
    let [foreground, background] = sent("site");
    assert!(foreground > 200_000 && background < 2_000, "{foreground} {background}");
    let capacity = || capacity(&network);
    assert_eq!(capacity(), (Some(49_000_000), Some("htb".into())));
    setup(&network, "25mbit");
    eventually_is("another capacity", (Some(24_500_000), Some("htb".into())), capacity);
    // The kernel says when a shaper changes: six changes one after the other do not take six times as long as until it is looked at anyway.
    let begun = std::time::Instant::now();
    for round in 1..=6 {
        let rate = 20 + round;
        setup(&network, &format!("{rate}mbit"));
        let (bits, by) = (rate * 980_000, "htb".to_owned());
        eventually_is("yet another", (Some(bits), Some(by)), capacity);
    }
    assert!(begun.elapsed() < 5 * LOOKED_AT_EVERY, "{:?}", begun.elapsed());
    // Without a shaper it is the link's speed; without an interface the last reading holds.
    done(&network, &["undo", "out"]);
    eventually_is("its speed", (Some(10_000_000_000), Some("speed".into())), capacity);
    network.text(&["ip", "link", "set", "out", "down"]);
    network.text(&["ip", "link", "set", "out", "name", "away"]);
    eventually("it says why", || status(&network)["link_capacity"]["fault"].is_string());
    assert_eq!(capacity().0, Some(10_000_000_000));
}

#[test]
fn the_background_pauses_while_a_shaper_that_has_changed_is_read() {
    let programs = ["python3", "curl"].iter().all(|it| program(it).is_some());
    let Some(network) = Network::start().filter(|_| programs) else { return };
    let shape = |verb: &str, rate: &str| {
        let words = format!("tc qdisc {verb} dev out root tbf rate {rate} burst 5kb latency 2s");
        network.text(&words.split(' ').collect::<Vec<_>>());
    };
    shape("add", "100mbit");
    let _served = Served::start(&network, "interface = \"out\"");
    let url = "http://10.78.0.1:8080/batch/large";
    // What waits of one connection in a queue of its own machine is bounded by the system.
    let gets = (0..8).map(|_| {
        let words = ["curl", "-s", "-o", "/dev/null", "--max-time", "60", url];
        let mut get = network.command(false, &words);
        Process::start_gentle(get.stdin(Stdio::null()).stdout(Stdio::null()))
    });
    let _gets: Vec<Process> = gets.collect();
    let (bytes, waiting) = (|| tbf(&network).0, || tbf(&network).1);
    eventually("the background has begun", || bytes() > 1_000_000);
    // Without a pause 200,000 bytes come to wait in the 50 ms and more until it is read; with it, none were seen to.
    shape("change", "2mbit");
    let mut most = 0;
    eventually("it is known", || {
        most = most.max(waiting());
        capacity(&network).0 == Some(2_000_000)
    });
    assert!(most < 120_000, "{most} bytes wait");
    let before = bytes();
    eventually("the background goes on", || bytes() > before + 50_000);
}

/// Bytes that a TBF has sent, and that wait in it.
fn tbf(network: &Network) -> (u64, u64) {
    let text = network.text(&["tc", "-s", "-j", "qdisc", "show", "dev", "out"]);
    let queues: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let tbf = queues.as_array().and_then(|all| all.iter().find(|it| it["kind"] == "tbf"));
    let number = |of: &str| tbf.and_then(|it| it[of].as_u64()).unwrap_or_default();
    (number("bytes"), number("backlog"))
}

#[test]
fn a_gateway_finds_what_the_link_carries_and_follows_it() {
    let programs = ["python3", "curl"].iter().all(|it| program(it).is_some());
    let Some(network) = Network::start().filter(|_| programs) else { return };
    // A queue that the gateway is told nothing of, as that of a router.
    let shape = |rate: &str, verb: &str| {
        let words = format!("tc qdisc {verb} dev out root tbf rate {rate} burst 5kb latency 300ms");
        network.text(&words.split(' ').collect::<Vec<_>>());
    };
    shape("20mbit", "add");
    let _served = Served::start(&network, "estimate = true");
    let found = || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (bits, from) = capacity(&network);
        assert_eq!(from.as_deref(), Some("estimate"));
        bits.expect("a number") as f64 / 1e6
    };
    assert_eq!(found(), 1.0, "nothing is known before the background has sent something");
    let url = "http://10.78.0.1:8080/batch/large";
    let mut gets =
        network.command(false, &["curl", "-s", "-o", "/dev/null", "--max-time", "240", url]);
    let _gets = Process::start_gentle(gets.stdin(Stdio::null()).stdout(Stdio::null()));
    for (rate, carries) in [("20mbit", 20.0), ("5mbit", 5.0), ("20mbit", 20.0)] {
        shape(rate, "change");
        let finds = || (0.75..1.15).contains(&(found() / carries));
        eventually_within(Duration::from_secs(60), &format!("it finds {rate}"), finds);
        // What goes besides is whole.
        assert_eq!(got(&network, "site"), 200_000);
    }
}
