use super::*;
use crate::config::parse;

const POLICY: &str = "[origin]
servers = [\"a:1\"]
[[class]]
name = \"checkout\"
minimum = \"10%\"
[[class]]
name = \"rest\"
[[rule]]
path = \"/cart/*\"
method = \"POST\"
class = \"checkout\"
[[rule]]
path = \"/cart/*\"
host = \"*.example.com\"
class = \"checkout\"
deadline = \"500ms\"
[[rule]]
client = \"192.0.2.0/24\"
refuse = true
";

fn say(question: Question) -> String {
    explain(&parse(POLICY, "p.toml").unwrap(), "p.toml", &question).unwrap()
}

#[test]
fn a_request_is_explained_to_the_last_condition() {
    let said = say(Question {
        request: "GET //%63art/7?x=1 HTTP/1.1".into(),
        headers: vec!["Host: Shop.example.com:8080".into()],
        ..Question::default()
    });
    assert_eq!(
        said,
        "GET /cart/7 from 127.0.0.1, host Shop.example.com
  the path was written //%63art/7

Rule 2 (p.toml:12) decides: host *.example.com and path /cart/* → checkout, waits at most 500ms
  yes  host *.example.com: it is Shop.example.com
  yes  path /cart/*: it is /cart/7

Class checkout, 1 of 2 in importance: waits at most 500ms, at most 10000 in the queue, guaranteed 10% of the slots
  the rule says 500ms instead of the class's deadline

Earlier rules that nearly match
  rule 1 (p.toml:8) → checkout
    no   method POST: it is GET

What each part of it matches, of the rules that ask for it
  client (of 1): none
  host (of 1): rule 2
  method (of 1): none
  path (of 2): rules 1, 2
"
    );
}

#[test]
fn a_path_is_shown_as_received_as_judged_and_as_sent() {
    let said = |handling: &str, request: &str| {
        let policy = format!("{POLICY}[forwarding]\npath = \"{handling}\"\n");
        let question = Question { request: request.into(), ..Question::default() };
        let said = explain(&parse(&policy, "p.toml").unwrap(), "p.toml", &question).unwrap();
        said.split_once("\n\n").map(|(asked, _)| asked.to_owned()).unwrap()
    };
    let from = "from 127.0.0.1";
    assert_eq!(said("strict", "GET /cart/7"), format!("GET /cart/7 {from}"));
    assert_eq!(
        said("strict", "GET //cart/%61%20b"),
        format!(
            "GET /cart/a b {from}\n  the path was written //cart/%61%20b\n  the origin gets it as /cart/a%20b"
        )
    );
    assert_eq!(
        said("as_received", "GET //cart/a%2Fb"),
        format!(
            "GET /cart/a%2Fb {from}\n  the path was written //cart/a%2Fb\n  the origin gets it as //cart/a%2Fb"
        )
    );
    assert_eq!(
        said("decoded", "GET /cart%2Fa"),
        format!("GET /cart/a {from}\n  the path was written /cart%2Fa")
    );
    let question = Question { request: "GET /cart%2Fa?b".into(), ..Question::default() };
    assert_eq!(
        say(question),
        "GET /cart%2Fa?b from 127.0.0.1\n\nIt is refused with 400 before any rule: encoded slash in the path \
         (forwarding.path)\n"
    );
}

#[test]
fn refusals_and_requests_that_no_rule_matches_are_explained() {
    let request = || "GET http://[::1]:80/x".to_owned();
    let client = Some("::ffff:192.0.2.7".parse().unwrap());
    let refused = say(Question { request: request(), client, ..Question::default() });
    assert!(refused.contains("from ::ffff:192.0.2.7, host [::1]"), "{refused}");
    assert!(refused.contains("Rule 3 (p.toml:17) decides: client in 192.0.2.0/24"), "{refused}");
    let answer = "It is refused, whatever the load, and counted in class rest, answered with 403\n";
    assert!(refused.contains(answer), "{refused}");
    let elsewhere = POLICY.replace("refuse = true", "refuse = { redirect = \"/busy?x\" }");
    let question = Question { request: request(), client, ..Question::default() };
    let sent = explain(&parse(&elsewhere, "p.toml").unwrap(), "p.toml", &question).unwrap();
    assert!(sent.contains("counted in class rest, answered with 302, sent to /busy?x\n"), "{sent}");
    let unmatched = say(Question { request: request(), ..Question::default() });
    assert!(
        unmatched.contains("No rule matches (of 3): the default class takes it"),
        "{unmatched}"
    );
    assert!(
        unmatched.contains("Class rest, 2 of 2 in importance: waits at most 2s"),
        "{unmatched}"
    );
}

#[test]
fn questions_that_are_no_requests_are_refused() {
    let policy = parse(POLICY, "p.toml").unwrap();
    let fault = |request: &str, header: &str| {
        let headers = vec![header.to_owned()];
        let question = Question { request: request.into(), headers, ..Question::default() };
        explain(&policy, "p.toml", &question).unwrap_err()
    };
    assert_eq!(
        fault("GET", "A: b"),
        "the request must be a method and a target, such as 'GET /x', got \"GET\""
    );
    assert_eq!(fault("GET /x", "A b"), "a header must be 'Name: value', got \"A b\"");
}

/// By the very parser of what clients send, and the bounds of the policy.
#[test]
fn what_the_gateway_refuses_before_any_rule_is_said_with_status_and_cause() {
    let text = format!(
        "{POLICY}[limits]\nrequest_body_max = \"1MiB\"\nrequest_head_max = \"1KiB\"\ntarget_len_max = \"256B\"\n"
    );
    let policy = parse(&text, "p.toml").unwrap();
    let long = format!("GET /{}", "x".repeat(300));
    let large = format!("A: {}", "x".repeat(1100));
    for (request, header, refused) in [
        ("GET /x HTTP/1.1", "Host: a b", "400 before any rule: host is malformed"),
        ("GET /x HTTP/1.1", "Host:", "400 before any rule: host is empty"),
        ("GET /x", "A b: c", "400 before any rule: "),
        ("GET /x", "A: \u{1}", "400 before any rule: "),
        ("GET cart", "A: b", "400 before any rule: target is neither a path nor an http address"),
        ("GET /x HTTP/9.9", "A: b", "505 before any rule: version other than"),
        ("GET /x#y", "A: b", "400 before any rule: fragment in the target"),
        ("CONNECT a:1", "A: b", "501 before any rule: CONNECT is not supported"),
        (
            "GET http://a/x",
            "Host: b",
            "400 before any rule: host and the target's authority differ",
        ),
        ("POST /x", "Content-Length: 1x", "400 before any rule: "),
        ("POST /x", "Transfer-Encoding: gzip, chunked", "501 before any rule: "),
        ("POST /x", "Content-Length: 2097152", "413 before any rule: the body is larger"),
        ("OPTIONS /x", "Max-Forwards: 0", "501 before any rule: the request may not be forwarded"),
        (&long, "A: b", "414 before any rule: target too long"),
        ("GET /x", &large, "431 before any rule: head too large"),
    ] {
        let headers = vec![header.to_owned()];
        let question = Question { request: request.into(), headers, ..Question::default() };
        let said = explain(&policy, "p.toml", &question).unwrap();
        let is_all = said.lines().count() == 3 && said.contains("from 127.0.0.1\n");
        assert!(is_all && said.contains(&format!("It is refused with {refused}")), "{said}");
    }
    for request in ["GET /x HTTP/1.0", "GET /x HTTP/2", "GET http://a:80/x", "OPTIONS *"] {
        let question = Question { request: request.into(), ..Question::default() };
        let said = explain(&policy, "p.toml", &question).unwrap();
        assert!(said.contains("\nClass rest"), "{request}: {said}");
    }
}

/// What only trusted peers may say is believed of these alone, as by the gateway.
#[test]
fn a_request_is_seen_as_its_peer_is_trusted() {
    let text = format!(
        "trusted = [\"10.0.0.0/8\"]\n{POLICY}[[rule]]\nheader.x-forwarded-proto = \"http\"\nrefuse = 404\n"
    );
    let policy = parse(&text, "p.toml").unwrap();
    let said = |peer: &str, header: &str| {
        let question = Question {
            request: "GET /x".into(),
            headers: vec![header.to_owned()],
            client: Some(peer.parse().unwrap()),
            known: Known { dscp: Some(46), ..Known::default() },
            ..Question::default()
        };
        explain(&policy, "p.toml", &question).unwrap()
    };
    for (peer, header, expected) in [
        (
            "10.0.0.1",
            "X-Forwarded-For: 192.0.2.7",
            "GET /x from 192.0.2.7\n  10.0.0.1 is trusted, and names this client\n\nRule 3 (p.toml:18) decides",
        ),
        (
            "198.51.100.1",
            "X-Forwarded-For: 192.0.2.7",
            "GET /x from 198.51.100.1\n  rules do not see X-Forwarded-For: 198.51.100.1 is not `trusted`\n\nNo rule matches",
        ),
        ("::ffff:10.0.0.1", "X-Forwarded-Proto: http", "\n\nRule 4 (p.toml:21) decides"),
        (
            "198.51.100.1",
            "X-Forwarded-Proto: http",
            "  rules do not see X-Forwarded-Proto: 198.51.100.1 is not `trusted`\n\nNo rule matches",
        ),
        ("198.51.100.1", "X-Other: http", "GET /x from 198.51.100.1\n\nNo rule matches"),
    ] {
        let said = said(peer, header);
        assert!(said.contains(expected), "{peer} {header}\n{said}");
    }
}

/// No client can have sent a request of two hosts.
#[test]
fn a_host_is_said_once() {
    let policy = parse(POLICY, "p.toml").unwrap();
    let said = |request: &str, headers: &[&str]| {
        let question = Question {
            request: request.into(),
            headers: headers.iter().map(|it| (*it).to_owned()).collect(),
            host: Some("a.example".into()),
            ..Question::default()
        };
        explain(&policy, "p.toml", &question)
    };
    let differs = said("GET http://b.example/x", &[]).unwrap();
    assert!(differs.contains("400 before any rule: host and the target's authority differ"));
    let twice = said("GET /x", &["Host: b.example"]).unwrap_err();
    assert_eq!(
        twice,
        "the host is \"a.example\" by --host, and \"b.example\" by the header: leave one of them out"
    );
    for (request, headers) in
        [("GET /x", &[][..]), ("GET /x", &["Host: a.example"]), ("GET http://a.example:80/x", &[])]
    {
        assert!(said(request, headers).unwrap().contains("host a.example"), "{request}");
    }
}

#[test]
fn each_thing_that_rules_say_is_explained_by_its_own_rule() {
    let policy = parse(
        "[origin]
servers = [\"a:1\"]
[[listener]]
address = \"192.0.2.1:80\"
[[listener]]
address = \"192.0.2.2:443\"
name = \"main\"
[[class]]
name = \"a\"
[[class]]
name = \"b\"
[[rule]]
listener = \"main\"
country = [\"DE\", \"AT\"]
importance = 7
[[rule]]
query.q = \"x*\"
content_length = \"1MiB..\"
class = \"a\"
flow = \"cookie:sid\"
[[rule]]
importance = 9
slots = 3
",
        "p.toml",
    );
    let question = |listener: &str| Question {
        request: "POST /up?q=%78yz".into(),
        headers: vec!["Content-Length: 2097152".into()],
        known: Known { listener: Some(listener.into()), country: Some(*b"AT"), ..Known::default() },
        ..Question::default()
    };
    let policy = policy.unwrap();
    let said = explain(&policy, "p.toml", &question("main")).unwrap();
    assert_eq!(
        said,
        "POST /up from 127.0.0.1

Rule 2 (p.toml:16) decides: query q = x* and content length 1MiB.. → a, flow cookie:sid
  yes  query q = x*: the query is q=%78yz
  yes  content length 1MiB..: it is 2MiB

Class a, 1 of 2 in importance: waits at most 2s, at most 10000 in the queue
  it takes 3 slots

Beside the class
  importance 7: rule 1 (p.toml:12), country DE or AT and listener main
  flow cookie:sid: rule 2 (p.toml:16), query q = x* and content length 1MiB..
  slots 3: rule 3 (p.toml:21), every request

What each part of it matches, of the rules that ask for it
  country (of 1): rule 1
  listener (of 1): rule 1
  query (of 1): rule 2
  content length (of 1): rule 2
"
    );
    let other = explain(&policy, "p.toml", &question("192.0.2.1:80")).unwrap();
    assert!(other.contains("importance 9: rule 3"), "{other}");
    let fault = explain(&policy, "p.toml", &question("mian")).unwrap_err();
    assert_eq!(fault, "no listener of the policy is called \"mian\" or has that address");
}

#[test]
fn who_goes_under_overload_is_told() {
    let text = "[origin]\nservers = [\"a:1\"]\n\
         [[rule]]\ncookie.basket = \"full\"\nimportance = 200\n[shedding]\nclose = \"reset\"\n";
    let said = |text: &str, cookie: &str| {
        let question = Question {
            request: "GET /".into(),
            headers: vec![format!("Cookie: basket={cookie}")],
            ..Question::default()
        };
        explain(&parse(text, "p.toml").unwrap(), "p.toml", &question).unwrap()
    };
    let goes = "\n  under overload it goes first, unless its connection was important before\n";
    let stays = "\n  under overload its connection is kept by importance 200";
    assert!(said(text, "empty").contains(goes), "{}", said(text, "empty"));
    assert!(said(text, "full").contains(&format!("{stays}\n")), "{}", said(text, "full"));
    let known = format!("{text}[session]\nown = true\n");
    let full = said(&known, "full");
    assert!(full.contains(&format!("{stays} in a running session\n")), "{full}");
    let words = crate::cli::check::meaning(&parse(&known, "p.toml").unwrap(), "p.toml");
    for line in [
        "Under overload the least important requests are shed",
        "  while the queueing delay is more than 100ms: as many as it takes",
        "  in the order of importance, which only running sessions have; then of classes; then the shorter connections first",
        "  their connections are reset without a response",
    ] {
        assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
    }
}

#[test]
fn the_pool_is_explained() {
    let policy = crate::config::parse(
        "[origin]\nservers = [\"a:1\"]\n\
         [[pool]]\nname = \"reports\"\nservers = [\"b:1\"]\nfallback = \"default\"\n\
         [[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\npool = \"reports\"\n\
         [[rule]]\npath = \"/a\"\nclass = \"a\"\n\
         [[rule]]\npath = [\"/r\", \"/a/r\"]\npool = \"reports\"\n\
         [[rule]]\npath = \"/d\"\npool = \"default\"\n\
         [[rule]]\npath = \"/s\"\npool = { default = 190, reports = 10 }\n",
        "p.toml",
    );
    let policy = policy.expect("a policy");
    let fallback = "; while no server of it is usable, default takes it";
    for (path, said) in [
        ("/a", "it goes to pool default: neither a rule nor its class names one".to_owned()),
        ("/x", format!("it goes to pool reports: its class says so{fallback}")),
        ("/r", format!("it goes to pool reports: a rule says so{fallback}")),
        ("/d", "it goes to pool default: a rule says so".to_owned()),
        (
            "/s",
            "it goes to one of the pools default 95 %, reports 5 %, by its flow: a rule says so"
                .to_owned(),
        ),
    ] {
        let question = Question { request: format!("GET {path}"), ..Question::default() };
        let text = explain(&policy, "p.toml", &question).expect("a question");
        assert!(text.lines().any(|line| line.trim() == said), "{path}: {said}\n{text}");
    }
}

#[test]
fn what_a_request_needs_is_explained() {
    let policy = "[origin]\nservers = [\"a:1\"]\n\
         [[pool]]\nname = \"reports\"\nservers = [\"b:1\"]\n\
         [[resource]]\nname = \"db\"\nslots = 4\n\
         [[resource]]\nname = \"search\"\nslots = 2\n\
         [[class]]\nname = \"a\"\nresource = \"db\"\n\
         [[rule]]\npath = \"/s\"\nresource = \"search\"\n\
         [[rule]]\npath = \"/n\"\nresource = false\n\
         [[rule]]\npath = \"/r\"\npool = \"reports\"\n";
    let policy = parse(policy, "p.toml").unwrap();
    for (path, expected) in [
        ("/", "it needs a slot of db, too: its class says so"),
        ("/s", "it needs a slot of search, too: a rule says so"),
        ("/n", "it needs no resource: a rule says so"),
        ("/r", "its class says that it needs db, which is of pool default: no effect"),
    ] {
        let question = Question { request: format!("GET {path}"), ..Question::default() };
        let said = explain(&policy, "p.toml", &question).unwrap();
        assert!(said.lines().any(|line| line.trim() == expected), "{expected}\n{said}");
    }
}

#[test]
fn a_request_s_controls_are_shown_as_escapes() {
    let text = POLICY.to_owned() + "[forwarding]\npath = \"as_received\"\n";
    let policy = parse(&text, "p.toml").expect("a policy");
    let request = "GET /cart/%1B%5B2J%0ANo%20rule".into();
    let question = Question { request, host: Some("a.example.com".into()), ..Question::default() };
    let said = explain(&policy, "p.toml", &question).expect("a request");
    assert!(said.starts_with("GET /cart/\\u{1b}[2J\\nNo rule from 127.0.0.1, host a"), "{said}");
    assert!(said.contains("path /cart/*: it is /cart/\\u{1b}[2J\\nNo rule\n"), "{said}");
}

/// As seen on the wire: curl sends no fragment, and a client that does gets `/cart/x` over HTTP/2, and 400 over HTTP/1.1.
#[test]
fn a_target_is_read_as_its_protocol_reads_it() {
    let said = |request: &str| say(Question { request: request.into(), ..Question::default() });
    let of_streams = said("POST /cart/x#y HTTP/2");
    assert!(of_streams.starts_with("POST /cart/x from 127.0.0.1\n  `#` and what"), "{of_streams}");
    assert!(of_streams.contains("Rule 1 (p.toml:8) decides"), "{of_streams}");
    for (request, expected) in [
        ("GET /x#y", "is refused with 400 before any rule: "),
        ("GET /x#y HTTP/1.1", "is refused with 400 before any rule: "),
        ("GET /x HTTP/2", "GET /x from 127.0.0.1\n\nNo rule"),
        ("GET /x<y HTTP/2", "GET /x<y from 127.0.0.1\n\nIts stream is reset before any rule"),
        ("GET /x<y HTTP/3", "Its stream is reset before any rule"),
        ("GET /x<y HTTP/1.1", "GET /x<y from 127.0.0.1\n\nNo rule"),
    ] {
        assert!(said(request).contains(expected), "{}", said(request));
    }
}
