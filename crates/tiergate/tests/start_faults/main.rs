//! What `tiergate run` would end with, `tiergate check` finds beforehand; and what `check` finds sound, `run` starts with.

mod addresses;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::gateway::{Port, certificate};

const ORIGIN: &str = "[origin]\nservers = [\"127.0.0.1:1\"]\n";

fn tiergate(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null()).env("SET", "app.internal");
    command.output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn check_and_run_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    certificate(folder, "one");
    certificate(folder, "two");
    std::fs::write(folder.join("garbage.pem"), "no certificate\n").expect("our own folder");
    std::fs::write(folder.join("page.html"), "busy, come back\n").expect("our own folder");
    std::fs::hard_link(folder.join("page.html"), folder.join("hard.html")).expect("our own folder");
    std::os::unix::fs::symlink("missing/x", folder.join("dangling")).expect("our own folder");
    let _socket = UnixListener::bind(folder.join("socket")).expect("our own folder");
    let port = Port::reserve();
    let at = port.address;
    let listener = format!("[[listener]]\naddress = \"{at}\"\n");
    let tls = |certificate: &str, key: &str| {
        format!(
            "admin = false\n{ORIGIN}{listener}tls = {{ certificate = {certificate:?}, key = {key:?} }}\n"
        )
    };
    let (one, two) = (files("one"), files("two"));
    let cases = [
        (
            tls("missing.pem", &one.1),
            "policy.toml:6:7: listener[1].tls: missing.pem: not found; check the path",
        ),
        (
            tls(&one.0, "missing.pem"),
            "policy.toml:6:7: listener[1].tls: missing.pem: not found; check the path",
        ),
        (tls("garbage.pem", &one.1), "policy.toml:6:7: listener[1].tls: garbage.pem: "),
        (tls(&one.0, &two.1), "not the key of the first certificate"),
        (tls(&one.1, &one.0), "policy.toml:6:7: listener[1].tls: "),
        (
            format!("admin = false\n{ORIGIN}tls = {{ ca = \"missing.pem\" }}\n{listener}"),
            "policy.toml:4:7: origin.tls: missing.pem: not found; check the path",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}tls = {{ certificate = {:?}, key = {:?} }}\n{listener}",
                one.0, two.1
            ),
            "not the key of the first certificate",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[pool]]\nname = \"p\"\nservers = [\"a:1\"]\ntls = {{ ca = \"garbage.pem\" }}\n"
            ),
            "pool[1].tls: garbage.pem: no certificate in it",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[access_log]\npath = \"missing/access.log\"\n"
            ),
            "policy.toml:7:8: access_log.path: missing/access.log cannot be written: missing: No such file or directory (os error 2); make this directory",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \".\"\n"),
            "access_log.path: . is a directory: name a file in it",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"./policy.toml\"\n"),
            "policy.toml:7:8: access_log.path: ./policy.toml is the policy; name another file",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"socket\"\n"),
            "access_log.path: socket is a socket: name a file",
        ),
        (
            tls(&one.0, &one.1) + &format!("[access_log]\npath = {:?}\n", one.1),
            "policy.toml:8:8: access_log.path: one.key is a file that the policy reads; name another file",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[refusal]\npage_html = \"page.html\"\n[access_log]\npath = \"hard.html\"\n"
            ),
            "access_log.path: hard.html is a file that the policy reads",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[rule]]\nheader.x = \"${{file:page.html}}\"\nrefuse = true\n[access_log]\npath = \"hard.html\"\n"
            ),
            "access_log.path: hard.html is a file that the policy reads",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"new/\"\n"),
            "access_log.path: new/ cannot be written: there is no such directory; name a file",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"one.pem/x\"\n"),
            "access_log.path: one.pem/x cannot be written: one.pem is a file; name another directory",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"dangling\"\n"),
            "access_log.path: dangling cannot be written: missing: No such file or directory (os error 2); make this directory",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[access_log]\npath = \"/proc/x.log\"\n"),
            "access_log.path: /proc/x.log cannot be written: /proc has only files of the kernel",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[access_log]\npath = \"{}\"\n",
                "a".repeat(300)
            ),
            "cannot be written: its name has 300 bytes, and 255 are the most",
        ),
        (
            format!("admin = false\n{ORIGIN}[[listener]]\naddress = \"192.0.2.1:{}\"\n", at.port()),
            "policy.toml:5:11: listener[1].address: cannot listen on 192.0.2.1:",
        ),
        (
            format!("admin = \"192.0.2.1:{}\"\n{ORIGIN}{listener}", at.port()),
            "policy.toml:1:9: admin: cannot listen on 192.0.2.1:",
        ),
        (
            format!("admin = \"{at}\"\n{ORIGIN}{listener}"),
            "policy.toml:1:9: admin: must be another address than that of the listener",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[listener]]\naddress = \"0.0.0.0:{}\"\n",
                at.port()
            ),
            "policy.toml:7:11: listener[2].address: another listener has",
        ),
        (
            format!("admin = false\n[origin]\nservers = [\"{at}\"]\n{listener}"),
            "policy.toml:3:12: origin.servers[1]: is this gateway itself",
        ),
        (
            format!("admin = false\n[origin]\nservers = [\"${{NOBODY_SETS_THIS}}\"]\n{listener}"),
            "policy.toml:3:12: origin.servers[1]: the environment variable NOBODY_SETS_THIS is not set",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = 200\n"),
            "policy.toml:8:10: rule[1].refuse: must be 403, 404, 410, 451, 429 or 503, got 200",
        ),
        (
            format!("admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = 302\n"),
            "got 302; with another address: { redirect = \"https://…\" }",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = {{ redirect = \"javascript:x\" }}\n"
            ),
            "rule[1].refuse.redirect: must be an address with http:// or https://",
        ),
        (
            format!(
                "admin = false\n{ORIGIN}{listener}[[rule]]\npath = \"/a\"\nrefuse = {{ page = \"missing.html\" }}\n"
            ),
            "rule[1].refuse.page: missing.html: cannot be read",
        ),
    ];
    let cases: Vec<(String, &str)> = cases.into_iter().chain(wrong(&listener)).collect();
    assert!(cases.len() >= 80, "{}", cases.len());
    let mut unlike = Vec::new();
    for (policy, said) in cases {
        std::fs::write(folder.join("policy.toml"), &policy).expect("our own folder");
        let checked = tiergate(&["check", "policy.toml"], folder);
        let message = text(&checked.stderr);
        let ran = tiergate(&["run", "policy.toml"], folder);
        let ran_message = text(&ran.stderr);
        // Both say the same words.
        let mut lines = message.lines().map(|it| it.trim_start_matches("tiergate: "));
        let same = lines.all(|it| ran_message.contains(it));
        let fails = !checked.status.success() && !ran.status.success();
        if !fails || !same || !message.contains(said) || message.contains("Some(") {
            unlike.push(format!(
                "{policy}\n--- expected {said}\n--- check {message}\n--- run {ran_message}"
            ));
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n==========\n"));
}

/// Mistakes that operators make, each with what is said of it: line, column, key, what was found, what would be right.
fn wrong(listener: &str) -> Vec<(String, &'static str)> {
    let class = "[[class]]\nname = \"a\"\n";
    let after = |tables: &str| format!("admin = false\n{ORIGIN}{listener}{tables}\n");
    let top = |keys: &str| format!("admin = false\n{keys}\n{ORIGIN}{listener}");
    let origin = |keys: &str| format!("admin = false\n{ORIGIN}{keys}\n{listener}");
    let in_class = |keys: &str| after(&format!("{class}{keys}"));
    let rule = |keys: &str| after(&format!("[[rule]]\n{keys}"));
    vec![
        // Syntax, keys and kinds.
        (
            String::new(),
            "policy.toml:1:1: origin: is missing; write [origin] with servers = [\"host:port\"]",
        ),
        ("[origin".to_owned(), "policy.toml:1:8: "),
        ("[origin]\nservers = [\"a:1\"\n".to_owned(), "policy.toml:"),
        (
            "[origin]\nservers = \"a:1\"\n".to_owned(),
            "policy.toml:2:11: origin.servers: must be a list, got \"a:1\"",
        ),
        (
            "[origin]\nserver = [\"a:1\"]\n".to_owned(),
            "policy.toml:2:1: origin.server: unknown key, did you mean `servers`?",
        ),
        (
            "[[origin]]\nservers = [\"a:1\"]\n".to_owned(),
            "policy.toml:1:1: origin: must be a table (write [origin] in single brackets), got a list",
        ),
        (top("tread = 4"), "policy.toml:2:1: tread: unknown key, did you mean `threads`?"),
        (top("threads = 0"), "policy.toml:2:11: threads: must be"),
        (top("threads = \"4\""), "policy.toml:2:11: threads: must be a whole number"),
        (
            top("threads = 4\nthreads = 5"),
            "policy.toml:3:1: `threads` stands here a second time; leave one out",
        ),
        (top("admin = 1").replacen("admin = false\n", "", 1), "policy.toml:1:9: admin: must be"),
        (
            top("admin = \"8434\"").replacen("admin = false\n", "", 1),
            "policy.toml:1:9: admin: must be an address and port such as \"0.0.0.0:80\" or \"[::]:443\", got \"8434\"",
        ),
        (top("trusted = [\"10.0.0.0/99\"]"), "policy.toml:2:12: trusted[1]: must be"),
        (top("trusted = \"10.0.0.0/8\""), "policy.toml:2:11: trusted: must be a list"),
        (
            top("default_class = \"none\""),
            "policy.toml:2:17: default_class: no class is called \"none\"",
        ),
        (top("flow = \"clients\""), "policy.toml:2:8: flow: "),
        (
            top("include = [\"missing.toml\"]"),
            "policy.toml:2:12: include[1]: missing.toml cannot be read",
        ),
        (
            top("admin_token_file = \"missing\""),
            "policy.toml:2:20: admin_token_file: missing cannot be read",
        ),
        // Origin, pools and health.
        ("[origin]\nservers = []\n".to_owned(), "policy.toml:2:11: origin.servers: "),
        (
            "[origin]\nservers = [\"app\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: must be a server such as",
        ),
        (
            "[origin]\nservers = [\"app:0\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: must be",
        ),
        (
            "[origin]\nservers = [\"app:99999\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: must be",
        ),
        (
            "[origin]\nservers = [\"ftp://app\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: must",
        ),
        (origin("slots = 0"), "policy.toml:4:9: origin.slots: must be"),
        (origin("slots = \"adaptiv\""), "policy.toml:4:9: origin.slots: "),
        (origin("slots = 10\nshared = true"), "policy.toml:5:10: origin.shared: "),
        (origin("retry_after = 1"), "policy.toml:4:15: origin.retry_after: must be a time"),
        (origin("retry_budget = 0.2"), "policy.toml:4:16: origin.retry_budget: must be"),
        (
            origin("on_cancel = \"stop\""),
            "policy.toml:4:13: origin.on_cancel: unknown word \"stop\"",
        ),
        (origin("failures_max = -1"), "policy.toml:4:16: origin.failures_max: must be"),
        (origin("[origin.health]"), "origin.health.path: is missing; write path = \"/\""),
        (origin("[origin.health]\npath = \"health\""), "policy.toml:5:8: origin.health.path: must"),
        (
            after("[[pool]]\nname = \"default\"\nservers = [\"a:1\"]"),
            "pool[1].name: must not be \"default\"",
        ),
        (after("[[pool]]\nservers = [\"a:1\"]"), "pool[1].name: is missing"),
        // Listeners.
        (
            "[[listener]]\naddress = \"8080\"\n[origin]\nservers = [\"a:1\"]\n".to_owned(),
            "policy.toml:2:11: listener[1].address: must be an address and port such as",
        ),
        (
            "[listener]\naddress = \"0.0.0.0:80\"\n[origin]\nservers = [\"a:1\"]\n".to_owned(),
            "policy.toml:1:1: listener: must be a list (write [[listener]] in double brackets)",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:80\"\ntls = true\n[origin]\nservers = [\"a:1\"]\n"
                .to_owned(),
            "policy.toml:3:7: listener[1].tls: must be a table, got true",
        ),
        (
            "[[listener]]\naddress = \"0.0.0.0:80\"\ntls = {}\n[origin]\nservers = [\"a:1\"]\n"
                .to_owned(),
            "listener[1].tls",
        ),
        // Classes.
        (after("[[class]]"), "policy.toml:6:1: class[1].name: is missing; write name = \"…\""),
        (after("[[class]]\nname = \"a b\""), "policy.toml:7:8: class[1].name: must be"),
        (
            after(&format!("{class}{class}")),
            "policy.toml:9:8: class[2].name: another class is called \"a\" already",
        ),
        (in_class("deadline = \"0s\""), "policy.toml:8:12: class[1].deadline: must be"),
        (
            in_class("deadline = \"2 seconds\""),
            "policy.toml:8:12: class[1].deadline: must be a time",
        ),
        (in_class("deadline = \"48h\""), "policy.toml:8:12: class[1].deadline: must be"),
        (in_class("minimum = 10"), "policy.toml:8:11: class[1].minimum: must be"),
        (in_class("minimum = \"110%\""), "policy.toml:8:11: class[1].minimum: must be"),
        (
            in_class("queue = 9999999"),
            "policy.toml:8:9: class[1].queue: must be at most 1000000, got 9999999",
        ),
        (in_class("pool = \"none\""), "policy.toml:8:8: class[1].pool: no pool is called \"none\""),
        (
            in_class("police = \"none\""),
            "policy.toml:8:10: class[1].police: no policer is called \"none\"",
        ),
        (in_class("order = \"lifo\""), "policy.toml:8:9: class[1].order: unknown word \"lifo\""),
        (
            in_class("refuse_at = [{ backlog = \"x\", waiting = 5 }]"),
            "class[1].refuse_at[1].backlog: ",
        ),
        (
            in_class("reserve = \"10%\""),
            "class[1].reserve: is a part of `share`; write share = \"…\" too",
        ),
        (
            after("[scheduling]\npolicy = \"priority\""),
            "policy.toml:7:10: scheduling.policy: unknown word \"priority\"",
        ),
        // Rules.
        (rule("path = \"/a\""), "policy.toml:6:1: rule[1]"),
        (rule("class = \"none\""), "policy.toml:7:9: rule[1].class: no class is called \"none\""),
        (rule("path = \"a\"\nrefuse = true"), "policy.toml:7:8: rule[1].path: "),
        (rule("path = \"/a//b\"\nrefuse = true"), "policy.toml:7:8: rule[1].path: can never match"),
        (rule("path = []\nrefuse = true"), "policy.toml:7:8: rule[1].path: "),
        (rule("path_regex = \"(\"\nrefuse = true"), "policy.toml:7:14: rule[1].path_regex: "),
        (
            rule("client = \"10.0.0.300\"\nrefuse = true"),
            "policy.toml:7:10: rule[1].client: must be",
        ),
        (rule("host = \"http://a\"\nrefuse = true"), "policy.toml:7:8: rule[1].host: "),
        (rule("method = \"get it\"\nrefuse = true"), "policy.toml:7:10: rule[1].method: must be"),
        (
            rule("header = \"x\"\nrefuse = true"),
            "policy.toml:7:10: rule[1].header: must be a table of names",
        ),
        (rule("header.\"a b\" = true\nrefuse = true"), "rule[1].header.\"a b\": "),
        (
            rule("name = \"7\"\nrefuse = true"),
            "policy.toml:7:8: rule[1].name: must not be a number, got \"7\"",
        ),
        (
            rule("refuse = true\npolice = { burst = 5 }"),
            "rule[1].police.rate: is missing; write rate = \"60/s\"",
        ),
        (rule("police = { rate = \"fast\" }"), "rule[1].police.rate: must be"),
        (
            rule("police = true"),
            "policy.toml:7:10: rule[1].police: must be a policer's name, or { rate = \"60/s\", burst = 20 }, or false, got true",
        ),
        (
            rule("country = \"Germany\"\nrefuse = true"),
            "policy.toml:7:11: rule[1].country: must be",
        ),
        (rule("importance = 300"), "policy.toml:7:14: rule[1].importance: must be"),
        (
            rule("header.x = \"${file:missing}\"\nrefuse = true"),
            "rule[1].header.x: missing cannot be read",
        ),
        (
            after("[[class]]\nname = \"${file:missing}\""),
            "policy.toml:7:8: class[1].name: must not be made of a file's content, which would be shown",
        ),
        // Headers that mean something else.
        (
            after("[refusal]\nreason_header = \"Content-Length\""),
            "policy.toml:7:17: refusal.reason_header: must be a header without another meaning, got \"Content-Length\"",
        ),
        (
            after("[[key]]\nname = \"k\"\nheader = \"transfer-encoding\"\nsecret_file = \"k\""),
            "key[1].header: must be a header without another meaning",
        ),
        (
            after("[token]\nheader = \"cookie\"\nsecret_file = \"k\""),
            "token.header: must be a header without another meaning",
        ),
        (
            rule("deadline_header = \"grpc-timeout\"\nclass = \"default\""),
            "rule[1].deadline_header: must be a header without another meaning",
        ),
        (
            after("[request_id]\nheader = \"X-R\"\n[refusal]\nreason_header = \"x-r\""),
            "policy.toml:7:10: request_id.header: must be another header than that of refusal.reason_header, got \"X-R\"",
        ),
        // Policers that let nothing through.
        (
            after("[[policer]]\nname = \"p\"\nrate = \"5/s\"\nburst = 0"),
            "policy.toml:9:9: policer[1].burst: must be at least 1, or every request is refused; got 0",
        ),
        (
            in_class(
                "[[policer]]\nname = \"p\"\nrate = \"5/s\"\nburst = 0\nshare = [{ class = \"a\", share = \"50%\" }]",
            ),
            "policer[1].share[1].burst: must be at least 1 where the policer has burst = 0",
        ),
        // Addresses that are of no one machine, or of each link.
        (
            after("[[listener]]\naddress = \"224.0.0.1:80\""),
            "policy.toml:7:11: listener[2].address: must be the address of one machine, got 224.0.0.1, which is of many",
        ),
        (
            after("[[listener]]\naddress = \"255.255.255.255:80\""),
            "listener[2].address: must be the address of one machine",
        ),
        (
            after("[[listener]]\naddress = \"[fe80::1]:80\""),
            "listener[2].address: must say on which interface, as that address is on each: \"[fe80::1%2]:80\"",
        ),
        (
            top("admin = \"[ff02::1]:80\"").replacen("admin = false\n", "", 1),
            "policy.toml:1:9: admin: must be the address of one machine, got ff02::1, which is of many",
        ),
        (
            format!("admin = \"[::]:80\"\n{ORIGIN}[[listener]]\naddress = \"127.0.0.1:80\"\n"),
            "policy.toml:1:9: admin: must be another address than that of the listener, 127.0.0.1:80, got [::]:80",
        ),
        // The gateway itself.
        (
            "[origin]\nservers = [\"localhost:8080\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: is this gateway itself, which listens on 127.0.0.1:8080",
        ),
        (
            "[origin]\nservers = [\"127.0.0.1:8434\"]\n".to_owned(),
            "policy.toml:2:12: origin.servers[1]: is this gateway's admin listener, 127.0.0.1:8434; name",
        ),
        // Keys of other tables.
        (
            after("threads = 2"),
            "policy.toml:6:1: listener[1].threads: unknown key; `threads` is one of the top level: write it before the first [table]",
        ),
        (
            after("[limits]\nidle = \"5s\""),
            "policy.toml:7:1: limits.idle: unknown key; `idle` is one of [timeouts]",
        ),
        // The rest.
        (after("[[policer]]\nname = \"a\""), "policer[1].rate: is missing; write rate = \"60/s\""),
        (
            after("[[policer]]\nname = \"a\"\nrate = \"5/s\"\nflows_max = 5"),
            "policer[1].flows_max: needs per = \"flow\"; leave it out",
        ),
        (
            after("[limits]\nconnections_max = 0"),
            "policy.toml:7:19: limits.connections_max: must be",
        ),
        (
            after("[limits]\nrequest_head_max = \"1KB\""),
            "policy.toml:7:20: limits.request_head_max: must be",
        ),
        (after("[timeouts]\nidle = 60"), "policy.toml:7:8: timeouts.idle: must be a time"),
        (
            after("[timeout]\nidle = \"60s\""),
            "policy.toml:6:2: timeout: unknown key, did you mean `timeouts`?",
        ),
        (after("[session]"), "session"),
        (
            after("[refusal]\npage_html = \"missing.html\""),
            "policy.toml:7:13: refusal.page_html: missing.html: cannot be read",
        ),
        (
            after("[[sensor]]\nname = \"a\"\nmeasure = \"heat\""),
            "sensor[1].measure: unknown word \"heat\"",
        ),
        (after("[[key]]\nname = \"a\"\nsecret_file = \"missing\""), "key[1]"),
    ]
}

/// The files that `certificate` makes.
fn files(name: &str) -> (String, String) {
    (format!("{name}.pem"), format!("{name}.key"))
}

/// They would be ignored: what a policy file says of listeners is the policy's to say.
#[test]
fn addresses_beside_a_policy_file_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    for option in ["--listen", "--admin"] {
        let ran = tiergate(&["run", "policy.toml", option, "127.0.0.1:1"], folder.path());
        let said = text(&ran.stderr);
        let expected = format!("'[POLICY.toml]' cannot be used with '{option} <ADDRESS:PORT>'");
        assert!(ran.status.code() == Some(2) && said.contains(&expected), "{said}");
    }
}

/// A word that is no level would silence the log.
#[test]
fn a_level_of_the_log_that_there_is_not_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    for (level, is_level) in [
        ("", true),
        ("INFO", true),
        ("off", true),
        ("tiergate=debug", true),
        ("verbose", false),
        ("warn,verbose", false),
        ("tiergate=verbose", false),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.args(["run", "missing.toml"]).current_dir(folder.path()).env("TIERGATE_LOG", level);
        let said = text(&command.output().expect("it starts").stderr);
        let expected = format!(
            "TIERGATE_LOG must be error, warn, info, debug or trace, got {level:?}: it is info"
        );
        assert_eq!(said.contains(&expected), !is_level, "{said}");
        assert_eq!(said.contains("TIERGATE_LOG"), !is_level, "{said}");
    }
}

#[test]
fn several_files_standard_input_and_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let sound = "[origin]\nservers = [\"${SET}:80\"]\n[[class]]\nname = \"a\"\n[[class]]\nname = \"b\"\n[[rule]]\nclass = \"a\"\n";
    std::fs::write(folder.join("sound.toml"), sound).expect("our own folder");
    std::fs::write(folder.join("wrong.toml"), "[origin]\nserver = 1\n").expect("our own folder");
    let both = tiergate(&["check", "sound.toml", "wrong.toml"], folder);
    assert!(!both.status.success());
    assert!(text(&both.stdout).contains("sound.toml is a valid policy"), "{both:?}");
    assert!(text(&both.stderr).contains("wrong.toml:2:1: origin.server: unknown key"), "{both:?}");
    let json = tiergate(&["check", "--json", "sound.toml", "wrong.toml", "missing.toml"], folder);
    assert!(!json.status.success());
    let files: Value = serde_json::from_slice(&json.stdout).expect("it is JSON");
    assert_eq!(files[0]["valid"], true);
    let warning = files[0]["warnings"][0].as_str().expect("a warning");
    assert_eq!(warning, "class b: no rule leads to it", "a rule takes every request");
    let error = &files[1]["errors"][1];
    assert_eq!((error["line"].as_u64(), error["column"].as_u64()), (Some(2), Some(1)), "{files:#}");
    assert_eq!(error["key"], "origin.server");
    assert!(
        files[2]["errors"][0]["message"].as_str().is_some_and(|it| it.contains("cannot be read"))
    );
    // Standard input.
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).env("SET", "app");
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("piped").write_all(sound.as_bytes()).expect("it reads");
    let read = child.wait_with_output().expect("it ends");
    assert!(read.status.success() && text(&read.stdout).contains("is a valid policy"), "{read:?}");
}

#[test]
fn completions_and_manual_pages_are_of_this_command_line() {
    let folder = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&tiergate(&["completions", shell], folder.path()).stdout);
        assert!(script.contains("simulate") && script.contains("doctor"), "{shell}");
    }
    assert!(text(&tiergate(&["man"], folder.path()).stdout).contains(".TH tiergate 1"));
    assert!(tiergate(&["man", "."], folder.path()).status.success());
    assert!(folder.path().join("tiergate-check.1").exists());
}
