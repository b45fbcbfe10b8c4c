//! What nginx refuses is refused by the policy that is made of its configuration, too, or stands under LESS SAFE in it.

use super::of_nginx;
use std::fs;
use std::net::IpAddr;
use tiergate::cli::explain::{Known, Question, explain};
use tiergate::config::load;
use tiergate::import::Imported;

pub(super) const LESS: &str = "LESS SAFE than the original";
pub(super) const STRICTER: &str = "stricter than the original";

/// An nginx.conf with this in `http`.
pub(super) fn nginx(text: &str) -> Imported {
    of_nginx(&format!("http {{ {text} }}")).unwrap_or_else(|fault| panic!("{text}: {fault}"))
}

/// A server with this in it, which lets all else pass.
pub(super) fn server(text: &str) -> Imported {
    nginx(&format!("server {{ listen 80; {text} location / {{ proxy_pass http://a:1; }} }}"))
}

/// A request.
#[derive(Clone, Default)]
pub(super) struct Ask<'a> {
    pub(super) request: &'a str,
    /// None: without a host.
    pub(super) host: Option<&'a str>,
    pub(super) headers: &'a [&'a str],
    pub(super) listener: Option<&'a str>,
    pub(super) destination: Option<&'a str>,
}

pub(super) fn get(request: &str) -> Ask<'_> {
    Ask { request, host: Some("x"), ..Ask::default() }
}

fn said(made: &Imported, ask: &Ask<'_>) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("policy.toml");
    fs::write(&path, format!("admin = false\n{}", made.policy)).expect("our own folder");
    let address = |it: &str| it.parse::<IpAddr>().expect("an address");
    let question = Question {
        request: ask.request.to_owned(),
        headers: ask.headers.iter().map(|it| (*it).to_owned()).collect(),
        client: Some(address("192.0.2.1")),
        host: ask.host.map(str::to_owned),
        known: Known {
            listener: ask.listener.map(str::to_owned),
            destination: ask.destination.map(address),
            ..Known::default()
        },
    };
    explain(&load(&path).expect("it passes check"), "policy.toml", &question).expect("a question")
}

#[track_caller]
pub(super) fn is_refused(made: &Imported, ask: Ask<'_>, refused: bool) {
    let said = said(made, &ask);
    let is = said.contains("It is refused");
    assert_eq!(is, refused, "{} {:?}\n{said}\n{}", ask.request, ask.headers, made.policy);
}

/// What stands under a heading.
pub(super) fn under<'m>(made: &'m Imported, heading: &str) -> &'m str {
    let found = made.policy.split(&format!("# {heading}")).nth(1).unwrap_or_default();
    found.split("\n\n").next().unwrap_or_default()
}

#[track_caller]
pub(super) fn lists(made: &Imported, heading: &str, note: &str) {
    let found = under(made, heading);
    assert!(found.contains(note), "`{note}` is not under `{heading}` in\n{}", made.policy);
}

#[test]
fn each_address_has_a_default_server() {
    let open = "location / { proxy_pass http://a:1; }";
    for word in ["default_server", "default"] {
        let made = nginx(&format!(
            "server {{ listen 80; listen 81 {word}; server_name a; {open} }}
             server {{ listen 80 {word}; listen 81; listen 82; server_name b; return 403; }}"
        ));
        for (port, host, refused) in [
            ("80", "x", true),
            ("80", "a", false),
            ("80", "b", true),
            ("81", "x", false),
            ("81", "b", true),
            ("82", "x", true),
            ("82", "a", true),
        ] {
            let listener = format!("0.0.0.0:{port}");
            let ask = Ask { host: Some(host), listener: Some(&listener), ..get("GET /") };
            is_refused(&made, ask, refused);
        }
    }
    // Not the first in the file, and not at the same addresses.
    let made = nginx(&format!(
        "server {{ listen 80; server_name a; {open} }} server {{ listen 80 default_server; listen 81; return 403; }}"
    ));
    is_refused(&made, Ask { listener: Some("0.0.0.0:80"), ..get("GET /") }, true);
    is_refused(&made, Ask { listener: Some("0.0.0.0:81"), ..get("GET /") }, true);
}

#[test]
fn an_address_has_its_own_servers_beside_those_of_all_addresses() {
    let open = "location / { proxy_pass http://a:1; }";
    let wide = format!("server {{ listen 80; server_name x; {open} }}");
    for (other, refused) in [
        ("server { listen 127.0.0.1:80; server_name y; return 403; }".to_owned(), true),
        (format!("server {{ listen 127.0.0.1:80 proxy_protocol; server_name x; {open} }}"), true),
        (
            format!(
                "ssl_certificate x; ssl_certificate_key y; server {{ listen 127.0.0.1:80 ssl; {open} }}"
            ),
            true,
        ),
        (format!("server {{ listen 127.0.0.1:80; server_name y; {open} }}"), false),
    ] {
        for made in [nginx(&format!("{wide} {other}")), nginx(&format!("{other} {wide}"))] {
            let at = |destination| Ask { destination: Some(destination), ..get("GET /") };
            is_refused(&made, at("127.0.0.1"), refused);
            is_refused(&made, at("192.0.2.9"), false);
            assert_eq!(made.policy.matches("[[listener]]").count(), 1, "{}", made.policy);
        }
    }
    // The first of one name has it, at each address.
    for (first, second, refused) in [
        ("listen 80;", "listen 80; listen 81;", [true, false]),
        ("listen 80; listen 81;", "listen 81;", [true, true]),
    ] {
        let made = nginx(&format!(
            "server {{ {first} server_name x; return 403; }} server {{ {second} server_name x; {open} }}"
        ));
        for (port, refused) in ["0.0.0.0:80", "0.0.0.0:81"].into_iter().zip(refused) {
            is_refused(&made, Ask { listener: Some(port), ..get("GET /") }, refused);
        }
    }
    // A socket for IPv6 alone, if the system gives it IPv4, too.
    let made = nginx(&format!("server {{ listen [::]:80; {open} }}"));
    is_refused(&made, Ask { destination: Some("192.0.2.9"), ..get("GET /") }, true);
    is_refused(&made, Ask { destination: Some("2001:db8::1"), ..get("GET /") }, false);
    let made = nginx(&format!("{wide} server {{ listen 8000-8010; server_name y; {open} }}"));
    lists(&made, LESS, "listen 8000-8010");
}

#[test]
fn requests_without_a_host_are_those_of_the_server_without_a_name() {
    let named =
        "server { listen 80 default_server; server_name a; location / { proxy_pass http://a:1; } }";
    for nameless in ["server_name \"\";", "server_name b \"\";", ""] {
        let made = nginx(&format!("{named} server {{ listen 80; {nameless} return 403; }}"));
        lists(&made, LESS, "requests without Host");
    }
    let made = nginx(&format!("{named} server {{ listen 80; server_name b _ B.; return 403; }}"));
    assert!(!under(&made, LESS).contains("without Host"), "{}", made.policy);
    lists(&made, LESS, "B.: hosts are names");
    is_refused(&made, Ask { host: Some("_"), ..get("GET /") }, true);
    let made = nginx("server { listen 80; location / { proxy_pass http://a:1; } }");
    assert_eq!(made.less_safe, 0, "{}", made.policy);
}

#[test]
fn what_asks_for_a_password_and_what_asks_another_are_switched_off_each_for_itself() {
    let made = server(
        "auth_request /a; auth_basic x;
         location /one/ { auth_basic off; proxy_pass http://a:1; }
         location /other/ { auth_request off; proxy_pass http://a:1; }
         location /both/ { auth_basic off; auth_request off; proxy_pass http://a:1; }
         location /any/ { satisfy any; auth_basic off; deny all; proxy_pass http://a:1; }",
    );
    for (path, refused) in
        [("/", true), ("/one/", true), ("/other/", true), ("/both/", false), ("/any/", true)]
    {
        is_refused(&made, get(&format!("GET {path}")), refused);
    }
}

#[test]
fn what_is_internal_is_so_within() {
    let made = server(
        "location /i/ { internal; proxy_pass http://a:1; location /i/n/ { proxy_pass http://a:1; } location ~ \\.x$ { proxy_pass http://a:1; } }",
    );
    for path in ["/i/", "/i/n/", "/i/a.x"] {
        is_refused(&made, get(&format!("GET {path}")), true);
    }
}

#[test]
fn two_conditions_of_a_kind_let_pass_no_more_than_each() {
    let made = server(
        "location /m/ { if ($request_method !~ ^(GET|POST)$) { return 403; } limit_except GET { deny all; } proxy_pass http://a:1; }
         location /e/ { limit_except get { deny all; } proxy_pass http://a:1; }",
    );
    for request in ["POST /m/", "PUT /m/", "POST /e/"] {
        is_refused(&made, get(request), true);
    }
    is_refused(&made, get("GET /e/"), false);
    // The path of a condition is not replaced by that of a location.
    let made = server("if ($uri != /ok) { return 403; }");
    is_refused(&made, get("GET /bad"), true);
}

#[test]
fn values_that_nginx_reads_otherwise_are_less_safe_where_they_let_pass() {
    for text in [
        "if ($host = x) { return 403; }",
        "if ($request_method = DELETE) { return 403; }",
        "if ($arg_x = bad) { return 403; }",
        "if ($cookie_x = bad) { return 403; }",
        "if ($arg_key != secret) { return 403; }",
        "if ($http_x_key != secret) { return 403; }",
        "if ($cookie_session = \"\") { return 302 /login; }",
        "if ($http_user_agent ~* mobile) { return 302 https://m.x/; }",
    ] {
        let made = server(text);
        let words: Vec<&str> = text.split(' ').take(2).collect();
        lists(&made, LESS, &words.join(" "));
    }
    let made = server("if ($cookie_session = \"\") { return 302 /login; }");
    is_refused(&made, get("GET /"), true);
    is_refused(&made, Ask { headers: &["cookie: session="], ..get("GET /") }, true);
    is_refused(&made, Ask { headers: &["cookie: session=1"], ..get("GET /") }, false);
    // What is refused by any of several fields is refused enough.
    let made = server("if ($http_x = bad) { return 403; } if ($http_y) { return 403; }");
    assert_eq!(made.less_safe, 0, "{}", made.policy);
    is_refused(&made, Ask { headers: &["x: good", "x: bad"], ..get("GET /") }, true);
    is_refused(&made, Ask { headers: &["y: 1"], ..get("GET /") }, true);
    is_refused(&made, Ask { headers: &["y:"], ..get("GET /") }, false);
    // Fields that are hidden from rules, sent in parts, or joined.
    for text in [
        "if ($http_x_forwarded_proto = http) { return 403; }",
        "if ($http_cookie = \"a=b; c=d\") { return 403; }",
        "if ($http_host = bad) { return 403; }",
        "if ($http_x = \"a, b\") { return 403; }",
        "if ($host != X) { return 403; }",
        "if ($remote_addr != 192.0.2.0/24) { return 403; }",
        "if ($http_x = $y) { return 403; }",
    ] {
        is_refused(&server(text), get("GET /"), true);
    }
    for text in ["set $http_x 1;", "set $args x;"] {
        lists(&server(text), LESS, text.trim_end_matches(';'));
    }
}

#[test]
fn limits_that_maps_choose_exempt_no_more() {
    let made = |map: &str| {
        nginx(&format!(
            "map {map} limit_req_zone $key zone=z:1m rate=5r/s;
             server {{ listen 80; limit_req zone=z; location / {{ proxy_pass http://a:1; }} }}"
        ))
    };
    let limited = |made: &Imported, headers: &[&str]| {
        said(made, &Ask { headers, ..get("GET /") }).contains("z-0")
    };
    let partners = made("$http_x_partner $key { default \"\"; \"\" $binary_remote_addr; }");
    assert_eq!(partners.less_safe, 0, "{}", partners.policy);
    for headers in [&[][..], &["x-partner:"], &["x-partner:", "x-partner: a"]] {
        assert!(limited(&partners, headers), "{headers:?}\n{}", partners.policy);
    }
    assert!(!limited(&partners, &["x-partner: a"]), "{}", partners.policy);
    for map in [
        "$http_x $key { default $binary_remote_addr; some \"\"; }",
        "$arg_x $key { default $binary_remote_addr; 1 \"\"; }",
        "$cookie_x $key { default $binary_remote_addr; 1 \"\"; }",
    ] {
        lists(&made(map), LESS, "one that matches is enough");
    }
    for map in [
        "$host $key { hostnames; default \"\"; a.* $binary_remote_addr; }",
        "$http_x $key { default \"\"; ~*a $binary_remote_addr; }",
        "$request_method $key { default \"\"; ~^P $binary_remote_addr; }",
    ] {
        lists(&made(map), LESS, "gets the default");
    }
    // Texts of addresses, not networks; methods and paths without case.
    let networks = made("$remote_addr $key { default $binary_remote_addr; 192.0.2.0/24 \"\"; }");
    assert!(limited(&networks, &[]), "{}", networks.policy);
    let paths = made("$uri $key { default \"\"; /A $binary_remote_addr; }");
    assert!(said(&paths, &get("GET /a")).contains("z-0"), "{}", paths.policy);
    let methods = made("$request_method $key { default \"\"; get $binary_remote_addr; }");
    assert!(limited(&methods, &[]), "{}", methods.policy);
    // Two zones of one text do not share a policer.
    let made = nginx(
        "limit_req_zone $binary_remote_addr zone=a_b?:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=a_b!:1m rate=9r/s;
         server { listen 80; location /1 { limit_req zone=a_b?; proxy_pass http://a:1; } location / { limit_req zone=a_b!; proxy_pass http://a:1; } }",
    );
    assert_eq!(made.policy.matches("[[policer]]").count(), 2, "{}", made.policy);
}

#[test]
fn what_may_keep_clients_out_and_is_not_known_is_less_safe() {
    for text in [
        "modsecurity on;",
        "merge_slashes off;",
        "underscores_in_headers on;",
        "set_real_ip_from 10.0.0.0/8;",
        "real_ip_header X-Forwarded-For;",
        "error_page 401 = @login;",
        "rewrite ^/a/(.*)$ /private/$1 last;",
        "if ($odd) { rewrite ^ /private break; }",
        "if ($odd) { dav_access all:r; }",
        "proxy_set_header X-User $remote_user;",
        "location /t/ { try_files $uri =403; proxy_pass http://a:1; }",
        "location /p/ { proxy_pass http://a:1/public/; }",
        "location /q/ { access_by_lua_file x; proxy_pass http://a:1; }",
    ] {
        let made = server(text);
        let inner = text.split("{ ").last().expect("a part").split(';').next().expect("a part");
        lists(&made, LESS, inner);
    }
    let made = server(
        "add_header a b; gzip on; proxy_http_version 1.1; proxy_set_header Host $host; error_page 404 500 /x; error_page 403 /403.html; proxy_cache_valid 1m;
         location /same/ { proxy_pass http://a:1/same/; }",
    );
    assert_eq!(made.less_safe, 0, "{}", made.policy);
    // A file of conf.d is read as what stands in `http`.
    let made = of_nginx(
        "deny all; modsecurity on; server { listen 80; location / { proxy_pass http://a:1; } }",
    )
    .expect("it maps");
    is_refused(&made, get("GET /"), true);
    lists(&made, LESS, "modsecurity on");
}

#[test]
fn expressions_are_over_bytes_and_mean_the_same() {
    let made = server(
        "location ~ ^/re/.*$ { deny all; } location ~ ^/c/[^a]+$ { return 403; } location ~*\\.BAK$ { return 403; }
         location =/exact { return 403; } location ^~/firm { return 403; }",
    );
    for path in [
        "/re/%ff",
        "/re/x",
        "/re/%c3%a9",
        "/c/%ff",
        "/x.bak",
        "/exact",
        "/firm/x",
        // nginx sees the sign.
        "/re/%25",
        "/a%25b",
    ] {
        is_refused(&made, get(&format!("GET {path}")), true);
    }
    is_refused(&made, get("GET /re"), false);
    lists(&made, STRICTER, "%25 in paths");
    // No path with a line's end comes to the rules.
    assert!(said(&made, &get("GET /re%0a")).contains("400"));
    for text in ["[a-z&&[^b]]", "a++b", "\\<a", "(a(?i)b)", "é"] {
        let made = server(&format!("location ~ \"^/{text}\" {{ proxy_pass http://a:1; }}"));
        is_refused(&made, get("GET /a"), true);
        lists(&made, STRICTER, "this expression may mean something else");
    }
    // However long.
    let long = "a".repeat(600);
    let made = server(&format!(
        "location /{long} {{ return 403; }} location ~ /b{long}$ {{ return 403; }}"
    ));
    for path in [format!("/{long}/x"), format!("/b{long}")] {
        is_refused(&made, get(&format!("GET {path}")), true);
    }
}

#[test]
fn bodies_and_methods_are_refused_as_by_default() {
    let bound = |made: &Imported| {
        let found = made.policy.split("request_body_max = ").nth(1).expect("a bound");
        found.split(' ').next().expect("a number").parse::<u64>().expect("a number")
    };
    let made = server("");
    assert_eq!(bound(&made), 1 << 20);
    is_refused(&made, get("TRACE /"), true);
    is_refused(&made, get("OPTIONS *"), true);
    let made = server("location /up/ { client_max_body_size 5m; proxy_pass http://a:1; }");
    assert_eq!(bound(&made), 5 << 20);
    lists(&made, LESS, "client_max_body_size 1m by default");
    let made = server("client_max_body_size 0; deny unix:; allow unix:;");
    assert_eq!((bound(&made), made.less_safe), (0, 0), "{}", made.policy);
    is_refused(&made, get("GET /"), false);
}
