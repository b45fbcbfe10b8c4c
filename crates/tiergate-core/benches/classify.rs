//! What does classification cost, and does it depend on the number of rules?
//!
//! The budget (classify, admit, enqueue and dequeue) is 500 ns with 20 rules and 1 µs with 10,000; the
//! gate takes about 150 ns of it. `cargo bench -p tiergate-core --bench classify` prints nanoseconds
//! per request, the best of several rounds, because on a shared machine the least disturbed round
//! says most about the code.

#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a benchmark measures time and prints it"
)]

use std::hint::black_box;
use std::time::Instant;
use tiergate_core::class::ClassId;
use tiergate_core::classify::path::normalise;
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::{Condition, Rule};
use tiergate_core::classify::{Classifier, Scratch};
use tiergate_core::request::{Field, RequestView};

fn path(text: &str) -> Condition {
    Condition::Path(vec![Pattern::path(text).unwrap()])
}

fn host(text: &str) -> Condition {
    Condition::Host(vec![HostPattern::parse(text).unwrap()])
}

fn header(name: &str, value: &str) -> Condition {
    Condition::Header { name: name.into(), values: vec![Pattern::value(value).unwrap()] }
}

fn cookie(name: &str, value: &str) -> Condition {
    Condition::Cookie { name: name.into(), values: vec![Pattern::value(value).unwrap()] }
}

fn client(text: &str) -> Condition {
    Condition::Client(vec![text.parse().unwrap()])
}

fn method(text: &str) -> Condition {
    Condition::Method(vec![text.into()])
}

/// A mix as a large site has it: mostly paths, some with a method or a host, partners' networks,
/// agents, sessions, file types.
fn mixed(count: usize) -> Vec<Rule> {
    let conditions = |index: usize| {
        let n = index / 20;
        match index % 20 {
            0..=5 => vec![path(&format!("/api/v{}/resource{n}/*", index % 6))],
            6..=8 => vec![path(&format!("/shop/department{n}/item{index}"))],
            9 | 10 => vec![path(&format!("/account/{n}/orders/*")), method("POST")],
            11 | 12 => vec![host(&format!("tenant{n}.example.com")), path("/checkout/*")],
            13 => vec![host(&format!("*.customer{n}.example.net"))],
            14 | 15 => vec![client(&format!("10.{}.{}.0/24", n / 256, n % 256))],
            16 => vec![header("user-agent", &format!("crawler-{n}/*"))],
            17 => vec![header("x-partner", &format!("partner-{n}")), path("/feed/*")],
            18 => vec![cookie("plan", &format!("gold-{n}"))],
            _ => vec![path(&format!("/media/{n}/*.jpg"))],
        }
    };
    let rule = |index| Rule {
        conditions: conditions(index),
        class: Some(ClassId(index as u16 % 3)),
        deadline: None,
        refuse: false,
    };
    (0..count).map(rule).collect()
}

/// Rules that are all combinations of 22 hosts, 22 paths and 22 values: each fact in 484 rules.
fn product() -> Vec<Rule> {
    let rule = |index: usize| Rule {
        conditions: vec![
            host(&format!("h{}.example.com", index % 22)),
            path(&format!("/p{}/*", index / 22 % 22)),
            header("x-plan", &format!("plan-{}", index / 484)),
        ],
        class: Some(ClassId(0)),
        deadline: None,
        refuse: false,
    };
    (0..22 * 22 * 22).map(rule).collect()
}

const BROWSER: [(&str, &str); 12] = [
    ("Host", "www.example.com"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0 Safari/537.36",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    ),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Referer", "https://www.example.com/shop/department3/"),
    (
        "Cookie",
        "_ga=GA1.2.1234567890.1718000000; session=5f2b6c8e9a7d4f10b3c2; theme=dark; plan=silver; consent=yes; _gid=GA1.2.987654321.1718000000",
    ),
    ("Sec-Fetch-Dest", "document"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Site", "same-origin"),
    ("Upgrade-Insecure-Requests", "1"),
    ("Connection", "keep-alive"),
];

/// Nanoseconds per request over all `paths`, and how many of them a rule matched.
fn measure(rules: &[Rule], hosts: &[&str], paths: &[String]) -> (f64, usize) {
    measure_with(rules, hosts, paths, BROWSER)
}

fn measure_with<const N: usize>(
    rules: &[Rule],
    hosts: &[&str],
    paths: &[String],
    fields: [(&str, &str); N],
) -> (f64, usize) {
    const PASSES: usize = 400;
    // One round for callgrind, which counts instead of timing.
    let rounds = if std::env::args().any(|arg| arg == "--once") { 1 } else { 15 };
    let classifier = Classifier::compile(rules, ClassId(2)).unwrap();
    let fields =
        fields.map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() });
    let mut scratch = Scratch::default();
    let mut out = Vec::new();
    let (mut best, mut matched) = (f64::MAX, 0);
    for _ in 0..rounds {
        matched = 0;
        let start = Instant::now();
        for _ in 0..PASSES {
            for (index, raw) in paths.iter().enumerate() {
                let view = RequestView {
                    method: b"GET",
                    host: hosts[index % hosts.len()].as_bytes(),
                    path: normalise(black_box(raw.as_bytes()), &mut out),
                    query: b"",
                    fields: &fields,
                    client: [192, 0, 2, index as u8].into(),
                    ..RequestView::EMPTY
                };
                let found = black_box(classifier.classify(black_box(&view), &mut scratch));
                matched += usize::from(found.rule.is_some());
            }
        }
        let nanos = start.elapsed().as_nanos() as f64;
        best = best.min(nanos / (PASSES * paths.len()) as f64);
    }
    (best, matched / PASSES)
}

fn main() {
    let report = |what: &str, (nanos, matched): (f64, usize), of: usize| {
        println!("{what:<58} {nanos:7.1} ns  ({matched} of {of} matched)");
    };
    for count in [20usize, 1_000, 10_000] {
        let rules = mixed(count);
        // Half of the requests ask for something that a rule late in the list names.
        let paths: Vec<String> = (0..128)
            .map(|n: usize| {
                let far = n * 7919 % (count / 20);
                match n % 4 {
                    0 => format!("/api/v{}/resource{far}/entry/{n}", n % 6),
                    1 => format!("/media/{far}/picture-{n}.jpg"),
                    2 => format!("/shop/department{far}/other{n}"),
                    _ => format!("/about/team/{n}.html"),
                }
            })
            .collect();
        let hosts = ["www.example.com", "tenant0.example.com", "a.b.example.org"];
        report(
            &format!("{count} mixed rules, browser, 12 fields"),
            measure(&rules, &hosts, &paths),
            128,
        );
        let misses: Vec<String> = (0..128).map(|n| format!("/about/team/{n}.html")).collect();
        report(
            &format!("{count} mixed rules, nothing matches"),
            measure(&rules, &hosts, &misses),
            128,
        );
    }
    let paths: Vec<String> = (0..128).map(|n| format!("/p{}/x", n % 23)).collect();
    let hosts = ["h3.example.com", "h21.example.com"];
    report(
        "10,648 rules, product of three, two of three hold",
        measure(&product(), &hosts, &paths),
        128,
    );

    let with_plan = [("X-Plan", "plan-20"), BROWSER[1], BROWSER[6]];
    report(
        "10,648 rules, product of three, all three hold",
        measure_with(&product(), &hosts, &paths, with_plan),
        128,
    );

    let build = Instant::now();
    black_box(Classifier::compile(&mixed(10_000), ClassId(0)).unwrap());
    println!(
        "{:<58} {:7.1} ms",
        "parsing and compiling 10,000 mixed rules",
        build.elapsed().as_secs_f64() * 1e3
    );
}
