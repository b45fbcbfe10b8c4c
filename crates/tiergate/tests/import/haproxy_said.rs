//! What of a haproxy.cfg is read in HAProxy's own way, and what is said of the rest.

use super::of_haproxy;
use super::safety::{STRICTER, lists, refuses};
use std::fmt::Write as _;
use tiergate::config::parse;
use tiergate::import::Imported;

fn made(lines: &str) -> Imported {
    let text =
        format!("frontend f\n bind :80\n{lines}\n default_backend b\nbackend b\n server s a:1\n");
    of_haproxy(&text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// HAProxy 2.6 was asked: 127.1 and 127.1/8 are of 127.0.0.1, and 127/8 is 0.0.0.127/8.
#[test]
fn addresses_with_bytes_left_out_are_what_haproxy_takes_them_for() {
    for (short, inside, outside) in [
        ("127.1", "127.0.0.1", "127.1.0.0"),
        ("10.1.258", "10.1.1.2", "10.1.2.58"),
        ("192.168.1/22", "192.168.3.9", "192.168.4.1"),
        ("10.12/255.0.0.0", "10.200.0.1", "12.0.0.1"),
    ] {
        let made = made(&format!("http-request deny if {{ src {short} }}"));
        assert!(made.notes.is_empty(), "{:?}", made.notes);
        let denies = |client| refuses(&made, client, "x", "GET /");
        assert!(denies(inside) && !denies(outside), "{short}: {}", made.policy);
    }
    for (short, taken, meant) in [
        ("10/8", "0.0.0.10/8", "10.0.0.0/8"),
        ("192.168/16", "192.0.0.168/16", "192.168.0.0/16"),
        ("172.16.1/255.255.255.0", "172.16.0.1/24", "172.16.1.0/24"),
    ] {
        let made = made(&format!("http-request deny if {{ src {short} }}"));
        lists(
            &made,
            STRICTER,
            &format!(
                "{short} is {taken} to HAProxy: write {meant}, if that is meant, and import it again"
            ),
        );
        assert!(refuses(&made, "192.0.2.1", "x", "GET /"), "{}", made.policy);
    }
}

#[test]
fn a_list_of_certificates_is_said_with_what_to_write() {
    let made = made(" bind :443 ssl crt-list /etc/haproxy/list.txt");
    lists(
        &made,
        STRICTER,
        "crt-list /etc/haproxy/list.txt: the list is not read; write each of its certificates as `crt FILE` and import it again",
    );
    assert!(!made.policy.contains("address = \"0.0.0.0:443\""), "{}", made.policy);
}

#[test]
fn priorities_beyond_the_classes_of_a_policy_are_joined_at_the_least_important_end() {
    let mut lines = String::new();
    for priority in 1..=70 {
        let _ = writeln!(
            lines,
            " http-request set-priority-class int({priority}) if {{ path /p{priority} }}"
        );
    }
    let made = made(&lines);
    let note = "a policy has at most 64 classes, and this would have 71: priority-64 and what is less important are in priority-63; join some that need not be told apart";
    assert!(matches!(&made.notes[..], [only] if only.contains(note)), "{:?}", made.notes);
    let policy = parse(&made.policy, "policy.toml").expect("it passes check");
    let names: Vec<&str> = policy.plan.classes.iter().map(|it| &*it.name).collect();
    assert!(names.len() == 64 && names[0] == "default" && names[63] == "priority-63", "{names:?}");
    assert!(made.policy.contains("path = \"/p70\""), "{}", made.policy);
}
