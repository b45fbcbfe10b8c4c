//! Tests of what clients are told.

use super::refusals::status_of;
use super::*;
use crate::config::meant::{Policy, Refusal, RefusalConnection};
use std::time::Duration;
use tiergate_core::gate::Refused;
use tiergate_core::reason::Reason;
use tiergate_core::request::Field;

fn settings() -> Refusal {
    Refusal {
        connection: RefusalConnection::Keep,
        retry_after: Duration::from_millis(1500),
        retry_after_max: Duration::from_secs(30),
        reason_header: Some("X-Reason".into()),
        page_html: None,
    }
}

fn field<'a>(name: &'a str, value: &'a str) -> Field<'a> {
    Field { name: name.as_bytes(), value: value.as_bytes() }
}

#[test]
fn the_format_follows_accept() {
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    assert_eq!(Format::accepted(&[field("Accept", browser)]), Format::Html);
    let api = "application/problem+json; charset=utf-8";
    assert_eq!(Format::accepted(&[field("accept", api)]), Format::Json);
    assert_eq!(Format::accepted(&[field("accept", "*/*")]), Format::Plain);
    assert_eq!(Format::accepted(&[]), Format::Plain);
}

/// The whole answer by HTTP/1.1: head and body.
fn written(template: &Template, told: &Advice<'_>, keep: bool) -> (String, String) {
    let mut head = Vec::new();
    assert!(template.write(&mut head, told, keep, true).is_empty());
    let mut whole = Vec::new();
    let rest = template.write(&mut whole, told, keep, false).to_vec();
    whole.extend_from_slice(&rest);
    assert!(whole.starts_with(&head));
    let body = whole.split_off(head.len());
    [head, body].map(|bytes| String::from_utf8(bytes).expect("ours is UTF-8")).into()
}

#[test]
fn heads_and_bodies_are_cut_at_the_right_place_and_say_the_seconds() {
    let page = Some("<h1>Busy</h1>".to_owned());
    for settings in [settings(), Refusal { page_html: page, ..settings() }] {
        let refusals = Refusals::new(&settings, std::iter::empty());
        for reason in Reason::ALL.into_iter().filter(|it| *it != Reason::Rule) {
            for format in [Format::Plain, Format::Html, Format::Json] {
                let template = refusals.template(reason, None, format);
                for (keep, seconds) in [(true, 2), (false, 1234)] {
                    let told = Advice { seconds, limit: None, id: None };
                    let (head, body) = written(template, &told, keep);
                    assert!(head.ends_with("\r\n\r\n"));
                    assert_eq!(head.matches("\r\n\r\n").count(), 1);
                    assert_eq!(head.contains("connection: close\r\n"), !keep);
                    assert!(head.contains(&format!("\r\nretry-after: {seconds}\r\n")), "{head}");
                    assert!(head.contains(&format!("\r\nx-reason: {}\r\n", reason.name())));
                    assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
                    let own = settings.page_html.is_some() && format == Format::Html;
                    assert_eq!(body.contains(&seconds.to_string()), !own, "{body}");
                    same_by_http2(template, &told, &head, &body);
                }
            }
        }
    }
}

fn same_by_http2(template: &Template, told: &Advice<'_>, head: &str, body: &str) {
    let (fields, sent) = template.parts(told);
    assert_eq!(&*sent, body);
    for (name, value) in &fields {
        let line = format!("\r\n{name}: {}\r\n", value.to_str().expect("ASCII"));
        assert!(head.contains(&line), "{line} in {head}");
    }
    let lines = head.lines().filter(|line| line.contains(": ") && !line.ends_with("close"));
    assert_eq!(lines.count(), fields.len());
}

#[test]
fn what_a_rule_forbids_is_not_called_busy() {
    let mut names = tiergate_core::names::Names::default();
    let policy = "[origin]\nservers = [\"a:1\"]\n[[rule]]\npath = \"/a\"\nrefuse = true\n\
         [[rule]]\npath = \"/b\"\nrefuse = 410\n[[rule]]\npath = \"/c\"\nrefuse = { status = 451 }\n\
         [[rule]]\npath = \"/d\"\nrefuse = { redirect = \"https://a.example/?x=1&y=2\" }\n\
         [[rule]]\npath = \"/e\"\nrefuse = 503\n";
    let policy = crate::config::parse_with(policy, "", &mut names).expect("it is right");
    let denials = policy.denials();
    let quiet = Refusal { reason_header: None, ..settings() };
    let refusals = Refusals::new(&quiet, denials);
    let rules = policy.plan.rule_ids();
    let told = Advice { seconds: 7, limit: None, id: None };
    for (rule, status, line, error) in [
        (0, 403, "HTTP/1.1 403 Forbidden\r\n", "forbidden"),
        (1, 410, "HTTP/1.1 410 Gone\r\n", "gone"),
        (2, 451, "HTTP/1.1 451 Unavailable", "unavailable_for_legal_reasons"),
        (3, 302, "HTTP/1.1 302 Found\r\n", "elsewhere"),
        (4, 503, "HTTP/1.1 503 Service", "overloaded"),
    ] {
        for format in [Format::Plain, Format::Html, Format::Json] {
            let template = refusals.template(Reason::Rule, Some(rules[rule]), format);
            let (head, body) = written(template, &told, true);
            assert_eq!(template.status, status);
            assert!(head.starts_with(line), "{head}");
            assert_eq!(head.contains("\r\nretry-after: 7\r\n"), status == 503, "{head}");
            assert!(!body.contains("busy") && !body.contains("\"reason\""), "{body}");
            assert_eq!(head.contains("\r\nlocation: https://a.example/?x=1&y=2\r\n"), rule == 3);
            let is_json = format == Format::Json;
            assert_eq!(body == format!("{{\"error\":\"{error}\"}}\n"), is_json, "{body}");
            assert!(!(is_json || rule != 3) || !body.contains("&y"), "{body}");
            same_by_http2(template, &told, &head, &body);
        }
        // Of other reasons the rule says nothing.
        let busy = refusals.template(Reason::QueueFull, Some(rules[rule]), Format::Plain);
        assert_eq!(busy.status, 503);
    }
    assert_eq!(refusals.template(Reason::Rule, None, Format::Plain).status, 403);
}

#[test]
fn every_reason_for_429_is_the_clients_own_doing() {
    let too_many = Reason::ALL.into_iter().filter(|&reason| status_of(reason) == 429);
    assert_eq!(too_many.collect::<Vec<_>>(), [Reason::Policed, Reason::Blocked]);
}

#[test]
fn what_clients_are_told_differs_and_keeps_to_the_bounds() {
    let mut policy = Policy::for_origin("a:1", None, None).expect("a server");
    policy.refusal = settings();
    let wait = Duration::from_secs(20);
    let refused = Refused { wait, ..Refused::of(Reason::QueueFull) };
    let told: Vec<u64> = (0..200).map(|_| Advice::of(&policy, &refused).seconds).collect();
    assert!(told.iter().all(|seconds| (20..=30).contains(seconds)), "{told:?}");
    let distinct = told.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(distinct >= 8, "{distinct} of 11 in 200 draws");
    let unknown = Refused::of(Reason::Draining);
    assert!((2..=3).contains(&Advice::of(&policy, &unknown).seconds), "1.5 s, rounded up");
}

#[test]
fn errors_have_a_length_and_say_why() {
    let mut out = Vec::new();
    write_error(&mut out, 431, "the head is too large", None, false);
    let text = String::from_utf8(out).expect("ASCII");
    assert!(text.starts_with("HTTP/1.1 431 Request Header Fields Too Large\r\n"));
    assert!(text.ends_with("431 Request Header Fields Too Large: the head is too large\n"));
}
