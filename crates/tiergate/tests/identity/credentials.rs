//! Keys and tokens in a running gateway: what they give, what is counted, what a reload changes, what is
//! never shown.

use crate::support;
use http::Request;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;
use support::client::Client;
use support::eventually_is;
use support::gateway::{Gateway, Policy};
use support::guarded::Guarded;
use support::http2_client::{connect, run};
use support::jwt;
use support::origin::Origin;

/// RFC 7515 appendix A.1: a good signature, and long expired.
const TOKEN: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const TOKEN_SECRET: &str = "base64:AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ+EstJQLr/T+1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow==";
const OLD: &str = "the-old-key-of-alice";
const NEW: &str = "the-new-key-of-alice";

/// Counts of `verified`, `rejected`, `untimely`.
fn counted(gateway: &Gateway) -> [u64; 3] {
    let page = Client::connect(gateway.admin).get_local("/metrics").text();
    ["verified", "rejected", "untimely"].map(|result| {
        let series = format!("tiergate_credentials_total{{result=\"{result}\"}} ");
        let line = page.lines().find_map(|line| line.strip_prefix(&series));
        line.unwrap_or_else(|| panic!("no {series}in\n{page}")).parse().expect("a number")
    })
}

/// A file that only its owner may read; its path.
fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    std::fs::write(&path, text).expect("our own folder");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&path, mode).expect("our own file");
    path.display().to_string()
}

/// `/` asked for with a header.
fn with(header: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n")
}

#[test]
fn a_subject_reaches_the_rules_and_a_reload_changes_whose_keys_count() {
    const SECRET: &str = "an-issuer-s-secret-of-32-bytes-or-more";
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| write(folder.path(), name, text);
    let keys = write("keys", &format!("alice:{OLD}\nbob:{NEW}\n"));
    let tokens = write("tokens", SECRET);
    let tables = format!(
        "[[key]]\nname = \"k\"\nsecret_file = {keys:?}\n[token]\nsecret_file = {tokens:?}\n"
    );
    let guarded =
        Guarded::by("subject = [\"alice\", \"svc/*\"]", Policy { tables, ..Policy::default() });
    let bearer = |subject: &str| {
        let token = jwt::sign(SECRET, jwt::HS256, &jwt::claims(subject));
        with(&format!("Authorization: Bearer {token}"))
    };
    guarded.good(with(&format!("X-Api-Key: {OLD}")));
    guarded.good(bearer("alice"));
    guarded.good(bearer("svc/report"));
    // The token's word goes before the key's, whoever it names.
    let both = |subject: &str, key: &str| {
        bearer(subject).replace("\r\n\r\n", &format!("\r\nX-Api-Key: {key}\r\n\r\n"))
    };
    guarded.good(both("alice", NEW));
    guarded.forged(both("bob", OLD));
    for request in [bearer("bob"), bearer("svc"), with(&format!("X-Api-Key: {NEW}")), with("X: y")]
    {
        guarded.forged(request);
    }
    write("keys", &format!("alice:{NEW}\nbob:{OLD}\n"));
    assert_eq!(guarded.gateway.reload().0, 200);
    guarded.forged(with(&format!("X-Api-Key: {OLD}")));
    guarded.good(with(&format!("X-Api-Key: {NEW}")));
    // Another secret: what the old one signed is worth nothing.
    write("tokens", "another-secret-of-32-bytes-or-more-than-that");
    assert_eq!(guarded.gateway.reload().0, 200);
    guarded.forged(bearer("alice"));
}

/// A body that is read before its request is decided is behind a head that was looked at already.
#[test]
fn a_request_whose_body_is_gathered_counts_once() {
    const SECRET: &str = "an-issuer-s-secret-of-32-bytes-or-more";
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = write(folder.path(), "tokens", SECRET);
    let rule =
        "[[rule]]\nsubject = \"alice\"\nclass = \"high\"\npolice = { rate = \"1/h\", burst = 4 }\n";
    let guarded = Guarded::with(
        rule,
        Policy {
            listener: "http2 = true".into(),
            tables: format!("[token]\nsecret_file = {tokens:?}\n"),
            ..Policy::default()
        },
    );
    let gateway = &guarded.gateway;
    let bearer = format!("Bearer {}", jwt::sign(SECRET, jwt::HS256, &jwt::claims("alice")));
    let begin = |fields: &str| {
        let mut client = gateway.client();
        client.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nAuthorization: {bearer}\r\n{fields}\r\n\r\n"
        ));
        client
    };
    for (count, fields, body) in [
        (1, "Content-Length: 4", "body"),
        (2, "Transfer-Encoding: chunked", "4\r\nbody\r\n0\r\n\r\n"),
    ] {
        let mut client = begin(fields);
        eventually_is("the head was looked at", [count, 0, 0], || counted(gateway));
        client.send(body);
        assert_eq!(client.answer().status, 200);
        assert_eq!(counted(gateway), [count, 0, 0], "{fields}");
    }
    run(async {
        let mut send = connect(gateway.address).await;
        let request = Request::post("http://a.test/").header("authorization", &bearer).body(());
        let (answer, mut sending) =
            send.send_request(request.expect("good"), false).expect("a stream");
        while counted(gateway) != [3, 0, 0] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        sending.send_data("body".into(), true).expect("an open stream");
        assert_eq!(answer.await.expect("an answer").status(), 200);
    });
    assert_eq!((counted(gateway), guarded.high()), ([3, 0, 0], 3), "over HTTP/2");
    assert_eq!(gateway.number("/policers/0/passed"), 3, "each has taken one token of the rate");
    // By what a reload has read meanwhile it is proven anew, and not counted again.
    let mut client = begin("Content-Length: 4");
    eventually_is("the head was looked at", [4, 0, 0], || counted(gateway));
    write(folder.path(), "tokens", "another-secret-of-32-bytes-or-more-than-that");
    assert_eq!(gateway.reload().0, 200);
    client.send("body");
    assert_eq!(client.answer().status, 200);
    assert_eq!((counted(gateway), guarded.high()), ([4, 0, 0], 3), "it has no subject any more");
}

#[test]
fn credentials_are_checked_counted_reread_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| write(folder.path(), name, text);
    let (keys, tokens) = (write("keys", &format!("alice:{OLD}\n")), write("tokens", TOKEN_SECRET));
    let origin = Origin::echo();
    let gateway = Gateway::start(&Policy {
        tables: format!(
            "[[key]]\nname = \"k\"\nsecret_file = {keys:?}\n[token]\nsecret_file = {tokens:?}\n"
        ),
        ..Policy::of(&[origin.server()])
    });
    let mut client = gateway.client();
    // None of these is an error, and the origin gets each as it was sent.
    let mut ask = |header: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n"));
        assert_eq!(client.answer().status, 200, "{header}");
        let (requests, _) = origin.requests();
        let (name, value) = header.lines().next().and_then(|it| it.split_once(": ")).expect("one");
        assert!(requests.iter().any(|request| request.values(name).contains(&value)), "{header}");
    };
    ask(&format!("X-Api-Key: {OLD}"));
    ask(&format!("x-api-key: Bearer {OLD}"));
    assert_eq!(counted(&gateway), [2, 0, 0]);
    ask(&format!("X-Api-Key: {NEW}"));
    ask(&format!("Authorization: Bearer {TOKEN}"));
    ask("Authorization: Bearer x.y.z");
    assert_eq!(counted(&gateway), [2, 3, 0], "the token names nobody");
    // Not looked at: another scheme, and a header that is there twice.
    ask("Authorization: Basic YTpi");
    ask(&format!("X-Api-Key: {OLD}\r\nX-Api-Key: {OLD}"));
    assert_eq!(counted(&gateway), [2, 3, 0]);
    write("keys", &format!("alice:{OLD}\nalice:{NEW}\n"));
    assert_eq!(gateway.reload().0, 200);
    ask(&format!("X-Api-Key: {NEW}"));
    ask(&format!("X-Api-Key: {OLD}"));
    assert_eq!(counted(&gateway), [4, 3, 0]);
    // A file with a fault changes nothing.
    write("keys", "alice:short\n");
    let (status, said) = gateway.reload();
    assert_eq!(status, 422);
    assert!(said.contains("key[1].secret_file: ") && !said.contains("short"), "{said}");
    ask(&format!("X-Api-Key: {NEW}"));
    assert_eq!(counted(&gateway), [5, 3, 0]);
    let mut admin = Client::connect(gateway.admin);
    let shown: String = ["/", "/config", "/status", "/metrics", "/refusals"]
        .map(|path| admin.get_local(path).text())
        .concat();
    for secret in [OLD, NEW, TOKEN, &TOKEN_SECRET[7..]] {
        assert!(!shown.contains(secret) && !gateway.log().contains(secret), "{secret} is shown");
    }
}

#[test]
fn a_key_set_is_reread_and_a_removed_key_is_worth_nothing() {
    let fixtures: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/tokens/tokens.json")).expect("JSON");
    let set = |name: &str| fixtures["jwks"][name].to_string();
    let bearer = |place: &str| {
        let token = fixtures.pointer(place).and_then(|it| it.as_str()).expect("a token");
        with(&format!("Authorization: Bearer {token}"))
    };
    let [old, new] = ["/good/RS256", "/by_other"];
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| write(folder.path(), name, text);
    let jwks = write("jwks.json", &set("rsa for RS256"));
    let tables = format!("[token]\njwks_file = {jwks:?}\nissuer = \"us\"\naudience = \"shop\"\n");
    let guarded = Guarded::by("subject = \"alice\"", Policy { tables, ..Policy::default() });
    guarded.good(bearer(old));
    for forged in [new, "/good/PS256", "/good/EdDSA", "/hostile/public key in PEM as a secret"] {
        guarded.forged(bearer(forged));
    }
    write("jwks.json", &set("both"));
    assert_eq!(guarded.gateway.reload().0, 200);
    guarded.good(bearer(old));
    guarded.good(bearer(new));
    write("jwks.json", &set("rotated"));
    assert_eq!(guarded.gateway.reload().0, 200);
    guarded.forged(bearer(old));
    guarded.good(bearer(new));
    // A set without a key changes nothing.
    write("jwks.json", &set("empty"));
    let (status, said) = guarded.gateway.reload();
    assert_eq!(status, 422);
    assert!(said.contains("token.jwks_file: ") && said.contains("has no key"), "{said}");
    guarded.good(bearer(new));
    guarded.forged(bearer(old));
}
