//! Rates of clients: each line that tracks counts what it holds of, by its own table.

use super::safety::{LESS, STRICTER, lists};
use super::{explained, of_haproxy};
use tiergate::cli::explain::Known;
use tiergate::import::Imported;

fn whole(lines: &str) -> Imported {
    of_haproxy(&format!(
        "frontend f\n bind :80\n{lines}\n default_backend b\n\
         backend fast\n stick-table type ip size 1k store http_req_rate(1s)\n\
         backend slow\n stick-table type ip size 1k store http_req_rate(60s)\n\
         backend b\n server s a:1\n"
    ))
    .expect("it maps")
}

/// The policer of GET of a path, if there is one.
fn policer(made: &Imported, path: &str) -> Option<String> {
    let said = explained(made, path, Known::default());
    let at = said.find("over-")?;
    let name = |it: char| it.is_ascii_alphanumeric() || it == '-';
    Some(said[at..].chars().take_while(|it| name(*it)).collect())
}

#[test]
fn each_line_that_tracks_has_its_table_and_its_condition() {
    let made = whole(
        " http-request track-sc0 src table fast if { path_beg /static }\n\
          http-request track-sc0 src table slow if { path_beg /api } || { path_beg /static/x }\n\
          http-request deny if { sc_http_req_rate(0) gt 3 }",
    );
    for (path, is) in
        [("/static/x", Some("over-3-in-1s")), ("/api", Some("over-3-in-60s")), ("/other", None)]
    {
        assert_eq!(policer(&made, path).as_deref(), is, "{path}\n{}", made.policy);
    }
    // No request counts for both.
    assert!(
        !made.notes.join("\n").contains("each request counts for one rate"),
        "{:?}",
        made.notes
    );
    // Of the ruleset that comes later nothing is known yet.
    let made = whole(
        " http-request deny if { sc_http_req_rate(0) gt 3 } { path /x }\n\
          http-request track-sc0 src table slow\n\
          tcp-request content track-sc0 src table fast",
    );
    assert_eq!(policer(&made, "/x").as_deref(), Some("over-3-in-1s"), "{}", made.policy);
}

#[test]
fn what_no_rule_can_ask_of_a_line_that_tracks_is_listed() {
    let made = whole(
        " http-request track-sc0 src table fast if { urlp(x) 1 }\n\
          http-request track-sc0 src table slow\n\
          http-request deny if { sc_http_req_rate(0) gt 3 }",
    );
    lists(&made, STRICTER, "track-sc0 src table fast if { urlp(x) 1 }: ");
    lists(
        &made,
        LESS,
        "track-sc0 src table fast if { urlp(x) 1 }: requests that it does not track",
    );
    let made = whole(
        " http-request track-sc0 src table fast if { nbsrv(b) lt 1 }\n\
          http-request deny if { sc_http_req_rate(0) gt 3 }",
    );
    lists(&made, STRICTER, "nbsrv(b): ");
    assert_eq!(policer(&made, "/").as_deref(), Some("over-3-in-1s"), "{}", made.policy);
    let made = whole(
        " http-request track-sc0 src table fast if { path /x }\n\
          http-request track-sc0 hdr(x-a) table slow\n\
          http-request deny if { sc_http_req_rate(0) gt 3 }",
    );
    lists(&made, LESS, "track-sc0 hdr(x-a) table slow: HAProxy counts by hdr(x-a)");
    let made = whole(" http-request deny if { sc_http_req_rate(0,slow) gt 3 }");
    lists(&made, STRICTER, "no line before it has this counter follow clients");
}

#[test]
fn tables_of_their_own_have_buckets_of_their_own() {
    let front = |name: &str, port: u16| {
        format!(
            "frontend {name}\n bind :{port}\n stick-table type ip size 1k store gpc0 store http_req_rate(500ms)\n\
             http-request track-sc0 src\n http-request deny if {{ sc_http_req_rate(0) gt 3 }}\n default_backend b\n"
        )
    };
    let (f, g) = (front("f", 80), front("g", 81));
    let made = of_haproxy(&format!("{f}{g}backend b\n server s a:1\n")).expect("it maps");
    for said in ["name = \"over-3-in-500ms\"", "name = \"over-3-in-500ms-2\"", "rate = \"6/s\""] {
        assert!(made.policy.contains(said), "{said}\n{}", made.policy);
    }
}
