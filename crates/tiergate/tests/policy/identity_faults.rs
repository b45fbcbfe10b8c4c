//! What is said of policies that are wrong about who clients are, word for word.

use crate::support::mmdb;
use std::os::unix::fs::PermissionsExt;
use tiergate::cli::check;
use tiergate::config::{load, parse};

#[test]
fn each_fault_is_told_with_place_key_found_and_expected() {
    let table: &[(&str, &str)] = &[
        (
            "[reverse_dns]\nservers = []",
            "4:11: reverse_dns.servers: must not be empty; leave it out for the system's servers",
        ),
        (
            "[reverse_dns]\nservers = [\"localhost\"]",
            "4:12: reverse_dns.servers[1]: must be an address and port such as \"0.0.0.0:80\" or \"[::]:443\", got \"localhost\"",
        ),
        (
            "[reverse_dns]\ntimeout = \"1m\"",
            "4:11: reverse_dns.timeout: must be at most \"30s\", got \"1m\"",
        ),
        (
            "[reverse_dns]\nentries_max = 1",
            "4:15: reverse_dns.entries_max: must be at least 64, got 1",
        ),
        (
            "[reverse_dns]\nlookups_max = 0",
            "4:15: reverse_dns.lookups_max: must be at least 1, got 0",
        ),
        (
            "[reverse_dns]\nttl_max = \"10s\"",
            "4:11: reverse_dns.ttl_max: ttl_min, \"1m\", must be at most ttl_max, \"10s\"",
        ),
        (
            "[[key]]",
            "3:1: key[1].name: is missing; write name = \"…\"\n\
             3:1: key[1].secret_file: is missing; name a file with name:key lines",
        ),
        (
            "[[key]]\nname = \"a\"\nsecret_file = \"f\"\n[[key]]\nname = \"a\"\nsecret_file = \"f\"\nheader = \"a b\"",
            "7:8: key[2].name: another table is called \"a\" already\n\
             9:10: key[2].header: must be the name of a header, got \"a b\"",
        ),
        (
            "[geo]\ndatabase = []",
            "4:12: geo.database: must not be empty; leave it out for the default",
        ),
        ("[geo]", "3:1: geo.database: is missing; name a MaxMind database, \"….mmdb\""),
        (
            "[token]\nissuer = \"us\"",
            "3:1: token: needs secret_file, public_key_file or jwks_file, which tokens are verified by",
        ),
        (
            "[token]\njwks_file = \"f\"\nalgorithms = [\"RS256\", \"RS265\", \"none\"]",
            "5:24: token.algorithms[2]: unknown word \"RS265\", did you mean `RS256`?\n\
             5:33: token.algorithms[3]: unknown word \"none\", expected one of `ES256`, `ES384`, `EdDSA`, `HS256`, \
             `HS384`, `HS512`, `PS256`, `PS384`, `PS512`, `RS256`, `RS384`, `RS512`",
        ),
        (
            "[token]\nsecret_file = \"f\"\nleeway = \"25h\"",
            "5:10: token.leeway: must be at most \"24h\", got \"25h\"",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = { certificate = \"c\", key = \"k\", client = \"required\" }",
            "5:48: listener[1].tls.client: needs client_ca, the PEM file of the authorities that sign clients",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = { certificate = \"c\", key = \"k\", client_crl = \"l\" }",
            "5:52: listener[1].tls.client_crl: needs client_ca, the PEM file of the authorities that sign clients",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = { certificate = \"c\", key = \"k\", client_ca = \"a\", client_crl = [\"l\", 1] }",
            "5:75: listener[1].tls.client_crl[2]: must be the name of a file, got 1",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:443\"\ntls = { certificate = \"c\", key = \"k\", client_ca = \"a\", client = \"must\" }",
            "5:65: listener[1].tls.client: unknown word \"must\", expected one of `optional`, `required`",
        ),
    ];
    for (text, expected) in table {
        let text = format!("[origin]\nservers = [\"127.0.0.1:8081\"]\n{text}\n");
        let errors = parse(&text, "p.toml").expect_err(&text).to_string();
        let expected: Vec<_> = expected.lines().map(|line| format!("p.toml:{line}")).collect();
        assert_eq!(errors, expected.join("\n"), "{text}");
    }
}

#[test]
fn files_of_secrets_are_told_at_the_lines_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str, mode| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let text = "[origin]\nservers = [\"127.0.0.1:8081\"]\n[token]\nsecret_file = \"tokens\"\n\
                [[key]]\nname = \"partners\"\nsecret_file = \"keys\"\n\
                [[rule]]\nsubject = \"eve\"\nrefuse = true\n";
    let policy = write("policy.toml", text, 0o644);
    let shown = folder.path().display();
    write("keys", "alice:MYSECRET\n", 0o600);
    assert_eq!(
        load(&policy).unwrap_err().to_string(),
        format!(
            "{shown}/policy.toml:4:15: token.secret_file: {shown}/tokens cannot be read: \
             No such file or directory (os error 2)\n\
             {shown}/policy.toml:7:15: key[1].secret_file: {shown}/keys:1: \
             the key must have 16 to 1024 characters"
        )
    );
    write("keys", "alice:MYSECRETMYSECRET\n", 0o602);
    write("tokens", &"MYSECRET".repeat(4), 0o644);
    let warnings = check::warnings(&load(&policy).unwrap());
    assert!(
        warnings.contains(&format!("{shown}/keys is world-writable: chmod o-w")),
        "{warnings:?}"
    );
    write("keys", "alice:MYSECRETMYSECRET\n", 0o600);
    let policy = load(&policy).unwrap();
    assert_eq!(check::warnings(&policy), [format!("{shown}/tokens is world-readable: chmod o-r")]);
    assert!(!format!("{policy:?}").contains("MYSECRET"));
    assert!(!check::meaning(&policy, "policy.toml").contains("MYSECRET"));
}

#[test]
fn databases_are_told_at_the_lines_that_name_them() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let text = "[origin]\nservers = [\"127.0.0.1:8081\"]\n[geo]\ndatabase = [\"good\",\n\"bad\"]\n";
    let policy = at("policy.toml", text.as_bytes());
    let place = mmdb::v4(192, 0, 2, 0);
    at("good", &mmdb::database(4, &[(place, 24, mmdb::country("DE"))]));
    at("bad", b"nothing of the kind");
    let said = load(&policy).unwrap_err().to_string();
    let shown = folder.path().display();
    let expected = format!(
        "{shown}/policy.toml:5:1: geo.database[2]: {shown}/bad is no MaxMind database, or broken: "
    );
    assert!(said.starts_with(&expected), "{said}");
    at("bad", &mmdb::database(4, &[(place, 25, mmdb::system(7))]));
    let geo = load(&policy).unwrap().geo;
    assert_eq!(geo.of([192, 0, 2, 1].into()).country, *b"DE");
    assert_eq!(geo.of([192, 0, 2, 1].into()).asn, 7);
}
