//! Policies of several files, and with secrets that other files have.

use crate::support;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use support::client::Client;
use support::eventually;
use support::gateway::{Gateway, Policy};
use support::origin::Origin;
use tiergate::config::{load, parse};

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("in the folder")).expect("our own folder");
        fs::write(path, text).expect("our own folder");
    }
}

/// What the program prints, on either side.
fn tiergate(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    let output = command.output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const SHOP: [(&str, &str); 4] = [
    (
        "policy.toml",
        "include = [\"conf.d/*.toml\", \"last.toml\"]\n[origin]\nservers = [\"127.0.0.1:1\"]\n\
         [[class]]\nname = \"premium\"\n[[rule]]\npath = \"/pay\"\nclass = \"premium\"\n[limits]\nfields_max = 50\n",
    ),
    ("conf.d/20-rules.toml", "# the second\n[[rule]]\npath = \"/list\"\nclass = \"rest\"\n"),
    (
        "conf.d/10-classes.toml",
        "[[class]]\nname = \"rest\"\n[limits]\nrequest_head_max = \"16KiB\"\n",
    ),
    ("last.toml", "[[rule]]\nname = \"last\"\nclass = \"rest\"\n"),
];

#[test]
fn several_files_are_one_policy() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, &SHOP);
    // Not of the pattern.
    write(folder, &[("conf.d/.hidden.toml", "x = 1"), ("conf.d/20-rules.toml~", "x = 1")]);
    let policy = load(&folder.join("policy.toml")).expect("it is right");
    let classes: Vec<_> = policy.plan.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(classes, ["premium", "rest"]);
    assert_eq!(policy.limits.fields_max, 50);
    let names: Vec<_> = policy.sources.files.iter().map(|it| it.name.to_string()).collect();
    let ends = ["policy.toml", "conf.d/10-classes.toml", "conf.d/20-rules.toml", "last.toml"];
    assert!(names.iter().zip(ends).all(|(name, end)| name.ends_with(end)), "{names:?}");
    assert!({
        let text = policy.sources.joined(str::to_owned);
        text.contains("# included: ") && text.contains("# the second")
    });
    // By every command, with the places in the right file.
    let checked = tiergate(folder, &["check", "policy.toml"]);
    for line in [
        "  1  (line 6)  path /pay → premium",
        "  2  (line 2 of conf.d/20-rules.toml)  path /list → rest",
        "  3 last  (line 1 of last.toml)  every request → rest",
    ] {
        assert!(checked.lines().any(|it| it == line), "`{line}` is missing in\n{checked}");
    }
    let explained = tiergate(folder, &["explain", "policy.toml", "--request", "GET /list"]);
    assert!(explained.contains("Rule 2 (conf.d/20-rules.toml:2) decides"), "{explained}");
    let line =
        "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /list HTTP/1.1\" 200 512 \"-\" \"-\"\n";
    write(folder, &[("access.log", line)]);
    let simulated = tiergate(folder, &["simulate", "policy.toml", "--log", "access.log", "--json"]);
    assert!(simulated.contains("\"rest\""), "{simulated}");
}

#[test]
fn faults_are_in_the_file_that_has_them() {
    let base = "include = [\"conf.d/*.toml\"]\n[origin]\nservers = [\"127.0.0.1:1\"]\n";
    /// The policy, its other files with their texts, and what is said of it.
    type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);
    let cases: [Case; 17] = [
        (
            base,
            &[("conf.d/a.toml", "\n\n[[class]]\nname = 7\n")],
            "conf.d/a.toml:4:8: class[1].name: must be",
        ),
        (
            base,
            &[("conf.d/a.toml", "[[class]]\nname = \"é\"\n"), ("conf.d/b.toml", "nonsense")],
            "conf.d/b.toml:1:9: ",
        ),
        (
            base,
            &[("conf.d/a.toml", "threads = 1\n"), ("conf.d/b.toml", "\nthreads = 1\n")],
            "conf.d/b.toml:2:1: threads: is set at conf.d/a.toml:1:11 already; leave one of them out",
        ),
        (
            base,
            &[("conf.d/a.toml", "[origin]\nservers = [\"127.0.0.1:2\"]\n")],
            "conf.d/a.toml:2:1: origin.servers: is set at policy.toml:3:11 already",
        ),
        (
            base,
            &[
                ("conf.d/a.toml", "trusted = [\"10.0.0.0/8\"]\n"),
                ("conf.d/b.toml", "trusted = [\"10.0.0.0/8\"]\n"),
            ],
            "conf.d/b.toml:1:1: trusted: is set at conf.d/a.toml:1:11 already",
        ),
        (
            base,
            &[("conf.d/a.toml", "[class]\nname = \"a\"\n")],
            "conf.d/a.toml:1:1: class: must be a list (write [[class]]",
        ),
        (
            base,
            &[
                ("conf.d/a.toml", "[[class]]\nname = \"a\"\n"),
                ("conf.d/b.toml", "[class]\nname = \"a\"\n"),
            ],
            "conf.d/b.toml:1:2: class: is set at conf.d/a.toml:1:1 already",
        ),
        (
            base,
            &[
                ("conf.d/a.toml", "[[class]]\nname = \"a\"\n"),
                ("conf.d/b.toml", "[[class]]\nname = \"a\"\n"),
            ],
            "conf.d/b.toml:2:8: class[2].name: another class is called \"a\" already",
        ),
        (base, &[], "policy.toml:1:12: include[1]: conf.d cannot be read: No such file"),
        (
            "include = [\"none.toml\"]\norigin.servers = [\"a:1\"]",
            &[],
            "policy.toml:1:12: include[1]: none.toml cannot be read: No such file",
        ),
        (
            "include = \"conf.d/*.toml\"\norigin.servers = [\"a:1\"]",
            &[],
            "policy.toml:1:11: include: must be a list, got \"conf.d/*.toml\"",
        ),
        (
            "include = [\"/dev/zero\"]\norigin.servers = [\"a:1\"]",
            &[],
            "policy.toml:1:12: include[1]: /dev/zero is no file: leave it out here",
        ),
        (
            "include = [\"*/a.toml\"]\norigin.servers = [\"a:1\"]",
            &[],
            "policy.toml:1:12: include[1]: must have * and ? in the name of the file only, got \"*/a.toml\"",
        ),
        (
            "include = [\"policy.toml\"]\norigin.servers = [\"a:1\"]",
            &[],
            "policy.toml:1:12: include[1]: policy.toml would include itself: leave it out here",
        ),
        (
            base,
            &[("conf.d/a.toml", "include = [\"../policy.toml\"]")],
            "conf.d/a.toml:1:12: include[1]: conf.d/../policy.toml would include itself",
        ),
        (
            "include = [\"a.toml\", \"*.toml\"]\norigin.servers = [\"a:1\"]",
            &[("a.toml", "")],
            "policy.toml:1:22: include[2]: a.toml is included already: leave it out here",
        ),
        (
            base,
            &[("conf.d/a.toml", "include = [\"${NOBODY_SETS_THIS}.toml\"]")],
            "conf.d/a.toml:1:12: include[1]: the environment variable NOBODY_SETS_THIS is not set",
        ),
    ];
    for (policy, files, said) in cases {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), files);
        write(folder.path(), &[("policy.toml", policy)]);
        let checked = tiergate(folder.path(), &["check", "policy.toml"]);
        assert!(checked.contains(said), "`{said}` is missing in\n{checked}");
        let ran = tiergate(folder.path(), &["run", "policy.toml"]);
        assert!(ran.contains(said), "`{said}` is missing in\n{ran}");
        let json = tiergate(folder.path(), &["check", "--json", "policy.toml"]);
        let file = format!("\"file\": \"{}\"", said.split(':').next().expect("a name"));
        assert!(json.contains(&file), "{file} is missing in\n{json}");
    }
    let text = parse(base, "policy.toml").expect_err("nothing is opened").to_string();
    assert_eq!(text, "policy.toml:1:11: include: can only be read where the policy is a file");
}

#[test]
fn patterns_are_of_names_as_they_are_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    fs::create_dir(folder.join("conf.d")).expect("our own folder");
    let base = "include = [\"conf.d/z*.toml\"]\nadmin = false\n[[listener]]\naddress = \"127.0.0.1:0\"\n[origin]\nservers = [\"127.0.0.1:1\"]\n";
    write(folder, &[("policy.toml", base), ("conf.d/Zed.toml", "[[class]]\nname = \"zed\"\n")]);
    let checked = tiergate(folder, &["check", "policy.toml"]);
    assert!(checked.contains("is a valid policy") && !checked.contains("zed"), "{checked}");
    // What is to be included, and cannot be, is no reason to go without it.
    let name = std::os::unix::ffi::OsStrExt::from_bytes(b"conf.d/z\xff.toml");
    fs::write(folder.join::<&std::ffi::OsStr>(name), "nonsense").expect("our own folder");
    let checked = tiergate(folder, &["check", "policy.toml"]);
    let said = "policy.toml:1:12: include[1]: conf.d has \"z\\xFF.toml\", whose name is no UTF-8: rename it";
    assert!(checked.contains(said), "{checked}");
}

#[test]
fn depth_and_number_are_bounded() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let chain = |last: usize| {
        for index in 0..last {
            let text = format!("include = [\"{}.toml\"]", index + 1);
            write(folder, &[(&format!("{index}.toml"), &text)]);
        }
        write(folder, &[(&format!("{last}.toml"), "origin.servers = [\"a:1\"]")]);
        tiergate(folder, &["check", "0.toml"])
    };
    assert!(chain(8).contains("0.toml is a valid policy"));
    let deep = chain(9);
    assert!(
        deep.contains("8.toml:1:12: include[1]: 9.toml would be 9 files deep; 8 are the most"),
        "{deep}"
    );
    for index in 0..256 {
        write(folder, &[(&format!("many/{index:03}.toml"), "")]);
    }
    write(folder, &[("many.toml", "include = [\"many/*.toml\"]\norigin.servers = [\"a:1\"]")]);
    let many = tiergate(folder, &["check", "many.toml"]);
    let said = "include[1]: many/255.toml is one too many: a policy has at most 256 files";
    assert!(many.contains(said), "{many}");
    fs::remove_file(folder.join("many/255.toml")).expect("it is there");
    assert!(tiergate(folder, &["check", "many.toml"]).contains("many.toml is a valid policy"));
}

#[test]
fn changes_of_included_files_are_seen() {
    let origin = Origin::echo();
    let policy =
        Policy { top: "include = [\"conf.d/*.toml\"]".into(), ..Policy::of(&[origin.server()]) };
    // The folder has to be there before the gateway starts.
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), &[("conf.d/a.toml", "[[class]]\nname = \"one\"\n")]);
    let pattern = folder.path().join("conf.d/*.toml");
    let policy = Policy { top: format!("include = [{pattern:?}]"), ..policy };
    let gateway = Gateway::start_with(&policy, &["--watch"]);
    let classes = || {
        let status = gateway.status();
        let classes = status["classes"].as_array().expect("a list").clone();
        classes.iter().map(|it| it["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(classes(), ["one"]);
    write(folder.path(), &[("conf.d/a.toml", "[[class]]\nname = \"two\"\n")]);
    eventually("a change is seen", || classes() == ["two"]);
    write(folder.path(), &[("conf.d/b.toml", "[[class]]\nname = \"three\"\n")]);
    eventually("a new file is seen", || classes() == ["two", "three"]);
    // What is wrong changes nothing.
    let before = gateway.status()["config"]["generation"].clone();
    write(folder.path(), &[("conf.d/c.toml", "[[class]]\nnam = \"three\"\n")]);
    eventually("a wrong file is reported", || {
        gateway.log().contains("c.toml:2:1: class[3].nam: unknown key")
    });
    assert_eq!(gateway.status()["config"]["generation"], before);
    fs::remove_file(folder.path().join("conf.d/c.toml")).expect("it is there");
    fs::remove_file(folder.path().join("conf.d/b.toml")).expect("it is there");
    eventually("a file that is gone is seen", || classes() == ["two"]);
}

const SECRET: &str = "correct-Horse-battery\"staple";

#[test]
fn secrets_of_files_are_used_and_never_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("key");
    fs::write(&path, format!("{SECRET}\n")).expect("our own folder");
    let origin = Origin::echo();
    let tables = format!(
        "[[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\n\
         [[rule]]\nname = \"of-friends\"\nheader.x-friend = \"${{file:{0}}}\"\nclass = \"high\"\n\
         [[rule]]\ncookie.friend = \"a-${{file:{0}}}-b\"\nclass = \"high\"\n\
         [[rule]]\npath = \"/moved\"\nrefuse = {{ redirect = \"https://a.test/x\" }}\n\
         [access_log]\npath = \"access.log\"\n",
        path.display()
    );
    let gateway = Gateway::start(&Policy { tables, ..Policy::of(&[origin.server()]) });
    // It is used.
    let class = |value: &str| {
        let before = gateway.number("/classes/0/arrived");
        let mut client = gateway.client();
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-Friend: {value}\r\n\r\n"));
        assert_eq!(client.answer().status, 200);
        gateway.number("/classes/0/arrived") - before
    };
    assert_eq!((class(SECRET), class("correct-Horse-battery")), (1, 0));
    // It is shown nowhere.
    let policy_path = gateway.policy_path.display().to_string();
    let here = folder.path();
    let mut shown = vec![
        ("check", tiergate(here, &["check", &policy_path])),
        ("json", tiergate(here, &["check", "--json", &policy_path])),
        ("explain", tiergate(here, &["explain", &policy_path, "--request", "GET /"])),
        ("log", gateway.log()),
    ];
    assert!(shown[0].1.contains("header x-friend = ${file:"), "{}", shown[0].1);
    for page in ["/", "/status", "/config", "/metrics", "/settings", "/adaptation"] {
        shown.push((page, Client::connect(gateway.admin).get_local(page).text()));
    }
    assert!(shown[6].1.contains("${file:"), "{}", shown[6].1);
    let log = fs::read_to_string(gateway.policy_path.with_file_name("access.log"));
    shown.push(("access log", log.unwrap_or_default()));
    // A mistake in what has a secret does not show it either.
    let wrong = fs::read_to_string(&gateway.policy_path).expect("it is there")
        + &format!("[[rule]]\npath = \"${{file:{0}}}\"\nclass = \"low\"\n", path.display());
    gateway.write_policy(&wrong);
    let (status, answer) = gateway.reload();
    assert!(status == 422 || status == 400 || status == 409, "{status} {answer}");
    shown.push(("a reload", answer));
    shown.push(("a wrong policy", tiergate(here, &["check", &policy_path])));
    assert!(shown.last().expect("pushed").1.contains("got something else"), "{shown:?}");
    shown.push(("the log of a reload", gateway.log()));
    shown.push(("status after it", Client::connect(gateway.admin).get_local("/status").text()));
    for (what, text) in shown {
        let text = text.to_lowercase();
        assert!(!text.contains("horse"), "{what} shows it:\n{text}");
    }
}

#[test]
fn files_that_have_no_secret_are_faults() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(
        folder,
        &[
            ("short", "1234567\n"),
            ("spaces", " 12345678\n"),
            ("lines", "12345678\n12345678\n"),
            ("open", "12345678"),
        ],
    );
    fs::write(folder.join("binary"), [0xff; 9]).expect("our own folder");
    for (name, said) in [
        (
            "short",
            "policy.toml:3:18: rule[1].header.x-a: short must have a secret of 8 to 4096 bytes, and has 7; for what is no secret, use ${NAME}",
        ),
        ("spaces", "rule[1].header.x-a: spaces must have no space before or behind the secret"),
        ("lines", "rule[1].header.x-a: lines must have one line of text"),
        ("binary", "rule[1].header.x-a: binary must be UTF-8 text"),
        ("none", "rule[1].header.x-a: none cannot be read: No such file"),
        ("", "rule[1].header.x-a: must have the name of a file in ${file:…}"),
        ("open", "open is world-readable: chmod o-r"),
    ] {
        let text = format!(
            "origin.servers = [\"127.0.0.1:1\"]\n[[rule]]\nheader = {{ x-a = \"${{file:{name}}}\" }}\nrefuse = true\n"
        );
        write(folder, &[("policy.toml", &text)]);
        let checked = tiergate(folder, &["check", "policy.toml"]);
        assert!(checked.contains(said), "`{said}` is missing in\n{checked}");
        assert!(!checked.contains("12345678"), "{checked}");
    }
}

/// Its letters are no wildcards: a secret with a star in it is not a password that ends in anything.
#[test]
fn secrets_in_patterns_are_compared_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let secret = "top-Secret\\*and?more\\";
    write(folder, &[("key", secret)]);
    let text = "origin.servers = [\"127.0.0.1:1\"]\n[[class]]\nname = \"high\"\n[[class]]\nname = \"low\"\n\
         [[rule]]\nheader.x-a = \"${file:key}\"\nclass = \"high\"\n\
         [[rule]]\npath_regex = \"^/${file:key}$\"\nclass = \"high\"\n";
    write(folder, &[("policy.toml", text)]);
    let explained = |header: &str| {
        let arguments = ["explain", "policy.toml", "--request", "GET /", "--header", header];
        tiergate(folder, &arguments)
    };
    let (right, wrong) =
        (explained(&format!("x-a: {secret}")), explained("x-a: top-Secret\\-and-more\\"));
    assert!(right.contains("Class high"), "{right}");
    assert!(wrong.contains("Class low"), "{wrong}");
    let checked = tiergate(folder, &["check", "policy.toml"]);
    assert!(checked.contains("header x-a = ${file:key}"), "{checked}");
    assert!(checked.contains("path like ^/${file:key}$"), "{checked}");
    let shown = checked + &right + &wrong;
    assert!(!shown.to_lowercase().contains("secret\\"), "{shown}");
}

/// What they have is meant, and a word about it would tell of it.
#[test]
fn nothing_is_said_of_signs_in_secrets() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, &[("key", "top{Secret,or}more")]);
    let policy = |path: &str| {
        let text = format!(
            "origin.servers = [\"127.0.0.1:1\"]\n[[rule]]\npath = \"{path}\"\nrefuse = true\n"
        );
        write(folder, &[("policy.toml", &text)]);
        tiergate(folder, &["check", "policy.toml"])
    };
    let (secret, plain) = (policy("/hooks/${file:key}"), policy("/hooks/{a,b}"));
    assert!(secret.contains("is a valid policy") && !secret.contains("braces"), "{secret}");
    assert!(plain.contains("braces stand for themselves"), "{plain}");
}

/// Where it would be shown, and a file that is named by a secret would be.
#[test]
fn secrets_stand_only_where_they_are_not_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    write(folder, &[("key", "top-Secret")]);
    for (tables, key) in [
        ("[[class]]\nname = \"${file:key}\"\n", "class[1].name"),
        ("[access_log]\npath = \"${file:key}\"\n", "access_log.path"),
        ("[refusal]\npage_html = \"${file:key}\"\n", "refusal.page_html"),
        ("[[policer]]\nname = \"${file:key}\"\nrate = \"1/s\"\n", "policer[1].name"),
    ] {
        write(folder, &[("policy.toml", &format!("origin.servers = [\"127.0.0.1:1\"]\n{tables}"))]);
        let checked = tiergate(folder, &["check", "policy.toml"]);
        let said = format!("{key}: must not be made of a file's content, which would be shown");
        assert!(checked.contains(&said) && !checked.contains("top-"), "{checked}");
    }
}
