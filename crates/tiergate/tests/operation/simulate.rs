//! `tiergate simulate`, the program: logs, scenarios, what comes out, what is wrong.

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A folder with a policy of three classes in front of a fixed limit.
struct Desk(TempDir);

const POLICY: &str = r#"
[origin]
servers = ["127.0.0.1:1"]
slots = 4
[[class]]
name = "buy"
[[class]]
name = "look"
[[class]]
name = "bots"
deadline = "500ms"
[[rule]]
path = "/admin/*"
refuse = true
class = "bots"
[[rule]]
header.user-agent = "*bot*"
class = "bots"
[[rule]]
method = "POST"
class = "buy"
[[rule]]
path = "/cart*"
class = "buy"
[[rule]]
path = "*"
class = "look"
"#;

impl Desk {
    fn new() -> Self {
        let desk = Desk(tempfile::tempdir().expect("a temporary directory"));
        desk.write("policy.toml", POLICY);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("a temporary file");
    }

    /// Runs `tiergate simulate policy.toml` with these words, in the folder.
    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.current_dir(self.0.path()).args(["simulate", "policy.toml"]).args(words);
        command.output().expect("the program that was just built")
    }

    fn json(&self, words: &[&str]) -> Value {
        let out = self.run(&[words, &["--json"]].concat());
        assert!(out.status.success(), "{words:?}: {}", String::from_utf8_lossy(&out.stderr));
        serde_json::from_slice(&out.stdout).expect("JSON")
    }

    /// What it says when it fails.
    fn fault(&self, words: &[&str]) -> String {
        let out = self.run(words);
        assert_eq!(out.status.code(), Some(1), "{words:?} was taken");
        assert!(out.stdout.is_empty(), "{}", String::from_utf8_lossy(&out.stdout));
        String::from_utf8(out.stderr).expect("texts").trim_end().to_owned()
    }
}

/// A line of the combined format; `second` of a day.
fn line(client: u32, second: u32, request: &str, agent: &str) -> String {
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!(
        "198.51.100.{client} - - [17/May/2015:{hour:02}:{minute:02}:{second:02} +0000] \
         \"{request} HTTP/1.1\" 200 1000 \"-\" \"{agent}\"\n"
    )
}

/// A log of so many requests a second, and how many of each class are in it by the policy above.
fn log(seconds: u32, rate: u32) -> (String, BTreeMap<&'static str, u64>) {
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut text, mut counts) = (String::new(), BTreeMap::new());
    for n in 0..seconds * rate {
        let (request, agent, class) = match rng.u32(..10) {
            0 => ("POST /order", "Firefox", "buy"),
            1 => ("GET /cart/7?x=y", "Firefox", "buy"),
            2 => ("GET /cart/7", "Googlebot/2.1", "bots"),
            3 => ("GET /admin/x", "Firefox", "bots"),
            _ => ("GET /p/1", "Firefox", "look"),
        };
        *counts.entry(class).or_default() += 1;
        text += &line(rng.u32(1..200), n / rate, request, agent);
    }
    (text, counts)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn classes(report: &Value, front: &str) -> BTreeMap<String, Value> {
    let classes = report["fronts"][front]["classes"].as_object().expect("classes");
    classes.iter().map(|(name, class)| (name.clone(), class.clone())).collect()
}

#[test]
fn a_log_is_classified_by_the_policy_and_its_malformed_lines_are_counted() {
    let desk = Desk::new();
    let (text, counts) = log(20, 50);
    desk.write(
        "access.log",
        &format!("garbage\n{text}\n198.51.100.1 - - [x] \"GET / HTTP/1.1\" 200 1\n"),
    );
    let words = ["--log", "access.log", "--workers", "4", "--service", "exponential:50ms"];
    let report = desk.json(&words);
    for front in ["policy", "fifo", "none"] {
        let found: BTreeMap<String, u64> = classes(&report, front)
            .into_iter()
            .map(|(name, class)| (name, class["arrived"].as_u64().expect("a count")))
            .collect();
        let expected: BTreeMap<String, u64> =
            counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        assert_eq!(found, expected, "{front}");
    }
    let refused = &classes(&report, "policy")["bots"]["refused"]["rule"];
    assert!(refused.as_u64().expect("some are refused by their rule") > 50, "{refused}");
    let text = String::from_utf8(desk.run(&words).stdout).expect("texts");
    assert!(
        text.contains(
            "access.log: 1000 requests, 1x as fast; 2 lines left out, the first is line 1"
        ),
        "{text}"
    );
    // The same, packed.
    let packed = fs::File::create(desk.path("access.log.gz")).expect("a temporary file");
    let mut packed = GzEncoder::new(packed, Compression::fast());
    packed.write_all(&fs::read(desk.path("access.log")).expect("just written")).expect("room");
    packed.finish().expect("room");
    let words = ["--log", "access.log.gz", "--workers", "4", "--service", "exponential:50ms"];
    let again = desk.json(&words);
    assert_eq!(again["fronts"], report["fronts"]);
}

#[test]
fn every_request_has_one_end() {
    let desk = Desk::new();
    desk.write("access.log", &log(20, 200).0);
    let report = desk.json(&["--log", "access.log", "--workers", "4", "--patience", "1s"]);
    for front in ["policy", "fifo", "none"] {
        for (name, class) in classes(&report, front) {
            let refused: u64 = class["refused"]
                .as_object()
                .expect("reasons")
                .values()
                .map(|count| count.as_u64().expect("a count"))
                .sum();
            let ends = ["good", "left_waiting", "left_running", "failed"];
            let ended: u64 = ends.iter().map(|end| class[*end].as_u64().expect("a count")).sum();
            let arrived = class["arrived"].as_u64().expect("a count");
            let open = arrived - (ended + refused);
            // What is under way at the end: at most the slots and whoever still waits.
            assert!(open <= 250, "{front} {name}: {open} of {arrived} have no end");
        }
    }
}

#[test]
fn faster_is_shorter_and_harder() {
    let desk = Desk::new();
    desk.write("access.log", &log(60, 20).0);
    let at = |speed| {
        desk.json(&[
            "--log",
            "access.log",
            "--workers",
            "4",
            "--service",
            "100ms",
            "--speed",
            speed,
        ])
    };
    let (slow, fast) = (at("1x"), at("10x"));
    let seconds = |report: &Value| number(&report["seconds"]);
    assert!(
        (seconds(&slow) / seconds(&fast) - 60.0 / 7.0).abs() < 0.6,
        "{} {}",
        seconds(&slow),
        seconds(&fast)
    );
    // 20 requests/s are half of what four workers do in 100 ms each; 200/s are five times that.
    let good = |report: &Value, class: &str| {
        let class = &classes(report, "policy")[class];
        number(&class["good"]) / number(&class["arrived"])
    };
    assert!(good(&slow, "look") > 0.99);
    assert!(good(&fast, "buy") > 0.9 && good(&fast, "look") < 0.4);
    let fifo = number(&classes(&fast, "fifo")["buy"]["good"]);
    assert!(fifo < 0.6 * number(&classes(&fast, "policy")["buy"]["good"]));
    let sweep = desk.run(&["--log", "access.log", "--workers", "4", "--speed", "1x..10x"]);
    let text = String::from_utf8(sweep.stdout).expect("texts");
    assert!(
        ["1x", "2.7x", "10x"].iter().all(|speed| text.contains(&format!("\n  {speed} "))),
        "{text}"
    );
}

#[test]
fn a_log_says_how_long_requests_took() {
    let desk = Desk::new();
    let mut text = String::new();
    for second in 0..10 {
        // Tiergate's own; 30 ms in the queue are none of the server's.
        writeln!(
            text,
            r#"{{"time":"2026-11-20T18:23:{second:02}.500Z","client":"192.0.2.7","method":"GET","target":"/p/1","status":200,"sent_bytes":5,"duration_seconds":0.130000,"queue_seconds":0.030000,"first_byte_seconds":0.090000}}"#
        )
        .expect("a string takes all");
    }
    desk.write("own.log", &text);
    let report = desk.json(&["--log", "own.log", "--service", "5s"]);
    let look = &classes(&report, "policy")["look"];
    assert_eq!((look["good"].as_u64(), number(&look["work_seconds"])), (Some(10), 1.0));
    // Apache's, with %D behind: microseconds.
    let apache = |took: &str| line(1, 5, "GET /p/1", "Firefox").trim_end().to_owned() + took + "\n";
    desk.write("apache.log", &(apache(" 250000") + &apache(" 750000")));
    let report = desk.json(&["--log", "apache.log"]);
    assert_eq!(number(&classes(&report, "policy")["look"]["work_seconds"]), 1.0);
    let report = desk.json(&["--log", "apache.log", "--took", "ignore", "--service", "20ms"]);
    assert_eq!(number(&classes(&report, "policy")["look"]["work_seconds"]), 0.04);
    let more =
        ["--log", "apache.log", "--took", "ignore", "--service", "20ms", "--per-mib", "524288ms"];
    let report = desk.json(&more);
    assert_eq!(
        number(&classes(&report, "policy")["look"]["work_seconds"]),
        1.04,
        "1000 bytes each"
    );
}

const SCENARIO: &str = r#"
seconds = 30
[server]
workers = 4
wait = { kind = "exponential", mean_ms = 20 }
[[population]]
clients = "198.51.100.0/28"
arrivals = { kind = "poisson", rate = 300 }
patience_ms = 3000
request = [{ path = "/p/1", weight = 3 }, { path = "/cart" }]
[[population]]
arrivals = { kind = "closed", users = 5, think = { kind = "constant", mean_ms = 100 } }
header.user-agent = "bot"
request = [{ path = "/" }]
"#;

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let desk = Desk::new();
    desk.write("s.toml", SCENARIO);
    desk.write("access.log", &log(10, 50).0);
    for words in [
        &["--scenario", "s.toml"][..],
        &["--log", "access.log"],
        &["--scenario", "s.toml", "--log", "access.log"],
    ] {
        let run = |seed| desk.run(&[words, &["--seed", seed, "--json"]].concat()).stdout;
        let first = run("1");
        assert!(!first.is_empty());
        assert_eq!(first, run("1"), "{words:?}");
        assert_ne!(first, run("2"), "{words:?}");
    }
    for directory in ["one", "two"] {
        assert!(desk.run(&["--scenario", "s.toml", "--out", directory]).status.success());
    }
    for file in ["report.txt", "report.json", "plot.svg"] {
        let of = |directory: &str| fs::read(desk.path(directory).join(file)).expect("written");
        assert_eq!(of("one"), of("two"), "{file}");
    }
    let svg = fs::read_to_string(desk.path("one/plot.svg")).expect("written");
    assert!(svg.starts_with("<svg xmlns") && svg.ends_with("</svg>\n"));
    for words in [">policy<", ">no gateway<", ">0<", ">s<", "buy", "look", "bots", ">Good answers<"]
    {
        assert!(svg.contains(words), "{words}");
    }
    let text = fs::read_to_string(desk.path("one/report.txt")).expect("written");
    assert!(!text.contains('\x1b'), "no colours in a file");
}

#[test]
fn a_scenario_s_requests_are_drawn_by_weight_and_what_it_expects_is_checked() {
    let desk = Desk::new();
    desk.write("s.toml", SCENARIO);
    let report = desk.json(&["--scenario", "s.toml"]);
    let arrived = |class: &str| number(&classes(&report, "policy")[class]["arrived"]);
    let ratio = arrived("look") / arrived("buy");
    assert!((2.7..3.3).contains(&ratio), "{ratio}");
    assert!((8_500.0..9_500.0).contains(&(arrived("look") + arrived("buy"))));
    let work = |front: &str| -> f64 {
        classes(&report, front).values().map(|class| number(&class["work_share"])).sum()
    };
    assert!((work("policy") - 1.0).abs() < 1e-4);
    let expect = "[[expect]]\nclass = \"look\"\ngood_share_min = 0.999\n";
    desk.write("s.toml", &format!("{SCENARIO}{expect}"));
    let out = desk.run(&["--scenario", "s.toml"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        said.contains("not as the scenario expects:\n  phase 0, look: good share is"),
        "{said}"
    );
    assert!(!out.stdout.is_empty(), "the report is shown all the same");
}

#[test]
fn the_policy_s_own_words_hold_a_policer_and_its_flows() {
    let desk = Desk::new();
    let police = "name = \"look\"\npolice = { rate = \"5/s\", burst = 5, per = \"flow\" }";
    let policed = POLICY.replace("name = \"look\"", police);
    let cart = "path = \"/cart*\"";
    let policed =
        policed.replace(cart, &format!("{cart}\npolice = {{ rate = \"10/s\", burst = 5 }}"));
    assert!(policed.contains("5/s") && policed.contains("10/s"));
    desk.write("policy.toml", &policed);
    desk.write("s.toml", &SCENARIO.replace("rate = 300", "rate = 150"));
    let out = desk.run(&["--scenario", "s.toml", "--json"]);
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let look = &classes(&report, "policy")["look"];
    // 14 clients of 5/s each for 30 s, and the burst of each.
    let passed = number(&look["good"]);
    assert!((1_900.0..2_250.0).contains(&passed), "{look}");
    assert!(number(&look["refused"]["policed"]) > 500.0, "{look}");
    // The rule's: 10/s of all clients together.
    let passed = number(&classes(&report, "policy")["buy"]["good"]);
    assert!((290.0..306.0).contains(&passed), "{passed}");
    assert_eq!(classes(&report, "fifo")["look"]["refused"].as_object().map(|it| it.len()), Some(0));
}

#[test]
fn rates_come_from_a_file() {
    let desk = Desk::new();
    desk.write("rates.txt", "# requests/s\n100\n0\n50\n");
    let rate = "rate = { rate_file = \"rates.txt\", line_s = 10, scale = 2 }";
    desk.write("s.toml", &SCENARIO.replace("rate = 300", rate));
    let report = desk.json(&["--scenario", "s.toml"]);
    let arrived = |class: &str| number(&classes(&report, "policy")[class]["arrived"]);
    assert!((2_750.0..3_250.0).contains(&(arrived("look") + arrived("buy"))));
    let over_time =
        report["fronts"]["policy"]["over_time"]["classes"]["look"]["goodput_per_second"].clone();
    let over_time: Vec<f64> = over_time.as_array().expect("points").iter().map(number).collect();
    let of = |from: usize, to: usize| over_time[from..to].iter().sum::<f64>();
    let all = over_time.len();
    let good = number(&classes(&report, "policy")["look"]["good"]);
    let step = number(&report["fronts"]["policy"]["over_time"]["step_seconds"]);
    assert!((of(0, all) * step - good).abs() < 0.5, "all are somewhere");
    let busy = over_time[..all / 3].iter().filter(|rate| **rate > 0.0).count();
    assert!(busy > all / 4, "and not all in one place: {busy}");
    assert_eq!(of(all / 3 + 5, all * 2 / 3 - 1), 0.0, "nobody asks in the middle third");
    assert!(of(0, all / 3) > 1.5 * of(all * 2 / 3, all));
}

#[test]
fn a_scenario_s_mistakes_are_told_at_their_lines() {
    let desk = Desk::new();
    let fault = |from: &str, to: &str| {
        assert!(SCENARIO.contains(from), "{from}");
        desk.write("s.toml", &SCENARIO.replacen(from, to, 1));
        desk.fault(&["--scenario", "s.toml"])
    };
    let cases = [
        ("workers = 4", "workers = 0", "s.toml:4:11: server.workers: must be 1 or more"),
        (
            "workers = 4",
            "worker = 4",
            "s.toml:4:1: unknown field `worker`, expected one of `workers`",
        ),
        (
            "workers = 4",
            "workers = 4\npause = { every_s = 0, for_s = 0 }",
            "s.toml:5:9: server.pause: must have every_s of 0.001 or more, and for_s below it",
        ),
        (
            "workers = 4",
            "workers = 4\nresource = [{ classes = [\"look\"], size = 0, held = { kind = \"constant\", mean_ms = 1 } }]",
            "server.resource[1].size: must be 1 or more",
        ),
        (
            "seconds = 30",
            "seconds = 30\n[[gateway]]\nweight = 0",
            "s.toml:4:10: gateway[1].weight: must be more than 0, got 0",
        ),
        ("seconds = 30", "seconds = 0", "s.toml:2:11: seconds: must be more than 0"),
        (
            "seconds = 30",
            "limit = \"adaptive\"",
            "s.toml:2:9: limit: comes from the policy file: leave it out",
        ),
        (
            "seconds = 30",
            "seconds = 30\ncuts_s = [9, 5]",
            "s.toml:3:14: cuts_s[2]: must be after 9 and before the end, got 5",
        ),
        (
            "weight = 3 }, { path = \"/cart\" }",
            "weight = 0 }",
            "population[1].request: must have a weight above 0",
        ),
        (
            "path = \"/cart\"",
            "path = \"cart\"",
            "population[1].request[2].path: must begin with `/` and have no blanks, got \"cart\"",
        ),
        (
            "request = [{ path = \"/\" }]",
            "class = \"look\"",
            "s.toml:14:9: population[2].class: must be left out: the policy classifies requests",
        ),
        (
            "request = [{ path = \"/\" }]",
            "",
            "s.toml:11:1: population[2].request: is missing: say what is requested",
        ),
        (
            "198.51.100.0/28",
            "198.0.0.0/8",
            "s.toml:7:11: population[1].clients: must have at most 65536 addresses",
        ),
        ("rate = 300", "rate = \"fast\"", "must be a rate: a number such as 200, { points"),
        ("rate = 300", "rate = { rate_file = \"no.txt\" }", "rate_file: no.txt cannot be read"),
        (
            "patience_ms = 3000",
            "known = { listener = \"x\" }",
            "population[1].request[1]: no listener of the policy is called \"x\"",
        ),
        (
            "seconds = 30",
            "seconds = 30\n[[expect]]\nclass = \"lok\"",
            "s.toml:4:9: expect[1].class: must be a class of the policy (buy, look, bots), got \"lok\"",
        ),
    ];
    for (from, to, expected) in cases {
        let said = fault(from, to);
        assert!(said.contains(expected), "{to}\n  said {said}\n  expected {expected}");
        assert!(said.contains("s.toml:"), "{said}");
    }
    desk.write("rates.txt", "1\nx\n");
    let said = fault("rate = 300", "rate = { rate_file = \"rates.txt\" }");
    assert!(said.contains("rates.txt:2: must be a rate, 0 or more, got \"x\""), "{said}");
}

#[test]
fn what_is_no_log_is_told() {
    let desk = Desk::new();
    assert!(desk.fault(&["--log", "no.log"]).contains("no.log: cannot be read: "));
    desk.write("empty.log", "\n\n");
    assert_eq!(desk.fault(&["--log", "empty.log"]), "tiergate: empty.log: it has no line");
    desk.write("bad.log", "a\nb\n");
    let said = desk.fault(&["--log", "bad.log"]);
    assert!(said.contains("bad.log:1: none of its 2 lines is a request"), "{said}");
    assert!(said.contains("common or combined format, or Tiergate's own"), "{said}");
    fs::write(desk.path("torn.gz"), [0x1f, 0x8b, 8, 0, 1, 2]).expect("a temporary file");
    assert!(desk.fault(&["--log", "torn.gz"]).contains("torn.gz: cannot be read: "));
    let misused = [
        &[][..],
        &["--log", "empty.log", "--speed", "fast"],
        &["--log", "empty.log", "--service", "20"],
        &["--scenario", "s.toml", "--speed", "2x"],
    ];
    for words in misused {
        assert_eq!(desk.run(words).status.code(), Some(2), "{words:?}");
    }
}

#[test]
fn the_scenarios_that_come_along_show_what_they_promise() {
    let policies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../policies");
    for (policy, scenario, important) in
        [("shop", "sale", "checkout"), ("api", "day", "interactive")]
    {
        let out = Command::new(env!("CARGO_BIN_EXE_tiergate"))
            .arg("simulate")
            .arg(policies.join(policy).with_extension("toml"))
            .arg("--scenario")
            .arg(policies.join("scenarios").join(scenario).with_extension("toml"))
            .arg("--json")
            .output()
            .expect("the program that was just built");
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let report: Value = serde_json::from_slice(&out.stdout).expect("JSON");
        let of = |front: &str, key: &str| number(&classes(&report, front)[important][key]);
        assert!(of("policy", "good") > of("none", "good"), "{scenario}");
        // A plain queue may serve nearly as many, but late.
        assert!(of("policy", "good") > 0.95 * of("fifo", "good"), "{scenario}");
        let slow = |front: &str| number(&classes(&report, front)[important]["answer_ms"]["p99"]);
        assert!(slow("policy") < 0.5 * slow("fifo"), "{scenario}");
    }
}

/// A request that takes all four slots leaves none for another: a rule's `slots` count as in the gateway.
#[test]
fn a_rule_s_slots_count() {
    let log: String = (0..600)
        .map(|number| {
            let second = number / 20;
            format!("192.0.2.1 - - [21/Nov/2026:10:00:{second:02} +0000] \"GET /wide HTTP/1.1\" 200 1 \"-\" \"x\"\n")
        })
        .collect();
    let words = ["--log", "access.log", "--workers", "4", "--service", "150ms", "--json"];
    let report = |policy: &str| {
        let desk = Desk::new();
        desk.write("access.log", &log);
        desk.write("policy.toml", policy);
        let out = desk.run(&words);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        out.stdout
    };
    let wide = "path = \"/wide\"\nslots = 4\nclass = \"look\"\n[[rule]]\npath = \"*\"";
    let wide = report(&POLICY.replace("path = \"*\"", wide));
    let narrow = report(
        &POLICY
            .replace("path = \"*\"", "path = \"/wide\"\nclass = \"look\"\n[[rule]]\npath = \"*\""),
    );
    assert_ne!(wide, narrow, "all four slots for each, or one");
}
