//! Warnings of policies that are valid.

use super::*;
use crate::cli::check::meaning;
use crate::config::parse;

fn warned(rules: &str) -> Vec<String> {
    let text = format!(
        "[origin]\nservers = [\"a:1\"]\n\
         [[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[[class]]\nname = \"c\"\n{rules}"
    );
    warnings(&parse(&text, "p.toml").unwrap())
}

#[test]
fn rules_that_never_decide_and_classes_without_rules_are_told() {
    assert_eq!(
        warned(
            "[[rule]]\npath = \"/x/*\"\nclass = \"a\"\n\
             [[rule]]\npath = \"/x/y\"\nmethod = \"GET\"\nclass = \"b\"\n\
             [[rule]]\nmethod = \"GET\"\nclass = \"a\"\n\
             [[rule]]\npath = \"/x/*\"\nclass = \"c\"\n"
        ),
        [
            "rule 2 (line 12) never decides: rule 1 (line 9) takes all of its requests",
            "rule 4 (line 19) never decides: rule 1 (line 9) asks for the same",
            "class b: only rules that never decide lead to it",
        ]
    );
    assert_eq!(
        warned("[[rule]]\nmethod = \"GET\"\nclass = \"a\"\n"),
        ["class b: no rule leads to it"]
    );
}

#[test]
fn what_an_earlier_rule_does_not_say_a_later_one_may() {
    assert_eq!(
        warned(
            "[[rule]]\npath = \"/x/*\"\nimportance = 5\n\
             [[rule]]\npath = \"/x/*\"\nclass = \"a\"\n\
             [[rule]]\npath = \"/x/y\"\nclass = \"b\"\nimportance = 6\nslots = 2\n\
             [[rule]]\npath = \"/x/z\"\nimportance = 7\n[shedding]\n"
        ),
        [
            "rule 3 (line 15) never decides about importance: rule 1 (line 9) takes all of its requests",
            "rule 3 (line 15) never decides about class: rule 2 (line 12) takes all of its requests",
            "rule 4 (line 20) never decides: rule 1 (line 9) takes all of its requests",
            "class b: only rules that never decide lead to it",
        ]
    );
}

#[test]
fn importance_that_changes_nothing_or_that_anybody_has_is_told() {
    let by_cookie = "[[rule]]\nmethod = \"GET\"\nclass = \"a\"\n\
         [[rule]]\nmethod = \"PUT\"\nclass = \"b\"\n\
         [[rule]]\ncookie.basket = \"full\"\nimportance = 200\n";
    let rules = |shedding: &str| format!("{by_cookie}{shedding}");
    assert_eq!(
        warned(&rules("")),
        ["rule 3 (line 15): importance has no effect without [shedding]"]
    );
    assert_eq!(
        warned(&rules("[shedding]\n")),
        [
            "rule 3 (line 15): any client that guesses the value of cookie basket has this importance; with \
          [session], only running sessions have"
        ]
    );
    assert_eq!(warned(&rules("[shedding]\n[session]\nown = true\n")), [""; 0]);
    assert_eq!(warned(&rules("client = \"10.0.0.0/8\"\n[shedding]\n")), [""; 0]);
    let without = by_cookie.replace("importance = 200", "slots = 2");
    assert_eq!(
        warned(&format!("{without}[shedding]\ndelay = \"2s\"\n")),
        [
            "shedding: no rule gives importance: requests are shed by class and age alone",
            "shedding: no class waits as long as its delay: no request is ever shed",
        ]
    );
}

#[test]
fn rules_that_never_match_are_told() {
    assert_eq!(
        warned(
            "[[rule]]\npath = [\"/a.cgi\", \"/b\"]\nextension = \"jpg\"\nclass = \"a\"\n\
             [[rule]]\npath = \"/a.cgi\"\nextension = \"cgi\"\nclass = \"a\"\n\
             [[rule]]\nsni = \"a.com\"\nclass = \"b\"\n"
        ),
        [
            "rule 1 (line 9) never matches: none of its paths has extension jpg",
            "rule 3 (line 17) never matches: sni a.com needs a listener with TLS",
            "class b: only rules that never decide lead to it",
        ]
    );
}

#[test]
fn conditions_that_need_what_the_policy_does_not_have_are_told() {
    let listener = "[[listener]]\naddress = \"127.0.0.1:443\"\ntls = { certificate = \"a.pem\", key = \"a.key\" }\n";
    let warned = |tables: &str| {
        let text = format!("[origin]\nservers = [\"a:1\"]\n{listener}{tables}");
        warnings(&parse(&text, "p.toml").unwrap())
    };
    let rules = ["country = \"DE\"", "asn = 7", "subject = true", "certificate = true"];
    let rules: String = rules.iter().map(|it| format!("[[rule]]\n{it}\nrefuse = true\n")).collect();
    assert_eq!(
        warned(&rules),
        [
            "rule 1 (line 6) never matches: country DE needs [geo]",
            "rule 2 (line 9) never matches: AS 7 needs [geo]",
            "rule 3 (line 12) never matches: subject present needs [[key]] or [token]",
            "rule 4 (line 15) never matches: certificate present needs a listener with tls.client_ca",
        ]
    );
    let has = "[geo]\ndatabase = \"a.mmdb\"\n[[key]]\nname = \"k\"\nsecret_file = \"k\"\n";
    let with_ca = format!("{rules}{has}");
    assert_eq!(warned(&with_ca).len(), 1, "only the certificate: {:?}", warned(&with_ca));
    let flow = "flow = \"subject\"";
    let without = "flow = \"subject\" needs [[key]] or [token]: without them no request has a subject, and its client's address counts";
    for by in [format!("[[class]]\nname = \"a\"\n{flow}\n"), format!("[[rule]]\n{flow}\n")] {
        assert!(warned(&by).contains(&without.to_owned()), "{:?}", warned(&by));
        assert!(!warned(&format!("{by}{has}")).contains(&without.to_owned()));
    }
}

#[test]
fn servers_that_are_the_gateway_are_told() {
    let warned = |tables: &str| {
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:80\"\n[[listener]]\naddress = \"127.0.0.1:81\"\n{tables}"
        );
        parse(&text, "p.toml").unwrap().warnings
    };
    assert_eq!(
        warned("[origin]\nservers = [\"localhost:81\"]\n"),
        [
            "origin.servers[1]: localhost:81 is this gateway itself, which listens on 127.0.0.1:81: requests that come there and go to this server come back to it for ever"
        ]
    );
    assert_eq!(
        warned(
            "[origin]\nservers = [\"a:1\"]\n[[pool]]\nname = \"metrics\"\nservers = [\"127.0.0.1:8434\"]\n"
        ),
        [
            "pool[1].servers[1]: 127.0.0.1:8434 is this gateway's admin listener, 127.0.0.1:8434: clients whose requests go there see and change what operators do"
        ]
    );
}

#[test]
fn code_points_behind_the_proxy_protocol_are_told() {
    let warned = |listeners: &str, rule: &str| {
        let text = format!(
            "trusted = [\"10.0.0.1\"]\n[origin]\nservers = [\"a:1\"]\n{listeners}\
             [[rule]]\ndscp = 46\nrefuse = true\n{rule}"
        );
        warnings(&parse(&text, "p.toml").unwrap())
    };
    let plain = "[[listener]]\naddress = \"127.0.0.1:80\"\nname = \"plain\"\n";
    let proxied =
        "[[listener]]\naddress = \"127.0.0.1:81\"\nproxy_protocol = true\nname = \"proxied\"\n";
    let both = format!("{plain}{proxied}");
    assert_eq!(warned(plain, ""), [""; 0]);
    assert_eq!(
        warned(proxied, ""),
        [
            "rule 1 (line 8) never matches: DSCP 46: behind the PROXY protocol, packets are the proxy's"
        ]
    );
    assert_eq!(
        warned(&both, ""),
        [
            "rule 1 (line 11) never matches clients of proxied: behind the PROXY protocol, packets are the proxy's"
        ]
    );
    assert_eq!(warned(&both, "listener = \"plain\"\n"), [""; 0]);
    let only = warned(&both, "listener = \"proxied\"\n");
    assert!(only[0].starts_with("rule 1 (line 11) never matches: DSCP 46: "), "{only:?}");
}

fn policy(text: &str) -> Policy {
    parse(&format!("{text}\n[origin]\nservers = [\"a:1\"]\nslots = 8\n"), "p.toml").unwrap()
}

fn warned_of(text: &str) -> Vec<String> {
    let rules = "[[rule]]\npath = \"/a\"\nclass = \"a\"\n[[rule]]\npath = \"/b\"\nclass = \"b\"\n";
    warnings(&policy(&format!("{text}{rules}")))
}

#[test]
fn parts_that_the_policy_makes_nothing_of_are_told() {
    let classes = "[[class]]\nname = \"a\"\nshare = \"50%\"\nreserve = \"10%\"\nweight = 3\n\
                   [[class]]\nname = \"b\"\nminimum = \"10%\"\n";
    let under = |policy: &str| warned_of(&format!("{classes}[scheduling]\npolicy = {policy:?}\n"));
    let share = "class a: share has no effect without policy = \"shared\" or \"fixed\"";
    let weight = "class a: weight has no effect without policy = \"weighted\"";
    let minimum = "class b: minimum has no effect without policy = \"strict\"";
    assert_eq!(under("strict"), [weight, share]);
    assert_eq!(under("weighted"), [share, minimum]);
    let leaves = "class b: without a share it gets only what the others leave";
    assert_eq!(under("shared"), [weight, minimum, leaves]);
    let reserve = "class a: reserve has no effect without policy = \"shared\"";
    let classes = classes.replace("minimum", "share = \"50%\"\nminimum");
    let fixed = warned_of(&format!("{classes}[scheduling]\npolicy = \"fixed\"\n"));
    assert_eq!(fixed, [weight, reserve, minimum]);
    let scores = "policy = \"score\": neither [score] nor a rule gives a score: all have 0";
    assert_eq!(under("score"), [weight, share, minimum, scores]);
}

#[test]
fn sites_orders_and_rules_that_make_no_sense_are_told() {
    assert_eq!(
        warned_of(
            "[scheduling]\nbetween_sites = \"shared\"\n\
             [[site]]\nname = \"x\"\nshare = \"50%\"\n[[site]]\nname = \"y\"\nweight = 2\n\
             [[class]]\nname = \"a\"\nsite = \"x\"\norder = \"score\"\npreemptible = true\n\
             [[class]]\nname = \"b\"\nsite = \"x\"\nwhen_full = \"drop-least\"\n\
             [[rule]]\nslots = 9\ndeadline_header = \"X-Budget\"\n"
        ),
        [
            "site y: no class belongs to it",
            "site y: weight has no effect without between_sites = \"weighted\"",
            "site y: without a share it gets only what the others leave",
            "class a: preemptible has no effect: no class is above it",
            "class a: order = \"score\": neither [score] nor a rule gives a score: all have 0",
            "class b: when_full = \"drop-least\": neither [score] nor a rule gives a score: all have 0",
            "rule 1 (line 18): takes 9 slots, and there are only 8",
            "rule 1 (line 18): x-budget is never believed: `trusted` is empty",
        ]
    );
    assert_eq!(
        warned_of(
            "[scheduling]\nbetween_sites = \"fifo\"\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n"
        ),
        ["between_sites has no effect on a single site"]
    );
    let marks = |class: &str| warnings(&policy(&format!("[link]\nmark = true\n{class}")));
    assert_eq!(
        marks(""),
        [
            "link.mark has no effect: no class is in the background, nor has `dscp` or `socket_priority`"
        ]
    );
    for key in ["dscp = 1", "socket_priority = 6"] {
        assert!(marks(&format!("[[class]]\nname = \"a\"\n{key}\n")).is_empty(), "{key}");
    }
}

#[test]
fn who_is_served_next_in_words() {
    let plain = meaning(&policy(""), "p.toml");
    assert!(!plain.contains("The next free slot"), "{plain}");
    let words = meaning(
        &policy(
            "trusted = [\"127.0.0.1\"]\n[scheduling]\nbetween_sites = \"weighted\"\npolicy = \"shared\"\n\
             [[site]]\nname = \"x\"\nweight = 3\n[[site]]\nname = \"y\"\npolicy = \"score\"\nageing = 2.5\n\
             [[class]]\nname = \"a\"\nsite = \"x\"\nshare = \"60%\"\nreserve = \"5%\"\norder = \"adaptive-lifo\"\n\
             codel = { target = \"10ms\" }\nfair = false\n\
             [[class]]\nname = \"b\"\nsite = \"y\"\nlate = \"last\"\nwhen_full = \"drop-oldest\"\n\
             queue_bytes = \"1MiB\"\npreemptible = true\n\
             [[rule]]\npath = \"/a\"\nclass = \"a\"\nslots = 4\ndeadline_header = \"X-Budget\"\n",
        ),
        "p.toml",
    );
    for line in [
        "The next free slot goes to",
        "  among the sites: in proportion to their weights",
        "  among the classes of site x (a): each its share; what one does not use is lent, but for its reserve, weight 3",
        "  among the classes of site y (b): the request of the highest score, which grows by 2.5 a second, weight 1",
        "  a request costs the time that it holds its slots",
        "  1  a  waits at most 2s, at most 10000 in the queue, site x, 60% of the slots, 5% of them never lent, the newest first under overload, whatever their flow, dropped while a delay of 10ms stands for 200ms",
        "  2  b  waits at most 2s, at most 10000 in the queue, site y, the oldest leaves a full queue, the late last, until twice the deadline, at most 1MiB in the queue, GET and HEAD preempted by classes above; takes requests that no rule matches",
        "  1  (line 27)  path /a → a, slots 4, deadline by a trusted x-budget",
    ] {
        assert!(words.lines().any(|found| found == line), "`{line}` is missing in\n{words}");
    }
}

/// Mistakes that no error can be: what they say is possible, and never meant.
#[test]
fn silent_mistakes_are_told_with_what_to_do() {
    let classes = "[[class]]\nname = \"a\"\n";
    let rule = |keys: &str| format!("{classes}[[rule]]\nclass = \"a\"\n{keys}\n");
    let mut unlike = Vec::new();
    for (text, expected) in [
        // A query in a path.
        (
            rule("path = \"/a?x=1\""),
            "rule 1 (line 4): /a?x=1 does not match what it seems to: a path has no query; write path = \"/a\" and query.x = \"1\"",
        ),
        (
            rule("path_regex = '^/a\\?id=[0-9]+$'"),
            "a path has no query; leave it out, and ask for it by query.NAME",
        ),
        (rule("path = \"/a?\""), ""),
        (rule("path = '/a\\?x=1'"), "a path has no query; write path = \"/a\" and query.x = \"1\""),
        // One that is escaped is in a path.
        (rule("path = '/why\\?'"), ""),
        // Patterns of other systems.
        (
            rule("path = \"/users/:id/cart\""),
            "rule 1 (line 4): /users/:id/cart does not match what it seems to: :id stands for itself; write `*` for any part of a path",
        ),
        (rule("path = [\"/x\", \"/users/{id}\"]"), "{id} stands for itself"),
        (rule("path = \"/users/<id>\""), "<id> stands for itself"),
        (rule("path = \"/{a,b}/c\""), "braces stand for themselves; write a list of paths"),
        (
            rule("path = \"/a#b\""),
            "clients send no fragment, and this matches paths with `%23` alone; leave out `#`",
        ),
        (
            rule("path_regex = '/^\\/cart/'"),
            "never matches: `/` is before `^`; write the expression without slashes around it",
        ),
        (rule("path_regex = '^api/'"), "^api/ never matches: a path begins with `/`"),
        (rule("path_regex = '^/a|^b/'"), ""),
        (rule("path_regex = '^a?/x$'"), ""),
        (rule("header.x = [\"ok\", \" no\"]"), ""),
        (
            rule("header.x = \"abc\\n\""),
            "never matches with spaces or line ends around a value, as those of x have none; leave them out",
        ),
        (rule("cookie.x = \" abc\""), "as those of x have none"),
        (rule("header.x = \"a b\""), ""),
        (rule("path = \"/v1/items:batch\""), ""),
        (rule("path_regex = '^/[a-z]{2,3}/x$'"), ""),
        (rule("path_regex = '^/ab?/x=1'"), ""),
        // Headers and requests that no rule sees.
        (
            rule("header.x-forwarded-for = \"10.*\""),
            "rule 1 (line 4): never matches: header x-forwarded-for is taken from `trusted` peers only, and there are none",
        ),
        (format!("trusted = [\"10.0.0.0/8\"]\n{}", rule("header.x-forwarded-for = \"10.*\"")), ""),
        (rule("header.x-frowarded = \"10.*\""), ""),
        (
            rule("method = \"CONNECT\""),
            "rule 1 (line 4): never matches: CONNECT gets 501 before any rule",
        ),
        (rule("method = [\"CONNECT\", \"GET\"]"), ""),
        (
            rule("content_length = \"2MiB..\"\n[limits]\nrequest_body_max = \"1MiB\""),
            "never matches: a body of more than limits.request_body_max, 1MiB, gets 413 before any rule",
        ),
        (rule("content_length = \"1MiB..\"\n[limits]\nrequest_body_max = \"1MiB\""), ""),
        // Redirects that lead to themselves.
        (
            rule(
                "path = \"/sorry.html\"\n[[rule]]\npath = \"/*\"\nrefuse = { redirect = \"/sorry.html\" }",
            ),
            "",
        ),
        (
            rule("path = \"/*\"\nrefuse = { redirect = \"/sorry.html\" }"),
            "rule 1 (line 4) sends clients to /sorry.html, which it matches itself, so that they go in a circle: name other paths, or put a rule for /sorry.html before it",
        ),
        (rule("path = \"/old/*\"\nrefuse = { redirect = \"/new/\" }"), ""),
        (
            rule("path = \"/old/*\"\nrefuse = { redirect = \"/old/x?y\" }"),
            "sends clients to /old/x?y, which it matches itself",
        ),
        (rule("method = \"POST\"\nrefuse = { redirect = \"/x\" }"), ""),
        (
            rule("method = \"POST\"\nrefuse = { redirect = \"/x\", status = 307 }"),
            "sends clients to /x, which it matches itself",
        ),
        (rule("host = \"a.example\"\nrefuse = { redirect = \"https://b.example/\" }"), ""),
        (
            rule("host = \"*.example\"\nrefuse = { redirect = \"http://b.example\" }"),
            "sends clients to http://b.example, which it matches itself",
        ),
        (
            rule(
                "host = \"a.example\"\nheader.x-scheme = \"http\"\nrefuse = { redirect = \"https://a.example/\" }",
            ),
            "",
        ),
        (rule("refuse = { redirect = \"https://elsewhere.example/\" }"), ""),
        // By another scheme or port it may be another server.
        (rule("host = \"b.example\"\nrefuse = { redirect = \"https://b.example/\" }"), ""),
        (rule("host = \"b.example\"\nrefuse = { redirect = \"http://b.example:81/\" }"), ""),
        (
            rule("cookie.a = \"b; c=d\""),
            "rule 1 (line 4): never matches: `;` is behind the value of cookie a, and in none",
        ),
        (rule("cookie.a = [\"b;c\", \"b\"]"), ""),
        // Peers and networks.
        (
            format!("trusted = [\"0.0.0.0/0\"]\n{classes}"),
            "trusted[1]: 0.0.0.0/0 is everyone: any client can forge its address by X-Forwarded-For; name the networks of your proxies",
        ),
        (
            format!("trusted = [\"10.0.0.0/8\", \"::/0\"]\n{classes}"),
            "trusted[2]: ::/0 is everyone",
        ),
        (
            format!("trusted = [\"10.0.0.1/8\"]\n{classes}"),
            "trusted[1]: 10.0.0.1/8 stands for all of 10.0.0.0/8: write that if it is meant, or \"10.0.0.1\" for this address alone",
        ),
        (
            rule("client = \"2001:db8::1/32\""),
            "rule[1].client: 2001:db8::1/32 stands for all of 2001:db8::/32",
        ),
        (rule("client = [\"2001:db8::/32\", \"10.0.0.1\"]"), ""),
        // Bounds that are never reached, and waits that never are.
        (
            format!("{classes}queue = 0\ndeadline = \"1s\""),
            "class a: deadline has no effect: by queue = 0 its requests never wait; leave one of them out",
        ),
        (format!("{classes}queue = 0"), ""),
        (
            format!(
                "{classes}queue = 0\n[[rule]]\npath = \"/x\"\nclass = \"a\"\ndeadline = \"1s\""
            ),
            "rule 1 (line 5): its deadline has no effect: requests of class a never wait, by queue = 0",
        ),
        (
            format!("{classes}queue = 100\n[scheduling]\nqueue = 50"),
            "class a: its queue of 100 is never full: scheduling.queue lets 50 of all classes wait",
        ),
        (
            format!("{classes}[limits]\nconnections_max = 100\ntunnels_max = 200"),
            "limits.tunnels_max, 200, is never reached: there are at most connections_max, 100, connections",
        ),
        (format!("{classes}[limits]\nconnections_max = 100"), ""),
        (
            format!("{classes}[limits]\nbuffers_max = \"100KiB\""),
            "forwarding.buffer_response, 256KiB, is more than limits.buffers_max, 100KiB, which is for all requests together",
        ),
        (format!("{classes}[limits]\nbuffers_max = 0"), ""),
        (
            rule("stored = { max_age = \"1m\" }\n[limits]\nstored_max = \"64KiB\""),
            "limits.stored_body_max, 1MiB, is never reached: all copies together have limits.stored_max, 64KiB",
        ),
        (
            format!("{classes}codel = {{ target = \"2s\", interval = \"3s\" }}"),
            "class a: codel has no effect: its target, 2s, is not below 2s, after which no request waits",
        ),
        (format!("{classes}codel = {{ target = \"50ms\", interval = \"100ms\" }}"), ""),
        (
            format!("{classes}queue = 100\nrefuse_at = [{{ backlog = \"a\", waiting = 101 }}]"),
            "class a: refuse_at = 101 is never reached: at most 100 wait in that backlog",
        ),
        (
            format!(
                "{classes}refuse_at = [{{ backlog = \"total\", waiting = 51 }}]\n[scheduling]\nqueue = 50"
            ),
            "class a: refuse_at = 51 is never reached: at most 50 wait in that backlog",
        ),
        (format!("{classes}queue = 100\nrefuse_at = [{{ backlog = \"a\", waiting = 100 }}]"), ""),
        // What is proven, and nothing asks for.
        (
            format!("{classes}[[key]]\nname = \"k\"\nheader = \"x-key\"\nsecret_file = \"k\""),
            "[[key]] has no effect: requests without a valid one are served as well, and no rule asks for `subject`",
        ),
        (
            format!(
                "flow = \"subject\"\n{classes}[[key]]\nname = \"k\"\nheader = \"x-key\"\nsecret_file = \"k\""
            ),
            "",
        ),
    ] {
        let (top, tables) = text.split_at(text.find("[[class]]").expect("each has one"));
        let text = format!("{top}origin.servers = [\"a:1\"]\n{tables}");
        let warned = warnings(&parse(&text, "p.toml").unwrap_or_else(|it| panic!("{it}\n{text}")));
        let own: Vec<&String> = warned.iter().filter(|it| !it.contains("never decides")).collect();
        let is_said = match expected.is_empty() {
            true => own.is_empty(),
            false => own.len() == 1 && own[0].contains(expected),
        };
        if !is_said {
            unlike.push(format!("{text}\n--- expected {expected}\n--- said {own:?}"));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n==========\n"));
    let limits = |text: &str| {
        parse(&format!("[origin]\nservers = [\"a:1\"]\n{text}"), "p.toml").unwrap().limits
    };
    assert_eq!(limits("[limits]\nconnections_max = 100").tunnels_max, 50);
    assert_eq!(limits("").tunnels_max, 4000);
}
