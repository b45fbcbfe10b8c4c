//! Forgery, rule by rule, by what a request says of itself: for each condition that a rule can have, who
//! has what it asks for gets the class, and no other spelling of it does.
//!
//! Conditions about who a client is, whatever it says, are in `forgery_identity.rs`.

use crate::support;
use support::gateway::Policy;
use support::guarded::{Guarded, connection, get, post};
use support::process::curl;

/// One condition with requests that have it and requests that only look like it.
fn shows(condition: &str, good: &[String], forged: &[String]) {
    let guarded = Guarded::by(condition, Policy::default());
    for request in good {
        guarded.good(request);
    }
    for request in forged {
        guarded.forged(request);
    }
    guarded.gateway.assert_conserved();
}

fn gets(targets: &[&str]) -> Vec<String> {
    targets.iter().map(|target| get(target, "")).collect()
}

/// Requests of `/x` with these lines, each without its CRLF.
fn lines(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| get("/x", &format!("{line}\r\n"))).collect()
}

#[test]
fn paths() {
    let mut forged = gets(&[
        "/vip",
        "/vipx",
        "/VIP/x",
        "/x/vip/x",
        "/vip/../x",
        "/vip/%2e%2e/x",
        "/vip/.%2E/x",
        "/vip/x/../..",
        "/vip/x/%2e%2e/%2e%2e/x",
        "/vip/..",
        "/x%2fvip/x",
        "/vip%2fx",
        "/vip%2F../x",
        "/%2fvip/x",
        "/%2576ip/x",
        "/vip%00/x",
        "/vip%",
        "/x?/vip/x",
        "/x?path=/vip/x",
        "/x;/vip/x",
        "/x#/vip/x",
        "\\vip\\x",
        "vip/x",
        "//x/vip/x",
        "http://vip/x",
        "http://b.test/vip/x",
        "http://a.test/x?http://a.test/vip/x",
    ]);
    forged.extend(lines(&[
        "X-Original-URL: /vip/x",
        "X-Rewrite-URL: /vip/x",
        "X-Forwarded-Prefix: /vip",
        "X-Forwarded-Uri: /vip/x",
        "Content-Location: /vip/x",
        "Referer: http://a.test/vip/x",
    ]));
    // Requests within requests: bodies are bodies, and ambiguous ones are refused whole.
    let hidden = get("/vip/x", "");
    forged.push(post("/x", "", &hidden));
    forged.push(format!(
        "POST /x HTTP/1.1\r\nHost: a.test\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{hidden}"
    ));
    forged.push(post("/x", "Content-Length: 0\r\n", &hidden));
    forged.push(get("/x", &format!("Content_Length: 5\r\nX: a\n\n{hidden}")));
    forged.push(get("/x", &format!("Transfer-Encoding: xchunked\r\n\r\n{hidden}")));
    shows(
        "path = \"/vip/*\"",
        &gets(&["/vip/x", "/vip/", "/x/../vip/x", "/%76ip/x", "//vip/x", "http://a.test/vip/x"]),
        &forged,
    );
}

#[test]
fn hosts() {
    let of = |target: &str, lines: &str| format!("GET {target} HTTP/1.1\r\n{lines}\r\n\r\n");
    let host = |host: &str| of("/", &format!("Host: {host}"));
    let mut forged: Vec<String> = [
        "vip.test.evil.test",
        "evilvip.test",
        "vip.test:x",
        "vip.test@evil.test",
        "evil.test@vip.test",
        "evil.test/vip.test",
        "evil.test#vip.test",
        "evil.test,vip.test",
        "vip.test%00.evil.test",
        "[vip.test]",
        "vip%2etest",
        "vip.test..",
        "evil.test\r\n vip.test",
        "evil.test\r\nHost: vip.test",
        "evil.test\r\nHost : vip.test",
        "evil.test\r\n Host: vip.test",
        "evil.test\r\nX-Forwarded-Host: vip.test",
        "evil.test\r\nForwarded: host=vip.test",
        "evil.test\r\nX_Forwarded_Host: vip.test",
        "evil.test\r\nX-Host: vip.test",
        "evil.test\nHost: vip.test",
        "evil.test\r\nConnection: host\r\nX-Forwarded-Server: vip.test",
    ]
    .iter()
    .map(|text| host(text))
    .collect();
    // Where an absolute target and `Host` differ, neither is believed.
    forged.extend([
        of("http://evil.test/", "Host: vip.test"),
        of("http://vip.test/", "Host: evil.test"),
        of("http://vip.test@evil.test/", "Host: vip.test"),
        of("http://evil.test\\@vip.test/", "Host: evil.test"),
        of("/http://vip.test/", "Host: evil.test"),
        of("//vip.test/", "Host: evil.test"),
        "GET / HTTP/1.0\r\nX-Forwarded-Host: vip.test\r\n\r\n".to_owned(),
    ]);
    let mut good: Vec<String> =
        ["vip.test", "VIP.Test.", "a.vip.test:8080"].iter().map(|text| host(text)).collect();
    good.push(of("http://vip.test/", "Host: VIP.test:80"));
    shows("host = [\"vip.test\", \"*.vip.test\"]", &good, &forged);
}

#[test]
fn methods() {
    let of = |method: &str, target: &str, lines: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n")
    };
    let mut forged: Vec<String> =
        ["report", "Report", "REPORTS", "XREPORT"].iter().map(|it| of(it, "/x", "")).collect();
    forged.extend(lines(&[
        "X-HTTP-Method-Override: REPORT",
        "X-HTTP-Method: REPORT",
        "X-Method-Override: REPORT",
    ]));
    forged.push(of("GET", "/x?_method=REPORT", ""));
    shows("method = \"REPORT\"", &[of("REPORT", "/x", "")], &forged);
}

#[test]
fn headers() {
    let mut forged = lines(&[
        "X-Plan: Gold",
        "X-Plan: gold, x",
        "X-Plan: gold;x",
        "X-Plan: \"gold\"",
        "X-Plan: g%6fld",
        "X-Plan: golden",
        "X-Plan:",
        "X_Plan: gold",
        "X-Plan : gold",
        "X-Plan2: gold",
        "X-Pla: n: gold",
        "Y: x\r\n X-Plan: gold",
        "X-Plan: x\r\n gold",
        "X-Plan:\r\n gold",
        "X-Plan: go\x0bld",
        "X-Plan: gold\x00",
        "Y: x\nX-Plan: gold",
        "Y: x\rX-Plan: gold",
    ]);
    forged.push(get("/x?X-Plan=gold", "Cookie: X-Plan=gold\r\n"));
    // A trailer comes when everything is decided.
    let body = "1\r\nx\r\n0\r\nX-Plan: gold\r\n\r\n";
    forged.push(format!(
        "POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nTrailer: X-Plan\r\n\r\n{body}"
    ));
    let good = lines(&["X-PLAN:gold", "X-Plan:  gold ", "X-Plan: x\r\nX-Plan: gold"]);
    shows("header.x-plan = \"gold\"", &good, &forged);
}

#[test]
fn headers_that_only_trusted_peers_may_say() {
    for (name, value) in [
        ("X-Tiergate-Plan", "gold"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Host", "vip.test"),
        ("X-Forwarded-Vip", "yes"),
        ("X-Real-IP", "10.0.0.1"),
        ("Forwarded", "for=10.0.0.1"),
    ] {
        let condition = format!("header.{} = \"{value}\"", name.to_ascii_lowercase());
        let line = format!("{name}: {value}\r\n");
        let guarded = Guarded::by(&condition, Policy::default());
        guarded.forged(get("/", &line));
        guarded.forged(get("/", &format!("Connection: {name}\r\n{line}")));
        guarded.forged(get("/", &format!("{}: {value}\r\n", name.replace('-', "_"))));
        guarded.forged(get("/", &format!("Y: x\r\n{line}Z: x\r\n{line}")));
        let top = "trusted = [\"127.0.0.1\"]".into();
        Guarded::by(&condition, Policy { top, ..Policy::default() }).good(get("/", &line));
    }
    // What else such a request says still counts.
    let guarded = Guarded::by("header.x-plan = \"gold\"", Policy::default());
    guarded.good(get("/", "X-Tiergate-Plan: x\r\nX-Plan: gold\r\n"));
}

#[test]
fn cookies() {
    let mut forged = lines(&[
        "Cookie: Tier=gold",
        "Cookie: tier=Gold",
        "Cookie: tier=golden",
        "Cookie: tier=\"gold\"",
        "Cookie: tier=g%6fld",
        "Cookie: ti%65r=gold",
        "Cookie: tier%3Dgold",
        "Cookie: xtier=gold",
        "Cookie: a=tier=gold",
        "Cookie: a=1, tier=gold",
        "Cookie: tier",
        "Cookie: tier=x; tiergold",
        "Cookie2: tier=gold",
        "Set-Cookie: tier=gold",
        "X-Cookie: tier=gold",
        "Cookie : tier=gold",
        "Cookie: a=1\r\n tier=gold",
    ]);
    forged.push(get("/x?tier=gold", "Authorization: tier=gold\r\n"));
    let good =
        lines(&["Cookie: tier=gold", "cookie: a=b; tier=gold", "Cookie: a\r\nCookie: tier=gold"]);
    shows("cookie.tier = \"gold\"", &good, &forged);
}

#[test]
fn queries() {
    let mut forged = gets(&[
        "/x?Tier=gold",
        "/x?tier=golden",
        "/x?tier=g%256fld",
        "/x?tier=%00gold",
        "/x?a=tier=gold",
        "/x?tier%3Dgold",
        "/x?a=1;tier=gold",
        "/x?a=1?tier=gold",
        "/x?tier[]=gold",
        "/tier=gold",
        "/x%3Ftier=gold",
        "/x;tier=gold",
        "/x#?tier=gold",
    ]);
    forged.push(post("/x", "Content-Type: application/x-www-form-urlencoded\r\n", "tier=gold"));
    forged.extend(lines(&["Referer: http://a.test/x?tier=gold", "Query: tier=gold"]));
    let good = gets(&["/x?tier=gold", "/x?a=1&t%69er=g%6fld", "/x?tier=x&tier=gold"]);
    shows("query.tier = \"gold\"", &good, &forged);
}

#[test]
fn extensions_and_expressions() {
    let forged = [
        "/a.css/b",
        "/a.css/",
        "/a.cssx",
        "/a?b.css",
        "/a.css%2fb",
        "/a.css%00.php",
        "/.css",
        "/a.css.php",
        "/css",
        "/a.css/../b",
        "/a%252ecss",
        "/a.css%20",
    ];
    let good = gets(&["/a.css", "/b/a.CSS", "/a%2ecss", "/a.b.css"]);
    shows("extension = \"css\"", &good, &gets(&forged));

    let forged = [
        "/v1/vip/x",
        "/x/v1/vip",
        "/v1/vip%0a",
        "/x%0a/v1/vip",
        "/v/vip",
        "/v1/VIP",
        "/v1/vip%00",
        "/v1%2fvip",
        "/x?/v1/vip",
        "/v1/vip/../x",
        "/v1/vip/",
    ];
    let good = gets(&["/v1/vip", "/v12//vip", "/x/../v1/%76ip"]);
    shows("path_regex = '^/v[0-9]+/vip$'", &good, &gets(&forged));
}

#[test]
fn bodies() {
    let typed = |lines: &str| post("/x", &format!("{lines}\r\n"), "12345");
    let forged: Vec<String> = [
        "Content-Type: text/plain; image/png",
        "Content-Type: text/plain, image/png",
        "Content-Type: imagex/png",
        "Content-Type: text/image/png",
        "Content-Type: \"image/png\"",
        "Content_Type: image/png",
        "X-Content-Type: image/png",
        "Accept: image/png",
        "Content-Type:\r\n image/png",
    ]
    .iter()
    .map(|line| typed(line))
    .collect();
    let good = [typed("Content-Type: image/png"), typed("content-type: IMAGE/png;a=b")];
    shows("content_type = \"image/*\"", &good, &forged);

    let sized =
        |lines: &str, body: &str| format!("POST /x HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n{body}");
    let forged = [
        sized("Content-Length: 7\r\n", "1234567"),
        sized("Content-Length: 5\r\nContent-Length: 7\r\n", "1234567"),
        sized("Content-Length: 5\r\nContent-Length: 5\r\n", "12345"),
        sized("Content-Length: +5\r\n", "12345"),
        sized("Content-Length: 5, 5\r\n", "12345"),
        sized("Content-Length: 0x5\r\n", "12345"),
        sized("Content-Length : 5\r\n", "12345"),
        sized("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "5\r\n12345\r\n0\r\n\r\n"),
        sized("Transfer-Encoding: chunked\r\n", "5\r\n12345\r\n0\r\n\r\n"),
        sized("X-Content-Length: 5\r\nContent-Length: 1\r\n", "1"),
        sized("X-Expected-Entity-Length: 5\r\n", ""),
    ];
    let good = [sized("Content-Length: 5\r\n", "12345"), sized("Content-Length: 05\r\n", "12345")];
    shows("content_length = \"5..6\"", &good, &forged);
}

#[test]
fn purpose_and_urgency() {
    let forged = [
        "Sec-Purpose: x;prefetch",
        "Sec-Purpose: x, prefetch",
        "Sec-Purpose: prefetcher",
        "Sec_Purpose: prefetch",
        "X-Purpose: prefetch",
        "Sec-Fetch-Purpose: prefetch",
    ];
    shows("prefetch = true", &lines(&["Purpose: prefetch"]), &lines(&forged));

    let forged = [
        "Priority: u=00",
        "Priority: u=-0",
        "Priority: U=0",
        "Priority: u=8",
        "Priority: u =0",
        "Priority: \"u=0\"",
        "X-Priority: u=0",
        "Priority: u=0, u=5",
        "Priority: u",
        "Y: u=0",
    ];
    shows("urgency = 0", &lines(&["Priority: u=0", "Priority: i, u=0"]), &lines(&forged));
}

#[test]
fn over_http2_no_more_is_believed() {
    let ask = |guarded: &Guarded, line: &str| {
        let url = format!("http://{}/", guarded.gateway.address);
        let arguments =
            ["--http2-prior-knowledge", "-o", "/dev/null", "-w", "%{http_code}", "-H", line, &url];
        curl(&arguments).map(|status| {
            assert_eq!(status, "200", "{line}");
            guarded.high()
        })
    };
    let trusting = || Policy { top: "trusted = [\"127.0.0.1\"]".into(), ..Policy::default() };
    for (condition, line) in [
        ("header.x-tiergate-plan = \"gold\"", "X-Tiergate-Plan: gold"),
        ("header.x-forwarded-proto = \"https\"", "X-Forwarded-Proto: https"),
        ("client = \"10.0.0.0/8\"", "X-Forwarded-For: 10.0.0.1"),
        ("client = \"10.0.0.0/8\"", "Forwarded: for=10.0.0.1"),
    ] {
        let Some(high) = ask(&Guarded::by(condition, Policy::default()), line) else { return };
        assert_eq!(high, 0, "{line}");
        assert_eq!(ask(&Guarded::by(condition, trusting()), line), Some(1), "{line}");
    }
    let guarded = Guarded::by("host = \"vip.test\"", Policy::default());
    assert_eq!(ask(&guarded, "X-Forwarded-Host: vip.test"), Some(0));
    assert_eq!(ask(&guarded, "Host: vip.test"), Some(1), "curl makes it the authority");
}

#[test]
fn one_request_of_a_connection_lends_the_next_nothing() {
    let guarded = Guarded::by("header.x-plan = \"gold\"", Policy::default());
    let (high, low) = (get("/", "X-Plan: gold\r\n"), get("/", ""));
    let mut client = guarded.gateway.client();
    let requests =
        [low.clone(), high.clone(), low.clone(), post("/", "X-Plan: gold\r\n", "x"), low.clone()];
    assert_eq!(connection(&mut client, &requests), [200; 5]);
    assert_eq!(guarded.high(), 2);
    for _ in 0..3 {
        client.send(&low);
        assert_eq!(client.answer().status, 200);
    }
    assert_eq!(guarded.high(), 2);
}
