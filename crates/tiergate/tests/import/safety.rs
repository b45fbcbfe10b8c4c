//! What the original refuses is refused by the policy, too, or the policy says that it is less safe.

use super::{of_haproxy, of_nginx};
use std::fs;
use tiergate::cli::explain::{Known, Question, explain};
use tiergate::config::load;
use tiergate::import::Imported;

/// An nginx.conf with these servers, and what stands in `http` before them.
fn nginx(http: &str, servers: &str) -> Imported {
    of_nginx(&format!("http {{ {http} {servers} }}")).expect("it maps")
}

/// The server with the location, behind plain HTTP.
fn location(text: &str) -> Imported {
    nginx("", &format!("server {{ listen 80; {text} location / {{ proxy_pass http://a:1; }} }}"))
}

fn haproxy(lines: &str) -> Imported {
    of_haproxy(&format!(
        "frontend f\n bind :80\n {}\n default_backend b\nbackend b\n server s 10.0.0.1:80\n",
        lines.replace('\n', "\n ")
    ))
    .expect("it maps")
}

/// What `explain` says of a request: `GET /x` from an address.
fn said(made: &Imported, client: &str, host: &str, request: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let question = Question {
        request: request.to_owned(),
        headers: Vec::new(),
        client: Some(client.parse().expect("an address")),
        host: Some(host.to_owned()),
        known: Known::default(),
    };
    explain(&load(&path).expect("it passes check"), "policy.toml", &question).expect("a question")
}

pub(super) fn refuses(made: &Imported, client: &str, host: &str, request: &str) -> bool {
    said(made, client, host, request).contains("It is refused")
}

pub(super) fn lists(made: &Imported, heading: &str, note: &str) {
    let policy = &made.policy;
    let found = policy.split(&format!("# {heading}")).nth(1).unwrap_or_default();
    let found = found.split("\n\n").next().unwrap_or_default();
    assert!(found.contains(note), "`{note}` is not under `{heading}` in\n{policy}");
}

pub(super) const LESS: &str = "LESS SAFE than the original";
pub(super) const STRICTER: &str = "stricter than the original";

/// Uploads that must not be run, and a private folder in a public one: nginx asks the longest prefix first, with what is in it.
#[test]
fn what_a_longer_path_refuses_no_other_location_lets_pass() {
    let made = location(
        "location ~ \\.php$ { proxy_pass http://php:1; }
         location ~ \\.gif$ { return 410; }
         location /up { location ~ \\.php$ { return 403; } location = /up/a.gif { proxy_pass http://a:1; }
           location /up/deep { proxy_pass http://a:1; } location ^~ /up/firm { proxy_pass http://a:1; } proxy_pass http://a:1; }
         location /up/run { proxy_pass http://a:1; }
         location ^~ /static/ { proxy_pass http://a:1; location ~ \\.gif$ { return 404; } }
         location ^~ /open/ { proxy_pass http://a:1; }
         location /open/private/ { deny all; proxy_pass http://a:1; }
         location /bare { return 410; }
         location /bare/ { proxy_pass http://a:1; }
         location = /one/ { proxy_pass http://a:1; }
         location /static/private/ { deny all; proxy_pass http://a:1; }
         location /static/cgi { proxy_pass http://a:1; }",
    );
    for (path, answer) in [
        ("/x.php", "pool = \"php-1\""),
        ("/x.gif", "refuse = 410 "),
        ("/up/x.php", "refuse = 403 "),
        ("/up/x.gif", "refuse = 410 "),
        ("/up/a.gif", "pool = \"default\""),
        ("/up/x", "pool = \"default\""),
        ("/up/deep/x.php", "refuse = 403 "),
        ("/up/deep/x.gif", "refuse = 410 "),
        ("/up/deep/x", "pool = \"default\""),
        ("/up/firm/x.php", "pool = \"php-1\""),
        ("/up/firm/x", "pool = \"default\""),
        ("/up/run/x.php", "pool = \"php-1\""),
        ("/up/run/x", "pool = \"default\""),
        ("/open/x.php", "pool = \"default\""),
        ("/open/private/x", "refuse = true "),
        ("/bare", "refuse = 410 "),
        ("/bare/", "pool = \"default\""),
        ("/one", "refuse = { status = 301"),
        ("/static", "refuse = { status = 301"),
        ("/static/x.php", "pool = \"default\""),
        ("/static/x.gif", "refuse = 404 "),
        ("/static/private/x", "refuse = true "),
        ("/static/private/x.gif", "refuse = 410 "),
        ("/static/cgi/x.php", "pool = \"php-1\""),
        ("/static/cgi/x", "pool = \"default\""),
    ] {
        let said = said(&made, "192.0.2.1", "x", &format!("GET {path}"));
        let line = said.split("policy.toml:").nth(1).and_then(|it| it.split(')').next());
        let line: usize = line.and_then(|it| it.parse().ok()).expect("a rule decides");
        // `said` puts a line before the policy.
        let rule: Vec<&str> =
            made.policy.lines().skip(line - 1).take_while(|it| !it.is_empty()).collect();
        assert!(rule.iter().any(|it| it.starts_with(answer)), "{path}: no `{answer}` in {rule:#?}");
    }
}

#[test]
fn a_value_of_a_list_is_asked_as_haproxy_asks_it() {
    let made = haproxy(
        "http-request deny if { hdr(x-block) on } || { hdr_beg(x-tag) bad } || { fhdr(x-whole) on }",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let policy = load(&path).expect("it passes check");
    for (name, value, is_refused) in [
        ("x-block", "on", true),
        ("x-block", "no, on", true),
        ("x-block", "on,no", true),
        ("x-block", "a,on, b", true),
        ("x-block", "one", false),
        ("x-block", "son", false),
        ("x-block", "no on", true),
        ("x-tag", "fine, badly", true),
        ("x-tag", "notbad", false),
        ("x-whole", "no, on", false),
    ] {
        let question = Question {
            request: "GET /".to_owned(),
            headers: vec![format!("{name}: {value}")],
            client: Some("192.0.2.1".parse().expect("an address")),
            host: Some("x".to_owned()),
            known: Known::default(),
        };
        let said = explain(&policy, "policy.toml", &question).expect("a question");
        assert_eq!(said.contains("It is refused"), is_refused, "{name}: {value}\n{said}");
    }
}

#[test]
fn a_listener_of_quic_speaks_http3() {
    let files = "ssl_certificate x.pem; ssl_certificate_key x.key;";
    let made = |listens: &str| {
        let server = format!("server {{ {listens} location / {{ proxy_pass http://a:1; }} }}");
        nginx(files, &server).policy
    };
    for both in ["listen 443 ssl; listen 443 quic reuseport;", "listen 443 quic; listen 443 ssl;"] {
        let policy = made(both);
        assert_eq!(policy.matches("[[listener]]").count(), 1, "{policy}");
        assert!(policy.contains("tls = {") && policy.contains("http3 = true"), "{policy}");
    }
    assert!(!made("listen 443 ssl;").contains("http3"));
}

#[test]
fn clients_certificates_are_asked_for() {
    let files = "ssl_certificate x.pem; ssl_certificate_key x.key;";
    let server = |text: &str| {
        format!("server {{ listen 443 ssl; {text} location / {{ proxy_pass http://a:1; }} }}")
    };
    let made = nginx(files, &server("ssl_client_certificate ca.pem; ssl_verify_client on;"));
    let tls = "tls = { certificate = \"x.pem\", key = \"x.key\", client_ca = \"ca.pem\", client = \"required\" }";
    assert!(made.policy.contains(tls), "{}", made.policy);
    let made = nginx(
        files,
        &server("ssl_client_certificate ca.pem; ssl_verify_client optional; ssl_crl l.pem;"),
    );
    let tls = "client_ca = \"ca.pem\", client = \"optional\", client_crl = \"l.pem\" }";
    assert!(made.policy.contains(tls), "{}", made.policy);
    // Without the authorities nothing is served.
    let made = nginx(files, &server("ssl_verify_client on;"));
    assert!(
        made.policy.contains("refuse = 404") && !made.policy.contains("class = "),
        "{}",
        made.policy
    );
    lists(&made, STRICTER, "ssl_verify_client on: needs ssl_client_certificate");
    // One server of several: the listener asks all; other authorities close the server.
    let both = format!(
        "{}{}",
        server("server_name a.b;"),
        server("server_name c.d; ssl_client_certificate ca.pem; ssl_verify_client on;")
    );
    let made = nginx(files, &both);
    assert!(made.policy.contains("client = \"required\""), "{}", made.policy);
    lists(&made, STRICTER, "not all servers of this address");
    let other = server("server_name e.f; ssl_client_certificate other.pem; ssl_verify_client on;");
    let made = nginx(files, &(both + &other));
    assert!(
        made.policy.contains("host = \"e.f\" # nginx.conf:1: server\nrefuse = 404"),
        "{}",
        made.policy
    );
    let made = nginx(files, &server("ssl_verify_depth 1; ssl_session_cache shared:a:1m;"));
    lists(&made, LESS, "ssl_verify_depth 1");
    assert_eq!(made.less_safe, 1, "{:?}", made.notes);

    let bound = |bind: &str| {
        of_haproxy(&format!(
            "frontend f\n bind {bind}\n default_backend b\nbackend b\n server s a:1\n"
        ))
    };
    let made = bound(":443 ssl crt x.pem ca-file ca.pem verify required").expect("it maps");
    let tls = "tls = { certificate = \"x.pem\", key = \"x.pem\", client_ca = \"ca.pem\", client = \"required\" }";
    assert!(made.policy.contains(tls), "{}", made.policy);
    let made =
        bound(":443 ssl crt x.pem ca-file ca.pem verify optional crl-file l").expect("it maps");
    assert!(made.policy.contains("client = \"optional\", client_crl = \"l\""), "{}", made.policy);
    for bind in [
        ":443 ssl crt x.pem verify required",
        ":443 verify required ca-file x",
        ":80 interface eth1",
        ":80 accept-proxy",
    ] {
        let made = bound(&format!(":1\n bind {bind}")).expect("it maps");
        assert_eq!(made.policy.matches("[[listener]]").count(), 1, "{bind}\n{}", made.policy);
        lists(&made, STRICTER, &format!("bind {bind}: "));
    }
}

#[test]
fn redirects_that_cannot_be_taken_over_open_no_door() {
    let secure =
        "server { listen 127.0.0.1:81; server_name x.y; location / { proxy_pass http://a:1; } }";
    for text in [
        "return 301 https://$host$request_uri;",
        "rewrite ^ https://$host$request_uri? permanent;",
        "if ($scheme = http) { return 301 https://x.y$request_uri; }",
    ] {
        let made = nginx(
            "",
            &format!(
                "{secure} server {{ listen 80; server_name x.y; {text} location / {{ proxy_pass http://a:1; }} }}"
            ),
        );
        let door = made.policy.split("listener = \"0.0.0.0:80\"").nth(1).expect("a rule");
        assert!(
            door.lines().nth(1).expect("a line").starts_with("refuse = 404"),
            "{}",
            made.policy
        );
        lists(&made, STRICTER, text.split(" {").next().expect("a part").trim_end_matches(';'));
    }
    let made = location(
        "location /old/ { return 301 https://x$request_uri; } location /v/ { proxy_pass http://$where; }",
    );
    for path in ["/old/x", "/v/x"] {
        assert!(refuses(&made, "192.0.2.1", "a", &format!("GET {path}")), "{}", made.policy);
    }
    assert!(!refuses(&made, "192.0.2.1", "a", "GET /"));
    lists(&made, STRICTER, "proxy_pass http://$where");
    // A map without a default: what it does not name has no server.
    let made = nginx(
        "map $arg_a $m { 1 u; } upstream u { server b:1; }",
        "server { listen 80; location /v/ { proxy_pass http://$m; } location / { proxy_pass http://a:1; } }",
    );
    assert!(!refuses(&made, "192.0.2.1", "a", "GET /v/?a=1"), "{}", made.policy);
    assert!(refuses(&made, "192.0.2.1", "a", "GET /v/?a=2"), "{}", made.policy);

    for text in [
        "redirect scheme https if !{ ssl_fc }",
        "http-request redirect scheme https code 301 unless { ssl_fc }",
    ] {
        let made = haproxy(&format!("bind :443 ssl crt x.pem\n{text}"));
        assert!(made.policy.contains("listener = [\"0.0.0.0:80\", \"0.0.0.0:443\"] # haproxy.cfg:1: frontend f\nrefuse = 404"), "{}", made.policy);
        assert!(
            made.policy
                .contains("listener = \"0.0.0.0:443\" # haproxy.cfg:1: all other requests\nclass"),
            "{}",
            made.policy
        );
        lists(&made, STRICTER, text);
    }
}

#[test]
fn listeners_that_cannot_be_taken_over_are_not_plain_ones() {
    let kept =
        "server { listen 127.0.0.1:81; server_name k; location / { proxy_pass http://a:1; } }";
    for listen in
        ["listen unix:/x;", "listen some.host;", "listen 443 ssl;", "listen 80 proxy_protocol;"]
    {
        let made = nginx(
            "",
            &format!(
                "{kept} server {{ {listen} server_name z; location / {{ proxy_pass http://b:1; }} }}"
            ),
        );
        assert_eq!(made.policy.matches("[[listener]]").count(), 1, "{}", made.policy);
        assert!(!made.policy.contains("host = \"z\""), "{}", made.policy);
        lists(&made, STRICTER, listen.trim_end_matches(';'));
        lists(&made, STRICTER, "no listener of this server could be taken over");
        let fault = of_nginx(&format!(
            "http {{ server {{ {listen} location / {{ proxy_pass http://b:1; }} }} }}"
        ));
        assert!(fault.expect_err(listen).message.contains("no `listen` that can be taken over"));
    }
    let made = nginx("", "server { listen localhost; location / { proxy_pass http://b:1; } }");
    assert!(made.policy.contains("address = \"127.0.0.1:80\""), "{}", made.policy);
    let made = nginx(
        "ssl_certificate c; ssl_certificate_key k;",
        "server { listen 443 ssl; location / { proxy_pass http://b:1; } }",
    );
    assert!(made.policy.contains("tls = { certificate = \"c\", key = \"k\" }"), "{}", made.policy);
    let made = nginx("", "server { location / { proxy_pass http://b:1; } }");
    assert!(made.policy.contains("address = \"0.0.0.0:80\""), "{}", made.policy);
}

#[test]
fn the_lowest_rate_comes_first() {
    let made = haproxy(
        "stick-table type ip size 1k store http_req_rate(10s)\nhttp-request track-sc0 src\nhttp-request deny deny_status 429 if { sc_http_req_rate(0) gt 100 }\nhttp-request deny deny_status 429 if { path /login } { sc_http_req_rate(0) gt 5 }",
    );
    assert!(
        said(&made, "192.0.2.1", "a", "POST /login").contains("over-5-in-10s"),
        "{}",
        made.policy
    );
    assert!(said(&made, "192.0.2.1", "a", "GET /").contains("over-100-in-10s"), "{}", made.policy);
    lists(&made, LESS, "gt 100 }: each request counts for one rate");
    let made = haproxy(
        "stick-table type ip size 1k store http_req_rate(10s)\nhttp-request deny if { path /login } { sc_http_req_rate(0) gt 500 }\nhttp-request deny if { sc_http_req_rate(0) gt 100 }",
    );
    assert!(
        said(&made, "192.0.2.1", "a", "POST /login").contains("over-100-in-10s"),
        "{}",
        made.policy
    );
    lists(&made, LESS, "gt 500 }: a lower rate of all requests comes before it");
}

#[test]
fn limits_are_as_narrow() {
    // A constant is one bucket for all, an address one for each.
    let zones = "map $http_x_a $key { default $binary_remote_addr; q all; r some; } limit_req_zone $key zone=z:1m rate=5r/s;";
    let made = nginx(
        zones,
        "server { listen 80; limit_req zone=z burst=9; location / { proxy_pass http://a:1; } location /l { limit_req zone=z burst=2; proxy_pass http://a:1; } }",
    );
    let policer = |name: &str| {
        let found =
            made.policy.split("[[policer]]").find(|it| it.contains(&format!("name = \"{name}\"")));
        found
            .unwrap_or_else(|| panic!("no {name} in\n{}", made.policy))
            .split("\n\n")
            .next()
            .expect("text")
            .to_owned()
    };
    assert!(policer("z-2").contains("per = \"flow\""));
    assert!(!policer("z-2-all").contains("per = "));
    assert!(!policer("z-2-some").contains("per = "));
    // One bucket, with the smaller burst.
    assert_eq!(made.policy.matches("[[policer]]").count(), 3, "{}", made.policy);
    assert!(policer("z-2").contains("burst = 3"));
    lists(&made, STRICTER, "bursts from 2 to 9 of one zone");
    // A limit that is only observed does not take the place of one that is in force.
    let made = nginx(
        "limit_req_zone $remote_addr zone=z:1m rate=5r/s;",
        "server { listen 80; location /t { limit_req_dry_run on; limit_req zone=z; proxy_pass http://a:1; } location / { limit_req zone=z; proxy_pass http://a:1; } }",
    );
    assert!(said(&made, "192.0.2.1", "a", "GET /").contains("z-0"), "{}", made.policy);
    assert_eq!(made.policy.matches("mode = \"observe\"").count(), 1, "{}", made.policy);
    // What a map says by a variable that is not known is limited by address.
    let made = nginx(
        "geo $g { default 1; } map $g $key { 1 $binary_remote_addr; } limit_req_zone $key zone=z:1m rate=5r/s;",
        "server { listen 80; location / { limit_req zone=z; proxy_pass http://a:1; } }",
    );
    assert!(said(&made, "192.0.2.1", "a", "GET /").contains("z-0"), "{}", made.policy);
    lists(&made, LESS, "counts each client's address instead");
    // Exact texts before regular expressions.
    let made = nginx(
        "map $http_x_a $m { ~^a$ u; ab v; ~^ab w; default u; } upstream u { server u:1; } upstream v { server v:1; } upstream w { server w:1; }",
        "server { listen 80; location / { proxy_pass http://$m; } }",
    );
    let at = |text: &str| {
        made.policy.find(text).unwrap_or_else(|| panic!("no {text} in\n{}", made.policy))
    };
    assert!(at("header.\"x-a\" = \"ab\"") < at("header.\"x-a\" = \"a\""));
}

#[test]
fn access_control_of_nginx_refuses() {
    let made = location(
        "location /internal/ { internal; proxy_pass http://a:1; } \
         location /read/ { limit_except GET { deny all; } proxy_pass http://a:1; } \
         location /part/ { limit_except GET { allow 10.0.0.0/8; deny all; } proxy_pass http://a:1; } \
         location /basic/ { auth_basic x; auth_basic_user_file f; proxy_pass http://a:1; } \
         location /asked/ { auth_request /x; proxy_pass http://a:1; } \
         location /any/ { satisfy any; allow 10.0.0.0/8; deny all; auth_basic x; proxy_pass http://a:1; } \
         location /outer/ { location /outer/inner/ { deny all; proxy_pass http://a:1; } proxy_pass http://a:1; } \
         location ~ /\\.(?!well-known) { deny all; } \
         location /if/ { if ($request_method = POST) { return 403; } if ($http_x_key != secret) { return 403; } proxy_pass http://a:1; } \
         location /odd/ { if ($odd) { return 403; } proxy_pass http://a:1; }",
    );
    for (client, request, refused) in [
        ("10.0.0.1", "GET /internal/", true),
        ("10.0.0.1", "GET /read/", false),
        ("10.0.0.1", "HEAD /read/", false),
        ("10.0.0.1", "POST /read/", true),
        ("10.0.0.1", "POST /part/", false),
        ("192.0.2.1", "POST /part/", true),
        ("192.0.2.1", "GET /part/", false),
        ("10.0.0.1", "GET /basic/", true),
        ("10.0.0.1", "GET /asked/", true),
        ("10.0.0.1", "GET /any/", false),
        ("192.0.2.1", "GET /any/", true),
        ("10.0.0.1", "GET /outer/", false),
        ("10.0.0.1", "GET /outer/inner/x", true),
        ("10.0.0.1", "GET /.git", true),
        ("10.0.0.1", "POST /if/", true),
        ("10.0.0.1", "GET /if/", true),
        ("10.0.0.1", "GET /odd/", true),
        ("10.0.0.1", "GET /", false),
    ] {
        assert_eq!(
            refuses(&made, client, "a", request),
            refused,
            "{client} {request}\n{}",
            made.policy
        );
    }
    for note in
        ["auth_basic x: clients are recognised", "auth_request /x", "if ($odd)", "the rule refuses"]
    {
        lists(&made, STRICTER, note);
    }
    assert!(made.policy.contains("header.\"x-key\" = \"secret\""), "{}", made.policy);
    // What a whole site asks for.
    let made = nginx(
        "auth_basic x;",
        "server { listen 80; location / { proxy_pass http://a:1; } location /open/ { auth_basic off; proxy_pass http://a:1; } }",
    );
    assert!(refuses(&made, "10.0.0.1", "a", "GET /"), "{}", made.policy);
    assert!(!refuses(&made, "10.0.0.1", "a", "GET /open/"), "{}", made.policy);
    let made = location("server_name ~^a$;");
    lists(&made, LESS, "server_name ~^a$");
}

#[test]
fn access_control_of_haproxy_refuses() {
    let made = haproxy(
        "acl office src 10.0.0.0/8\nacl key req.hdr(x-key) -m str k\nhttp-request reject if { path_beg /a/ }\nhttp-request silent-drop if { path_beg /b/ }\n\
         tcp-request connection accept if { src 198.51.100.1 }\ntcp-request connection reject if { src 198.51.100.0/24 }\n\
         http-request auth realm x if { path_beg /c/ }\nhttp-request deny if { path_beg /d/ } { url_sub select }\n\
         http-request deny if { path_beg /e/ } !office\nhttp-request deny unless office || { path_beg /f/ } || { path_beg / } !{ path_beg /g/ }\n\
         http-request deny if { path_beg /h/ } { path_end .php }\nhttp-request deny if { url_beg /i/ }\nhttp-request deny if { path_beg /f/ } { sc_conn_rate(0) gt 5 }",
    );
    for (client, request, refused) in [
        ("192.0.2.1", "GET /a/", true),
        ("192.0.2.1", "GET /b/", true),
        ("198.51.100.7", "GET /", true),
        ("198.51.100.1", "GET /", false),
        ("192.0.2.1", "GET /c/", true),
        ("192.0.2.1", "GET /d/?x=select", true),
        ("192.0.2.1", "GET /e/", true),
        ("10.0.0.1", "GET /e/", false),
        ("192.0.2.1", "GET /f/", false),
        ("192.0.2.1", "GET /g/", true),
        ("10.0.0.1", "GET /g/", false),
        ("192.0.2.1", "GET /h/x.php", true),
        ("192.0.2.1", "GET /h/x.html", false),
        ("192.0.2.1", "GET /i/?q", true),
        ("192.0.2.1", "GET /", false),
    ] {
        assert_eq!(
            refuses(&made, client, "a", request),
            refused,
            "{client} {request}\n{}",
            made.policy
        );
    }
    lists(&made, STRICTER, "{ url_sub select }: url_sub: the URL has the query");
    lists(&made, STRICTER, "http-request auth realm x");
    lists(
        &made,
        LESS,
        "sc_conn_rate(0): no condition of rules asks for it: nothing is refused by it",
    );
    // What cannot be asked at all refuses everything.
    let made = haproxy("http-request deny if { src -f blocked.txt }");
    assert!(refuses(&made, "192.0.2.1", "a", "GET /"), "{}", made.policy);
    lists(&made, STRICTER, "everything is refused");
    // A backend that refuses something takes nothing.
    let made = of_haproxy("defaults\n http-request deny if { path /x }\nfrontend f\n bind :80\n use_backend c if { path_beg /c/ }\n default_backend b\nbackend b\n server s a:1\nbackend c\n http-request deny unless { src 10.0.0.0/8 }\n server s b:1\n").expect("it maps");
    for (path, refused) in [("/x", true), ("/c/", true), ("/", false)] {
        assert_eq!(
            refuses(&made, "192.0.2.1", "a", &format!("GET {path}")),
            refused,
            "{path}\n{}",
            made.policy
        );
    }
    lists(&made, STRICTER, "a refusal in a backend");
}
