//! What HAProxy refuses, the policy refuses, or lists under LESS SAFE.

use super::of_haproxy;
use super::safety::{LESS, STRICTER, lists, refuses};
use std::fs;
use tiergate::cli::explain::{Known, Question, explain};
use tiergate::config::load;
use tiergate::import::Imported;

/// A frontend with these lines, and its backend.
fn front(lines: &str) -> Imported {
    whole(&format!(
        "frontend f\n bind :80\n{lines}\n default_backend b\nbackend b\n server s a:1\n"
    ))
}

fn whole(text: &str) -> Imported {
    of_haproxy(text).unwrap_or_else(|fault| panic!("{fault}\n{text}"))
}

/// Whether `GET` of a path is refused, of a client without further fields.
fn closed(made: &Imported, path: &str) -> bool {
    refuses(made, "192.0.2.1", "x", &format!("GET {path}"))
}

fn asked(made: &Imported, client: &str, host: &str, path: &str, headers: &[&str]) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("policy.toml");
    fs::write(&file, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let question = Question {
        request: format!("GET {path}"),
        headers: headers.iter().map(|it| (*it).to_owned()).collect(),
        client: Some(client.parse().expect("an address")),
        host: Some(host.to_owned()),
        known: Known::default(),
    };
    let said = explain(&load(&file).expect("it passes check"), "policy.toml", &question);
    said.expect("a question").contains("It is refused")
}

fn with(made: &Imported, header: &str) -> bool {
    asked(made, "192.0.2.1", "x", "/", &[header])
}

/// With each of these lines, what HAProxy would not serve is refused, or listed as less safe.
#[test]
fn nothing_is_let_pass_without_a_word() {
    for (lines, client, host, path, header) in [
        // Lists of a header, with any white space.
        ("http-request deny if { hdr(x-a) on }", "192.0.2.1", "x", "/", "x-a: no,\ton"),
        ("http-request deny if { hdr(x-a) on }", "192.0.2.1", "x", "/", "x-a: no,   on  , x"),
        ("http-request deny if { hdr_beg(x-a) on }", "192.0.2.1", "x", "/", "x-a: no,\tone"),
        ("http-request deny if { hdr_end(x-a) on }", "192.0.2.1", "x", "/", "x-a: son \t, x"),
        ("http-request deny unless { hdr(x-a) on }", "192.0.2.1", "x", "/", "x-a: \"a,on,b\""),
        ("http-request deny unless { hdr_beg(x-a) a,b }", "192.0.2.1", "x", "/", "x-a: a,b"),
        // One occurrence of several.
        ("http-request deny unless { req.hdr(x-a,-1) on }", "192.0.2.1", "x", "/", "x-a: on,off"),
        ("http-request deny unless { hdr(x-a,2) on }", "192.0.2.1", "x", "/", "x-a: on"),
        ("http-request deny if { hdr(x-a,1) on }", "192.0.2.1", "x", "/", "x-a: on,off"),
        // Converters.
        ("http-request deny if { urlp(x),lower on }", "192.0.2.1", "x", "/?x=ON", "a: b"),
        ("http-request deny if { hdr(x-a),lower on }", "192.0.2.1", "x", "/", "x-a: ON"),
        ("http-request deny if { path,lower /x }", "192.0.2.1", "x", "/X", "a: b"),
        ("http-request deny unless { ssl_fc,not }", "192.0.2.1", "x", "/", "a: b"),
        // Separators.
        ("http-request deny if { urlp(x) on }", "192.0.2.1", "x", "/?a=1;x=on", "a: b"),
        ("http-request deny if { urlp(x) on }", "192.0.2.1", "x", "/?x=on;a=1", "a: b"),
        ("http-request deny unless { urlp(x) on }", "192.0.2.1", "x", "/?x=%6fn", "a: b"),
        ("http-request deny if { req.cook(x) on }", "192.0.2.1", "x", "/", "cookie: a=1,x=on"),
        ("http-request deny if { cook(x) on }", "192.0.2.1", "x", "/", "cookie: x = on,a=1"),
        ("http-request deny if { cook(x) -m found }", "192.0.2.1", "x", "/", "cookie: a=1,x=2"),
        ("http-request deny unless { cook(x) on }", "192.0.2.1", "x", "/", "cookie: a=\";x=on;\""),
        // Ports and case of hosts.
        (
            "http-request deny unless { hdr(host) -i shop.de }",
            "192.0.2.1",
            "shop.de:8080",
            "/",
            "a: b",
        ),
        ("http-request deny unless { hdr(host) shop.de }", "192.0.2.1", "SHOP.de", "/", "a: b"),
        (
            "http-request deny if { hdr(host) shop.de:8080 }",
            "192.0.2.1",
            "shop.de:8080",
            "/",
            "a: b",
        ),
        (
            "http-request deny if { hdr_dom(host) shop.de }",
            "192.0.2.1",
            "a.shop.de.x.y",
            "/",
            "a: b",
        ),
        ("http-request deny if { hdr_end(host) shop.de }", "192.0.2.1", "workshop.de", "/", "a: b"),
        ("http-request deny if { hdr_beg(host) shop. }", "192.0.2.1", "shop.de", "/", "a: b"),
        ("http-request deny unless { hdr(host) -m reg ^shop }", "192.0.2.1", "work", "/", "a: b"),
        // Two prefixes of two fields of a name.
        (
            "http-request deny if { fhdr_beg(x-a) a } { fhdr_beg(x-a) b }",
            "192.0.2.1",
            "x",
            "/",
            "x-a: a",
        ),
        // Paths as they are sent.
        ("http-request deny if { path_sub %20 }", "192.0.2.1", "x", "/a%20b", "a: b"),
        ("http-request deny if { path_end 20x }", "192.0.2.1", "x", "/a%20x", "a: b"),
        ("http-request deny if { path_sub -i admin }", "192.0.2.1", "x", "/%3Admin", "a: b"),
        ("http-request deny unless { path_beg /a;b }", "192.0.2.1", "x", "/a%3Bb", "a: b"),
        ("http-request deny unless { path_reg ^/.{3}$ }", "192.0.2.1", "x", "/a%20b", "a: b"),
        ("http-request deny if { path_reg ^/a.*0x }", "192.0.2.1", "x", "/a%20x", "a: b"),
        ("http-request deny if { path_reg ^/re/.*$ }", "192.0.2.1", "x", "/re/%ff", "a: b"),
        ("http-request deny if { path_reg ^/\\d+\\.x$ }", "192.0.2.1", "x", "/1.x", "a: b"),
        ("http-request deny unless { path_reg ^/a\\.x$ }", "192.0.2.1", "x", "/abx", "a: b"),
        (
            "http-request deny if { path_beg /re } { path_end x }",
            "192.0.2.1",
            "x",
            "/re/%ffx",
            "a: b",
        ),
        // The grammar.
        ("acl a path /adm#in\nhttp-request deny if a", "192.0.2.1", "x", "/adm", "a: b"),
        ("acl a path /x \\\nhttp-request deny if { path /y }", "192.0.2.1", "x", "/y", "a: b"),
        ("# \\\nhttp-request deny if { path /y }", "192.0.2.1", "x", "/y", "a: b"),
        ("http-request deny unless { path /y } ||", "192.0.2.1", "x", "/z", "a: b"),
        ("http-request deny if { ssl_fc -m int 0 }", "192.0.2.1", "x", "/", "a: b"),
        // Addresses.
        (
            "bind :::80\nhttp-request deny if { src 10.0.0.0/8 }",
            "2002:a01:203::1",
            "x",
            "/",
            "a: b",
        ),
        ("bind :::80\nhttp-request deny if { src 10.0.0.0/8 }", "::10.1.2.3", "x", "/", "a: b"),
        ("bind :::80\nhttp-request deny if LOCALHOST", "::1", "x", "/", "a: b"),
        (
            "http-request deny unless { hdr(connection) -m found }",
            "192.0.2.1",
            "x",
            "/",
            "connection: close",
        ),
        ("http-request deny if { src ::/0 }", "192.0.2.1", "x", "/", "a: b"),
        ("http-request deny if { src ::ffff:192.0.2.0/120 }", "192.0.2.1", "x", "/", "a: b"),
        ("http-request deny if { src -m str 192.0.2.1 }", "192.0.2.1", "x", "/", "a: b"),
        ("http-request deny if { method -i get }", "192.0.2.1", "x", "/", "a: b"),
        // What a rule exempts, and from which.
        (
            "tcp-request connection accept if { src 192.0.2.0/24 }\nhttp-request deny if { path /x }",
            "192.0.2.1",
            "x",
            "/x",
            "a: b",
        ),
        (
            "tcp-request connection accept if { src 192.0.2.0/24 }\ntcp-request content reject if { src 192.0.2.1 }",
            "192.0.2.1",
            "x",
            "/x",
            "a: b",
        ),
        (
            "http-request allow if { src 192.0.2.0/24 }\nredirect location /y if { path /x }",
            "192.0.2.1",
            "x",
            "/x",
            "a: b",
        ),
        (
            "http-request allow if { hdr(x-a,-1) on }\nhttp-request deny",
            "192.0.2.1",
            "x",
            "/",
            "x-a: on,off",
        ),
        // Redirects whose condition no rule can ask.
        (
            "http-request redirect location /login unless { cook_val(x) gt 5 }",
            "192.0.2.1",
            "x",
            "/",
            "a: b",
        ),
        ("redirect location /login unless { hdr(x-a),lower on }", "192.0.2.1", "x", "/", "a: b"),
        // What changes requests, answers or admission.
        (
            "http-request set-path /admin%[path]\nhttp-request deny if { path_beg /admin }",
            "192.0.2.1",
            "x",
            "/",
            "a: b",
        ),
        (
            "http-request set-src hdr(x-a)\nhttp-request deny if { src 10.0.0.1 }",
            "192.0.2.1",
            "x",
            "/",
            "x-a: 10.0.0.1",
        ),
        (
            "http-request set-header x-a on\nhttp-request deny if { hdr(x-a) on }",
            "192.0.2.1",
            "x",
            "/",
            "a: b",
        ),
        (
            "http-request set-uri /admin\nhttp-request deny if { path_beg /admin }",
            "192.0.2.1",
            "x",
            "/",
            "a: b",
        ),
        (
            "http-request replace-path (.*) /admin\\1\nhttp-request deny if { path_beg /admin }",
            "192.0.2.1",
            "x",
            "/",
            "a: b",
        ),
        ("http-request del-header x-user", "192.0.2.1", "x", "/", "x-user: root"),
        ("http-request lua.check", "192.0.2.1", "x", "/", "a: b"),
        ("http-request send-spoe-group waf check", "192.0.2.1", "x", "/", "a: b"),
        ("filter spoe engine waf config /x", "192.0.2.1", "x", "/", "a: b"),
        ("http-response deny if { status 200 }", "192.0.2.1", "x", "/", "a: b"),
        ("monitor-uri /up", "192.0.2.1", "x", "/up", "a: b"),
        ("stats uri /stats", "192.0.2.1", "x", "/stats", "a: b"),
        ("rate-limit sessions 5", "192.0.2.1", "x", "/", "a: b"),
        ("tcp-request connection expect-proxy layer4", "192.0.2.1", "x", "/", "a: b"),
        ("option checkcache", "192.0.2.1", "x", "/", "a: b"),
        ("something-new if { path /x }", "192.0.2.1", "x", "/x", "a: b"),
        ("http-request deny if { http_auth(users) }", "192.0.2.1", "x", "/", "a: b"),
        ("use_backend %[path,map(x)]", "192.0.2.1", "x", "/", "a: b"),
        ("bind :81 ciphers x", "192.0.2.1", "x", "/", "a: b"),
        // A listener that no policy can have is not all that a rule is for.
        ("bind :0\nhttp-request deny if { path /x }", "192.0.2.1", "x", "/x", "a: b"),
    ] {
        let lines = lines.replace('\n', "\n ");
        let made = front(&format!(" {lines}"));
        let is_refused = asked(&made, client, host, path, &[header]);
        assert!(
            is_refused || made.less_safe > 0,
            "{lines}\n{host}{path} {header}\n{}",
            made.policy
        );
    }
}

/// What means the same is taken over, and nothing is listed.
#[test]
fn what_means_the_same_is_no_less_safe() {
    let made = front(
        " acl a path /x\n acl a path_beg /y/\n http-request deny if a\n http-request deny if { path_dir -i Private }\n \
         http-request deny unless { path_reg ^/[a-z0-9_/.-]*$ } || { method POST }\n http-request deny if { fhdr(x-a) on } !{ src 10.0.0.1 }\n \
         http-request deny if { hdr_sub(user-agent) Bot }",
    );
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
    for (path, refused) in [
        ("/x", true),
        ("/y/z", true),
        ("/y", false),
        ("/a/PRIVATE/b", true),
        ("/private", true),
        ("/privates", false),
        ("/A", true),
        ("/a%20b", true),
    ] {
        assert_eq!(closed(&made, path), refused, "{path}\n{}", made.policy);
    }
    for (client, header, refused) in [
        ("192.0.2.1", "x-a: on", true),
        ("192.0.2.1", "x-a: on,off", false),
        ("10.0.0.1", "x-a: on", false),
        ("10.0.0.1", "user-agent: a Bot", true),
    ] {
        assert_eq!(asked(&made, client, "x", "/", &[header]), refused, "{client} {header}");
    }
}

#[test]
fn each_proxy_has_the_defaults_before_it_or_those_it_names() {
    let made = whole(
        "defaults one\n http-request deny if { path /one }\n default_backend b\n\
         defaults two\n http-request deny if { path /two }\n default_backend b\n\
         frontend f from one\n bind :80\nbackend b\n server s a:1\n",
    );
    assert!(closed(&made, "/one") && closed(&made, "/x"), "{}", made.policy);
    let made = whole(
        "defaults one\n acl a path /one\n http-request deny if a\n default_backend b\n\
         frontend f\n bind :80\n acl a path /two\n http-request deny unless a || { path_beg /x }\nbackend b\n server s a:1\n\
         defaults two\n http-request deny if { path /three }\n",
    );
    for (path, refused) in [("/one", true), ("/two", false), ("/three", true), ("/x", false)] {
        assert_eq!(closed(&made, path), refused, "{path}\n{}", made.policy);
    }
    // Of other defaults the frontend knows nothing.
    let made = whole(
        "defaults\n mode http\nfrontend f\n bind :80\n default_backend b\n\
         defaults x\n http-request deny if { path /x }\nbackend b from x\n server s a:1\n",
    );
    assert!(closed(&made, "/x"), "{}", made.policy);
    let text = "frontend f from x\n bind :80\n default_backend b\nbackend b\n server s a:1\n";
    assert!(of_haproxy(text).expect_err("none").message.contains("no defaults are called"));
}

#[test]
fn what_a_backend_refuses_is_refused() {
    for line in [
        "http-request deny if { path /x }",
        "http-request redirect location /y if { path /x }",
        "redirect location /y if { path /x }",
        "http-request silent-drop if { path /x }",
        "tcp-request content silent-drop if { path /x }",
        "tcp-request content reject if { path /x }",
        "http-request auth realm x unless { path /y }",
    ] {
        // A `listen` is a backend for others, with all its rules.
        for kind in ["backend b\n", "listen b\n bind :81\n"] {
            let made = whole(&format!(
                "frontend f\n bind :80\n use_backend b if {{ path_beg /x }}\n default_backend c\n{kind} {line}\n server s a:1\nbackend c\n server s b:1\n"
            ));
            assert!(closed(&made, "/x") && !closed(&made, "/y"), "{line}\n{}", made.policy);
            lists(&made, STRICTER, "a refusal in a backend");
            let made = whole(&format!(
                "frontend f\n bind :80\n default_backend b\n{kind} {line}\n server s a:1\n"
            ));
            assert!(closed(&made, "/x"), "{line}\n{}", made.policy);
        }
    }
    for line in ["http-request set-path /x", "http-request lua.x", "filter spoe", "use-fcgi-app x"]
    {
        let made = whole(&format!(
            "frontend f\n bind :80\n default_backend b\nbackend b\n {line}\n server s a:1\n"
        ));
        lists(&made, LESS, line);
    }
    // Its own rules are those of its frontend.
    let made = whole("listen l\n bind :80\n http-request deny if { path /x }\n server s a:1\n");
    assert!(closed(&made, "/x") && !closed(&made, "/y"), "{}", made.policy);
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
}

#[test]
fn without_a_server_nothing_is_served() {
    for servers in [
        "",
        " server s a:1 disabled\n",
        " server s a:1 weight 0\n",
        " default-server disabled\n server s a:1\n",
        " disabled\n server s a:1\n",
    ] {
        let made = whole(&format!(
            "frontend f\n bind :80\n use_backend none if {{ path_beg /x }}\n default_backend b\nbackend b\n server s a:1\nbackend none\n{servers}"
        ));
        assert!(closed(&made, "/x") && !closed(&made, "/y"), "{servers}\n{}", made.policy);
    }
    let made = whole(
        "frontend f\n bind :80\n use_backend b if { path_beg /x }\n default_backend none\nbackend b\n server s a:1 backup\nbackend none\n",
    );
    assert!(!closed(&made, "/x") && closed(&made, "/y"), "{}", made.policy);
    let made = whole(
        "frontend f\n bind :80\n use_backend b if { path_beg /x } { method GET }\nbackend b\n server s a:1\n",
    );
    assert!(!closed(&made, "/x") && closed(&made, "/y"), "{}", made.policy);
    // What is switched off has no listener.
    let made = whole(
        "frontend off\n disabled\n bind :81\n default_backend b\nfrontend f\n bind :80\n default_backend b\nbackend b\n server s a:1\n",
    );
    assert_eq!(made.policy.matches("[[listener]]").count(), 1, "{}", made.policy);
    // The default backend comes before servers of its own.
    let made = whole(
        "listen f\n bind :80\n server s a:1\n default_backend b\nbackend b\n http-request deny\n server s b:1\n",
    );
    assert!(closed(&made, "/"), "{}", made.policy);
}

#[test]
fn where_routes_are_not_the_same_it_is_listed() {
    for condition in
        ["{ urlp(x) 1 }", "{ hdr_dom(host) a.b }", "{ nbsrv(c) lt 1 }", "!{ hdr(x-a),lower on }"]
    {
        let made = whole(&format!(
            "frontend f\n bind :80\n use_backend c if {condition}\n default_backend b\nbackend b\n server s a:1\nbackend c\n server s b:1\n"
        ));
        lists(&made, LESS, "other requests get to this backend than in HAProxy");
    }
    // Backends whose names are alike in a policy.
    let made = whole(
        "frontend f\n bind :80\n use_backend a:b if { path /1 }\n use_backend a-b if { path /2 }\n default_backend b\nbackend b\n server s a:1\nbackend a:b\n server s b:1\nbackend a-b\n server s c:1\n",
    );
    assert_eq!(made.policy.matches("[[pool]]").count(), 2, "{}", made.policy);
    assert_eq!(made.less_safe, 0, "{}", made.policy);
}

#[test]
fn rates_are_listed() {
    let made = front(
        " stick-table type ip size 1k store http_req_rate(10s)\n http-request track-sc1 hdr(x-a)\n http-request deny if { sc_http_req_rate(1) gt 5 }",
    );
    lists(&made, LESS, "HAProxy counts by hdr(x-a)");
    lists(&made, LESS, "also those that it refuses");
    let made = front(
        " http-request track-sc0 src table t\n http-request deny if { sc_http_req_rate(0) gt 5 }",
    );
    lists(&made, LESS, "no stick-table that is known here");
}

#[test]
fn header_lists_refuse_no_more_than_they_must() {
    let made = front(" http-request deny if { hdr(x-a) on }");
    for (header, refused) in [
        ("x-a: on", true),
        ("x-a: a,on", true),
        ("x-a: one", false),
        ("x-a: son,no", false),
        ("x-b: on", false),
    ] {
        assert_eq!(with(&made, header), refused, "{header}\n{}", made.policy);
    }
    lists(&made, STRICTER, "a list in a header is one value here");
    assert_eq!(made.less_safe, 0, "{:?}", made.notes);
}

/// Whether there is a host, or a server name, no rule asks; a path there always is.
#[test]
fn whether_something_is_there_is_not_forgotten() {
    for lines in [
        " http-request deny if { hdr(host) -m found } { path_beg /a }",
        " http-request deny if { fhdr(host) -m found } { path_beg /a }",
        " http-request deny unless !{ ssl_fc_sni -m found } !{ path_beg /a }",
    ] {
        let made = front(lines);
        assert!(closed(&made, "/a"), "{lines}\n{}", made.policy);
        lists(&made, STRICTER, "no condition of rules asks for it");
    }
    let made = front(" http-request deny if !{ req.hdr(host) -m found }");
    assert!(closed(&made, "/"), "{}", made.policy);
    lists(&made, STRICTER, "everything is refused");
    let made = front(" http-request deny if { path -m found } { method GET }");
    assert!(closed(&made, "/"), "{}", made.policy);
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
    // A whole field has the host that the origin gets, too.
    let made = front(" http-request deny if { req.fhdr(host) evil.test }");
    assert!(made.policy.contains("host = \"evil.test\""), "{}", made.policy);
}

#[test]
fn words_of_conditions_are_no_options() {
    let made = front(
        " http-request deny if { path_end status }\n http-request redirect code 301 location https://x.test/ if { path /old }\n \
         http-request redirect location /y if { path /code } || { path_end code }",
    );
    assert!(made.policy.contains("refuse = 403"), "{}", made.policy);
    for said in ["{ status = 301, redirect = \"https://x.test/\" }", "{ status = 302, redirect"] {
        assert!(made.policy.contains(said), "{said}\n{}", made.policy);
    }
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
}

#[test]
fn masks_are_prefixes_and_conditions_name_their_acl() {
    let made = front(" http-request deny unless { src 10.0.0.0/255.0.0.0 }");
    assert!(made.policy.contains("client = \"10.0.0.0/8\""), "{}", made.policy);
    assert_eq!(made.notes, [""; 0], "{}", made.policy);
    let made = front(" http-request deny unless { src 10.0.0.0/255.0.255.0 }");
    lists(&made, STRICTER, "a mask that is no prefix");
    let made = front(
        " acl near src not-an-address\n http-request deny if near { path /x }\n http-request deny if near { path /y }",
    );
    let notes = made.notes.join("\n");
    assert_eq!(notes.matches("haproxy.cfg:3: acl near src not-an-address: ").count(), 1, "{notes}");
    assert!(!notes.contains("haproxy.cfg:4:") && !notes.contains("haproxy.cfg:5:"), "{notes}");
}
