//! Classification: whatever a request consists of, the compiled rules say of it what the rules one by
//! one say, and nothing panics.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tiergate::config::{self, meant::Policy};
use tiergate_core::classify::{Output, Scratch, path};
use tiergate_core::request::{Field, RequestView};

/// A rule for each part of a request, and some for two, so that all readers of client text are run.
static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let conditions = [
        "query.q = [\"a*\", \"*b\", \"\"]",
        "query.\"a b\" = true",
        "extension = [\"cgi\", \"a\"]",
        "path_regex = ['^/[ab]+$', '(?i)x{2,}', 'é']",
        "content_type = \"text/*\"",
        "content_length = [\"10..20\", \"1MiB..\"]",
        "prefetch = true",
        "urgency = [0, \"5..7\"]",
        "cookie.a = \"*b*\"",
        "header.accept = \"*/*\"",
        "path = [\"/a/**b\", \"/%2F*\"]",
        "domain = \"b.a\"",
        "sni = \"*.a\"\nhost = \"a\"",
        "urgency = 3\nextension = \"a\"",
        "subject = \"*\"\nquery.q = true",
    ];
    let mut text =
        "[origin]\nservers = [\"a:1\"]\n[[listener]]\naddress = \"127.0.0.1:80\"\n".to_owned();
    for (index, conditions) in conditions.iter().enumerate() {
        text += &format!("[[rule]]\n{conditions}\nimportance = {index}\n");
        text += &format!("[[rule]]\n{conditions}\nclass = \"default\"\n");
    }
    config::parse(&text, "policy.toml").unwrap_or_else(|faults| panic!("{faults}"))
});

fuzz_target!(|data: &[u8]| {
    // Lines: path, query, host, sni, client's name, subject, then fields.
    let mut lines = data.split(|byte| *byte == b'\n');
    let mut line = || lines.next().unwrap_or_default();
    let mut buffers = path::Buffers::default();
    let paths = path::normalise(line(), path::Handling::AsReceived, &mut buffers);
    let view = RequestView {
        method: b"GET",
        path: paths.expect("nothing is refused").judged,
        query: line(),
        host: line(),
        sni: line(),
        client_name: line(),
        subject: line(),
        ..RequestView::EMPTY
    };
    let fields: Vec<Field<'_>> = lines
        .map(|line| match line.iter().position(|byte| *byte == b':') {
            Some(colon) => Field { name: &line[..colon], value: line[colon + 1..].trim_ascii() },
            None => Field { name: b"cookie", value: line },
        })
        .collect();
    let view = RequestView { fields: &fields, ..view };
    let found = POLICY.classifier.classify(&view, &mut Scratch::default());
    let first = |output: Output| {
        let rules = POLICY.rules.iter();
        rules.into_iter().position(|rule| rule.rule.sets(output) && rule.rule.matches(&view))
    };
    assert_eq!(found.rule.map(|rule| rule as usize), first(Output::Verdict));
    let importance = first(Output::Importance).and_then(|rule| POLICY.rules[rule].rule.importance);
    assert_eq!(found.importance, importance);
});
