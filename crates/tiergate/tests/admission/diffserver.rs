//! DiffServer's examples give DiffServer's scores, by the policy and by the paper's own options.conf.

use crate::support;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use support::eventually_is;
use support::gateway::Gateway;
use support::origin::{Origin, ok};
use tiergate::cli::explain::{self, Known, Question};
use tiergate::config::meant::Policy;
use tiergate::config::{load, parse};
use tiergate::import::options_conf;
use tiergate_core::classify::Scratch;
use tiergate_core::request::RequestView;

/// Both examples of the paper (§3.2) in one file, as it shows them.
const OPTIONS: &str = "andes.unl.edu      10
unl.edu           8.5
edu               5.1
/images/background.gif  9.5
/images/list.html       7
/images/                 4
/index.html             8
";

fn view<'v>(client_name: &'v str, path: &'v str) -> RequestView<'v> {
    RequestView {
        method: b"GET",
        path: path.as_bytes(),
        client_name: client_name.as_bytes(),
        ..RequestView::EMPTY
    }
}

/// A request's score and class.
fn score(policy: &Policy, client_name: &str, path: &str) -> (String, String) {
    let view = view(client_name, path);
    let found = policy.classifier.classify(&view, &mut Scratch::default());
    let tables = policy.score.as_ref().unwrap();
    assert_eq!(tables.score(&view).score, found.score, "{client_name} {path}");
    (found.score.to_string(), policy.plan.classes[found.class.index()].name.clone())
}

/// The policy of the paper's examples with factors of our choice, which the paper leaves open.
fn imported(factors: &str) -> Policy {
    let text = format!("{factors}\n{OPTIONS}");
    let policy = options_conf::policy(&text, "options.conf", "127.0.0.1:8080").unwrap();
    parse(&policy, "imported.toml").unwrap()
}

#[test]
fn the_papers_examples_have_the_papers_scores() {
    let files = imported("DOMAIN_NAME_FACTOR 0\nFILE_NAME_FACTOR 1");
    for (path, expected) in [
        ("/images/background.gif", "9.5"),
        ("/images/list.html", "7"),
        ("/images/other.png", "4"),
        ("/images/deep/other.png", "4"),
        ("/images/", "4"),
        ("/images/list.html.old", "4"),
        ("/index.html", "8"),
        ("/index.htm", "1"),
        ("/images", "1"),
        ("/", "1"),
    ] {
        assert_eq!(score(&files, "", path).0, expected, "{path}");
    }
    let clients = imported("DNF = 1\nFNF = 0");
    for (name, expected) in [
        ("andes.unl.edu", "10"),
        ("www.andes.unl.edu", "10"),
        ("cse.unl.edu", "8.5"),
        ("unl.edu", "8.5"),
        ("notunl.edu", "5.1"),
        ("mit.edu", "5.1"),
        ("edu", "5.1"),
        ("example.com", "1"),
        ("fakeedu", "1"),
        ("", "1"),
    ] {
        assert_eq!(score(&clients, name, "/").0, expected, "{name}");
    }
    let both = imported("DOMAIN_NAME_FACTOR 0.7\nFILE_NAME_FACTOR 0.3");
    assert_eq!(score(&both, "cse.unl.edu", "/images/list.html").0, "8.05");
    assert_eq!(score(&both, "", "/").0, "1");
}

#[test]
fn scores_lead_to_the_classes_of_their_bands() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies/diffserver.toml");
    let policy = load(Path::new(path)).unwrap();
    let of = |name, path| score(&policy, name, path);
    assert_eq!(of("andes.unl.edu", "/images/background.gif"), ("9.75".into(), "high".into()));
    assert_eq!(of("andes.unl.edu", "/images/list.html"), ("8.5".into(), "high".into()));
    assert_eq!(of("unl.edu", "/images/list.html"), ("7.75".into(), "middle".into()));
    assert_eq!(of("unl.edu", "/images/x.gif"), ("6.25".into(), "middle".into()));
    assert_eq!(of("", "/images/list.html"), ("4".into(), "middle".into()));
    assert_eq!(of("mit.edu", "/"), ("3.05".into(), "low".into()));
    assert_eq!(of("", "/"), ("1".into(), "low".into()));

    let said = explain::explain(
        &policy,
        "diffserver.toml",
        &Question {
            request: "GET /images/list.html".into(),
            known: Known { client_name: Some("CSE.unl.edu".into()), ..Known::default() },
            ..Question::default()
        },
    );
    let said = said.unwrap();
    assert!(said.contains("its score of 7.75 gives the class"), "{said}");
    let sum = "score 7.75 by the tables: 0.5 x 8.5 (the client is in unl.edu) + 0.5 x 7 (the path is in /images/list.html)";
    assert!(said.contains(sum), "{said}");
}

#[test]
fn a_rule_goes_before_the_tables_and_the_bands() {
    let policy = parse(
        "[origin]\nservers = [\"a:1\"]\n\
         [[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\n\
         [[rule]]\nmethod = \"GET\"\nscore = 9\n\
         [[rule]]\npath = \"/batch/*\"\nclass = \"low\"\n\
         [score.client]\n\"10.0.0.0/8\" = 3\n\"10.1.0.0/16\" = 6\n\"10.1.2.3\" = 7.5\n\
         [[score.band]]\nfrom = 8\nclass = \"high\"\n",
        "p.toml",
    )
    .unwrap();
    let classify = |method: &'static str, path: &'static str, client: &str| {
        let client = client.parse().unwrap();
        let view = RequestView { method: method.as_bytes(), client, ..view("", path) };
        let found = policy.classifier.classify(&view, &mut Scratch::default());
        (found.score.to_string(), found.class.index())
    };
    assert_eq!(classify("GET", "/", "192.0.2.1"), ("9".into(), 0));
    assert_eq!(classify("GET", "/batch/x", "192.0.2.1"), ("9".into(), 1));
    assert_eq!(classify("POST", "/", "10.1.2.3"), ("8.5".into(), 0));
    assert_eq!(classify("POST", "/", "::ffff:10.1.2.4"), ("7".into(), 1));
    assert_eq!(classify("POST", "/", "10.9.9.9"), ("4".into(), 1));
}

#[test]
fn an_imported_policy_serves_in_the_order_of_the_scores() {
    let (go_on, goes_on) = mpsc::channel::<()>();
    let goes_on = Mutex::new(goes_on);
    let served = Arc::new(Mutex::new(Vec::new()));
    let order = Arc::clone(&served);
    let origin = Origin::answering(move |request| {
        if request.target == "/first" {
            let _ = goes_on.lock().expect("no panic").recv();
        }
        order.lock().expect("no panic").push(request.target.clone());
        ok("done")
    });
    let text = format!("DOMAIN_NAME_FACTOR 1\nFILE_NAME_FACTOR 1\n{OPTIONS}127.0.0.1 3\n");
    let policy = options_conf::policy(&text, "options.conf", &origin.server()).unwrap();
    let tables = policy[policy.find("# One queue").expect("it has one")..].to_owned();
    let policy = support::gateway::Policy {
        origin: "slots = 1".into(),
        tables,
        ..support::gateway::Policy::of(&[origin.server()])
    };
    let gateway = Gateway::start(&policy);
    // All wait for the first to be answered: the least important have come first.
    let paths = [
        "/first",
        "/",
        "/images/a",
        "/x",
        "/images/list.html",
        "/images/b",
        "/index.html",
        "/images/background.gif",
    ];
    let mut clients: Vec<_> = (1..)
        .zip(paths)
        .map(|(arrived, path)| {
            let mut client = gateway.client();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            eventually_is("it has come", arrived, || gateway.number("/classes/0/arrived"));
            client
        })
        .collect();
    go_on.send(()).expect("the origin waits");
    assert!(clients.iter_mut().all(|client| client.answer().status == 200));
    assert_eq!(
        *served.lock().unwrap(),
        [
            "/first",
            "/images/background.gif",
            "/index.html",
            "/images/list.html",
            "/images/a",
            "/images/b",
            "/",
            "/x",
        ]
    );
    gateway.assert_conserved();
}
