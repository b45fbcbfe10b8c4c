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

use ipnet::IpNet;
use std::hint::black_box;
use std::time::Instant;
use tiergate_core::admit::policer::PolicerId;
use tiergate_core::class::ClassId;
use tiergate_core::classify::flow::Flow;
use tiergate_core::classify::path::{Buffers, Handling, normalise};
use tiergate_core::classify::pattern::{HostPattern, Pattern};
use tiergate_core::classify::rule::Rule;
use tiergate_core::classify::score::{Points, Score};
use tiergate_core::classify::{Classifier, Condition, Matcher, PathRegex, Scratch, Span};
use tiergate_core::request::{Field, Part, RequestView};

fn path(text: &str) -> Condition {
    Condition::new(Part::Path, [Pattern::path(text).unwrap()])
}

fn host(part: Part, text: &str) -> Condition {
    Condition::new(part, [HostPattern::parse(text).unwrap()])
}

fn value(part: Part, text: &str) -> Condition {
    Condition::new(part, [Pattern::value(text).unwrap()])
}

fn header(name: &str, text: &str) -> Condition {
    value(Part::Header(name.into()), text)
}

fn cookie(name: &str, text: &str) -> Condition {
    value(Part::Cookie(name.into()), text)
}

fn network(part: Part, text: &str) -> Condition {
    Condition::new(part, [text.parse::<IpNet>().unwrap()])
}

fn exact(part: Part, text: &str) -> Condition {
    Condition::new(part, [Matcher::Exact(text.into())])
}

/// A mix as a large site has it: mostly paths, some with a method or a host, partners' networks,
/// agents, sessions, file types.
fn mixed(count: usize) -> Vec<Rule> {
    let conditions = |index: usize| {
        let n = index / 20;
        match index % 20 {
            0..=5 => vec![path(&format!("/api/v{}/resource{n}/*", index % 6))],
            6..=8 => vec![path(&format!("/shop/department{n}/item{index}"))],
            9 | 10 => vec![path(&format!("/account/{n}/orders/*")), exact(Part::Method, "POST")],
            11 | 12 => {
                vec![host(Part::Host, &format!("tenant{n}.example.com")), path("/checkout/*")]
            }
            13 => vec![host(Part::Host, &format!("*.customer{n}.example.net"))],
            14 | 15 => vec![network(Part::Client, &format!("10.{}.{}.0/24", n / 256, n % 256))],
            16 => vec![header("user-agent", &format!("crawler-{n}/*"))],
            17 => vec![header("x-partner", &format!("partner-{n}")), path("/feed/*")],
            18 => vec![cookie("plan", &format!("gold-{n}"))],
            _ => vec![path(&format!("/media/{n}/*.jpg"))],
        }
    };
    let rule = |index| Rule {
        conditions: conditions(index),
        class: Some(ClassId(index as u16 % 3)),
        ..Rule::default()
    };
    (0..count).map(rule).collect()
}

/// Rules over every part of a request, each kind alike often, every fourth with a second condition; each
/// sets one of the outputs in turn, and every eleventh, from `all` on, all of them. Of 20 rules about one is
/// of each kind. With `all` 0 the first of 20 rules decides a quarter of the requests by their path alone.
fn everywhere(count: usize, all: usize) -> Vec<Rule> {
    let number = |part, first: usize| {
        Condition::new(part, [Span { first: first as u64, last: first as u64 + 2 }])
    };
    let one = |kind: usize, n: usize| match kind {
        0 => path(&format!("/api/v{}/resource{n}/*", n % 6)),
        1 => path(&format!("/media/{n}/*.jpg")),
        2 => host(Part::Host, &format!("tenant{n}.example.com")),
        3 => exact(Part::Method, ["POST", "PUT", "DELETE"][n % 3]),
        4 => network(Part::Client, &format!("10.{}.{}.0/24", n / 256, n % 256)),
        5 => header("user-agent", &format!("crawler-{n}/*")),
        6 => cookie("plan", &format!("gold-{n}")),
        7 => Condition::new(Part::Extension, [Matcher::Caseless(format!("e{n}").into())]),
        // Expressions are few in any policy, because patterns say most of it.
        8 if n < 50 => {
            Condition::new(Part::Path, [PathRegex::parse(&format!("^/old{n}/[0-9]+$")).unwrap()])
        }
        8 => path(&format!("/old{n}/*")),
        9 => value(Part::Query("page".into()), &format!("p{n}")),
        10 => value(Part::ContentType, &format!("application/x-{n}")),
        11 => number(Part::ContentLength, 1000 * n),
        12 => number(Part::Asn, 64_500 + 3 * n),
        13 => number(Part::Dscp, n % 60),
        14 => network(Part::Destination, &format!("172.16.{}.{}/32", n / 256, n % 256)),
        15 => host(Part::Sni, &format!("sni{n}.example.com")),
        16 => {
            let domain = HostPattern::domain(&format!("isp{n}.example.net")).unwrap();
            Condition::new(Part::ClientName, [domain])
        }
        17 => value(Part::Certificate, &format!("partner-{n}*")),
        18 => value(Part::Subject, &format!("user-{n}")),
        _ => {
            let letter = |n: usize| char::from(b'A' + (n % 26) as u8);
            exact(Part::Country, &format!("{}{}", letter(n / 26), letter(n)))
        }
    };
    let rule = |index: usize| {
        let (kind, n) = (index % 20, index / 20);
        let mut conditions = vec![one(kind, n)];
        if index % 4 == 3 {
            conditions.push(one((kind + 7) % 20, n));
        }
        let sets = |output: usize| index % 6 == output || index % 11 == all;
        Rule {
            conditions,
            class: sets(0).then_some(ClassId(index as u16 % 3)),
            policer: sets(1).then_some(PolicerId(index as u16)),
            importance: sets(2).then_some(index as u8),
            slots: sets(3).then_some(index as u16),
            score: sets(4).then_some(Score::of(Points::ONE)),
            flow: sets(5).then_some(Flow::Client { v4: 24, v6: 48 }),
            ..Rule::default()
        }
    };
    (0..count).map(rule).collect()
}

/// Requests of which every part is asked for, and some of whose parts late rules name.
fn measure_everywhere(count: usize, all: usize) -> (f64, usize) {
    let fields = [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Content-Length", "4711"),
        ("Priority", "u=1, i"),
    ];
    let fields: Vec<(&str, &str)> = BROWSER.into_iter().chain(fields).collect();
    let last = count / 20 - 1;
    let texts: Vec<[String; 3]> = (0..128)
        .map(|n: usize| {
            let far = n * 7919 % (last + 1);
            let path = match n % 4 {
                0 => format!("/api/v{}/resource{far}/entry/{n}", far % 6),
                1 => format!("/media/{far}/picture-{n}.jpg"),
                2 => format!("/old{far}/17"),
                _ => format!("/about/team/{n}.html"),
            };
            [path, format!("sort=up&page=p{far}"), format!("host{n}.isp{far}.example.net")]
        })
        .collect();
    let views = |out: &mut Buffers,
                 n: usize,
                 fields: &[Field<'_>],
                 check: &mut dyn FnMut(&RequestView<'_>)| {
        let [path, query, name] = &texts[n];
        check(&RequestView {
            method: b"GET",
            host: b"www.example.com",
            path: judged(path, out),
            query: query.as_bytes(),
            fields,
            client: [192, 0, 2, n as u8].into(),
            sni: b"www.example.com",
            client_name: name.as_bytes(),
            country: *b"DE",
            asn: 64_496,
            certificate: b"someone else",
            subject: b"user-none",
            dscp: 0,
            ..RequestView::EMPTY
        });
    };
    measure_views(&everywhere(count, all), &fields, texts.len(), views)
}

/// Rules that are all combinations of 22 hosts, 22 paths and 22 values: each fact in 484 rules.
fn product() -> Vec<Rule> {
    let rule = |index: usize| Rule {
        conditions: vec![
            host(Part::Host, &format!("h{}.example.com", index % 22)),
            path(&format!("/p{}/*", index / 22 % 22)),
            header("x-plan", &format!("plan-{}", index / 484)),
        ],
        class: Some(ClassId(0)),
        ..Rule::default()
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

/// The path as rules see it.
fn judged<'a>(path: &'a str, buffers: &'a mut Buffers) -> &'a [u8] {
    let paths = normalise(black_box(path.as_bytes()), Handling::default(), buffers);
    paths.expect("no path here is refused").judged
}

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
    measure_views(rules, &fields, paths.len(), |out, index, fields, check| {
        check(&RequestView {
            method: b"GET",
            host: hosts[index % hosts.len()].as_bytes(),
            path: judged(&paths[index], out),
            fields,
            client: [192, 0, 2, index as u8].into(),
            ..RequestView::EMPTY
        });
    })
}

/// Nanoseconds per request over `count` requests, and how many of them any rule says anything of.
fn measure_views(
    rules: &[Rule],
    fields: &[(&str, &str)],
    count: usize,
    view: impl Fn(&mut Buffers, usize, &[Field<'_>], &mut dyn FnMut(&RequestView<'_>)),
) -> (f64, usize) {
    const PASSES: usize = 400;
    // One round for callgrind, which counts instead of timing.
    let rounds = if std::env::args().any(|arg| arg == "--once") { 1 } else { 15 };
    let classifier = Classifier::compile(rules, ClassId(2)).unwrap();
    let fields: Vec<Field<'_>> = fields
        .iter()
        .map(|(name, value)| Field { name: name.as_bytes(), value: value.as_bytes() })
        .collect();
    let mut scratch = Scratch::default();
    let mut out = Buffers::default();
    let (mut best, mut matched) = (f64::MAX, 0);
    for _ in 0..rounds {
        matched = 0;
        let start = Instant::now();
        for _ in 0..PASSES {
            for index in 0..count {
                view(&mut out, index, &fields, &mut |view| {
                    let found = black_box(classifier.classify(black_box(view), &mut scratch));
                    let said = (found.rule, found.policer, found.importance, found.slots);
                    matched += usize::from(said != (None, None, None, None));
                });
            }
        }
        let nanos = start.elapsed().as_nanos() as f64;
        best = best.min(nanos / (PASSES * count) as f64);
    }
    (best, matched / PASSES)
}

fn main() {
    // `--only TEXT`: what has it in its name. With `--once`, callgrind counts that alone.
    let only = std::env::args().skip_while(|arg| arg != "--only").nth(1);
    let asked = |what: &str| only.as_deref().is_none_or(|only| what.contains(only));
    let report = |what: &str, measure: &dyn Fn() -> (f64, usize)| {
        asked(what).then(|| {
            let (nanos, matched) = measure();
            println!("{what:<58} {nanos:7.1} ns  ({matched} of 128 matched)");
            nanos
        })
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
        report(&format!("{count} mixed rules, browser, 12 fields"), &|| {
            measure(&rules, &hosts, &paths)
        });
        let misses: Vec<String> = (0..128).map(|n| format!("/about/team/{n}.html")).collect();
        report(&format!("{count} mixed rules, nothing matches"), &|| {
            measure(&rules, &hosts, &misses)
        });
    }
    for (all, what) in [(0, "all outputs"), (5, "no early end")] {
        let mut costs = Vec::new();
        for count in [20, 1_000, 10_000] {
            let what = format!("{count} rules over every part, {what}");
            costs.extend(report(&what, &|| measure_everywhere(count, all)));
        }
        if let [few, _, many] = costs[..] {
            println!("{:<58} {:7.2}", "10,000 of them cost as much as 20, times", many / few);
        }
    }
    let paths: Vec<String> = (0..128).map(|n| format!("/p{}/x", n % 23)).collect();
    let hosts = ["h3.example.com", "h21.example.com"];
    report("10,648 rules, product of three, two of three hold", &|| {
        measure(&product(), &hosts, &paths)
    });

    let with_plan = [("X-Plan", "plan-20"), BROWSER[1], BROWSER[6]];
    report("10,648 rules, product of three, all three hold", &|| {
        measure_with(&product(), &hosts, &paths, with_plan)
    });

    let what = "parsing and compiling 10,000 mixed rules";
    if asked(what) {
        let build = Instant::now();
        black_box(Classifier::compile(&mixed(10_000), ClassId(0)).unwrap());
        println!("{what:<58} {:7.1} ms", build.elapsed().as_secs_f64() * 1e3);
    }
}
