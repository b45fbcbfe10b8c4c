//! Servers of HAProxy's backends, and pools that a policy cannot have.

use super::of_haproxy;
use super::safety::{LESS, STRICTER, lists, refuses};
use std::fmt::Write as _;
use tiergate::import::Imported;

fn servers(lines: &str) -> Imported {
    of_haproxy(&format!("frontend f\n bind :8000\n default_backend b\nbackend b\n{lines}\n"))
        .unwrap_or_else(|fault| panic!("{fault}\n{lines}"))
}

#[test]
fn addresses_are_those_that_haproxy_takes() {
    for (lines, written) in [
        (" server s 10.0.0.1", "[\"10.0.0.1:8000\"]"),
        (" server s 10.0.0.1:+1000", "[\"10.0.0.1:9000\"]"),
        (" server s 2001:db8::1:8080", "[\"[2001:db8::1]:8080\"]"),
        (" server s a:1 maxconn 0", "[\"a:1\"]"),
        (" server-template s 3 a:1", "[\"a:1\"]"),
        (" server s a:1\n server t a:1", "[\"a:1\"]"),
        (" server s a:1\n server t :80", "[\"a:1\"]"),
        (
            " default-server maxconn 30\n server s a:1\n server t b:1 maxconn 5",
            "[{ address = \"a:1\", slots = 30 }, { address = \"b:1\", slots = 5 }]",
        ),
        (" server backup a:1\n server c b:1 cookie backup check", "[\"a:1\", \"b:1\"]"),
        (" server s a:1\n server t b:1 backup", "[\"a:1\"]"),
    ] {
        let made = servers(lines);
        assert!(made.policy.contains(&format!("servers = {written} ")), "{lines}\n{}", made.policy);
    }
    // One that cannot be taken over takes no other with it.
    let made = of_haproxy(
        "frontend f\n bind :80\n use_backend c if { path_beg /c }\n default_backend b\nbackend b\n server s a:1\nbackend c\n server t abns@x\n",
    )
    .expect("it maps");
    assert!(refuses(&made, "192.0.2.1", "x", "GET /c"), "{}", made.policy);
    assert!(!refuses(&made, "192.0.2.1", "x", "GET /"), "{}", made.policy);
    lists(
        &made,
        STRICTER,
        "server t abns@x: must be an address or a name, with a port: the backend has no server",
    );
}

#[test]
fn options_of_servers_are_listed() {
    for (option, heading) in [
        ("send-proxy", LESS),
        ("send-proxy-v2", LESS),
        ("something-new", LESS),
        ("ssl verify none", LESS),
        ("proto h2", "Not taken over"),
        ("redir http://x", "Not taken over"),
        ("maxqueue 3", "Not taken over"),
        ("agent-check", "Not taken over"),
        ("socks4 10.0.0.9:1080", "Not taken over"),
        ("source 10.0.0.8", "Not taken over"),
    ] {
        let made = servers(&format!(" server s a:1 {option}"));
        lists(&made, heading, &format!("server s a:1 {option}: "));
        let made = servers(&format!(" default-server {option}\n server s a:1"));
        lists(&made, heading, &format!("default-server {option}: "));
    }
    let made = servers(
        " default-server inter 2s fall 3 rise 2 maxconn 30\n server s a:1 id 5 init-addr none port 80 weight 10",
    );
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
}

#[test]
fn what_is_for_a_pool_too_many_is_refused() {
    let mut text = "frontend f\n bind :80\n".to_owned();
    for number in 0..80 {
        let _ = writeln!(text, " use_backend b{number} if {{ path /{number} }}");
    }
    text += " default_backend b0\n";
    for number in 0..80 {
        let _ = writeln!(text, "backend b{number}\n server s 10.0.0.{number}:80");
    }
    let made = of_haproxy(&text).expect("it maps");
    for (path, refused) in
        [("/x", false), ("/1", false), ("/32", false), ("/33", true), ("/79", true)]
    {
        assert_eq!(
            refuses(&made, "192.0.2.1", "x", &format!("GET {path}")),
            refused,
            "{path}\n{}",
            made.policy
        );
    }
    lists(&made, STRICTER, "use_backend b79 if { path /79 }: a policy has at most 32 pools");
    assert_eq!(made.less_safe, 0, "{:?}", made.notes);
    // As the default one, too.
    let made = of_haproxy(&format!("{text}frontend g\n bind :81\n default_backend b79\n"));
    lists(&made.expect("it maps"), STRICTER, "frontend g: a policy has at most 32 pools");
}
