//! What `explain` says of scheduling.

use tiergate::cli::explain::{Question, explain};
use tiergate::config::{load, parse};

#[test]
fn site_order_slots_deadline_and_score_are_explained() {
    let text = "trusted = [\"127.0.0.1\"]\n[origin]\nservers = [\"a:1\"]\n\
        [scheduling]\nbetween_sites = \"weighted\"\n\
        [[site]]\nname = \"shop\"\npolicy = \"score\"\nageing = 2\n[[site]]\nname = \"blog\"\n\
        [[class]]\nname = \"a\"\nsite = \"shop\"\norder = \"score\"\n[[class]]\nname = \"b\"\nsite = \"blog\"\n\
        [[rule]]\npath = \"/export\"\nclass = \"a\"\nslots = 4\nscore = 8.5\ndeadline_header = \"X-Budget\"\n\
        deadline = \"5s\"\n";
    let said = |text: &str, request: &str| {
        let question = Question { request: request.into(), ..Question::default() };
        explain(&parse(text, "p.toml").unwrap(), "p.toml", &question).unwrap()
    };
    let export = said(text, "GET /export");
    for line in [
        "  site shop: next is the request of the highest score, which grows by 2 a second",
        "  its score there is 8.5",
        "  it takes 4 slots",
        "  a trusted peer's x-budget says how long it waits, at most 5s",
    ] {
        assert!(export.lines().any(|found| found == line), "`{line}` is missing in\n{export}");
    }
    let plain = said(text, "GET /");
    assert!(plain.contains("site blog: next is the most important class that waits"), "{plain}");
    assert!(!plain.contains("slots\n") && !plain.contains("score there"), "{plain}");
    let nobody = text.replace("trusted = [\"127.0.0.1\"]\n", "");
    let nobody = said(&nobody, "GET /export");
    assert!(nobody.contains("x-budget is ignored: no peer is trusted"), "{nobody}");
}

#[test]
fn the_policies_that_come_along_do_what_their_comments_say() {
    let said = |name: &str, request: &str, header: &str| {
        let path = format!("{}/../../policies/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let policy = load(path.as_ref()).unwrap_or_else(|fault| panic!("{fault}"));
        let headers = vec![header.to_owned()];
        let question = Question { request: request.into(), headers, ..Question::default() };
        explain(&policy, name, &question).unwrap()
    };
    for (name, request, header, expected) in [
        ("sites", "GET http://blog.example.com/cart/x", "A: b", "Class pages, 4 of 4"),
        (
            "sites",
            "GET http://blog.example.com/",
            "A: b",
            "site blog: next is the request that came first",
        ),
        ("sites", "POST http://example.com/cart/x", "A: b", "Class checkout, 1 of 4"),
        (
            "sites",
            "GET http://example.com/cart/x",
            "Sec-Purpose: prefetch",
            "Class prefetch, 3 of 4",
        ),
        ("weighted", "GET /reports/7", "A: b", "it takes 4 slots"),
        ("weighted", "GET /x", "A: b", "a trusted peer's x-time-left says how long it waits"),
        ("deadlines", "GET /quotes/x", "A: b", "next is the request of the earliest deadline"),
        ("score", "GET /index.html", "A: b", "its score there is 4.5"),
    ] {
        let said = said(name, request, header);
        assert!(said.contains(expected), "{name}: `{expected}` is missing in\n{said}");
    }
}
