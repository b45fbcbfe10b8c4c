//! One path for rules and origin: whatever a client writes, a server serves nothing that a rule forbids,
//! and nothing by another class than the path's. Each server decodes paths in its own way.

use crate::side::{Side, fetch};
use crate::support::servers::{self, Server};
use crate::world::{World, build, by, server};

over_both! {
    nginx_serves_what_rules_judged
    apache_serves_what_rules_judged
    python_serves_what_rules_judged
    wsgi_serves_what_rules_judged
    node_serves_what_rules_judged
    paths_that_pass_as_received_evade_rules
    the_origin_gets_the_path_that_rules_judged
    paths_that_servers_read_differently_get_400
    what_was_received_is_shown
}

/// Spellings of `/DIR/FILE`, of which the last letters of each name are given, and its first as hex digits.
const SPELLINGS: &[&str] = &[
    "/{dir}/{file}",
    "/{DIR}/{file}",
    // Letters that need no escape.
    "/%{d}{ir}/{file}",
    "/{dir}/%{f}{ile}",
    "/%25{d}{ir}/{file}",
    "/%u00{d}{ir}/{file}",
    // Slashes.
    "//{dir}/{file}",
    "/{dir}//{file}",
    "///{dir}///{file}",
    "/%2F{dir}/{file}",
    "/%2f%2F{dir}/{file}",
    "/{dir}%2F{file}",
    "/{dir}%2f{file}",
    "/{dir}%252F{file}",
    "/{dir}%252f{file}",
    "/{dir}%25252f{file}",
    "/{dir}%c0%af{file}",
    "/{dir}%e0%80%af{file}",
    "/{dir}%f0%80%80%af{file}",
    "/{dir}%ef%bc%8f{file}",
    "/{dir}%u2215{file}",
    // Backslashes.
    "/{dir}\\{file}",
    "/\\{dir}\\{file}",
    "/{dir}%5C{file}",
    "/{dir}%5c{file}",
    "/{dir}%255c{file}",
    "/{dir}%c1%9c{file}",
    "/x\\..\\{dir}\\{file}",
    "/x/..\\{dir}/{file}",
    "/x/..%5C{dir}/{file}",
    "/x%5C..%5C{dir}/{file}",
    // Dots.
    "/./{dir}/{file}",
    "/%2e/{dir}/{file}",
    "/{dir}/./{file}",
    "/{dir}/x/../{file}",
    "/../{dir}/{file}",
    "/x/../{dir}/{file}",
    "/x/../../{dir}/{file}",
    "/x/%2e%2e/{dir}/{file}",
    "/x/.%2E/{dir}/{file}",
    "/x//../{dir}/{file}",
    "/x//../../{dir}/{file}",
    "/shop/../{dir}/{file}",
    "/shop/..%2F{dir}/{file}",
    "/shop/%2e%2e%2f{dir}%2f{file}",
    "/shop%2F..%2F{dir}%2F{file}",
    "/shop%2F../{dir}/{file}",
    "/shop%2F%2E%2E/{dir}/{file}",
    "/shop/%252e%252e/{dir}/{file}",
    "/shop/%252e%252e%252f{dir}/{file}",
    "/shop/%c0%ae%c0%ae/{dir}/{file}",
    "/{dir}./{file}",
    "/{dir}%2E/{file}",
    "/{dir}/{file}.",
    "/.../{dir}/{file}",
    // Parameters of segments.
    "/{dir};/{file}",
    "/{dir};x=y/{file}",
    "/{dir}/{file};x=y",
    "/;/{dir}/{file}",
    "/;x=y/{dir}/{file}",
    "/.;/{dir}/{file}",
    "/shop/..;/{dir}/{file}",
    "/shop/..;x=y/{dir}/{file}",
    "/shop/%2e%2e;/{dir}/{file}",
    "/shop/..%3b/{dir}/{file}",
    // What ends a text for some.
    "/{dir}%00/{file}",
    "/{dir}/{file}%00",
    "/{dir}/{file}%00.html",
    "/{dir}/{file}%2500",
    "/%00/../{dir}/{file}",
    "/shop/page%00/../../{dir}/{file}",
    "/{dir}/{file}%0a",
    "/{dir}%0d%0a/{file}",
    "/{dir}%09/{file}",
    "/{dir}/{file}%7f",
    "/{dir}%20/{file}",
    "/%20/../{dir}/{file}",
    "/{dir}/{file}%20",
    // Marks of other parts of a target.
    "/{dir}/{file}?/../../shop/page",
    "/shop/page?/../../{dir}/{file}",
    "/shop/page%3F/../../{dir}/{file}",
    "/shop/page%3f/..%2f../{dir}/{file}",
    "/shop/page%23/../../{dir}/{file}",
    "/{dir}/{file}%3F",
    "/{dir}/{file}%23",
    "/{dir}%3F/../{dir}/{file}",
    "/http://gate.test/{dir}/{file}",
    // Escapes that are none.
    "/%/../{dir}/{file}",
    "/%zz/../{dir}/{file}",
    "/{dir}/{file}%",
    "/{dir}/%2/../{file}",
    "/%%36%31/../{dir}/{file}",
];

fn spellings(dir: &str, file: &str) -> impl Iterator<Item = String> {
    let hex = |name: &str| format!("{:02x}", name.as_bytes()[0]);
    let pairs = [
        ("{dir}", dir.to_owned()),
        ("{file}", file.to_owned()),
        ("{DIR}", dir.to_uppercase()),
        ("{d}", hex(dir)),
        ("{f}", hex(file)),
        ("{ir}", dir[1..].to_owned()),
        ("{ile}", file[1..].to_owned()),
    ];
    SPELLINGS.iter().map(move |spelling| {
        pairs.iter().fold((*spelling).to_owned(), |text, (mark, name)| text.replace(mark, name))
    })
}

/// What is served of each kind.
const SECRET: &str = "the secret";
const IMPORTANT: &str = "an important page";
const ORDINARY: &str = "an ordinary page";

/// A gateway whose rules know two of the origin's three folders.
async fn world(origin: &Server, forwarding: &str) -> World {
    origin.put("api/secret", SECRET.as_bytes());
    origin.put("vip/page", IMPORTANT.as_bytes());
    origin.put("shop/page", ORDINARY.as_bytes());
    build(|policy| {
        let text = format!(
            "[origin]\nservers = [\"a:1\"]\nslots = 9\n[forwarding]\n{forwarding}\n\
             [[class]]\nname = \"vip\"\n[[class]]\nname = \"other\"\n\
             [[rule]]\npath = [\"/api\", \"/api/*\"]\nrefuse = true\n\
             [[rule]]\npath = [\"/vip\", \"/vip/*\"]\nclass = \"vip\"\n"
        );
        *policy = tiergate::config::parse(&text, "p.toml").unwrap();
        policy.origin.servers = vec![server(origin.address)];
    })
    .await
}

/// The spellings that rules and origin read differently, with what came of it; and the statuses of all.
async fn misread(world: &World, side: Side) -> (Vec<String>, Vec<u16>) {
    let important = || world.shared.door.gate().account().classes[0].arrived;
    let all = [("api", "secret"), ("vip", "page"), ("shop", "page")].map(|(d, f)| spellings(d, f));
    let out_of_vip =
        ["/vip/..", "/vip/%2e%2e", "/vip/..;", "/vip/.%2E", "/vip/%252e%252e", "/vip%2F.."]
            .iter()
            .flat_map(|dots| {
                ["/", "%2F", "\\", "%5C", "%252F"].map(|slash| format!("{dots}{slash}shop/page"))
            });
    let (mut misread, mut statuses) = (Vec::new(), Vec::new());
    for spelling in all.into_iter().flatten().chain(out_of_vip) {
        let before = important();
        let answer = fetch(world, side, &spelling).await;
        let judged_important = important() > before;
        let text = answer.text();
        let right = match text.as_str() {
            SECRET => false,
            IMPORTANT => judged_important,
            ORDINARY => !judged_important,
            _ => true,
        };
        if !right {
            misread.push(format!("{spelling}: {text}"));
        }
        statuses.push(answer.status);
    }
    (misread, statuses)
}

async fn serves_what_rules_judged(side: Side, origin: Option<Server>) {
    let Some(origin) = origin else { return };
    let world = world(&origin, "").await;
    let (misread, statuses) = misread(&world, side).await;
    assert_eq!(misread, [""; 0]);
    // Served, refused because of the path, refused by the rule, and not there.
    for status in [200, 400, 403, 404] {
        assert!(statuses.contains(&status), "no {status} of {statuses:?}");
    }
}

async fn nginx_serves_what_rules_judged(side: Side) {
    serves_what_rules_judged(side, servers::nginx()).await;
}

async fn apache_serves_what_rules_judged(side: Side) {
    serves_what_rules_judged(side, servers::apache()).await;
}

async fn python_serves_what_rules_judged(side: Side) {
    serves_what_rules_judged(side, servers::python()).await;
}

async fn wsgi_serves_what_rules_judged(side: Side) {
    serves_what_rules_judged(side, servers::wsgi()).await;
}

async fn node_serves_what_rules_judged(side: Side) {
    serves_what_rules_judged(side, servers::node_files()).await;
}

/// That is what the other cases are about: with these spellings they can fail.
async fn paths_that_pass_as_received_evade_rules(side: Side) {
    let Some(origin) = servers::nginx() else { return };
    let world = world(&origin, "path = \"as_received\"").await;
    let (misread, _) = misread(&world, side).await;
    for evasion in ["/api%2Fsecret: the secret", "/vip/..%2Fshop/page: an ordinary page"] {
        assert!(misread.iter().any(|one| one == evasion), "{misread:#?}");
    }
}

/// The request line at the origin.
async fn line(side: Side, handling: &str, target: &str) -> String {
    let world = by(&format!(
        "[origin]\nservers = [\"a:1\"]\nslots = 9\n[forwarding]\npath = \"{handling}\"\n"
    ))
    .await;
    let answer = fetch(&world, side, target).await;
    let text = answer.text();
    assert_eq!(answer.status, 200, "{target}: {text}");
    text.lines().next().unwrap_or_default().to_owned()
}

async fn the_origin_gets_the_path_that_rules_judged(side: Side) {
    // As received, as sent.
    let every = [
        ("/head", "/head"),
        ("/head/a%20b/%C3%A9;c=%2B/@+?%41//../%2f&?%zz", ""),
        ("/x/..//%68ead/./%7ea%3b%c3%a9/?%41//../%2f&?%zz", "/head/~a%3B%C3%A9/?%41//../%2f&?%zz"),
        ("/head/../head/x/..?", "/head/?"),
    ];
    for handling in ["strict", "decoded", "normalised"] {
        for (received, sent) in every {
            let sent = if sent.is_empty() { received } else { sent };
            assert_eq!(line(side, handling, received).await, format!("GET {sent}"), "{handling}");
        }
    }
    for (handling, received, sent) in [
        ("decoded", "/head%2fa\\b%5C..%2F%252f", "/head/a/%252f"),
        ("normalised", "/head//a%2fb%252f", "/head/a%2Fb%252f"),
        ("as_received", "/head/.//%61%2f..%2f%00", "/head/.//%61%2f..%2f%00"),
    ] {
        assert_eq!(line(side, handling, received).await, format!("GET {sent}"), "{handling}");
    }
}

async fn paths_that_servers_read_differently_get_400(side: Side) {
    let world = by("[origin]\nservers = [\"a:1\"]\nslots = 9\n").await;
    for (path, why) in [
        ("/len%2F1", "encoded slash in the path"),
        ("/len\\1", "backslash in the path"),
        ("/%256cen/1", "double encoding in the path"),
        ("/len/1%00", "encoded control character in the path"),
        ("/%cc%80/%c1%ac", "overlong UTF-8 in the path"),
        ("/x/..;/len/1", "empty or dot segment in the path that servers read differently"),
        ("/len/1%", "% without two hexadecimal digits in the path"),
    ] {
        let answer = fetch(&world, side, path).await;
        assert_eq!(answer.status, 400, "{path}");
        assert!(answer.text().contains(why), "{path}: {}", answer.text());
    }
    assert_eq!(world.requests(), 0);
    assert_eq!(world.shared.counters.sums(|it| &it.bad_requests).iter().sum::<u64>(), 7);
}

/// The operator sees what the client wrote.
async fn what_was_received_is_shown(side: Side) {
    let world = by("[origin]\nservers = [\"a:1\"]\nslots = 9\n[[class]]\nname = \"all\"\n\
         [[rule]]\npath = \"/api/*\"\nrefuse = true\n")
    .await;
    assert_eq!(fetch(&world, side, "//%61pi/./secret?x").await.status, 403);
    let shown = world.shared.refusals.recent(1);
    assert_eq!(shown[0].path, "//%61pi/./secret");
    assert_eq!(shown[0].reason, "rule");
}
