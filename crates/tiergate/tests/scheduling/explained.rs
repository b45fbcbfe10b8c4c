//! What `explain` says of scheduling.

use tiergate::cli::explain::{Question, explain};
use tiergate::config::parse;

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
        "  site shop: served is the request of the highest score, which grows by 2 a second",
        "  its score there is 8.5",
        "  it takes 4 slots",
        "  a trusted peer's x-budget says how long it waits, at most 5s",
    ] {
        assert!(export.lines().any(|found| found == line), "`{line}` is missing in\n{export}");
    }
    let plain = said(text, "GET /");
    assert!(plain.contains("site blog: served is the most important that waits"), "{plain}");
    assert!(!plain.contains("slots\n") && !plain.contains("score there"), "{plain}");
    let nobody = text.replace("trusted = [\"127.0.0.1\"]\n", "");
    let nobody = said(&nobody, "GET /export");
    assert!(nobody.contains("x-budget is not believed: nobody is trusted"), "{nobody}");
}
